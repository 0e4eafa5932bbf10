package network

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"reflect"
	"unsafe"
)

// maxPostHandshake is how many bytes of an unfinished handshake message a
// client may leave behind once its handshake is over. All it may send is a
// KeyUpdate of five bytes.
const maxPostHandshake = 64

var (
	errHalfRead   = errors.New("record is read in part")
	errUnfinished = errors.New("unfinished handshake message after the handshake")
)

// tlsFields are the offsets in crypto/tls's Conn of what an idle connection
// does not need: two buffers that stay as large as the largest record was, the
// parsed certificates, and secrets that only exporters and tickets use. A field
// that a Go release renames or changes is left alone (its offset is 0, where
// Conn has another one); a test fails then.
type tlsFields struct {
	rawInput, hand, input            uintptr
	peerCertificates, verifiedChains uintptr
	ekm, resumptionSecret            uintptr
}

// findTLSFields looks the fields up. The error names every one that is missing
// or of another type; the offsets of the others are right all the same.
func findTLSFields() (tlsFields, error) {
	var f tlsFields
	conn := reflect.TypeFor[tls.Conn]()
	state := reflect.TypeFor[tls.ConnectionState]()
	stateField := func(name string) reflect.Type {
		if field, ok := state.FieldByName(name); ok {
			return field.Type
		}
		return nil
	}
	var missing []string
	for _, want := range []struct {
		name   string
		typ    reflect.Type
		offset *uintptr
	}{
		{"rawInput", reflect.TypeFor[bytes.Buffer](), &f.rawInput},
		{"hand", reflect.TypeFor[bytes.Buffer](), &f.hand},
		{"input", reflect.TypeFor[bytes.Reader](), &f.input},
		{"peerCertificates", stateField("PeerCertificates"), &f.peerCertificates},
		{"verifiedChains", stateField("VerifiedChains"), &f.verifiedChains},
		{"ekm", reflect.TypeFor[func(string, []byte, int) ([]byte, error)](), &f.ekm},
		{"resumptionSecret", reflect.TypeFor[[]byte](), &f.resumptionSecret},
	} {
		field, ok := conn.FieldByName(want.name)
		if !ok || field.Type != want.typ {
			missing = append(missing, want.name)
			continue
		}
		*want.offset = field.Offset
	}
	if f.rawInput == 0 || f.input == 0 {
		f.rawInput, f.input = 0, 0 // of no use, and no safe one, without each other
	}
	if missing != nil {
		return f, fmt.Errorf("crypto/tls.Conn has no fields %v of the expected types", missing)
	}
	return f, nil
}

// field returns the field of conn at an offset, nil when there is none.
func field[T any](conn *tls.Conn, offset uintptr) *T {
	if offset == 0 {
		return nil
	}
	return (*T)(unsafe.Add(unsafe.Pointer(conn), offset)) //nolint:gosec // the offset and the type were checked against the real struct
}

// clearField sets a field to its zero value, if it is there.
func clearField[T any](conn *tls.Conn, offset uintptr) {
	if p := field[T](conn, offset); p != nil {
		var zero T
		*p = zero
	}
}

// forgetHandshake drops what only the handshake and its observers needed.
func (f *tlsFields) forgetHandshake(conn *tls.Conn) {
	clearField[func(string, []byte, int) ([]byte, error)](conn, f.ekm)
	clearField[[]byte](conn, f.resumptionSecret)
	clearField[[]*x509.Certificate](conn, f.peerCertificates)
	clearField[[][]*x509.Certificate](conn, f.verifiedChains)
}

// lendRecordBuffer gives conn memory to read its next record into. It must be
// taken back by dropBuffers before another connection gets it.
func (f *tlsFields) lendRecordBuffer(conn *tls.Conn, memory []byte) {
	if raw := field[bytes.Buffer](conn, f.rawInput); raw != nil && raw.Len() == 0 {
		*raw = *bytes.NewBuffer(memory[:0])
	}
}

// dropBuffers takes away the memory of records that are read and of handshake
// messages that are handled. An error means that crypto/tls keeps what it
// should not: the connection must not be read from again.
func (f *tlsFields) dropBuffers(conn *tls.Conn) error {
	raw, input := field[bytes.Buffer](conn, f.rawInput), field[bytes.Reader](conn, f.input)
	if raw != nil && input != nil {
		left := raw.Len() + input.Len()
		*raw = bytes.Buffer{}
		input.Reset(nil)
		if left > 0 {
			return fmt.Errorf("%w: %d bytes", errHalfRead, left)
		}
	}
	hand := field[bytes.Buffer](conn, f.hand)
	if hand == nil {
		return nil
	}
	if hand.Len() == 0 {
		*hand = bytes.Buffer{}
	}
	if hand.Len() > maxPostHandshake {
		return fmt.Errorf("%w: %d bytes", errUnfinished, hand.Len())
	}
	return nil
}
