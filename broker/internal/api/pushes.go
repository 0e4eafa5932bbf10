package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

const (
	// pushWorkers is how many pushes a policy is given at a time.
	pushWorkers = 4
	// pushQueue bounds the pushes that wait for a worker, and pushQueueBytes the memory that they hold: one always may.
	pushQueue      = 8_192
	pushQueueBytes = 64 << 20
	// pushOverhead is about what an entry takes beside its texts.
	pushOverhead = 64
	// pushBatch bounds the pushes that a policy which can is given at a time, and pushBatchBytes the memory that they hold:
	// one always may.
	pushBatch      = 256
	pushBatchBytes = 1 << 20
	// pushBurst is how many pushes one connection may send at once, and pushRest after how long it may send another: a
	// client pushes once in its life.
	pushBurst = 100
	pushRest  = time.Second
	// pushPatience is how long an end waits for pushes that the policy has.
	pushPatience = 2 * time.Second
)

// DefaultPolicyTimeout is client.config.policy.timeout.ms unless it is set.
const DefaultPolicyTimeout = 5 * time.Second

// pushes are the pushed configurations on their way through the policy, on workers of their own. Safe for concurrent use.
type pushes struct {
	policy   configpush.Policy
	batcher  configpush.Batcher // the same, where it takes several at a time; else nil
	timeout  time.Duration
	log      *slog.Logger
	metrics  *pushMetrics
	maxBytes atomic.Int64 // client.config.max.bytes
	// Log lines about pushes that took too long, failed, and were too large.
	slow, failed, large network.Complaint
	begun               time.Time

	queue  chan *pushed
	queued atomic.Int64 // bytes of what waits
	ctx    context.Context
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// pushed is one push that the policy is to see.
type pushed struct {
	call     *call
	req      *protocol.PushConfigRequest
	push     *configpush.Push
	ctx      context.Context //nolint:containedctx // it ends when the client's patience does, in the queue too
	end      context.CancelFunc
	memory   int64
	answered atomic.Bool
}

func newPushes(ctx context.Context, o *Options) *pushes {
	if o.ConfigPolicy == nil {
		return nil
	}
	p := &pushes{policy: o.ConfigPolicy, timeout: o.ConfigPolicyTimeout, log: o.Log, queue: make(chan *pushed, pushQueue), begun: time.Now()}
	if p.timeout <= 0 {
		p.timeout = DefaultPolicyTimeout
	}
	p.batcher, _ = p.policy.(configpush.Batcher)
	p.maxBytes.Store(configpush.DefaultMaxBytes)
	p.metrics = newPushMetrics(func() float64 { return float64(len(p.queue)) })
	p.ctx, p.stop = context.WithCancel(ctx)
	for range pushWorkers {
		p.done.Go(p.worker)
	}
	return p
}

// submit queues a push; it does not wait. Whatever becomes of it, the call is answered once.
func (p *pushes) submit(q *call, req *protocol.PushConfigRequest, push *configpush.Push) {
	fail := func(result pushResult, message string) {
		p.metrics.result(result)
		q.refuse(req, kerr.UnknownServerError, message)
	}
	if !q.session.mayPush(q.received) {
		fail(pushTooOften, fmt.Sprintf("This connection pushes its configuration again and again: more than %d times, and once in %v.", pushBurst, pushRest))
		return
	}
	j := &pushed{call: q, req: req, push: push, memory: int64(push.Bytes + pushOverhead*len(push.Entries))}
	if waiting := p.queued.Add(j.memory); waiting > pushQueueBytes && waiting != j.memory {
		p.queued.Add(-j.memory)
		fail(pushOverload, "The policy for client configurations has too much to do.")
		return
	}
	push.Deadline = q.received.Add(p.timeout)
	j.ctx, j.end = context.WithDeadline(p.ctx, push.Deadline)
	context.AfterFunc(j.ctx, func() { p.expire(j) })
	select {
	case p.queue <- j:
	default:
		p.queued.Add(-j.memory)
		if j.take() {
			fail(pushOverload, "The policy for client configurations has too much to do.")
		}
	}
}

// take tells the one who may answer.
func (j *pushed) take() bool {
	first := j.answered.CompareAndSwap(false, true)
	if first {
		j.end()
	}
	return first
}

// expire answers a push that the policy has not dealt with in time.
func (p *pushes) expire(j *pushed) {
	defer j.call.survive()
	if !j.take() {
		return
	}
	if p.ctx.Err() != nil {
		return // the connections are being closed
	}
	p.metrics.result(pushTimeout)
	p.complain(&p.slow, slog.LevelWarn, "the policy for client configurations took too long", slog.String("connection", j.push.ConnectionID), slog.Duration("timeout", p.timeout))
	j.call.refuse(j.req, kerr.UnknownServerError, fmt.Sprintf("The policy for client configurations took longer than %v.", p.timeout))
}

func (p *pushes) worker() {
	var batch []*pushed
	for {
		select {
		case <-p.ctx.Done():
			return
		case j := <-p.queue:
			if batch = p.gather(batch[:0], j); len(batch) > 0 {
				p.work(batch)
			}
			clear(batch)
		}
	}
}

// gather adds first to batch, and what waits behind it where the policy takes several at a time. Those that were answered
// meanwhile nobody wants.
func (p *pushes) gather(batch []*pushed, first *pushed) []*pushed {
	memory, took := int64(0), 0
	for j := first; j != nil; {
		p.queued.Add(-j.memory)
		memory += j.memory
		took++
		if j.ctx.Err() == nil {
			batch = append(batch, j)
		}
		if p.batcher == nil || took >= pushBatch || memory >= pushBatchBytes {
			break
		}
		select {
		case j = <-p.queue:
		default:
			j = nil
		}
	}
	return batch
}

// work gives pushes to the policy and answers them.
func (p *pushes) work(batch []*pushed) {
	begun := time.Now()
	errs := p.process(batch)
	p.metrics.took(time.Since(begun), len(batch))
	for i, j := range batch {
		p.finish(j, errs[i])
	}
}

// process returns as many errors as there are pushes.
func (p *pushes) process(batch []*pushed) []error {
	errs := make([]error, len(batch))
	if p.batcher == nil {
		j := batch[0] // the only one
		errs[0] = Guarded(func() error { return p.policy.Process(j.ctx, j.push) })
		return errs
	}
	all := make([]*configpush.Push, len(batch))
	for i, j := range batch {
		all[i] = j.push
	}
	last := slices.MaxFunc(all, func(a, b *configpush.Push) int { return a.Deadline.Compare(b.Deadline) })
	ctx, end := context.WithDeadline(p.ctx, last.Deadline)
	defer end()
	failed := Guarded(func() error {
		own := p.batcher.ProcessAll(ctx, all)
		if len(own) != len(all) {
			return fmt.Errorf("%d pushes were processed and %d answered", len(all), len(own))
		}
		errs = own
		return nil
	})
	if failed != nil {
		for i := range errs {
			errs[i] = failed
		}
	}
	return errs
}

// finish answers a push that the policy has dealt with, unless its time was up.
func (p *pushes) finish(j *pushed, err error) {
	defer j.call.survive()
	if !j.take() {
		return
	}
	var panicked *policyPanicError
	switch {
	case err == nil:
		p.metrics.result(pushAccepted)
		j.call.answer(protocol.NewPtrPushConfigResponse())
		return
	case errors.As(err, &panicked):
		p.metrics.result(pushPanic)
	default:
		p.metrics.result(pushError)
	}
	p.complain(&p.failed, slog.LevelError, "the policy for client configurations failed", slog.String("connection", j.push.ConnectionID), slog.Any("error", err))
	j.call.refuse(j.req, kerr.UnknownServerError, "The policy for client configurations failed.")
}

// policyPanicError is a panic of a policy's.
type policyPanicError struct {
	value any
	stack []byte
}

func (e *policyPanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// Guarded runs a policy's code, which may be anybody's: its panic is an error.
func Guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &policyPanicError{v, debug.Stack()}
		}
	}()
	return f()
}

