package metadata

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Options are what a store needs to know.
type Options struct {
	// Dir is the folder of the log. "" keeps it in memory.
	Dir string
	// Remote is where the log is that several brokers share. nil is a log of this broker's own, in Dir.
	Remote *Remote
	// Supported are the levels of metadata.version that the broker works at. A log at another level is [ErrLevel].
	Supported Levels
	// NodeID is the broker that appends through this store.
	NodeID int32
	// ClusterID is the cluster's; a log that belongs to another cluster is refused. "" takes the log's own, and makes a
	// new one for a new log.
	ClusterID string
	// Bootstrap is the first change of a new log: the feature levels of a new cluster. nil is metadata.version 33
	// (4.4-IV2).
	Bootstrap []Record
	// QuotasChanged is told of each image whose quotas are others than before, and of the first, before anybody is told
	// that the change is done. It must not wait for the store. nil is nobody.
	QuotasChanged func(*Image)
	// Changed is told of every image, the first one too, before anybody is told that a change is done. It must not wait for
	// the store. nil is nobody.
	Changed func(*Image)
	// Log says what the store did. nil is silence.
	Log *slog.Logger

	every snapshotEvery // zero is what doc.go says
	stage func(string)  // told how far a snapshot is: tests end the process there
}

// Levels are those of metadata.version from Min to Max. The zero value is all there are.
type Levels struct{ Min, Max int16 }

// check refuses a level that is not among them.
func (l Levels) check(node int32, level int16) error {
	if l == (Levels{}) || level == 0 || l.Min <= level && level <= l.Max {
		return nil
	}
	return &LevelError{Feature: MetadataVersion, Level: level, Broker: node, Min: l.Min, Max: l.Max}
}

// newClusterLevel is 4.4-IV2, the level that Kafka 4.4 gives to a new cluster.
const newClusterLevel = 33

// maxGroup is how many changes one batch may hold, and maxHeads more than what is needed to tell them apart.
const (
	maxGroup = 4096
	maxHeads = maxGroup * 128
)

// Store holds the image and appends to the log. It is safe for concurrent use.
//
// Two goroutines work for it, and one more once it has joined a cluster: one writes waiting changes to the log, as many as there are in one batch; one reads the
// log, applies it and answers those who wait.
type Store struct {
	node        int32
	incarnation int64
	log         *topicLog
	slog        *slog.Logger
	image       atomic.Pointer[Image]
	moved       moves
	quotas      func(*Image)
	changed     func(*Image)
	acls        *acl.Index
	supported   Levels
	queue       chan *change
	link        link
	every       snapshotEvery
	stage       func(string)
	member      atomic.Pointer[member] // once the broker has joined

	snapshotting   atomic.Bool // one is being made: whoever sets it owns the next two
	nextSnapshot   time.Time   // not before
	snapshotNumber uint64

	mu      sync.Mutex         // guards what follows
	waiting map[uint64]*change // in the log or on the way to it, by sequence
	err     error              // why nothing can be appended any more

	stop   context.CancelFunc
	done   context.Context // cancelled by stop: the store is closed or has failed
	failed chan struct{}
	work   sync.WaitGroup
	close  func() error // ends the goroutines and closes the log, once
}

// change is an Append in progress.
type change struct {
	ctx     context.Context // of whoever waits for it
	encoded []byte          // its records
	verdict chan error      // buffered: whoever gives the verdict does not wait

	sequence uint64 // once it is on its way
	entry    []byte
}

// Open opens the log, or makes a new one, and returns once the image holds everything that was ever acknowledged.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.QuotasChanged == nil {
		o.QuotasChanged = func(*Image) {}
	}
	if o.Changed == nil {
		o.Changed = func(*Image) {}
	}
	if o.stage == nil {
		o.stage = func(string) {}
	}
	if o.every == (snapshotEvery{}) {
		o.every = snapshotEvery{entries: 100_000, bytes: 20 << 20}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	began := time.Now()
	var log *topicLog
	var err error
	if o.Remote != nil {
		log, err = openRemote(ctx, o.Remote, o.Log)
	} else {
		log, err = openPrivate(o.Dir, o.Log)
	}
	if err != nil {
		return nil, err
	}
	s := &Store{
		node:      o.NodeID,
		acls:      acl.NewIndex(),
		quotas:    o.QuotasChanged,
		changed:   o.Changed,
		supported: o.Supported,
		every:     o.every,
		stage:     o.stage,
		log:       log,
		slog:      o.Log,
		link:      link{log: o.Log},
		queue:     make(chan *change),
		waiting:   map[uint64]*change{},
		failed:    make(chan struct{}),
	}
	if o.Remote != nil {
		s.link.servers = o.Remote.Servers
	}
	s.done, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.close = sync.OnceValue(func() error {
		s.end(ErrClosed)
		if m := s.member.Load(); m != nil {
			m.stop()
		}
		s.work.Wait()
		return s.log.close()
	})
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	image := s.Image()
	o.Log.Info("metadata loaded", slog.Int64("entries", image.offset), slog.String("cluster_id", image.clusterID),
		slog.Duration("took", time.Since(began)))
	return s, nil
}

