package network

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// wouldBlockError tells crypto/tls that there is no whole record yet. It is a
// temporary [net.Error], after which a read may be tried again.
type wouldBlockError struct{}

func (wouldBlockError) Error() string   { return "no whole record yet" }
func (wouldBlockError) Timeout() bool   { return true }
func (wouldBlockError) Temporary() bool { return true }

// session is the TLS side of a connection. To crypto/tls it is the [net.Conn]
// underneath: it hands out ciphertext never past the end of one whole record,
// so that crypto/tls keeps nothing between two reads, and it queues what is
// written, since crypto/tls does not survive a failed write.
//
// Its fields are guarded by Conn.mu, but for held, which belongs to whoever
// runs the connection (its loop, or its handshake).
type session struct {
	conn *Conn
	tls  *tls.Conn
	// held is ciphertext that has arrived and that no loop is working on: a
	// part of a record at most, when idle.
	held *buffer
	// raw is the ciphertext that Read takes from; left of it belongs to the
	// record that is being read.
	raw  []byte
	left int
	// handshake is set while the handshake runs.
	handshake *handshake
	queue     output
}

// handshake is what a session needs only before it is established.
type handshake struct {
	// wake has room for one signal: the socket may have more to read, or is
	// closed.
	wake chan struct{}
	// tokened: the handshake's goroutine holds a token of the turnstile.
	tokened bool
}

var _ net.Conn = (*session)(nil)

// Read gives crypto/tls the rest of the present record, or the next one.
func (s *session) Read(p []byte) (int, error) {
	if s.handshake != nil {
		return s.readHandshake(p)
	}
	if s.left == 0 {
		size, whole := record(s.raw)
		if !whole {
			return 0, wouldBlockError{}
		}
		s.left = size
	}
	n := copy(p, s.raw[:s.left])
	s.raw = s.raw[n:]
	s.left -= n
	return n, nil
}

// Write queues ciphertext. Outside of a handshake whoever made crypto/tls write
// holds Conn.mu and pumps the queue afterwards.
func (s *session) Write(p []byte) (int, error) {
	c := s.conn
	if s.handshake == nil {
		s.enqueue(p)
		return len(p), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	s.enqueue(p)
	if _, err := c.pump(); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *session) enqueue(p []byte) {
	c := s.conn
	if c.out == nil {
		c.out = &s.queue
	}
	c.out.cipher = c.loop.server.buffers.append(c.out.cipher, p)
}

// readHandshake is Read on the handshake's goroutine: it waits for a whole
// record, and gives its token to another handshake meanwhile.
func (s *session) readHandshake(p []byte) (int, error) {
	if s.left == 0 {
		if err := s.awaitRecord(); err != nil {
			return 0, err
		}
		s.left, _ = record(s.held.b)
	}
	n := copy(p, s.held.b[:s.left])
	s.left -= n
	s.held.b = s.held.b[:copy(s.held.b, s.held.b[n:])]
	return n, nil
}

func (s *session) awaitRecord() error {
	server := s.conn.loop.server
	for {
		if s.held != nil {
			if _, whole := record(s.held.b); whole {
				break
			}
		}
		n, err := s.readMore()
		switch {
		case n > 0:
		case errors.Is(err, unix.EAGAIN):
			if s.handshake.tokened {
				s.handshake.tokened = false
				server.turnstile.release()
			}
			<-s.handshake.wake
		case err != nil:
			return err
		default:
			return io.EOF
		}
	}
	if !s.handshake.tokened {
		server.turnstile.acquire()
		s.handshake.tokened = true
	}
	return nil
}

// readMore takes what the socket has into held.
func (s *session) readMore() (int, error) {
	const most = 4096
	c := s.conn
	s.held = c.loop.server.buffers.room(s.held, most)
	filled := len(s.held.b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	n, err := c.readSocket(s.held.b[filled : filled+most])
	s.held.b = s.held.b[:filled+n]
	return n, err
}

// wake tells the handshake to look at its socket again.
func (s *session) wake() {
	select {
	case s.handshake.wake <- struct{}{}:
	default:
	}
}

// record gives the size of the record that b starts with, header included, and
// whether all of it is there. Of a record that is too large only the header is
// counted: crypto/tls refuses it by that.
func record(b []byte) (size int, whole bool) {
	if len(b) < recordHeader {
		return 0, false
	}
	size = int(b[3])<<8 | int(b[4])
	if size > maxRecord {
		return recordHeader, true
	}
	size += recordHeader
	return size, len(b) >= size
}

// Close is part of [net.Conn]; the loop closes sockets.
func (*session) Close() error { return nil }

// LocalAddr is the broker's end.
func (s *session) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(s.conn.local) }

// RemoteAddr is the client's end.
func (s *session) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.conn.remote) }

// SetDeadline does nothing: idle expiry closes the connection.
func (*session) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*session) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (*session) SetWriteDeadline(time.Time) error { return nil }
