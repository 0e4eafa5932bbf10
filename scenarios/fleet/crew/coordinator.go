package crew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// Coordinator gives out the work of one run. Its methods may not be called at the same time.
type Coordinator struct {
	*meeting

	run  string          // its member id
	turn []int32         // the partitions in the order in which they get shares: one of each worker, then another of each
	life context.Context //nolint:containedctx // of what reads and looks in the background
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex // guards the rest
	shares []*given
	names  map[string]string // of workers, by member id
	events chan struct{}     // closed and made anew when somebody has taken a share
}

// given is a share from the coordinator's side.
type given struct {
	number    int // from 1 on
	partition int32
	holder    string // member id; "" until somebody has taken it
	worker    string // the holder's name
	out       *conduit
	next      int64
	over      chan struct{} // closed when its worker has said the end, or is lost
}

// Gather waits until it is the coordinator at the topic, and until so many workers are there and every partition is assigned. The
// run's shares are not offered yet; Close ends it all.
func Gather(ctx context.Context, o Options, workers int) (*Coordinator, error) {
	m, err := meet(ctx, o, o.coordinators(), o.reports())
	if err != nil {
		return nil, fmt.Errorf("come to topic %s: %w", o.Topic, err)
	}
	c := &Coordinator{meeting: m, names: map[string]string{}, events: make(chan struct{})}
	c.life, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := c.gather(ctx, workers); err != nil {
		c.stop()
		m.close() //nolint:contextcheck // it bounds itself
		return nil, err
	}
	c.done.Go(c.listen)
	c.done.Go(c.watch)
	return c, nil
}

func (c *Coordinator) gather(ctx context.Context, workers int) error {
	told := ""
	say := func(text string) error {
		if text != told {
			c.say("%s", text)
			told = text
		}
		return errors.New(text)
	}
	if err := await(ctx, func() error { return c.lead(ctx, say) }); err != nil {
		return err
	}
	return await(ctx, func() error { return c.muster(ctx, workers, say) })
}

// lead has no error once this is the coordinator.
func (c *Coordinator) lead(ctx context.Context, say func(string) error) error {
	if c.owns(0) {
		c.run = c.id()
		return nil
	}
	g, err := c.group(ctx, c.coordinators())
	if err != nil {
		return err
	}
	for i := range g.Members {
		if other := &g.Members[i]; other.MemberID != c.id() && len(partitionsOf(other, c.reports())) > 0 {
			return say(fmt.Sprintf("topic %s has a coordinator: %s; waiting for its end", c.Topic, other.ClientID))
		}
	}
	return errors.New("the group of coordinators is not settled")
}

// muster has no error once so many workers are there and their group is settled.
func (c *Coordinator) muster(ctx context.Context, workers int, say func(string) error) error {
	g, err := c.group(ctx, c.workers())
	if err != nil {
		return err
	}
	if n := len(g.Members); n < workers {
		return say(fmt.Sprintf("%d of %d workers are at topic %s; waiting", n, workers, c.Topic))
	}
	if g.State != "Stable" {
		return errors.New("the group of workers is not settled: " + g.State)
	}
	var has [][]int32
	for i := range g.Members {
		c.names[g.Members[i].MemberID] = g.Members[i].ClientID
		has = append(has, partitionsOf(&g.Members[i], c.Topic))
	}
	c.turn = inTurn(has)
	return nil
}

// inTurn puts what several have in an order in which each comes once before any comes twice.
func inTurn(has [][]int32) (all []int32) {
	for n, more := 0, true; more; n++ {
		more = false
		for _, partitions := range has {
			if n < len(partitions) {
				all, more = append(all, partitions[n]), true
			}
		}
	}
	return all
}

// Workers are the names of those that were there when the run began, sorted.
func (c *Coordinator) Workers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, name := range c.names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Shares is how many shares there can be: the partitions of the topic.
func (c *Coordinator) Shares() int { return len(c.turn) }

// offerAgain is how long an offer waits for somebody who takes it: the group may have been about to assign the partition anew.
const offerAgain = 2 * time.Second

// Give gives n shares out, each to a partition, and returns when all are taken, or the error that ctx ended before. The workers behind
// it are in the order of shares; a worker may have several, about as many as each other. holders are their names.
func (c *Coordinator) Give(ctx context.Context, n int) (shares *fleet.Workers, holders []string, err error) {
	if n > len(c.turn) {
		return nil, nil, fmt.Errorf("%d shares: topic %s has %d partitions", n, c.Topic, len(c.turn))
	}
	c.mu.Lock()
	for i, p := range c.turn[:n] {
		c.shares = append(c.shares, &given{number: i + 1, partition: p, out: newConduit(), over: make(chan struct{})})
	}
	c.mu.Unlock()
	if err := c.offer(ctx); err != nil {
		return nil, nil, err
	}
	var pipes []fleet.Pipe
	for _, s := range c.shares {
		in := &pieces{meeting: c.meeting, ctx: c.life, topic: c.Topic, partition: s.partition, from: c.record(data, s)}
		pipes = append(pipes, fleet.Pipe{
			Name: fmt.Sprintf("share %d of %d (worker %s)", s.number, n, s.worker),
			In:   &commands{in}, Out: s.out, Wait: s.wait,
		})
		holders = append(holders, s.worker)
	}
	return fleet.NewWorkers(pipes...), holders, nil
}

