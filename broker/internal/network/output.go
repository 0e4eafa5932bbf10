package network

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// encryptAtOnce is how much of an answer is encrypted before what is
	// encrypted has left: it bounds what a reader that is slow costs beyond its
	// answer.
	encryptAtOnce = 64 << 10
	// sendAtOnce is how much of one connection's output goes out before it is
	// another's turn.
	sendAtOnce = 1 << 20
)

// output is what a connection has to send and the kernel has not taken yet.
// Guarded by Conn.mu.
type output struct {
	// cipher holds records that are encrypted; sent of its bytes have left.
	cipher *buffer
	sent   int
	// rest is what remains of an answer: bytes to send as they are, or over TLS
	// to encrypt. The first ready bytes of it are there.
	rest  []byte
	ready int
	// held is the size of the answer, whose memory stays until all has left; it
	// is counted in Server.unsent.
	held int64
	// gone takes back memory that was lent for the answer; nil: it was given.
	gone func()
	// answering: an answer is on its way; when all has left the connection goes
	// on reading, or ends for the reason then.
	answering bool
	then      Reason
	// room is told when the kernel may take more; nil: nobody waits for that.
	room chan struct{}
}

// send starts an answer of which the first ready bytes are there, and reports
// whether all of it has left. c.mu is held, and the connection is not closed.
func (c *Conn) send(frame []byte, ready int, gone func(), then Reason) (done bool, err error) {
	held := int64(len(frame))
	if c.out == nil && c.session == nil && ready == len(frame) && ready <= sendAtOnce {
		n, writeErr := c.writeSocket(frame)
		if writeErr != nil || n == len(frame) {
			if writeErr == nil && gone != nil {
				gone()
			}
			return writeErr == nil, writeErr
		}
		frame, ready = frame[n:], ready-n
	}
	if c.out == nil {
		if c.session != nil {
			c.out = &c.session.queue
		} else {
			c.out = &output{}
		}
	}
	c.out.rest, c.out.ready, c.out.gone, c.out.answering, c.out.then = frame, ready, gone, true, then
	c.out.held += held
	c.loop.server.unsent.Add(held)
	return c.pump()
}

// pump sends what it can of c.out and reports whether all has left; then c.out
// is nil again. Of much output it sends a part and asks the loop to go on. c.mu
// is held.
func (c *Conn) pump() (done bool, err error) {
	limit := c.bytesOut.Load() + sendAtOnce
	for c.out != nil {
		o := c.out
		if c.bytesOut.Load() >= limit {
			c.loop.post(task{conn: c, kind: taskFlush})
			return false, nil
		}
		switch {
		case o.cipher != nil:
			n, err := c.writeSocket(o.cipher.b[o.sent:])
			if err != nil {
				return false, err
			}
			if o.sent += n; o.sent < len(o.cipher.b) {
				return false, nil
			}
			c.loop.server.buffers.put(o.cipher)
			o.cipher, o.sent = nil, 0
		case len(o.rest) == 0:
			c.finish()
		case o.ready == 0:
			return false, nil
		case c.session != nil:
			part := o.rest[:min(o.ready, encryptAtOnce)]
			if _, err := c.session.tls.Write(part); err != nil {
				return false, err
			}
			o.left(len(part))
		default:
			part := o.rest[:min(o.ready, sendAtOnce)]
			n, err := c.writeSocket(part)
			if err != nil {
				return false, err
			}
			o.left(n)
			if n < len(part) {
				return false, nil
			}
		}
	}
	return true, nil
}

// left says that n more bytes of what is ready have left, or are encrypted.
func (o *output) left(n int) { o.rest, o.ready = o.rest[n:], o.ready-n }

// wake tells who waits that the kernel may take more, or that nobody will.
func (o *output) wake() {
	select {
	case o.room <- struct{}{}:
	default: // it was told, or nobody waits
	}
}

// finish forgets an output of which all has left. c.mu is held.
func (c *Conn) finish() {
	o := c.out
	c.loop.server.unsent.Add(-o.held)
	if o.gone != nil {
		o.gone()
	}
	*o = output{}
	c.out = nil
}

// writeSocket writes until the kernel takes no more. A full socket is no error.
// c.mu is held.
func (c *Conn) writeSocket(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := unix.Write(int(c.fd), p[written:])
		switch {
		case n > 0:
			written += n
			c.bytesOut.Add(int64(n))
			c.loop.bytesOut.Add(int64(n))
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return written, nil
		default:
			return written, err
		}
	}
	return written, nil
}

// readSocket reads once. 0 without an error is the end of the stream. The
// socket must not be closed meanwhile: c.mu is held, or the caller is the loop.
func (c *Conn) readSocket(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(c.fd), p)
		switch {
		case n >= 0:
			c.bytesIn.Add(int64(n))
			c.loop.bytesIn.Add(int64(n))
			return n, nil
		case errors.Is(err, unix.EINTR):
		default:
			return 0, err
		}
	}
}