func (s *Store) start(ctx context.Context, o Options) error {
	replay := s.replay
	if s.log.remote != nil {
		replay = func(ctx context.Context) error { return s.log.untilReached(ctx, s.slog, s.replay) }
	}
	if err := replay(ctx); err != nil {
		return err
	}
	image := s.Image()
	// Later than every incarnation before it, even when the clock has been set back.
	s.incarnation = max(time.Now().UnixNano(), image.writers[s.node].incarnation+1)
	s.work.Go(s.appendLoop)
	s.work.Go(s.applyLoop)
	if image.clusterID == "" {
		if err := s.bootstrap(ctx, o); err != nil {
			return err
		}
		image = s.Image()
	}
	if o.ClusterID != "" && o.ClusterID != image.clusterID {
		return fmt.Errorf("metadata log belongs to cluster %s, not to %s", image.clusterID, o.ClusterID)
	}
	return nil
}

// replay applies the last snapshot and all of the log that comes after it.
func (s *Store) replay(ctx context.Context) error {
	s.acls.Remove(s.acls.Select(acl.AnyFilter())...) // of a try before
	b := newBuilder(emptyImage(), s.acls)
	snapshot, err := s.log.latestSnapshot(ctx)
	if err != nil {
		return err
	}
	if snapshot != nil {
		err = b.restore(snapshot, func(rules []acl.Binding) { s.acls.Add(rules...) })
	}
	if err != nil {
		return err
	}
	end, err := s.log.end(ctx)
	if err != nil {
		return err
	}
	for b.offset < end {
		records, _, err := s.log.poll(ctx, b.offset)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			return errShortened(b.offset)
		}
		if err != nil {
			return err
		}
		for _, r := range records {
			if _, _, _, err := b.step(r.Offset, r.Value); err != nil {
				return err
			}
		}
	}
	s.link.reaches(end)
	return s.publish(b.image(), true)
}

// bootstrap begins a new log. Of several stores that do at the same time, one does it for all.
func (s *Store) bootstrap(ctx context.Context, o Options) error {
	id := o.ClusterID
	if id == "" {
		id = newClusterID()
	}
	first := o.Bootstrap
	if first == nil {
		first = []Record{SetFeature{Name: MetadataVersion, Level: newClusterLevel}}
	}
	err := s.Append(ctx, append([]Record{setCluster{ID: id}}, first...)...)
	var rejected *RejectedError
	if errors.As(err, &rejected) && s.Image().clusterID != "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("begin metadata log: %w", err)
	}
	return nil
}

// newClusterID is a random id in Kafka's form: 16 bytes as base64 without padding, not beginning with a dash, which
// command lines would take for a flag.
func newClusterID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		if s := base64.RawURLEncoding.EncodeToString(id[:]); s[0] != '-' {
			return s
		}
	}
}

// Image returns the latest image. It never changes; the next call may return a newer one.
func (s *Store) Image() *Image { return s.image.Load() }

// ACLs is the index of the rules that are part of the image. It is one and the same for as long as the store is open, and
// holds an acknowledged change; what is not acknowledged yet may be in it in parts. Only the store changes it.
func (s *Store) ACLs() *acl.Index { return s.acls }