func (s *given) wait(ctx context.Context) error {
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker %s does not end its share %d: %w", s.worker, s.number, ctx.Err())
	}
}

func (c *Coordinator) record(k kind, s *given) record {
	return record{kind: k, run: c.run, share: s.partition, of: int32(len(c.shares)), from: c.run, to: s.holder}
}

// commands is what goes to a worker; its end is the share's.
type commands struct{ *pieces }

// Close tells the worker that nothing follows.
func (c *commands) Close() error {
	end := c.from
	end.kind = ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), session)
	defer cancel()
	return c.send(ctx, end.write(c.topic, c.partition))
}

// offer offers what nobody has taken yet until all is taken.
func (c *Coordinator) offer(ctx context.Context) error {
	for {
		var open []*kgo.Record
		var names []string
		c.mu.Lock()
		taken := c.events
		for _, s := range c.shares {
			if s.holder == "" {
				r := c.record(offered, s)
				r.value = []byte(c.Name)
				open = append(open, r.write(c.Topic, s.partition))
				names = append(names, strconv.Itoa(s.number))
			}
		}
		c.mu.Unlock()
		if len(open) == 0 {
			return nil
		}
		if err := c.send(ctx, open...); err != nil {
			return fmt.Errorf("offer shares: %w", err)
		}
		for again := time.After(offerAgain); again != nil && !c.allTaken(); {
			select {
			case <-taken:
				c.mu.Lock()
				taken = c.events
				c.mu.Unlock()
			case <-again:
				again = nil
			case <-ctx.Done():
				return fmt.Errorf("nobody has taken the shares %s: %w", strings.Join(names, ", "), context.Cause(ctx))
			}
		}
	}
}

func (c *Coordinator) allTaken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(c.shares, func(s *given) bool { return s.holder == "" })
}

// listen reads reports until the coordinator is closed.
func (c *Coordinator) listen() {
	met := strangers{say: func(s string) { c.say("%s", s) }}
	for c.life.Err() == nil {
		fetches := c.cl.PollFetches(c.life)
		fetches.EachError(func(topic string, p int32, err error) {
			if c.life.Err() == nil {
				c.say("topic %s, partition %d: %v", topic, p, err)
			}
		})
		fetches.EachRecord(func(k *kgo.Record) {
			r, err := read(k)
			if err != nil {
				met.met(k, err)
				return
			}
			if r.run == c.run {
				c.hear(r)
			}
		})
	}
}

func (c *Coordinator) hear(r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.shares, func(s *given) bool { return s.partition == r.share })
	if i < 0 {
		return
	}
	s := c.shares[i]
	switch {
	case r.kind == taken && s.holder == "":
		s.holder, s.worker = r.from, string(r.value)
		close(c.events)
		c.events = make(chan struct{})
	case s.holder != r.from:
	case r.kind == data && r.seq == s.next:
		s.next++
		if _, err := s.out.Write(r.value); err != nil {
			s.end(err)
		}
	case r.kind == data && r.seq > s.next:
		s.end(fmt.Errorf("piece %d of its answers is missing", s.next))
	case r.kind == ended && len(r.value) > 0:
		s.end(errors.New(string(r.value)))
	case r.kind == ended:
		s.end(io.EOF)
	}
}

// end ends what comes from a share, once; the coordinator's mu is held.
func (s *given) end(err error) {
	select {
	case <-s.over:
	default:
		s.out.finish(err)
		close(s.over)
	}
}

// watch looks whether those who have shares are still in the group, and whether this is still the coordinator.
func (c *Coordinator) watch() {
	tick := time.NewTicker(look)
	defer tick.Stop()
	seen := time.Now()
	for {
		select {
		case <-c.life.Done():
			return
		case <-tick.C:
		}
		g, err := c.group(c.life, c.workers())
		switch {
		case err == nil:
			seen = time.Now()
		case time.Since(seen) > session+rebalance:
			c.endWhere(fmt.Errorf("the cluster of the topic cannot be reached: %w", err), func(*given) bool { return true })
		default:
			continue
		}
		if !c.owns(0) || c.id() != c.run {
			c.endWhere(errors.New("another coordinator has taken over"), func(*given) bool { return true })
		}
		c.endWhere(errors.New("its worker has left the group, or died"), func(s *given) bool {
			return err == nil && !slices.ContainsFunc(g.Members, func(m kadm.DescribedGroupMember) bool { return m.MemberID == s.holder })
		})
	}
}

// endWhere ends the shares that somebody has taken and match.
func (c *Coordinator) endWhere(err error, match func(*given) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shares {
		if s.holder != "" && match(s) {
			s.end(err)
		}
	}
}

// Close ends the run: what workers still hold of it they end when they notice, and the next coordinator may begin. Close what
// [Coordinator.Give] returned first.
func (c *Coordinator) Close() {
	c.stop()
	c.done.Wait()
	c.close()
}
