package connbench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// AtLimit is what was measured at the limit that a run came to.
type AtLimit struct {
	// Before and During are the answer times of clients that are connected: before the first step, and while clients wait in front of
	// the target.
	Before report.Latency `json:"insideBefore"`
	During report.Latency `json:"insideDuring"`
	Lost   int            `json:"insideLost"` // clients inside that lost their connection meanwhile
	// Admission is from the close of one connection to the first answer to the client that waited, its handshake included.
	Admission *report.Latency `json:"admission,omitempty"`
	Waiting   int             `json:"waiting"`           // clients that waited meanwhile
	Refused   int             `json:"refused,omitempty"` // of them, those that the target closed
	NotSeen   int             `json:"notSeen,omitempty"` // slots that were freed and nobody got
	Rate      *RateAccuracy   `json:"rate,omitempty"`    // where a rate is set
}

// How many clients measure from inside, how many wait, and how often.
const (
	insideClients = 16
	insideCalls   = 20 // each
	waiters       = 24
)

// admissionTimeout bounds the wait for a waiter to be let in.
const admissionTimeout = 10 * time.Second

// inside are clients in this process, which keep connections that the run counts. Its methods take nil.
type inside struct {
	fleet  *fleet.Fleet
	before *hdrhistogram.Histogram
}

func (i *inside) count() int {
	if i == nil {
		return 0
	}
	return i.fleet.UpCount()
}

func (i *inside) close() error {
	if i == nil {
		return nil
	}
	return i.fleet.Close()
}

// openInside opens them, at most half of the first step, and measures how long answers take while nothing else happens.
func (r *run) openInside(ctx context.Context) error {
	n := min(insideClients, (r.o.Steps[0]+1)/2)
	r.doing("connecting inside", n)
	f, err := fleet.New(r.o.Timeout)
	if err != nil {
		return err
	}
	plan, err := r.ownPlan(n)
	if err == nil {
		err = f.Add(ctx, plan)
	}
	if err == nil {
		err = f.FirstError()
	}
	if err != nil {
		_ = f.Close() // the other error says why
		return fmt.Errorf("connect the clients that measure from inside: %w", err)
	}
	in := &inside{fleet: f}
	in.before = in.calls(ctx)
	r.mu.Lock()
	r.inside = in
	r.mu.Unlock()
	return nil
}

// ownPlan is a plan for clients in this process.
func (r *run) ownPlan(n int) (fleet.Plan, error) {
	p := r.o.plan(n, r.turn)
	p.Rate = 0
	r.turn += n
	for i := range p.Groups {
		g := &p.Groups[i]
		if g.From == nil {
			continue
		}
		source, err := r.o.resolve(*g.From)
		if err != nil {
			return p, err
		}
		g.Source = source
	}
	return p, nil
}

