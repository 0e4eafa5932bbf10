package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// client is one connection. It has one owner at a time, whoever put something into sem: the goroutine that opens it, a request, the
// epoll loop that reads what came unasked, or who closes it. rec alone is guarded by mu.
type client struct {
	fleet *Fleet
	group *group
	id    int32
	index int

	sem         chan struct{}
	sock        sock
	tls         *tls.Conn
	correlation int32
	over        bool // the socket is closed
	// lifetime is how long the broker said that the latest authentication holds, from proved on or a little later, and renew when to
	// authenticate again; zero: never.
	lifetime time.Duration
	proved   time.Time
	renew    time.Time

	mu  sync.Mutex
	rec Record
}

func (c *client) stream() io.ReadWriter {
	if c.tls != nil {
		return c.tls
	}
	return &c.sock
}

func (c *client) record() Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rec
}

func (c *client) note(change func(*Record)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.rec)
}

func (c *client) acquire(ctx context.Context) error {
	select {
	case c.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *client) tryAcquire() bool {
	select {
	case c.sem <- struct{}{}:
		return true
	default:
		return false
	}
}

// release gives the client back, and looks after what came in meanwhile: edge-triggered events are not repeated.
func (c *client) release() {
	for {
		<-c.sem
		if len(c.sock.ready) == 0 || !c.tryAcquire() {
			return
		}
		c.drain()
	}
}

// poke is called by the epoll loop.
func (c *client) poke() {
	c.sock.wake()
	if c.tryAcquire() {
		c.drain()
		c.release()
	}
}

// drain reads what the broker sent unasked, which is how its FIN, reset or alert is noticed. Called by the owner.
func (c *client) drain() {
	select {
	case <-c.sock.ready:
	default:
	}
	if c.over {
		return
	}
	c.sock.block = false
	var scratch [512]byte
	for {
		if _, err := c.stream().Read(scratch[:]); err != nil {
			if !errors.Is(err, errWouldBlock) {
				c.fail(err)
			}
			return
		}
	}
}

// open takes the client as far as its behaviour goes. The caller owns it.
func (c *client) open(ctx context.Context) {
	err := c.connect()
	if err == nil {
		err = c.greet(ctx)
	}
	if err != nil {
		c.fail(err)
		return
	}
	c.note(func(r *Record) {
		r.Ready, r.Outcome, r.Phase = time.Since(r.Started), Up, Held
	})
	c.fleet.up.Add(1)
	c.fleet.observe(ReadyLatency, c.record().Ready)
	c.sock.wake() // whatever came with the last answer
}

func (c *client) step() {
	c.sock.block = true
	c.sock.deadline = time.Now().Add(c.fleet.timeout)
}

func (c *client) connect() error {
	c.step()
	c.note(func(r *Record) { r.Started, r.Phase = time.Now(), Connecting })
	fd, err := c.group.source.Socket(family(c.group.Target.Addr()))
	if err != nil {
		return err
	}
	c.sock.fd = fd
	c.over = false
	err = c.sock.connect(c.group.source.Addr(c.index), c.group.Target, func() error {
		return c.fleet.poll.add(fd, c.id)
	})
	local := c.sock.local()
	c.note(func(r *Record) {
		r.Local = local
		if err == nil {
			r.Connect = time.Since(r.Started)
		}
	})
	if err == nil {
		c.fleet.observe(ConnectLatency, c.record().Connect)
	}
	return err
}

// greet is all that a client says before it rests.
func (c *client) greet(ctx context.Context) error {
	switch c.group.behaviour() {
	case Silent:
		return nil
	case HalfHello:
		return c.send(c.group.flight[:len(c.group.flight)/2], 0)
	case Raw:
		return c.send(c.group.Payload, c.group.Segment)
	case Idle, Metadata, Produce, HalfSASL:
	}
	if c.group.Protocol.TLS() {
		if err := c.handshake(ctx); err != nil {
			return err
		}
	}
	if c.group.HelloVersion >= 0 {
		c.enter(Greeting)
		code, err := c.hello()
		if err != nil {
			return err
		}
		c.answered(func(r *Record) {
			r.Hello = code
			if code == 0 && c.group.HelloVersion != 1 && c.group.HelloVersion != 2 {
				r.Software, r.SoftwareVersion = c.group.Software, c.group.SoftwareVersion
			}
		})
	}
	if c.group.Protocol.SASL() {
		if err := c.sasl(); err != nil {
			return err
		}
	}
	if len(c.group.Push) > 0 && c.group.behaviour() != HalfSASL {
		return c.push()
	}
	return nil
}

func (c *client) handshake(ctx context.Context) error {
	c.enter(Handshaking)
	c.tls = tls.Client(&c.sock, c.group.config)
	if err := c.tls.HandshakeContext(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	c.note(func(r *Record) { r.TLS = time.Since(r.Started) })
	r := c.record()
	c.fleet.observe(TLSLatency, r.TLS-r.Connect)
	return nil
}

func (c *client) sasl() error {
	c.enter(Authenticating)
	if err := c.chooseMechanism(); err != nil {
		return err
	}
	c.answered(func(*Record) {})
	if c.group.behaviour() == HalfSASL {
		return nil
	}
	begin := time.Now()
	if err := c.authenticate(); err != nil {
		return err
	}
	c.planRenewal()
	c.note(func(r *Record) { r.SASL = time.Since(r.Started) })
	c.fleet.observe(SASLLatency, time.Since(begin))
	return nil
}

func (c *client) enter(p Phase) {
	c.step()
	c.note(func(r *Record) { r.Phase = p })
}

// answered notes an answer, and the time of the first one.
func (c *client) answered(change func(*Record)) {
	first := time.Duration(0)
	c.note(func(r *Record) {
		r.Requests++
		if r.First == 0 {
			r.First = time.Since(r.Started)
			first = r.First
		}
		change(r)
	})
	if first > 0 {
		c.fleet.observe(FirstLatency, first)
	}
}

// send writes b in pieces of segment bytes; TCP_NODELAY makes a segment of each.
func (c *client) send(b []byte, segment int) error {
	if segment <= 0 {
		segment = len(b)
	}
	for len(b) > 0 {
		n := min(segment, len(b))
		if _, err := c.sock.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// work sends one request of the client's behaviour and tells whether the client is still up.
func (c *client) work(ctx context.Context) bool {
	if c.acquire(ctx) != nil {
		return false
	}
	defer c.release()
	if !c.renewed() {
		return false
	}
	c.step()
	begin := time.Now()
	req, code := c.request()
	resp, err := c.roundTrip(req)
	if errors.Is(err, errAbandoned) {
		return false // whoever interrupted it waits to close it
	}
	if err != nil {
		c.fail(err)
		return false
	}
	c.fleet.observe(RequestLatency, time.Since(begin))
	c.answered(func(r *Record) {
		if code(resp) != 0 {
			r.Failures++
		}
	})
	return true
}

// fail ends the client because of err, which says why. The caller owns it.
func (c *client) fail(err error) {
	c.note(func(r *Record) {
		r.Outcome = classify(err, r.Phase)
		r.Error, r.Ended = err.Error(), time.Now()
	})
	if c.record().Outcome != Abandoned {
		c.fleet.failed.Add(1)
	}
	c.shut()
}

// end closes the client in the way how. The caller owns it.
func (c *client) end(how How) error {
	if c.over {
		return nil
	}
	// Noted before the first packet of the end: the broker must never know earlier than the record says.
	c.note(func(r *Record) {
		r.Outcome, r.How, r.Ended = ClosedByClient, how, time.Now()
	})
	err := how.prepare(&c.sock)
	if how == FIN {
		c.sayGoodbye()
	}
	c.shut()
	if err != nil {
		return fmt.Errorf("close client %d by %s: %w", c.id, how, err)
	}
	return nil
}

// sayGoodbye sends close_notify and reads what is left: a socket closed with bytes unread would send a reset.
func (c *client) sayGoodbye() {
	c.sock.block = false
	if c.tls != nil && c.tls.ConnectionState().HandshakeComplete {
		_ = c.tls.CloseWrite() // the FIN follows anyway
	}
	var scratch [512]byte
	for {
		if n, err := c.sock.Read(scratch[:]); n == 0 || err != nil {
			return
		}
	}
}

func (c *client) shut() {
	if c.over {
		return
	}
	c.over = true
	if p := c.record().Phase; p == Held || p == Reauthenticating {
		c.fleet.up.Add(-1)
	}
	c.fleet.poll.remove(c.sock.fd)
	closeFD(c.sock.fd)
	c.tls = nil
}
