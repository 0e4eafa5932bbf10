package network

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// bothWays runs a test over plaintext and over TLS.
func bothWays(t *testing.T, handler func() *echo, test func(t *testing.T, s *serving, dial func() io.ReadWriteCloser)) {
	t.Helper()
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		t.Run(l.Protocol.String(), func(t *testing.T) {
			s := serve(t, handler(), l)
			test(t, s, func() io.ReadWriteCloser {
				if l.Protocol == Plaintext {
					return s.dial(t)
				}
				return s.dialTLS(t, keys.clientConfig())
			})
		})
	}
}

// noise is bytes that no other call returns.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		copy(b[i:], binary.BigEndian.AppendUint64(nil, rand.Uint64()))
	}
	return b
}

func TestTheFrameAfterALargeOneIsReadBeforeItsAnswerAndHandedOverAfterIt(t *testing.T) {
	type arrival struct {
		conn  *Conn
		frame []byte
	}
	arrived := make(chan arrival, 10)
	handler := func() *echo {
		return &echo{onFrame: func(c *Conn, frame []byte) { arrived <- arrival{c, frame} }}
	}
	bothWays(t, handler, func(t *testing.T, s *serving, dial func() io.ReadWriteCloser) {
		t.Helper()
		const size = 8 << 20 // more than the kernel keeps for a socket
		first, second, small := noise(size), noise(size), noise(10)
		conn := dial()
		go func() {
			for _, body := range [][]byte{first, second, small} {
				_, _ = conn.Write(framed(body))
			}
		}()
		one := <-arrived
		eventually(t, func() bool { return s.counts().BytesIn >= 2*size }, "both to be read")
		if len(arrived) != 0 {
			t.Error("the second was handed over before the first had its answer")
		}
		if !bytes.Equal(one.frame, first) {
			t.Error("the first is not what was sent, now that the second is there")
		}
		for _, want := range [][]byte{first, second, small} {
			if !bytes.Equal(one.frame, want) {
				t.Errorf("a frame of %d bytes is not what was sent", len(want))
			}
			one.conn.Reply(framed([]byte("answer")))
			wantFrame(t, conn, []byte("answer"))
			if &want[0] != &small[0] {
				one = <-arrived
			}
		}
	})
}

func TestAFrameIsItsHandlersThoughItsConnectionEnds(t *testing.T) {
	frames := make(chan []byte, 1)
	first := true
	handler := func() *echo {
		first = true
		return &echo{onFrame: func(c *Conn, frame []byte) {
			if first {
				first = false
				frames <- frame
				return
			}
			c.Reply(framed(frame))
		}}
	}
	bothWays(t, handler, func(t *testing.T, s *serving, dial func() io.ReadWriteCloser) {
		t.Helper()
		body := noise(1 << 20)
		gone := dial()
		send(t, gone, framed(body))
		kept := <-frames
		send(t, gone, framed(noise(1 << 20))[:100_000]) // a part that is read ahead
		_ = gone.Close()
		s.wantEstablished(t, 0)
		other := dial()
		for range 4 {
			roundTrip(t, other, noise(1<<20))
		}
		if !bytes.Equal(kept, body) {
			t.Error("its memory was used again")
		}
	})
}

func TestCreditForLargeFramesIsBoundedAndGivenBack(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext})
	claim := append(binary.BigEndian.AppendUint32(nil, creditEach-sizePrefix), noise(credible)...)
	var conns []io.WriteCloser
	for range 3 * creditMost / creditEach {
		conn := s.dial(t)
		send(t, conn, claim)
		conns = append(conns, conn)
	}
	eventually(t, func() bool { return s.counts().BytesIn == uint64(len(conns)*len(claim)) }, "all to be read")
	for _, conn := range conns {
		send(t, conn, []byte("more"))
	}
	eventually(t, func() bool { return s.credit.Load() == creditMost }, "all credit to be given")
	roundTrip(t, s.dial(t), noise(2<<20)) // without
	for _, conn := range conns {
		_ = conn.Close()
	}
	eventually(t, func() bool { return s.credit.Load() == 0 }, "all credit to come back")
}

func TestFramesOfAllSizesArriveWholeAndInOrder(t *testing.T) {
	sizes := []int{1, 100, largeFrame - sizePrefix - 1, largeFrame - sizePrefix, largeFrame, 200_000, 1 << 20, 3 << 20}
	handler := func() *echo {
		return &echo{onFrame: func(c *Conn, frame []byte) {
			answer := framed(frame)
			if len(frame)%3 == 0 {
				c.Reply(answer)
				return
			}
			time.AfterFunc(time.Duration(len(frame)%1000)*time.Microsecond, func() { c.Reply(answer) })
		}}
	}
	bothWays(t, handler, func(t *testing.T, s *serving, dial func() io.ReadWriteCloser) {
		t.Helper()
		random := rand.New(rand.NewPCG(1, 2))
		var stream []byte
		var bodies [][]byte
		for n := range 25 {
			size := sizes[random.IntN(len(sizes))]
			if n == 20 {
				size = creditEach // which is more than gets credit
			}
			bodies = append(bodies, noise(size))
			stream = append(stream, framed(bodies[n])...)
		}
		conn := dial()
		go func() {
			for len(stream) > 0 {
				n := min(1+random.IntN(300_000), len(stream))
				if random.IntN(10) == 0 {
					n = min(3, len(stream))
				}
				if _, err := conn.Write(stream[:n]); err != nil {
					return
				}
				stream = stream[n:]
			}
		}()
		for _, body := range bodies {
			wantFrame(t, conn, body)
		}
		eventually(t, func() bool { return s.credit.Load() == 0 }, "all credit to come back")
	})
}
