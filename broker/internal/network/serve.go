package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sizePrefix = 4
	// readsAtOnce is how often one connection is read before it is another's
	// turn.
	readsAtOnce = 16
	// halfClosedFor is how long a client that has ended its stream may wait for
	// the answer to its last request. A client that closed is gone; one that
	// only said that it will send no more gets what is quickly answered.
	halfClosedFor = time.Second
	// maxUnsent bounds what crypto/tls may want to send on its own (answers to
	// key updates) to a client that does not read.
	maxUnsent = 64 << 10
)

var (
	errNegativeSize = errors.New("frame size is not positive")
	errOversize     = errors.New("frame is over the limit")
	errNotReading   = errors.New("client does not read what TLS has to send")
)

// serve reads until a frame is handed over, the connection ends, or the socket
// has no more. c.run is busy.
func (l *loop) serve(c *Conn) {
	for reads := 0; c.ending.Load() == uint32(ReasonNone); reads++ {
		if c.phase == phaseHello {
			if l.hello(c) {
				return
			}
		} else if l.nextFrame(c) {
			l.readAhead(c)
			return
		}
		switch {
		case c.ended:
			l.close(c, ReasonClientClosed, nil)
			return
		case c.drained:
			l.settle(c)
			return
		case reads == readsAtOnce:
			c.run.Store(runPending)
			l.post(task{conn: c, kind: taskResume})
			return
		}
		if reason, err := l.fill(c); reason != ReasonNone {
			l.close(c, reason, err)
			return
		}
	}
}

// settle makes c idle, with no more memory than its half-read frame needs.
func (l *loop) settle(c *Conn) {
	if c.in != nil && c.credit == 0 {
		c.in, c.begin = l.server.buffers.fit(c.in, c.unread()), 0
	}
	c.run.Store(runIdle)
}

// hello looks at what has arrived of a ClientHello, and reports whether that
// settled what becomes of the connection.
func (l *loop) hello(c *Conn) (settled bool) {
	switch readHello(c.session.heldBytes()) {
	case helloIncomplete:
		return false
	case helloComplete:
		l.startHandshake(c)
	case helloPlaintext:
		l.refuse(c, ReasonPlaintextOnTLS)
	case helloBroken:
		l.refuse(c, ReasonTLSFailed)
	}
	return true
}

// refuse sends a fatal alert and closes.
func (l *loop) refuse(c *Conn, reason Reason) {
	c.mu.Lock()
	_, err := c.writeSocket(internalError())
	c.mu.Unlock()
	l.close(c, reason, err)
}

// nextFrame hands over the next frame, when all of it has arrived, and reports
// whether c is done with for now: it has a frame to answer, or ends.
func (l *loop) nextFrame(c *Conn) bool {
	data := c.unread()
	if len(data) < sizePrefix {
		return false
	}
	size := int(int32(binary.BigEndian.Uint32(data)))
	limit, unauthenticated := l.frameLimit(c)
	if size <= 0 || size > limit {
		l.refuseFrame(c, data, size, limit, unauthenticated)
		return true
	}
	if len(data) < sizePrefix+size {
		return false
	}
	c.frames++
	if !unauthenticated && load(&c.stamps.first) == never {
		c.stamps.mark(&c.stamps.first, l.server.clock.now())
	}
	state := runBusy
	if len(data) > sizePrefix+size || !c.drained || c.ended {
		state = runPending
	}
	c.run.Store(state)
	c.mu.Lock()
	c.frame = sizePrefix + size
	l.detach(c)
	c.mu.Unlock()
	if c.hungUp {
		l.limitWait(c)
	}
	l.server.options.Handler.Frame(c, data[sizePrefix:sizePrefix+size:sizePrefix+size])
	return true
}

// frameLimit is how large the next frame of c may be.
func (l *loop) frameLimit(c *Conn) (limit int, unauthenticated bool) {
	if l.listener.Protocol.SASL() && !c.authenticated.Load() {
		return l.listener.MaxAuthFrame, true
	}
	return l.listener.MaxFrame, false
}

// refuseFrame ends a connection whose frame cannot be read: at once, or, before
// the client of a SASL listener has authenticated, after the delay that holds
// off whoever guesses passwords. Nothing is read meanwhile.
func (l *loop) refuseFrame(c *Conn, data []byte, size, limit int, unauthenticated bool) {
	reason, err := ReasonOversizeFrame, fmt.Errorf("%w: %d bytes of %d", errOversize, size, limit)
	switch {
	case size <= 0:
		reason, err = ReasonMalformedRequest, fmt.Errorf("%w: %d", errNegativeSize, size)
	case !l.listener.Protocol.TLS() && looksLikeTLS(data):
		reason = ReasonTLSOnPlaintext
	}
	if unauthenticated && size != 0 && l.listener.FailureDelay > 0 {
		time.AfterFunc(l.listener.FailureDelay, func() { c.fail(reason, err) })
		return
	}
	l.close(c, reason, err)
}