// calls sends Metadata requests from each client that is up, one after the other, and returns how long answers took.
func (i *inside) calls(ctx context.Context) *hdrhistogram.Histogram {
	var mu sync.Mutex // guards all
	all := fleet.NewHistogram()
	var clients sync.WaitGroup
	up := i.fleet.Up()
	for k := range up {
		id := up[k].ID
		clients.Go(func() {
			for range insideCalls {
				req := kmsg.NewPtrMetadataRequest()
				req.SetVersion(9)
				req.Topics = []kmsg.MetadataRequestTopic{}
				start := time.Now()
				if _, err := i.fleet.Call(ctx, id, req); err != nil {
					return // the record says why, and it is counted as lost
				}
				took := time.Since(start)
				mu.Lock()
				_ = all.RecordValue(took.Microseconds()) // a call's time-out is below what the histogram holds
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return all
}

// atLimit measures at the limit that the run has come to, and the rates that are set.
func (r *run) atLimit(ctx context.Context) {
	v := &r.result.Verdict
	a := &AtLimit{Before: report.NewLatency("request inside, before", r.inside.before)}
	if waits := v.Kind == EndLimit && (v.Limit == nil || !v.Limit.rate()) && len(v.Failures) > 0 && waited(&v.Failures[0]); waits {
		if err := r.admission(ctx, a); err != nil {
			r.unknown("what happens at the limit: " + err.Error())
		}
	} else {
		a.During = report.NewLatency("request inside, at the end", r.inside.calls(ctx))
	}
	a.Lost = r.inside.fleet.Progress().Failed
	if r.rateLimit() != nil || r.ipRate() != nil {
		rate, err := r.rates(ctx)
		if err != nil {
			r.unknown("accuracy of the rate: " + err.Error())
		}
		a.Rate = rate
	}
	r.result.AtLimit = a
}

// admission lets clients wait, and frees slots one by one.
func (r *run) admission(ctx context.Context, a *AtLimit) error {
	r.doing("at the limit", 0)
	queue, err := fleet.New(time.Minute)
	if err != nil {
		return err
	}
	defer queue.Close() //nolint:errcheck // what it measured is in a
	plan, err := r.ownPlan(waiters)
	if err != nil {
		return err
	}
	plan.Parallel = waiters
	waiting, stop := context.WithCancel(ctx)
	opened := make(chan error, 1)
	go func() { opened <- queue.Add(waiting, plan) }()
	defer func() {
		stop()
		<-opened //nolint:errcheck // that it was stopped
	}()
	// Those that gave up during the ramp fill the accept queue. One slot is enough for them to go through, each in its turn.
	if _, err = closeOne(r.inside.fleet); err != nil {
		return err
	}
	if err := queued(ctx, queue); err != nil {
		return err
	}
	a.Waiting = queue.Stats().Connected - queue.UpCount()
	a.During = report.NewLatency("request inside, clients waiting", r.inside.calls(ctx))
	admitted := fleet.NewHistogram()
	for range a.Waiting {
		took, err := r.freeOne(ctx, queue)
		if err != nil {
			return err
		}
		if took == 0 {
			a.NotSeen++
		} else {
			_ = admitted.RecordValue(took.Microseconds()) // bounded by the time-out
		}
		if a.NotSeen > 1 {
			break
		}
	}
	a.Refused = queue.Progress().Failed
	if admitted.TotalCount() > 0 {
		a.Admission = new(report.NewLatency("slot free to first response", admitted))
	}
	return nil
}

// queued waits until all clients of queue are connected and one of them was let in, or as many as come within a time.
func queued(ctx context.Context, queue *fleet.Fleet) error {
	ctx, cancel := context.WithTimeout(ctx, 2*admissionTimeout)
	defer cancel()
	const least = 2
	_ = until(ctx, func() bool { return queue.UpCount() > 0 && queue.Stats().Connected == waiters }) // it is looked at below
	if s := queue.Stats(); s.Connected < least {
		return fmt.Errorf("%d of %d clients that were to wait got as far as the accept queue", s.Connected, waiters)
	}
	return nil
}

// closeOne closes one connection of f and returns when.
func closeOne(f *fleet.Fleet) (time.Time, error) {
	closed := false
	start := time.Now()
	n, err := f.CloseWhere(func(fleet.Record) bool {
		first := !closed
		closed = true
		return first
	}, fleet.FIN)
	if err == nil && n == 0 {
		err = errors.New("no connection is left to be closed")
	}
	return start, err
}

// freeOne closes a connection and returns after how long a client of queue had its first answer; 0: none had.
func (r *run) freeOne(ctx context.Context, queue *fleet.Fleet) (time.Duration, error) {
	before := map[int]bool{}
	up := queue.Up()
	for i := range up {
		before[up[i].ID] = true
	}
	source := queue // who was let in a moment ago makes room for the next
	if len(before) == 0 {
		source = r.inside.fleet
	}
	start, err := closeOne(source)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	var took time.Duration
	err = until(ctx, func() bool {
		if queue.UpCount() == 0 {
			return false
		}
		now := queue.Up()
		for i := range now {
			if !before[now[i].ID] {
				took = now[i].Started.Add(now[i].First).Sub(start)
				return true
			}
		}
		return false
	})
	if err != nil && ctx.Err() == nil {
		return 0, err
	}
	return took, nil
}

// until looks every millisecond whether is has become true.
func until(ctx context.Context, is func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
