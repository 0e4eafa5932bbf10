package network

import (
	"crypto/tls"
	"testing"
)

func TestReadHelloKnowsAHelloFromItsFirstByteToItsLast(t *testing.T) {
	hello := clientHello(t, &tls.Config{ServerName: "broker.test"})
	for n := range hello {
		if got := readHello(hello[:n]); got != helloIncomplete {
			t.Fatalf("first %d of %d bytes are %d, want incomplete", n, len(hello), got)
		}
	}
	if got := readHello(hello); got != helloComplete {
		t.Errorf("whole hello is %d, want complete", got)
	}
	if got := readHello(append(hello, 1, 2, 3)); got != helloComplete {
		t.Errorf("hello with more behind it is %d, want complete", got)
	}
	// In records of three bytes.
	var split []byte
	for rest := hello[recordHeader:]; len(rest) > 0; rest = rest[min(3, len(rest)):] {
		part := rest[:min(3, len(rest))]
		split = append(append(split, recordHandshake, 3, 1, 0, byte(len(part))), part...)
	}
	if got := readHello(split); got != helloComplete {
		t.Errorf("split hello is %d, want complete", got)
	}
	if got := readHello(split[:len(split)-1]); got != helloIncomplete {
		t.Errorf("split hello without its last byte is %d, want incomplete", got)
	}
}

// FuzzReadHello: it never panics, what is decided by some bytes stays decided
// when more come, and nothing is waited for past the bound.
func FuzzReadHello(f *testing.F) {
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"), 3)
	f.Add([]byte("\x16\x03\x01\x00\x01\x01\x16\x03\x01\x00\x04\x00\x00\x01\x00"), 8)
	f.Add([]byte("GET / HTTP/1.1\r\n"), 5)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		whole := readHello(b)
		if cut < 0 || cut > len(b) {
			return
		}
		if part := readHello(b[:cut]); part != helloIncomplete && part != whole {
			t.Errorf("first %d bytes are %d, all %d are %d", cut, part, len(b), whole)
		}
		if len(b) > 8*maxHello && whole == helloIncomplete {
			t.Errorf("%d bytes are not enough", len(b))
		}
	})
}
