package connbench

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// RateAccuracy compares a rate as it is held with the rule that Kafka holds it by: a burst first, and then few until the burst has
// left the windows.
type RateAccuracy struct {
	Limit     LimitValue `json:"limit"`
	Seconds   int        `json:"seconds"`
	Clients   int        `json:"clients"`   // that connect again and again, without a pause
	Admitted  []int      `json:"admitted"`  // in each second
	Predicted []int      `json:"predicted"` // by the rule, for these clients
	// Sum and SumPredicted are over all of the time, Mean is what came through a second.
	Sum          int     `json:"sum"`
	SumPredicted int     `json:"sumPredicted"`
	Mean         float64 `json:"mean"`
	Deviation    float64 `json:"deviation"` // (Sum - SumPredicted) / SumPredicted
	Refused      int     `json:"refused"`   // connections that were held and closed: what an address' rate does
}

// rateClients is how many connect at a time while a rate is measured.
const rateClients = 8

// ipRate is the rate of the clients' addresses; nil where none is set.
func (r *run) ipRate() *LimitValue {
	for i := range r.result.Limits {
		if l := &r.result.Limits[i]; l.Name == IPCreationRate {
			return l
		}
	}
	return nil
}

// rates lets clients come and go without a pause for two rounds of the windows, after one in which none comes.
func (r *run) rates(ctx context.Context) (*RateAccuracy, error) {
	limit := r.rateLimit()
	if limit == nil {
		limit = r.ipRate()
	}
	round := time.Duration(r.windows.Samples) * r.windows.Size
	// Room: clients of the ramp hold what the limits on numbers allow.
	if err := r.closeAll(); err != nil {
		return nil, err
	}
	r.doing("waiting until the windows of the rate are empty", 0)
	// Those that gave up during the ramp are still in the accept queue, and count. Who comes after them tells when they are through.
	plan, err := r.ownPlan(1)
	if err != nil {
		return nil, err
	}
	if err = (&visits{}).visit(ctx, plan, 3*round, time.Now()); err == nil {
		err = sleep(ctx, round+r.windows.Size)
	}
	if err != nil {
		return nil, err
	}
	r.doing("measuring the rate", 0)
	a := &RateAccuracy{Limit: *limit, Clients: rateClients, Seconds: int(math.Ceil((2 * round).Seconds()))}
	came, err := r.comeAndGo(ctx, time.Duration(a.Seconds)*time.Second, limit)
	if err != nil {
		return nil, err
	}
	a.Refused = came.refused
	a.Admitted = perSecond(came.admitted, a.Seconds)
	rule := acceptorRate
	if limit.Name == IPCreationRate {
		rule = addressRate
	}
	a.Predicted = perSecond(rule(r.windows, limit.Value, rateClients, came.quickest, a.Seconds), a.Seconds)
	for i := range a.Predicted {
		a.Sum, a.SumPredicted = a.Sum+a.Admitted[i], a.SumPredicted+a.Predicted[i]
	}
	a.Mean = float64(a.Sum) / float64(a.Seconds)
	if a.SumPredicted > 0 {
		a.Deviation = float64(a.Sum-a.SumPredicted) / float64(a.SumPredicted)
	}
	return a, nil
}

// visits are connections that came and went.
type visits struct {
	sync.Mutex // guards the rest

	admitted []time.Duration // when, since the beginning
	refused  int             // closed without an answer
	quickest time.Duration   // that one took that was not held
}

// comeAndGo lets clients connect, get an answer, and begin again, until it has lasted so long.
func (r *run) comeAndGo(ctx context.Context, lasting time.Duration, limit *LimitValue) (*visits, error) {
	plan, err := r.ownPlan(1)
	if err != nil {
		return nil, err
	}
	// Where one address has a rate of its own, that is who comes.
	if addr, err := netip.ParseAddr(strings.TrimPrefix(limit.Key, IPCreationRate+" of ip ")); err == nil {
		if from := plan.Groups[0].From; from == nil || from.Namespace == "" {
			plan.Groups[0].Source = fleet.Loopback(netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lasting)
	defer cancel()
	v := &visits{quickest: lasting}
	start := time.Now()
	// Each may wait for all others, one window each: none is to give up, because its place in the queue would count.
	patience := r.o.Timeout + 2*rateClients*r.windows.Size
	var all sync.WaitGroup
	errs := make([]error, rateClients)
	for i := range rateClients {
		all.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = v.visit(ctx, plan, patience, start)
			}
		})
	}
	all.Wait()
	return v, errors.Join(errs...)
}

