package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/wire"
)

// tcpLink is a connection to a data plane somewhere else, made with its first request. Each request has a goroutine for
// as long as it has no answer; between two there is none.
type tcpLink struct {
	plane *remotePlane
	reach *reach // when it was opened

	// conn belongs to the goroutine of the request in flight.
	conn *remoteConn

	// muted: the last answer told its client to wait, and Kafka reads nothing more of the connection until then. Set before it is delivered.
	muted atomic.Bool

	mu      sync.Mutex
	answer  func(kmsg.Response, error) // set while a request is in flight
	ctx     context.Context            // ends with the link; made with the first request
	cancel  context.CancelFunc
	made    *remoteConn // conn, for who closes the link
	closed  bool
	why     error // what a request in flight is answered, once closed
	sending bool  // the request is being written, out of its maker's memory, or was not written: who does that answers it
	calling int   // answers' functions that run
	idle    func()
}

var _ link = (*tcpLink)(nil)

// flight is one request on its way.
type flight struct {
	out      outgoing // of plane.frames
	req      kmsg.Request
	patience time.Duration
	from     lessee
}

func (l *tcpLink) send(from lessee, req kmsg.Request, answer func(kmsg.Response, error)) {
	p := l.plane
	l.mu.Lock()
	if l.closed || l.answer != nil {
		err := ErrClosed
		if !l.closed {
			err = errBusy
		}
		l.mu.Unlock()
		go answer(nil, err)
		return
	}
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(p.ctx)
	}
	l.answer, l.sending = answer, true
	l.mu.Unlock()

	f := &flight{
		out: newOutgoing(&p.frames, from.clientID, req), req: req, patience: patience(req), from: from,
	}
	if size := int64(f.out.size); p.waiting.Add(size) > maxWaiting {
		p.waiting.Add(-size)
		p.frames.Put(f.out.text)
		go l.deliver(nil, fmt.Errorf("%w: %d MB of requests wait for it", ErrUnavailable, maxWaiting>>20))
		return
	}
	go l.fly(f)
}

// fly sends one request and delivers its answer.
func (l *tcpLink) fly(f *flight) {
	p := l.plane
	corr, err := l.transmit(f)
	sent := err == nil
	p.frames.Put(f.out.text)
	l.mu.Lock()
	l.sending = !sent
	l.mu.Unlock()
	var (
		resp kmsg.Response
		used func()
	)
	if err == nil {
		resp, used, err = l.receive(f, corr)
	}
	p.waiting.Add(-int64(f.out.size))
	if err != nil {
		l.fail(err, sent)
		return
	}
	l.muted.Store(throttled(resp))
	l.deliver(resp, nil)
	if used != nil {
		used()
	}
}

// throttled tells whether an answer has its client wait before it asks again.
func throttled(resp kmsg.Response) bool {
	t, ok := resp.(kmsg.ThrottleResponse)
	if !ok {
		return false
	}
	wait, _ := t.Throttle()
	return wait > 0
}

// receive reads the answer. used, where there is one, takes back its memory.
func (l *tcpLink) receive(f *flight, corr int32) (resp kmsg.Response, used func(), err error) {
	var pool *wire.Buffers
	asked := 0
	if fetch, ok := f.req.(*kmsg.FetchRequest); ok {
		asked = int(min(max(fetch.MaxBytes, 0), maxFetchBytes))
		if f.from.passing {
			pool = &l.plane.bodies
		}
	}
	a, err := l.conn.next(pool, asked)
	if err != nil {
		return nil, nil, err
	}
	relayed, err := l.relay(f, corr, a)
	if relayed != nil || err != nil {
		return relayed, nil, err
	}
	body, err := a.all()
	if err != nil {
		return nil, nil, err
	}
	if pool != nil {
		used = func() { pool.Put(a.frame) }
	}
	resp = f.req.ResponseKind()
	return resp, used, decodeResponse(body, corr, resp)
}

