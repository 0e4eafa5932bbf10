package network

// maxHello bounds the bytes collected before a handshake starts. A ClientHello
// is a few hundred bytes, two kilobytes with post-quantum keys; record headers
// may multiply that where a client splits it finely.
const maxHello = 32 << 10

// TLS record layer, as far as a loop reads it.
const (
	recordHeader       = 5
	recordAlert        = 21
	recordHandshake    = 22
	helloMessage       = 1
	maxRecordPlaintext = 16384
	// maxRecord is the most ciphertext a TLS 1.2 record may carry.
	maxRecord = maxRecordPlaintext + 2048
)

// helloState says how far the first bytes of a connection are a ClientHello.
type helloState uint8

const (
	helloIncomplete helloState = iota
	helloComplete
	helloPlaintext // does not start as TLS does
	helloBroken    // starts as TLS does, and then is no ClientHello
)

// internalError is the alert that Java's TLS sends to a client that speaks
// plaintext, when its fifth byte has arrived.
func internalError() []byte { return []byte{recordAlert, 3, 3, 0, 2, 2, 80} }

// looksLikeTLS reports whether b starts a handshake record of SSL 3 to TLS 1.3.
// Of two bytes it needs to see both.
func looksLikeTLS(b []byte) bool {
	return len(b) >= 3 && b[0] == recordHandshake && b[1] == 3 && b[2] <= 4
}

// readHello looks whether b holds a whole ClientHello, which may be spread over
// records. It allocates nothing and trusts no length further than maxHello.
func readHello(b []byte) helloState {
	if len(b) < recordHeader {
		return helloIncomplete
	}
	if (b[0] != recordHandshake && b[0] != recordAlert) || b[1] != 3 {
		return helloPlaintext
	}
	var head [4]byte // type and length of the handshake message
	got, need, known := 0, len(head), false
	for len(b) >= recordHeader {
		size := int(b[3])<<8 | int(b[4])
		if b[0] != recordHandshake || b[1] != 3 || size == 0 || size > maxRecordPlaintext {
			return helloBroken
		}
		body := b[recordHeader:min(len(b), recordHeader+size)]
		if got < len(head) {
			copy(head[got:], body)
		}
		got += len(body)
		if got >= len(head) && !known {
			known = true
			need += int(head[1])<<16 | int(head[2])<<8 | int(head[3])
		}
		if got > 0 && head[0] != helloMessage || need > maxHello {
			return helloBroken
		}
		if known && got >= need {
			return helloComplete
		}
		b = b[recordHeader+len(body):]
	}
	return helloIncomplete
}