// visit is one connection. Its error says why clients cannot go on; that ctx ended is none.
func (v *visits) visit(ctx context.Context, plan fleet.Plan, timeout time.Duration, start time.Time) error {
	f, err := fleet.New(timeout)
	if err != nil {
		return err
	}
	if err = f.Add(ctx, plan); err != nil && ctx.Err() != nil {
		err = nil
	}
	v.Lock()
	defer v.Unlock()
	records := f.Records()
	for i := range records {
		rec := &records[i]
		switch {
		case rec.First > 0:
			v.admitted = append(v.admitted, rec.Started.Add(rec.First).Sub(start))
			v.quickest = min(v.quickest, rec.First)
		case rec.Outcome == fleet.ClosedByBroker, rec.Outcome == fleet.Reset:
			v.refused++
		}
	}
	return errors.Join(err, f.Close())
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func perSecond(times []time.Duration, seconds int) []int {
	counts := make([]int, seconds)
	for _, at := range times {
		if k := int(at / time.Second); k < seconds {
			counts[k]++
		}
	}
	return counts
}

// windows counts events as Kafka's Rate and SampledStat do (clients/.../metrics/stats).
type sampledRate struct {
	w       Windows
	samples []sampleWindow
	current int
}

type sampleWindow struct {
	start time.Duration
	count float64
}

// record counts one event at now and returns the rate with it, and over what time it is.
func (s *sampledRate) record(now time.Duration, value float64) (perSecond float64, over time.Duration) {
	if len(s.samples) == 0 {
		s.samples = append(s.samples, sampleWindow{start: now})
	}
	if now-s.samples[s.current].start >= s.w.Size {
		s.current = (s.current + 1) % s.w.Samples
		if s.current >= len(s.samples) {
			s.samples = append(s.samples, sampleWindow{})
		}
		s.samples[s.current] = sampleWindow{start: now}
	}
	s.samples[s.current].count += value
	expire := time.Duration(s.w.Samples) * s.w.Size
	oldest, sum := now, 0.0
	for i := range s.samples {
		one := &s.samples[i]
		if now-one.start >= expire {
			*one = sampleWindow{start: now}
		}
		oldest, sum = min(oldest, one.start), sum+one.count
	}
	// A young rate is taken as if it had run for all windows but the last.
	over = now - oldest
	if full, least := int(over/s.w.Size), s.w.Samples-1; full < least {
		over += time.Duration(least-full) * s.w.Size
	}
	if over <= 0 {
		over = s.w.Size
	}
	return sum / over.Seconds(), over
}

// delay is for how long a violation holds a connection, at most one window.
func (s *sampledRate) delay(perSecond, bound float64, over time.Duration) time.Duration {
	if perSecond <= bound {
		return 0
	}
	if bound == 0 {
		return s.w.Size
	}
	return min(time.Duration(math.Round((perSecond-bound)/bound*float64(over.Milliseconds())))*time.Millisecond, s.w.Size)
}

// acceptorRate is when connections are admitted by a rate that holds the acceptor, if clients connect again as soon as they were.
func acceptorRate(w Windows, bound float64, clients int, quickest time.Duration, seconds int) []time.Duration {
	s := &sampledRate{w: w}
	var admitted []time.Duration
	each := max(quickest/time.Duration(clients), time.Millisecond/10)
	for now := time.Duration(0); now < time.Duration(seconds)*time.Second; now += each {
		rate, over := s.record(now, 1)
		now += s.delay(rate, bound, over)
		if now < time.Duration(seconds)*time.Second {
			admitted = append(admitted, now)
		}
	}
	return admitted
}

// addressRate is when connections are admitted by the rate of an address, which holds them and then closes them: what was refused is
// taken out of the count again.
func addressRate(w Windows, bound float64, clients int, quickest time.Duration, seconds int) []time.Duration {
	s := &sampledRate{w: w}
	var admitted []time.Duration
	free := make([]time.Duration, clients) // when each client connects again
	for {
		next := 0
		for i := range free {
			if free[i] < free[next] {
				next = i
			}
		}
		now := free[next]
		if now >= time.Duration(seconds)*time.Second {
			return admitted
		}
		rate, over := s.record(now, 1)
		hold := s.delay(rate, bound, over)
		if hold > 0 {
			s.record(now, -1)
			free[next] = now + hold
			continue
		}
		admitted = append(admitted, now)
		free[next] = now + max(quickest, time.Millisecond/10)
	}
}