// fill reads once from the socket. A reason tells that the connection must end.
func (l *loop) fill(c *Conn) (Reason, error) {
	if c.session != nil && c.phase == phaseOpen {
		return l.fillTLS(c)
	}
	space := l.space(c)
	into := space
	if space == nil {
		into = l.plain
	}
	n, err := c.readSocket(into)
	if reason := c.readResult(n, err, len(into)); reason != ReasonNone {
		return reason, err
	}
	switch {
	case space != nil:
		c.in.b = c.in.b[:len(c.in.b)+n]
	case c.session == nil:
		c.receive(into[:n])
	case n > 0:
		c.session.held = l.server.buffers.append(c.session.held, into[:n])
	}
	return ReasonNone, nil
}

// readResult notes what a read of up to want bytes told about the socket.
func (c *Conn) readResult(n int, err error, want int) Reason {
	switch {
	case n > 0:
		// A short read has emptied the socket, unless its end follows: an
		// event told of that end, or will.
		c.drained = n < want && !c.hungUp
	case errors.Is(err, unix.EAGAIN):
		c.drained = true
	case err != nil:
		return ReasonClientReset
	default:
		c.ended = true
	}
	return ReasonNone
}

// fillTLS reads once and decrypts every record that is whole. What is left is
// part of a record, and is held.
func (l *loop) fillTLS(c *Conn) (Reason, error) {
	s := c.session
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := 0
	if s.held != nil {
		kept = copy(l.cipher, s.held.b)
		l.server.buffers.put(s.held)
		s.held = nil
	}
	n, err := c.readSocket(l.cipher[kept:])
	if reason := c.readResult(n, err, len(l.cipher)-kept); reason != ReasonNone {
		return reason, err
	}
	s.raw = l.cipher[:kept+n]
	reason, err := l.decrypt(c)
	if len(s.raw) > 0 && reason == ReasonNone {
		s.held = l.server.buffers.append(nil, s.raw)
	}
	s.raw = nil
	unsent := maxUnsent
	if c.out != nil && c.out.answering {
		unsent += 2 * encryptAtOnce // a part of the answer, which is sent by and by
	} else if _, pumpErr := c.pump(); pumpErr != nil && reason == ReasonNone {
		return ReasonClientReset, pumpErr
	}
	if c.out != nil && c.out.cipher != nil && len(c.out.cipher.b)-c.out.sent > unsent && reason == ReasonNone {
		return ReasonTLSFailed, errNotReading
	}
	return reason, err
}

// decrypt takes the records of s.raw into the input. c.mu is held.
func (l *loop) decrypt(c *Conn) (reason Reason, err error) {
	s, fields := c.session, &l.server.fields
	for {
		if _, whole := record(s.raw); !whole {
			return ReasonNone, nil
		}
		fields.lendRecordBuffer(s.tls, l.record)
		n, err := s.tls.Read(l.plain)
		l.reserve(c)
		c.receive(l.plain[:n])
		dropErr := fields.dropBuffers(s.tls)
		switch {
		case err == nil || errors.As(err, new(wouldBlockError)):
			if dropErr != nil {
				return ReasonTLSFailed, dropErr
			}
		case errors.Is(err, io.EOF):
			c.ended = true
			s.raw = nil
			return ReasonNone, nil
		default:
			return ReasonTLSFailed, err
		}
	}
}

// flush goes on sending, now that the kernel may take more.
func (l *loop) flush(c *Conn) {
	c.mu.Lock()
	if c.closed || c.out == nil {
		c.mu.Unlock()
		return
	}
	c.out.wake()
	answering, then := c.out.answering, c.out.then
	done, err := c.pump()
	c.mu.Unlock()
	l.idle.touch(c, l.server.clock.now())
	switch {
	case err != nil:
		l.close(c, ReasonClientReset, err)
	case done && answering:
		c.answered(then)
	}
}

// hangUp is told of events on a connection that is not being read from.
func (l *loop) hangUp(c *Conn, events uint32) {
	switch {
	case events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
		l.close(c, ReasonClientReset, socketError(c.fd))
	case events&unix.EPOLLRDHUP != 0:
		l.limitWait(c)
	}
}

// limitWait gives the present frame of a client that has ended its stream a
// limited time to be answered.
func (l *loop) limitWait(c *Conn) {
	if c.linger == c.frames {
		return
	}
	c.linger = c.frames
	if l.ending == nil {
		l.ending = map[*Conn]struct{}{}
	}
	l.ending[c] = struct{}{}
	t := task{conn: c, kind: taskLinger, frame: c.frames}
	time.AfterFunc(halfClosedFor, func() { l.post(t) })
}

// linger ends a connection whose client has ended its stream and whose frame is
// still not answered.
func (l *loop) linger(c *Conn, frame uint32) {
	c.mu.Lock()
	waiting := c.frames == frame && (c.frame != 0 || c.out == nil) && c.run.Load() != runIdle
	c.mu.Unlock()
	if waiting {
		l.close(c, ReasonClientClosed, nil)
	}
}

// socketError is the error that the kernel holds for a socket; it may be nil.
func socketError(fd int32) error {
	code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return fmt.Errorf("read socket error: %w", err)
	}
	if code == 0 {
		return nil
	}
	return unix.Errno(code)
}
