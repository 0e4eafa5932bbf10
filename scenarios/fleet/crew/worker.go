package crew

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// Work takes shares at the topic and holds their clients, run after run, until ctx ends, which is no error. It is one that the topic cannot
// be reached at first; later Work says so, and comes back to it. resolve makes a source from its description.
//
// The clients of a share end when its coordinator says so or leaves its group, and when this worker has been out of touch with the
// cluster for so long that it counts as lost.
func Work(ctx context.Context, o Options, resolve func(fleet.SourceSpec) (fleet.Source, error)) error {
	for came := false; ; came = true {
		m, err := meet(ctx, o, o.workers(), o.Topic)
		switch {
		case err == nil:
			err = attend(ctx, m, resolve)
		case !came && ctx.Err() == nil:
			return fmt.Errorf("come to topic %s: %w", o.Topic, err)
		}
		if ctx.Err() != nil {
			o.say("%s ends", o.Name)
			return nil //nolint:nilerr // it was told to end
		}
		o.say("topic %s: %v; coming back to it", o.Topic, err)
		select {
		case <-ctx.Done():
		case <-time.After(look):
		}
	}
}

// attend works at the topic until ctx ends, or until there is nothing to be heard there any more: the error says why.
func attend(ctx context.Context, m *meeting, resolve func(fleet.SourceSpec) (fleet.Source, error)) (why error) {
	defer m.close() //nolint:contextcheck // it bounds itself
	w := &worker{meeting: m, resolve: resolve, shares: map[held]*share{}, strangers: strangers{say: func(s string) { m.say("%s", s) }}}
	defer func() { w.dropAll(cmp.Or(why, errEnds).Error()) }()
	m.say("%s waits at topic %s", m.Name, m.Topic)
	w.touched = time.Now()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for ctx.Err() == nil {
		polled, cancel := context.WithTimeout(ctx, beat)
		fetches := m.cl.PollFetches(polled)
		cancel()
		fetches.EachError(func(topic string, p int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				m.say("topic %s, partition %d: %v", topic, p, err)
			}
		})
		fetches.EachRecord(func(k *kgo.Record) { w.hear(ctx, k) })
		select {
		case <-tick.C:
			if err := w.lookAround(ctx); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// errEnds is why shares are dropped in the end.
var errEnds = errors.New("the worker ends")

// held names a share: of which run, in which partition.
type held struct {
	run   string
	share int32
}

// share is what a worker holds of a run.
type share struct {
	in    *conduit
	as    string // the member id under which it was taken
	next  int64  // the piece that comes next
	ended chan struct{}
	stop  context.CancelFunc
}

// worker is owned by the goroutine of [Work].
type worker struct {
	*meeting

	resolve   func(fleet.SourceSpec) (fleet.Source, error)
	shares    map[held]*share
	strangers strangers
	touched   time.Time // when the cluster answered last
	refused   string    // the run whose offers were last refused, so that it is said once
}

// hear obeys one record of the topic.
func (w *worker) hear(ctx context.Context, k *kgo.Record) {
	r, err := read(k)
	if err == nil && r.share != k.Partition {
		err = fmt.Errorf("a share of partition %d", r.share)
	}
	if err != nil {
		w.strangers.met(k, err)
		return
	}
	key := held{r.run, r.share}
	s := w.shares[key]
	switch {
	case r.kind == offered:
		w.offer(ctx, r)
	case s == nil:
	case r.to != s.as: // somebody else was first
		w.drop(key, "another worker has it")
	case r.kind == ended:
		w.drop(key, "")
	case r.kind == data && r.seq == s.next:
		s.next++
		if _, err := s.in.Write(r.value); err != nil {
			w.drop(key, err.Error())
		}
	case r.kind == data && r.seq > s.next:
		w.drop(key, fmt.Sprintf("piece %d of its commands is missing", s.next))
	}
}

// offer takes a share that is in a partition of this worker, if it is from the coordinator.
func (w *worker) offer(ctx context.Context, r *record) {
	key := held{r.run, r.share}
	as := w.id()
	if as == "" || w.shares[key] != nil || !w.owns(r.share) {
		return
	}
	coordinator, err := w.coordinator(ctx, r.run)
	if err != nil {
		if w.refused != r.run {
			w.refused = r.run
			w.say("an offer of %.60q is not taken: %v", r.value, err)
		}
		return
	}
	for other := range w.shares {
		if other.run != r.run {
			w.drop(other, "another run has begun")
		}
	}
	in := newConduit()
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &share{in: in, as: as, ended: make(chan struct{}), stop: stop}
	w.shares[key] = s
	take := record{kind: taken, run: r.run, share: r.share, of: r.of, from: as, value: []byte(w.Name)}
	if err := w.send(ctx, take.write(w.reports(), 0)); err != nil {
		w.say("the share of partition %d: %v", r.share, err)
	}
	w.say("the share of partition %d, one of %d, is taken from %s", r.share, r.of, coordinator)
	out := &pieces{meeting: w.meeting, topic: w.reports(), from: record{kind: data, run: r.run, share: r.share, of: r.of, from: as}}
	go func() {
		defer close(s.ended)
		defer stop()
		out.ctx = life
		end := out.from
		end.kind = ended
		if err := fleet.Serve(life, in, out, w.resolve); err != nil && !errors.Is(err, errDropped) {
			end.value = []byte(err.Error())
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), session)
		defer cancel()
		_ = w.send(bounded, end.write(w.reports(), 0)) // the coordinator sees that this worker has gone
	}()
}

// coordinator tells who offers in a run's name: its id must be that of the group's member that has the reports.
func (w *worker) coordinator(ctx context.Context, run string) (string, error) {
	g, err := w.group(ctx, w.coordinators())
	if err != nil {
		return "", err
	}
	for i := range g.Members {
		m := &g.Members[i]
		if m.MemberID == run && slices.Contains(partitionsOf(m, w.reports()), 0) {
			return m.ClientID, nil
		}
	}
	return "", errors.New("who offers is not the coordinator")
}

// errDropped is the end of a share's commands when it is dropped.
var errDropped = errors.New("the share is dropped")

// drop ends a share and its clients.
func (w *worker) drop(key held, why string) {
	s := w.shares[key]
	delete(w.shares, key)
	if why == "" {
		s.in.finish(io.EOF)
		w.say("the share of partition %d has ended", key.share)
	} else {
		s.in.finish(fmt.Errorf("%w: %s", errDropped, why))
		s.stop()
		w.say("the share of partition %d is dropped: %s", key.share, why)
	}
}

func (w *worker) dropAll(why string) {
	var all sync.WaitGroup
	for key, s := range w.shares {
		w.drop(key, why)
		all.Go(func() { <-s.ended })
	}
	all.Wait()
}

// lookAround drops shares whose coordinator has gone, and those that others must count as lost. An error is the end of this meeting.
func (w *worker) lookAround(ctx context.Context) error {
	var g kadm.DescribedGroup
	err := w.stands(ctx)
	if err == nil && len(w.shares) > 0 {
		g, err = w.group(ctx, w.coordinators())
	}
	switch {
	case errors.Is(err, errRemade):
		return err
	case err != nil && time.Since(w.touched) > session+rebalance:
		return fmt.Errorf("its cluster cannot be reached: %w", err)
	case err != nil:
		return nil //nolint:nilerr // for a while that happens
	}
	w.touched = time.Now()
	as := w.id()
	for key, s := range w.shares {
		switch {
		case !slices.ContainsFunc(g.Members, func(m kadm.DescribedGroupMember) bool { return m.MemberID == key.run }):
			w.drop(key, "its coordinator has gone")
		case s.as != as:
			w.drop(key, "the group has missed this worker meanwhile")
		}
	}
	return nil
}

// pieces writes a stream as records.
type pieces struct {
	*meeting

	ctx       context.Context //nolint:containedctx // of the stream
	topic     string
	partition int32
	from      record // what all of its records have in common; its seq is that of the next
}

// Write returns when the cluster has b.
func (p *pieces) Write(b []byte) (int, error) {
	var all []*kgo.Record
	for part := range slices.Chunk(b, piece) {
		r := p.from
		r.value = slices.Clone(part)
		p.from.seq++
		all = append(all, r.write(p.topic, p.partition))
	}
	if err := p.send(p.ctx, all...); err != nil {
		return 0, err
	}
	return len(b), nil
}