// transmit writes the request, over a connection that is made or authenticated anew where that has to be.
func (l *tcpLink) transmit(f *flight) (int32, error) {
	if l.conn == nil {
		if err := l.connect(); err != nil {
			return 0, err
		}
	}
	c := l.conn
	if err := c.conn.SetDeadline(time.Now().Add(f.patience)); err != nil {
		return 0, err
	}
	if err := l.plane.renew(l.ctx, c); err != nil {
		return 0, err
	}
	c.corr++
	putCorrelation(f.out.text, c.corr)
	return c.corr, f.out.write(c.conn, &l.plane.frames)
}

func (l *tcpLink) connect() error {
	c, err := l.plane.connect(l.ctx, l.reach.address)
	if err != nil {
		return err
	}
	l.mu.Lock()
	closed := l.closed
	l.conn, l.made = c, c
	l.mu.Unlock()
	if closed {
		_ = c.conn.Close()
		return ErrClosed
	}
	return nil
}

// fail ends the link: what comes next on its connection is nobody's. The watcher looks whether it is more than that. sent tells
// whether the far end may have the whole request.
func (l *tcpLink) fail(err error, sent bool) {
	l.mu.Lock()
	ours := !l.closed
	l.mu.Unlock()
	l.shut(fmt.Errorf("%w: %w", ErrUnavailable, err))
	l.mu.Lock()
	err = l.why
	l.mu.Unlock()
	if sent {
		err = unanswered(err)
	}
	l.deliver(nil, err)
	if ours {
		l.plane.lookAgain()
	}
}

// deliver hands over the answer, unless there was one already: the link was closed meanwhile.
func (l *tcpLink) deliver(resp kmsg.Response, err error) {
	l.mu.Lock()
	answer := l.answer
	l.answer = nil
	l.calling++
	l.mu.Unlock()
	if answer != nil {
		answer(resp, err)
	}
	l.mu.Lock()
	l.calling--
	var idle func()
	if l.calling == 0 {
		idle, l.idle = l.idle, nil
	}
	l.mu.Unlock()
	if idle != nil {
		idle()
	}
}

func (l *tcpLink) whenIdle(f func()) {
	l.mu.Lock()
	if l.calling > 0 {
		l.idle = f
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

// alive is false also for a link of before the far end was lost, or moved: its connection may be half open.
func (l *tcpLink) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && l.plane.reach.Load() == l.reach
}

// dear tells whether Kafka has the next request wait for what the last lessee did.
func (l *tcpLink) dear() bool { return l.muted.Load() }

func (l *tcpLink) close() { l.shut(ErrClosed) }

// shut closes the link once; err answers a request that was sent, on a goroutine of its own.
func (l *tcpLink) shut(err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed, l.why = true, err
	var answer func(kmsg.Response, error)
	if !l.sending {
		answer, l.answer = l.answer, nil
	}
	made := l.made
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	if made != nil {
		_ = made.conn.Close()
	}
	if answer != nil {
		go answer(nil, unanswered(err)) // it was sent
	}
	l.plane.forget(l)
}

// patience is how long a request may be without an answer: what it says itself that it may take, and a while.
func patience(req kmsg.Request) time.Duration {
	const (
		enough = 30 * time.Second
		most   = 10 * time.Minute
		synced = 5 * time.Minute // a member waits for its leader, for as long as the rebalance may take
	)
	var own time.Duration
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		own = time.Duration(r.MaxWaitMillis) * time.Millisecond
	case *kmsg.ShareFetchRequest:
		own = time.Duration(r.MaxWaitMillis) * time.Millisecond
	case *kmsg.JoinGroupRequest:
		own = time.Duration(max(r.RebalanceTimeoutMillis, r.SessionTimeoutMillis)) * time.Millisecond
	case *kmsg.SyncGroupRequest:
		own = synced
	case kmsg.TimeoutRequest:
		own = time.Duration(r.Timeout()) * time.Millisecond
	}
	return enough + min(max(own, 0), most)
}