// Append makes records one change: all of them or none. It returns when the change is durable and in the image. A
// change that a rule refuses is a [*RejectedError]; after any other error the change may still come true.
func (s *Store) Append(ctx context.Context, records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	for i, r := range records {
		if err := r.validate(); err != nil {
			return &RejectedError{Index: i, Record: r, Detail: err.Error(), Err: ErrInvalid}
		}
	}
	c := &change{ctx: ctx, encoded: appendRecords(nil, records), verdict: make(chan error, 1)}
	if len(c.encoded) > maxEntry {
		return &RejectedError{
			Record: records[0], Err: ErrInvalid,
			Detail: fmt.Sprintf("the change is %d bytes long, and one may have %d", len(c.encoded), maxEntry),
		}
	}
	select {
	case s.queue <- c:
	case <-s.done.Done():
		return s.closedErr()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.verdict:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxTries bounds how often Update asks again: each time, somebody else's change has won.
const maxTries = 16

// Update appends what admit makes of an image that is not behind ([Store.CatchUp]). When the image has changed meanwhile so that a rule
// refuses the change, admit is asked again; when it admits the same although nothing has changed, the refusal is the answer. An error of
// admit is returned as it is, and no records are no change.
func (s *Store) Update(ctx context.Context, admit func(*Image) ([]Record, error)) error {
	if err := s.CatchUp(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		image := s.Image()
		records, err := admit(image)
		if err != nil {
			return err
		}
		err = s.Append(ctx, records...)
		var rejected *RejectedError
		if !errors.As(err, &rejected) || try == maxTries || s.Image().offset == image.offset {
			return err
		}
	}
}

// appendLoop writes waiting changes to the log. Those that arrive while it writes wait for the next batch together.
func (s *Store) appendLoop() {
	var sequence uint64
	for {
		var group []*change
		select {
		case c := <-s.queue:
			group = s.gather(c)
		case <-s.done.Done():
			return
		}
		for _, c := range group {
			sequence++
			head := entry{node: s.node, incarnation: s.incarnation, sequence: sequence}
			c.sequence = sequence
			c.entry = append(head.appendHead(make([]byte, 0, len(c.encoded)+longestHead)), c.encoded...)
		}
		if !s.expect(group) {
			return
		}
		s.write(group)
	}
}

// write writes a group to the log. A private log says what became of it, unless this process was stopped meanwhile. One that several
// brokers share may be out of reach for a while: then the group is written again, without the changes that nobody waits for any more, until it is
// there. That it may have been there all the time does no harm: repeated entries are known.
func (s *Store) write(group []*change) {
	for len(group) > 0 {
		values := make([][]byte, len(group))
		for i, c := range group {
			values[i] = c.entry
		}
		err := s.log.append(s.done, values)
		if s.done.Err() != nil {
			return
		}
		if err == nil {
			s.link.heard(writing)
			return
		}
		if !temporary(err) || s.log.remote == nil && !unanswered(err) {
			for _, c := range group {
				s.settle(c.sequence, err)
			}
			return
		}
		s.link.missed(writing, err)
		pause(s.done, retryPause)
		group = slices.DeleteFunc(group, func(c *change) bool {
			if err := c.ctx.Err(); err != nil {
				s.settle(c.sequence, err)
			}
			return !s.waits(c)
		})
	}
}

// waits tells whether there is no verdict on a change yet.
func (s *Store) waits(c *change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[c.sequence] == c
}

// gather adds to c the changes that wait already.
func (s *Store) gather(c *change) []*change {
	group, size := []*change{c}, len(c.encoded)
	for len(group) < maxGroup && size < maxBatch-maxEntry-maxHeads {
		select {
		case c := <-s.queue:
			group, size = append(group, c), size+len(c.encoded)
		default:
			return group
		}
	}
	return group
}

// expect registers a group, so that its verdicts find it; false when the store has ended and the group was told so.
func (s *Store) expect(group []*change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range group {
		if s.err != nil {
			c.verdict <- s.err
			continue
		}
		s.waiting[c.sequence] = c
	}
	return s.err == nil
}

// settle gives the verdict on a change of this store.
func (s *Store) settle(sequence uint64, verdict error) {
	s.mu.Lock()
	c := s.waiting[sequence]
	delete(s.waiting, sequence)
	s.mu.Unlock()
	if c != nil {
		c.verdict <- verdict
	}
}

// applyLoop reads the log and applies it, all entries that came together in one step.
func (s *Store) applyLoop() {
	for {
		records, end, err := s.log.poll(s.done, s.Image().offset)
		if s.done.Err() != nil {
			return
		}
		if err != nil {
			if err = s.missed(err); err != nil {
				s.fail(err)
				return
			}
			continue
		}
		verdicts, err := s.applyAll(records)
		s.link.reaches(end)
		s.considerSnapshot()
		for sequence, verdict := range verdicts {
			s.settle(sequence, verdict)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// missed is what becomes of the store when it cannot read its log: an error is the end of it.
func (s *Store) missed(why error) error {
	switch {
	case errors.Is(why, kerr.OffsetOutOfRange):
		return s.lost()
	case errors.As(why, new(final)), s.log.remote == nil && !unanswered(why):
		return why
	}
	s.link.missed(reading, why)
	pause(s.done, retryPause)
	return nil
}

// lost is what to do when the log does not have the entry that comes next.
func (s *Store) lost() error {
	next := s.Image().offset
	start, err := s.log.kafka.offset(s.done, s.log.topic, atStart)
	if err != nil {
		return s.missed(err)
	}
	end, err := s.log.end(s.done)
	if err != nil {
		return s.missed(err)
	}
	switch {
	case next > end:
		return fmt.Errorf("metadata log ends at %d, and this broker has applied %d entries: some were lost, or it is another log", end, next)
	case next >= start: // it was not there for a moment
		pause(s.done, retryPause)
		return nil
	}
	if err := s.reload(s.done); err != nil {
		return s.missed(err)
	}
	return nil
}

// applyAll makes records part of the image and returns the verdicts on changes of this store. After an error the image
// and the verdicts are those of the records before.
func (s *Store) applyAll(records []*kgo.Record) (verdicts map[uint64]error, err error) {
	if len(records) == 0 {
		return nil, nil
	}
	verdicts = make(map[uint64]error, len(records))
	b := newBuilder(s.Image(), s.acls)
	defer func() {
		err = errors.Join(err, s.publish(b.image(), b.quotasChanged))
	}()
	for _, r := range records {
		e, repeated, rejected, err := b.step(r.Offset, r.Value)
		switch {
		case err != nil:
			return verdicts, err
		case e.node != s.node || e.incarnation != s.incarnation:
		case repeated:
			if _, ok := verdicts[e.sequence]; !ok { // nor has anybody waited for it since an earlier verdict, if there was one
				verdicts[e.sequence] = ErrSuperseded
			}
		case rejected != nil:
			verdicts[e.sequence] = rejected
		default:
			verdicts[e.sequence] = nil
		}
	}
	return verdicts, nil
}

// publish makes an image the latest. It is an error when the broker cannot work with what it says.
func (s *Store) publish(image *Image, quotasChanged bool) error {
	s.image.Store(image)
	s.moved.move()
	if quotasChanged {
		s.quotas(image)
	}
	s.changed(image)
	if m := s.member.Load(); m != nil {
		m.judge()
	}
	if err := s.supported.check(s.node, image.Feature(MetadataVersion)); err != nil {
		return final{fmt.Errorf("metadata log: %w", err)}
	}
	return nil
}

// step applies the entry at offset.
func (b *builder) step(offset int64, value []byte) (e *entry, repeated bool, rejected *RejectedError, err error) {
	if offset != b.offset {
		return nil, false, nil, final{fmt.Errorf("metadata log has no entry %d: the next one is %d", b.offset, offset)}
	}
	if e, err = decodeEntry(value); err != nil {
		return nil, false, nil, final{fmt.Errorf("metadata entry %d: %w", offset, err)}
	}
	repeated, rejected = b.apply(e)
	b.offset++
	b.size += int64(len(value))
	return e, repeated, rejected, nil
}

// fail ends the store because of err.
func (s *Store) fail(err error) {
	s.slog.Error("metadata stops", slog.Any("error", err))
	s.end(err)
	close(s.failed)
}

// end makes err the answer to everybody who waits and to all who come.
func (s *Store) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	for sequence, c := range s.waiting {
		c.verdict <- s.err
		delete(s.waiting, sequence)
	}
	s.mu.Unlock()
	s.stop()
}

func (s *Store) closedErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Failed is closed when the store cannot go on, as after a record that it does not know; [Store.Err] says why.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is why the store cannot go on, [ErrClosed] after Close; nil while it can.
func (s *Store) Err() error { return s.closedErr() }

// Close stops the store. What was acknowledged is durable with or without it.
func (s *Store) Close() error { return s.close() }