// reconfigure tells the policy what the broker's properties are now.
func (p *pushes) reconfigure(properties map[string]string) {
	if err := Guarded(func() error { return p.policy.Reconfigure(properties) }); err != nil {
		p.log.Error("the policy for client configurations cannot be reconfigured", slog.Any("error", err))
	}
}

// close waits for the workers, but not for ever: a policy may hang.
func (p *pushes) close() {
	p.stop()
	ended := make(chan struct{})
	go func() {
		p.done.Wait()
		close(ended)
	}()
	patience := time.NewTimer(pushPatience)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		p.log.Error("the policy for client configurations does not end")
	}
}

// refused counts a push that is too large and says who sends it, the first time and then ever more seldom: a client that
// ignores the answer goes on.
func (p *pushes) refused(q *call, entries []configpush.Entry, size, most int) {
	p.metrics.result(pushTooLarge)
	ss := q.session
	ss.tooLarge++
	if n := ss.tooLarge; n&(n-1) != 0 {
		return
	}
	c := q.pushContext()
	p.complain(&p.large, slog.LevelWarn, "a client's configuration is too large", slog.Int("bytes", size), slog.Int("max", most), slog.Int("configs", len(entries)),
		slog.Int("refused_on_connection", ss.tooLarge), slog.String("connection", c.ConnectionID), slog.String("principal", c.Principal),
		slog.String("client_id", configpush.Printable(c.ClientID)), slog.String("software", c.Software))
}

// complain logs a failure of a kind, unless there were many of it within a second: whoever may connect may push.
func (p *pushes) complain(kind *network.Complaint, level slog.Level, message string, attrs ...slog.Attr) {
	say, unsaid := kind.Admit(int64(time.Since(p.begun)))
	if !say {
		return
	}
	if unsaid > 0 {
		attrs = append(attrs, slog.Uint64("not_logged", unsaid))
	}
	p.log.LogAttrs(p.ctx, level, message, attrs...) //nolint:sloglint // a constant of each caller
}

// mayPush takes one of the pushes that a connection may send.
func (ss *session) mayPush(now time.Time) bool {
	if ss.nextPush.Before(now) {
		ss.nextPush = now
	}
	if ss.nextPush.Sub(now) >= pushBurst*pushRest {
		return false
	}
	ss.nextPush = ss.nextPush.Add(pushRest)
	return true
}

// OpenFor walks the connections that are authenticated: those of one client, or of all (nil).
func (s *Server) OpenFor(of *configpush.Identity) iter.Seq[configpush.Context] {
	return func(yield func(configpush.Context) bool) {
		for conn := range s.o.Connections() {
			if of != nil && (conn.Remote().Addr() != of.Address || conn.Listener().Name != of.Listener) {
				continue
			}
			id := conn.Identity()
			if id == nil || id.Type == "" {
				continue
			}
			c := contextOf(conn)
			if of != nil && c.Identity() != *of {
				continue
			}
			if !yield(c) {
				return
			}
		}
	}
}

// SetConfigMaxBytes bounds what a client may push from now on.
func (s *Server) SetConfigMaxBytes(n int64) {
	if s.pushes != nil {
		s.pushes.maxBytes.Store(n)
	}
}

// Reconfigure tells the policy for client configurations, if there is one, what the broker's properties are now.
func (s *Server) Reconfigure(properties map[string]string) {
	if s.pushes != nil {
		s.pushes.reconfigure(properties)
	}
}
