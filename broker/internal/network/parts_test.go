package network

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// filledPipe is a pipe with b in it.
func filledPipe(t *testing.T, b []byte) (out int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Error(err)
		return -1
	}
	defer unix.Close(fds[1])
	if _, err := unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		t.Error(err)
	}
	if n, err := unix.Write(fds[1], b); n != len(b) {
		t.Errorf("wrote %d bytes of %d into a pipe: %v", n, len(b), err)
	}
	return fds[0]
}

// answerInParts gives out want in parts of all sizes, some of them in pipes where that is possible.
func answerInParts(t *testing.T, c *Conn, want []byte, random *rand.Rand) {
	t.Helper()
	frame := framed(make([]byte, len(want)))
	c.ReplyInParts(frame, func() { clear(frame) })
	const prefix = 4
	for have := prefix; have < len(frame); {
		n := min(1+random.IntN(random.IntN(400_000)+1), len(frame)-have)
		part := want[have-prefix : have-prefix+n]
		if !c.Listener().Protocol.TLS() && random.IntN(2) == 0 && have+n < len(frame) {
			c.ReplyMore(have)
			pipe := filledPipe(t, part)
			sent := c.ReplySplice(pipe, n, time.Now().Add(patience))
			if sent < n {
				t.Errorf("%d bytes of %d left the pipe", sent, n)
			}
			_ = unix.Close(pipe)
		} else {
			copy(frame[have:], part)
		}
		have += n
		c.ReplyMore(have)
		if random.IntN(10) == 0 {
			<-time.After(time.Duration(random.IntN(2000)) * time.Microsecond)
		}
	}
}

// The next frame is answered after a response in parts, however slowly that comes and is read.
func TestAResponseInPartsArrivesWholeAndBeforeTheNext(t *testing.T) {
	answer := func(question []byte) []byte { return bytes.Repeat(question, 1+3_000_000/len(question)/len(question)) }
	parts := func() *echo {
		return &echo{onFrame: func(c *Conn, frame []byte) {
			want, seed := answer(frame), uint64(len(frame))
			go answerInParts(t, c, want, rand.New(rand.NewPCG(seed, seed)))
		}}
	}
	bothWays(t, parts, func(t *testing.T, s *serving, dial func() io.ReadWriteCloser) {
		t.Helper()
		conn := dial()
		for n := 1; n <= 12; n++ {
			question := noise(n * 8)
			send(t, conn, framed(question))
			if n%3 == 0 {
				<-time.After(20 * time.Millisecond) // so that the answer fills the sockets
			}
			wantFrame(t, conn, answer(question))
		}
		eventually(t, func() bool { return s.Unsent() == 0 }, "nothing is unsent")
	})
}

// A pipe waits no longer than it may for a client that does not read; what has not left it goes on by the usual way.
func TestAClientThatDoesNotReadHoldsAPipeForAsLongAsItMay(t *testing.T) {
	want := noise(16 << 20)
	sent, left := make(chan int, 1), make(chan struct{})
	s := serve(t, &echo{onFrame: func(c *Conn, _ []byte) {
		frame := framed(make([]byte, len(want)))
		c.ReplyInParts(frame, func() { close(left) })
		c.ReplyMore(4)
		go func() {
			at := 0
			for until := time.Now().Add(200 * time.Millisecond); ; {
				n := min(1<<20, len(want)-1-at)
				pipe := filledPipe(t, want[at:at+n])
				k := c.ReplySplice(pipe, n, until)
				_ = unix.Close(pipe)
				if at += k; k < n {
					break
				}
			}
			sent <- at
			copy(frame[4+at:], want[at:])
			c.ReplyMore(len(frame))
		}()
	}}, Listener{Protocol: Plaintext})
	conn := s.dial(t)
	begun := time.Now()
	send(t, conn, framed([]byte("more")))
	if n := <-sent; n >= len(want)-1 {
		t.Fatalf("%d bytes left for a client that does not read", n)
	}
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("the pipe waited %v, want at least 200ms", took)
	}
	wantFrame(t, conn, want)
	<-left
}

// Whoever fills a pipe for a client that is gone is told at once.
func TestAPipeIsGivenUpWhenItsClientIsGone(t *testing.T) {
	for name, leave := range map[string]func(*Conn, *net.TCPConn){
		"reset":               func(_ *Conn, conn *net.TCPConn) { reset(conn) },
		"closed":              func(_ *Conn, conn *net.TCPConn) { _ = conn.Close() },
		"ended by the broker": func(c *Conn, _ *net.TCPConn) { c.Close(ReasonEngineUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			full, done := make(chan *Conn, 1), make(chan struct{})
			s := serve(t, &echo{onFrame: func(c *Conn, _ []byte) {
				frame := framed(make([]byte, 64<<20))
				c.ReplyInParts(frame, func() { t.Error("all has left") })
				c.ReplyMore(4)
				go func() {
					defer close(done)
					full <- c
					for {
						pipe := filledPipe(t, make([]byte, 1<<20))
						k := c.ReplySplice(pipe, 1<<20, time.Now().Add(patience))
						_ = unix.Close(pipe)
						if k < 1<<20 {
							break
						}
					}
					c.ReplyMore(len(frame))
				}()
			}}, Listener{Protocol: Plaintext})
			conn := s.dial(t)
			send(t, conn, framed([]byte("more")))
			c := <-full
			eventually(t, func() bool { return c.BytesOut() > 0 }, "some of the answer has left")
			leave(c, conn)
			select {
			case <-done:
			case <-time.After(patience / 2):
				t.Fatal("the pipe still waits for its client")
			}
			eventually(t, func() bool { return s.Unsent() == 0 }, "nothing is unsent")
		})
	}
}
