package network

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// ReplyInParts is ReplyFrom with a response of which nothing is there yet: [Conn.ReplyMore] and [Conn.ReplySplice] follow until all is.
func (c *Conn) ReplyInParts(frame []byte, sent func()) { c.answer(frame, 0, sent, ReasonNone) }

// ReplyMore says that the first n bytes of a response in parts are there, or were sent by [Conn.ReplySplice]. Where the connection closed
// meanwhile it does nothing.
func (c *Conn) ReplyMore(n int) {
	c.mu.Lock()
	if c.closed || c.out == nil {
		c.mu.Unlock()
		return
	}
	c.loop.idle.touch(c, c.loop.server.clock.now())
	c.out.ready = n - c.out.begun()
	done, err := c.pump()
	c.mu.Unlock()
	switch {
	case err != nil:
		c.fail(ReasonClientReset, err)
	case done:
		c.answered(ReasonNone)
	}
}

// ReplySplice sends the next n bytes of a response in parts, which are not its last ones, out of a pipe, in which they are: they are not copied.
// It waits until then for a client that takes no more, and returns how many bytes have left the pipe. Not for TLS.
func (c *Conn) ReplySplice(pipe, n int, until time.Time) (sent int) {
	for sent < n {
		some, room, err := c.splice(pipe, n-sent)
		sent += some
		if err != nil {
			c.fail(ReasonClientReset, err)
			return sent
		}
		if room == nil {
			continue
		}
		late := time.NewTimer(time.Until(until))
		select {
		case <-room:
			late.Stop()
		case <-late.C:
			return sent
		}
	}
	return sent
}

// splice sends what the kernel takes of n bytes in a pipe. A room tells when it may take more.
func (c *Conn) splice(pipe, n int) (sent int, room <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.out == nil {
		return 0, nil, net.ErrClosed
	}
	o := c.out
	if o.room == nil {
		o.room = make(chan struct{}, 1)
	}
	c.loop.idle.touch(c, c.loop.server.clock.now())
	if _, err = c.pump(); err != nil || o.ready > 0 {
		return 0, o.room, err
	}
	some, err := unix.Splice(pipe, nil, int(c.fd), nil, n, unix.SPLICE_F_NONBLOCK)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, o.room, nil
	case errors.Is(err, unix.EINTR):
		return 0, nil, nil
	case err != nil:
		return 0, nil, err
	}
	o.rest = o.rest[some:]
	c.bytesOut.Add(some)
	c.loop.bytesOut.Add(some)
	return int(some), nil, nil
}

// begun is how much of the answer has left, or is encrypted.
func (o *output) begun() int { return int(o.held) - len(o.rest) }
