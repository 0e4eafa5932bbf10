package network

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"
)

// FuzzConnection sends a stream in two pieces to a plaintext and to a TLS
// listener. Whatever it is, the connection ends with a reason of the list when
// its client leaves, what was handed over is what a simple reading of the
// stream gives, and the server goes on.
func FuzzConnection(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x03abc\x00\x00\x00\x01x"), uint16(5))
	f.Add([]byte("\x00\x00\x00\x00"), uint16(1))
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"), uint16(3))
	f.Add([]byte("\xff\xff\xff\xff"), uint16(2))
	frames := make(chan []byte, 1024)
	closed := make(chan Reason, 2)
	handler := &fuzzHandler{frames: frames, closed: closed}
	keys := newPKI(f)
	s := New(Options{Handler: handler})
	const limit = 1000
	plain, err := s.Listen(Listener{Host: "127.0.0.1", MaxFrame: limit, Threads: 1})
	if err != nil {
		f.Fatal(err)
	}
	secure := keys.tlsListener()
	secure.Host, secure.Threads = "127.0.0.1", 1
	secured, err := s.Listen(secure)
	if err != nil {
		f.Fatal(err)
	}
	s.Start()
	f.Cleanup(func() { _ = s.Shutdown(f.Context()) })
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		if len(stream) > 4096 {
			return
		}
		at := min(int(cut), len(stream))
		say := func(addr string) {
			t.Helper()
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write(stream[:at])
			_, _ = conn.Write(stream[at:])
			_ = conn.(*net.TCPConn).CloseWrite()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			for {
				if _, err := conn.Read(make([]byte, 4096)); err != nil {
					if isTimeout(err) {
						t.Fatal("the server does not end the connection")
					}
					break
				}
			}
			_ = conn.Close()
		}
		say(plain.String())
		reason := <-closed
		want, whole := framesOf(stream, limit)
		for len(frames) > 0 {
			got := <-frames
			if len(want) == 0 || !bytes.Equal(got, want[0]) {
				t.Fatalf("handed over %q, want %q", got, want)
			}
			want = want[1:]
		}
		if reason == ReasonNone || reason.String() == "unknown" {
			t.Errorf("closed for %v", reason)
		}
		// A stream that breaks the rules may be cut before all is answered.
		if whole && len(want) > 0 && reason == ReasonClientClosed {
			t.Errorf("%d frames were not handed over", len(want))
		}
		say(secured.String())
		eventually(t, func() bool { return s.Counts()[1].Established == 0 }, "the TLS connection to end")
	})
}

// framesOf reads a stream the simple way. whole is false where a size breaks
// the rules.
func framesOf(stream []byte, limit int) (frames [][]byte, whole bool) {
	for len(stream) >= sizePrefix {
		size := int(int32(binary.BigEndian.Uint32(stream)))
		if size <= 0 || size > limit {
			return frames, false
		}
		if len(stream) < sizePrefix+size {
			break
		}
		frames = append(frames, stream[sizePrefix:sizePrefix+size])
		stream = stream[sizePrefix+size:]
	}
	return frames, true
}

type fuzzHandler struct {
	echo
	frames chan []byte
	closed chan Reason
}

func (h *fuzzHandler) Frame(c *Conn, frame []byte) {
	if len(h.frames) < cap(h.frames) {
		h.frames <- append([]byte(nil), frame...)
	}
	c.Reply(framed(frame))
}

func (h *fuzzHandler) Closed(c *Conn, reason Reason) {
	if c.Listener().Protocol == Plaintext {
		h.closed <- reason
	}
}

func TestRecordSizesAreBoundedByTheProtocol(t *testing.T) {
	f := func(b []byte, size int, whole bool) {
		t.Helper()
		if gotSize, gotWhole := record(b); gotSize != size || gotWhole != whole {
			t.Errorf("record(%x) = %d, %t, want %d, %t", b, gotSize, gotWhole, size, whole)
		}
	}
	f([]byte{23, 3, 3, 0}, 0, false)
	f([]byte{23, 3, 3, 0, 2, 1}, 7, false)
	f([]byte{23, 3, 3, 0, 2, 1, 2, 3}, 7, true)
	f([]byte{23, 3, 3, 0x48, 0x00}, recordHeader+maxRecord, false)
	f([]byte{23, 3, 3, 0x48, 0x01}, recordHeader, true)
}
