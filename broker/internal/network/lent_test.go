package network

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
)

// Lent memory is overwritten as soon as it is back: an answer that is whole shows that it did not come too early.
func TestLentMemoryComesBackOnceItHasLeft(t *testing.T) {
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		for _, size := range []int{1 << 10, 8 << 20} {
			t.Run(l.Protocol.String(), func(t *testing.T) {
				var back atomic.Int64
				want := bytes.Repeat([]byte("lent"), size/4)
				s := serve(t, &echo{onFrame: func(c *Conn, _ []byte) {
					answer := framed(want)
					c.ReplyFrom(answer, func() {
						clear(answer)
						back.Add(1)
					})
				}}, l)
				var conn io.ReadWriter
				if l.Protocol == Plaintext {
					conn = s.dial(t)
				} else {
					conn = s.dialTLS(t, keys.clientConfig())
				}
				for range 3 {
					send(t, conn, framed([]byte("more")))
					wantFrame(t, conn, want)
				}
				eventually(t, func() bool { return back.Load() == 3 }, "all memory is back")
			})
		}
	}
}
