package metadata

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Options are what a store needs to know.
type Options struct {
	// Dir is the folder of the log. "" keeps it in memory.
	Dir string
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
	// Log says what the store did. nil is silence.
	Log *slog.Logger
}

// newClusterLevel is 4.4-IV2, the level that Kafka 4.4 gives to a new cluster.
const newClusterLevel = 33

// maxGroup is how many changes one batch may hold.
const maxGroup = 4096

// Store holds the image and appends to the log. It is safe for concurrent use.
//
// Two goroutines work for it: one writes waiting changes to the log, as many as there are in one batch; one reads the
// log, applies it and answers those who wait.
type Store struct {
	node        int32
	incarnation int64
	log         *topicLog
	slog        *slog.Logger
	image       atomic.Pointer[Image]
	quotas      func(*Image)
	acls        *acl.Index
	queue       chan *change

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
	encoded []byte     // its records
	verdict chan error // buffered: whoever gives the verdict does not wait
}

// Open opens the log, or makes a new one, and returns once the image holds everything that was ever acknowledged.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.QuotasChanged == nil {
		o.QuotasChanged = func(*Image) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	began := time.Now()
	log, err := openLog(o.Dir, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Store{
		node:    o.NodeID,
		acls:    acl.NewIndex(),
		quotas:  o.QuotasChanged,
		log:     log,
		slog:    o.Log,
		queue:   make(chan *change),
		waiting: map[uint64]*change{},
		failed:  make(chan struct{}),
	}
	s.done, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.close = sync.OnceValue(func() error {
		s.end(ErrClosed)
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
	if err := s.replay(ctx); err != nil {
		return err
	}
	image := s.Image()
	// Later than every incarnation before it, even when the clock has been set back.
	s.incarnation = max(time.Now().UnixNano(), image.writers[s.node].incarnation+1)
	s.work.Go(s.appendLoop)
	s.work.Go(s.applyLoop)
	switch {
	case image.clusterID == "":
		return s.bootstrap(ctx, o)
	case o.ClusterID != "" && o.ClusterID != image.clusterID:
		return fmt.Errorf("metadata log belongs to cluster %s, not to %s", image.clusterID, o.ClusterID)
	}
	return nil
}

// replay applies the whole log.
func (s *Store) replay(ctx context.Context) error {
	b := newBuilder(emptyImage(), s.acls)
	end, err := s.log.end(ctx)
	if err != nil {
		return err
	}
	for b.offset < end {
		records, err := s.log.poll(ctx)
		if err != nil {
			return err
		}
		for _, r := range records {
			if _, _, _, err := b.step(r.Offset, r.Value); err != nil {
				return err
			}
		}
	}
	image := b.image()
	s.image.Store(image)
	s.quotas(image)
	return nil
}

func (s *Store) bootstrap(ctx context.Context, o Options) error {
	id := o.ClusterID
	if id == "" {
		id = newClusterID()
	}
	first := o.Bootstrap
	if first == nil {
		first = []Record{SetFeature{Name: MetadataVersion, Level: newClusterLevel}}
	}
	if err := s.Append(ctx, append([]Record{setCluster{ID: id}}, first...)...); err != nil {
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
	c := &change{encoded: appendRecords(nil, records), verdict: make(chan error, 1)}
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

// Update appends what admit makes of the image. When the image has changed meanwhile so that a rule refuses the change,
// admit is asked again; when it admits the same although nothing has changed, the refusal is the answer. An error of
// admit is returned as it is, and no records are no change.
func (s *Store) Update(ctx context.Context, admit func(*Image) ([]Record, error)) error {
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
		values := make([][]byte, len(group))
		first := sequence + 1
		for i, c := range group {
			sequence++
			head := entry{node: s.node, incarnation: s.incarnation, sequence: sequence}
			values[i] = append(head.appendHead(make([]byte, 0, len(c.encoded)+longestHead)), c.encoded...)
		}
		if !s.expect(first, group) {
			return
		}
		if err := s.log.append(s.done, values); err != nil {
			for i := range group {
				s.settle(first+uint64(i), err)
			}
		}
	}
}

// gather adds to c the changes that wait already.
func (s *Store) gather(c *change) []*change {
	group, size := []*change{c}, len(c.encoded)
	for len(group) < maxGroup && size < maxEntry {
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
func (s *Store) expect(first uint64, group []*change) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range group {
		if s.err != nil {
			c.verdict <- s.err
			continue
		}
		s.waiting[first+uint64(i)] = c
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
		records, err := s.log.poll(s.done)
		if s.done.Err() != nil {
			return
		}
		if err != nil {
			s.fail(err)
			return
		}
		verdicts, err := s.applyAll(records)
		for sequence, verdict := range verdicts {
			s.settle(sequence, verdict)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// applyAll makes records part of the image and returns the verdicts on changes of this store. After an error the image
// and the verdicts are those of the records before.
func (s *Store) applyAll(records []*kgo.Record) (map[uint64]error, error) {
	verdicts := make(map[uint64]error, len(records))
	b := newBuilder(s.Image(), s.acls)
	defer func() {
		image := b.image()
		s.image.Store(image)
		if b.quotasChanged {
			s.quotas(image)
		}
	}()
	for _, r := range records {
		e, repeated, rejected, err := b.step(r.Offset, r.Value)
		switch {
		case err != nil:
			return verdicts, err
		case repeated || e.node != s.node || e.incarnation != s.incarnation:
		case rejected != nil:
			verdicts[e.sequence] = rejected
		default:
			verdicts[e.sequence] = nil
		}
	}
	return verdicts, nil
}

// step applies the entry at offset.
func (b *builder) step(offset int64, value []byte) (e *entry, repeated bool, rejected *RejectedError, err error) {
	if offset != b.offset {
		return nil, false, nil, fmt.Errorf("metadata log has no entry %d: the next one is %d", b.offset, offset)
	}
	if e, err = decodeEntry(value); err != nil {
		return nil, false, nil, fmt.Errorf("metadata entry %d: %w", offset, err)
	}
	b.offset++
	repeated, rejected = b.apply(e)
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
