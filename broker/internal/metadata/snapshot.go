package metadata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// A snapshot is an image in a topic of its own: some parts and then an end, each a Kafka record.
//
//	part = format(0) 0 writer number offset index count record…
//	end  = format(0) 1 writer number offset parts epoch marks mark… last size
//	writer = node incarnation
//	mark   = node incarnation sequence
//	last   = offset first bytes
//
// number tells the attempts of one writer apart. What is in a part are records as in an entry: put into an empty image
// unchecked, they make it what it was. A snapshot whose end or one of whose parts is missing is none.
const (
	snapshotFormat = 0
	snapshotPart   = 0
	snapshotEnd    = 1
)

// partSize is how long a part is, or a little more, and batchSize how much is written at once.
const (
	partSize  = 1 << 20
	batchSize = 4 << 20
)

// snapshotEvery is how much there may be in a log since its last snapshot before the next is made. What is as large as the
// snapshot itself is no trouble to read either.
type snapshotEvery struct {
	entries int64
	bytes   int64 // if the last one was not larger
}

// snapshotMark is the last snapshot that the log knows of.
type snapshotMark struct {
	offset int64 // of the next entry after it
	first  int64 // of its first part in the topic of snapshots
	bytes  int64
}

// snapshotTaken says in the log that a snapshot is complete. Whoever wrote it may then take away older snapshots, and of the
// log what came before the last of them. So it is refused when it is not later than the last: else one broker could take away
// parts of the snapshot that another relies on.
type snapshotTaken struct {
	Offset, First, Bytes int64
}

func (b *builder) checkSnapshot(r snapshotTaken) *RejectedError {
	if r.Offset > b.snapshot.offset && r.First >= b.snapshot.first {
		return nil
	}
	return &RejectedError{Record: r, Detail: fmt.Sprintf("there is one of entry %d", b.snapshot.offset), Err: ErrInvalid}
}

func (b *builder) putSnapshot(r snapshotTaken) {
	if b.journal {
		snapshot, size := b.snapshot, b.size
		b.undo = append(b.undo, func() { b.snapshot, b.size = snapshot, size })
	}
	b.snapshot, b.size = snapshotMark{offset: r.Offset, first: r.First, bytes: r.Bytes}, 0
}

// snapshotID tells snapshots apart.
type snapshotID struct {
	node        int32
	incarnation int64
	number      uint64
	offset      int64
}

func (w *writer) snapshotHead(kind byte, id snapshotID) {
	w.b = append(w.b, snapshotFormat, kind)
	w.varint(int64(id.node))
	w.varint(id.incarnation)
	w.uvarint(id.number)
	w.varint(id.offset)
}

// considerSnapshot begins a snapshot when it is time for one and it is this broker's task. Called by the goroutine that
// applies, so that image and rules are of one offset.
func (s *Store) considerSnapshot() {
	image := s.Image()
	if image.offset-image.snapshot.offset < s.every.entries && image.size < max(s.every.bytes, image.snapshot.bytes) {
		return
	}
	if !s.takesSnapshots(image) || !s.snapshotting.CompareAndSwap(false, true) {
		return
	}
	if time.Now().Before(s.nextSnapshot) {
		s.snapshotting.Store(false)
		return
	}
	s.snapshotNumber++
	id := snapshotID{node: s.node, incarnation: s.incarnation, number: s.snapshotNumber, offset: image.offset}
	rules := s.acls.Select(acl.AnyFilter())
	s.work.Go(func() {
		defer s.snapshotting.Store(false)
		began := time.Now()
		err := s.takeSnapshot(s.done, id, image, rules)
		var rejected *RejectedError
		switch {
		case s.done.Err() != nil:
		case errors.As(err, &rejected): // another broker was faster
		case err != nil:
			s.nextSnapshot = time.Now().Add(snapshotPause)
			s.slog.Warn("snapshot of the metadata log failed", slog.Int64("offset", id.offset), slog.Any("error", err))
		default:
			s.slog.Info("took snapshot of the metadata log", slog.Int64("offset", id.offset), slog.Duration("took", time.Since(began)))
		}
	})
}

// snapshotPause is how long after one that failed another is tried.
const snapshotPause = 10 * time.Second

// takesSnapshots tells whether that is this broker's task: the live one with the lowest id has it. A process that has only the id of
// that one, and may never be let in, would have the log take the other's changes for those of the past.
func (s *Store) takesSnapshots(image *Image) bool {
	brokers := image.Brokers()
	for _, b := range brokers {
		if !b.Fenced {
			m := s.member.Load()
			return m != nil && b.ID == s.node && b.Incarnation == m.incarnation && !s.Fenced()
		}
	}
	return len(brokers) == 0 // alone, or nobody has joined yet
}

// takeSnapshot writes a snapshot, tells the log, and then shortens the log. It may end at any point: what it has written is
// of no use then, or the next snapshot shortens the log.
func (s *Store) takeSnapshot(ctx context.Context, id snapshotID, image *Image, rules []acl.Binding) error {
	w := snapshotWriter{ctx: ctx, log: s.log, id: id, first: -1}
	for r := range image.records() {
		w.add(r)
	}
	for _, rule := range rules {
		w.add(AddACL{Binding: rule})
	}
	w.endPart()
	w.flush()
	s.stage("parts written")
	w.end(image)
	w.flush()
	if w.err != nil {
		return w.err
	}
	s.stage("end written")
	if err := s.Append(ctx, snapshotTaken{Offset: id.offset, First: w.first, Bytes: w.size}); err != nil {
		return err
	}
	s.stage("log told")
	// What came since the snapshot before stays for brokers that are a little behind; and a topic without any entry could
	// begin again at 0 (kfake does, after a start).
	if err := s.log.kafka.deleteBefore(ctx, s.log.topic, image.snapshot.offset); err != nil {
		return err
	}
	s.stage("log shortened")
	return s.log.kafka.deleteBefore(ctx, s.log.snapshots(), w.first)
}

// snapshotWriter writes a snapshot part by part, until something goes wrong.
type snapshotWriter struct {
	ctx   context.Context
	log   *topicLog
	id    snapshotID
	first int64 // offset of the first part
	size  int64 // of all that is written
	parts uint64
	err   error

	body   writer // records of the part in progress
	count  uint64
	one    writer // a record
	values [][]byte
	bytes  int // of values
}

func (w *snapshotWriter) add(r Record) {
	if w.err != nil {
		return
	}
	appendOne(&w.body, &w.one, r)
	w.count++
	if len(w.body.b) >= partSize {
		w.endPart()
	}
}

func (w *snapshotWriter) endPart() {
	if w.count == 0 {
		return
	}
	var v writer
	v.b = make([]byte, 0, len(w.body.b)+64)
	v.snapshotHead(snapshotPart, w.id)
	v.uvarint(w.parts)
	v.uvarint(w.count)
	v.b = append(v.b, w.body.b...)
	w.parts++
	w.body.b, w.count = w.body.b[:0], 0
	w.put(v.b)
}

func (w *snapshotWriter) end(image *Image) {
	var v writer
	v.snapshotHead(snapshotEnd, w.id)
	v.uvarint(w.parts)
	v.varint(image.epoch)
	v.uvarint(uint64(len(image.writers)))
	for node, mark := range image.writers {
		v.varint(int64(node))
		v.varint(mark.incarnation)
		v.uvarint(mark.sequence)
	}
	v.varint(image.snapshot.offset)
	v.varint(image.snapshot.first)
	v.varint(image.snapshot.bytes)
	v.varint(image.size)
	w.put(v.b)
}

func (w *snapshotWriter) put(value []byte) {
	w.values = append(w.values, value)
	if w.bytes += len(value); w.bytes >= batchSize {
		w.flush()
	}
}

// flush writes what is there. One that several brokers share may be out of reach for a moment.
func (w *snapshotWriter) flush() {
	for w.err == nil && len(w.values) > 0 {
		base, err := w.log.kafka.produce(w.ctx, w.log.snapshots(), w.values, produceTimeout)
		switch {
		case err == nil:
			if w.first < 0 {
				w.first = base
			}
			w.size += int64(w.bytes)
			w.values, w.bytes = w.values[:0], 0
		case w.ctx.Err() != nil || w.log.remote == nil || !temporary(err):
			w.err = err
		default:
			pause(w.ctx, retryPause)
		}
	}
}

// snapshot is one that is complete, as it was read.
type snapshot struct {
	snapshotID

	parts    [][]byte // counts and records
	epoch    int64
	writers  map[int32]writerMark
	previous snapshotMark
	size     int64
}

// snapshotReader finds the last complete snapshot among the records of the topic.
type snapshotReader struct {
	pending map[int32]*pendingSnapshot // by node: a later attempt tells that an earlier one was given up
	last    *snapshot
}

type pendingSnapshot struct {
	snapshotID

	parts map[uint64][]byte
}

// latestSnapshot reads the last complete snapshot; nil when there is none.
func (l *topicLog) latestSnapshot(ctx context.Context) (*snapshot, error) {
	for {
		s, err := l.readSnapshots(ctx)
		if l.remote != nil && errors.Is(err, kerr.OffsetOutOfRange) && ctx.Err() == nil {
			continue // another broker has just made a new one and taken away what we read
		}
		return s, err
	}
}

func (l *topicLog) readSnapshots(ctx context.Context) (*snapshot, error) {
	at, err := l.kafka.offset(ctx, l.snapshots(), atStart)
	if err != nil {
		return nil, err
	}
	end, err := l.kafka.offset(ctx, l.snapshots(), atEnd)
	if err != nil {
		return nil, err
	}
	read := snapshotReader{pending: map[int32]*pendingSnapshot{}}
	for at < end {
		records, _, err := l.kafka.fetch(ctx, l.snapshots(), at, pollWait)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			at = r.Offset + 1
			if err := read.record(r.Value); err != nil {
				return nil, final{fmt.Errorf("metadata snapshot record %d: %w", r.Offset, err)}
			}
		}
	}
	return read.last, nil
}

func (s *snapshotReader) record(value []byte) error {
	r := reader{b: value}
	format, kind := r.byte(), r.byte()
	id := snapshotID{node: r.int32(), incarnation: r.varint(), number: r.uvarint(), offset: r.varint()}
	switch {
	case r.bad:
		return errMalformed
	case format != snapshotFormat || kind != snapshotPart && kind != snapshotEnd:
		return fmt.Errorf("%w: snapshot format %d, kind %d", ErrUnknownRecord, format, kind)
	}
	p := s.pending[id.node]
	if p == nil || p.snapshotID != id {
		p = &pendingSnapshot{snapshotID: id, parts: map[uint64][]byte{}}
		s.pending[id.node] = p
	}
	index := r.uvarint()
	if kind == snapshotPart {
		p.parts[index] = r.b
		return nil
	}
	delete(s.pending, id.node)
	if uint64(len(p.parts)) != index || s.last != nil && s.last.offset >= id.offset {
		return nil
	}
	found := &snapshot{snapshotID: id, epoch: r.varint(), writers: map[int32]writerMark{}}
	for i := range index {
		part, ok := p.parts[i]
		if !ok {
			return nil
		}
		found.parts = append(found.parts, part)
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		node := r.int32()
		found.writers[node] = writerMark{incarnation: r.varint(), sequence: r.uvarint()}
	}
	found.previous = snapshotMark{offset: r.varint(), first: r.varint(), bytes: r.varint()}
	found.size = r.varint()
	if r.bad || len(r.b) > 0 {
		return errMalformed
	}
	s.last = found
	return nil
}

// restore makes an empty builder what the snapshot says. Its rules go to keep, some at a time.
func (b *builder) restore(s *snapshot, keep func([]acl.Binding)) error {
	var rules []acl.Binding
	var scratch writer
	for n, part := range s.parts {
		records, err := decodeRecords(part)
		if err != nil {
			return final{fmt.Errorf("metadata snapshot of entry %d, part %d: %w", s.offset, n, err)}
		}
		rules = rules[:0]
		for _, r := range records {
			switch r := r.(type) {
			case AddACL:
				rules = append(rules, r.Binding)
				b.rules.add(digestOf(&scratch, r))
			case RegisterBroker:
				b.putBroker(r.Broker)
			default:
				b.put(r)
			}
		}
		keep(rules)
	}
	b.offset, b.epoch, b.writers, b.snapshot, b.size = s.offset, s.epoch, s.writers, s.previous, s.size
	return nil
}

// reload replaces the image by a later one, from a snapshot: the log does not go back to where the store has come to.
func (s *Store) reload(ctx context.Context) error {
	from := s.Image().offset
	snapshot, err := s.log.latestSnapshot(ctx)
	if err != nil {
		return err
	}
	if snapshot == nil || snapshot.offset <= from {
		return errShortened(from)
	}
	b := newBuilder(emptyImage(), s.acls)
	wanted := map[acl.Binding]struct{}{}
	err = b.restore(snapshot, func(rules []acl.Binding) {
		for _, r := range rules {
			wanted[r] = struct{}{}
		}
	})
	if err != nil {
		return err
	}
	s.replaceRules(wanted)
	s.slog.Warn("metadata was read anew from a snapshot: the log was shortened meanwhile",
		slog.Int64("from", from), slog.Int64("to", snapshot.offset))
	err = s.publish(b.image(), true)
	s.settleReloaded(b.writers[s.node])
	return err
}

// errShortened is a log that does not go back far enough. It may be that another broker has just made a snapshot.
func errShortened(from int64) error {
	return fmt.Errorf("metadata log has no entry %d any more, and no snapshot is as new", from)
}

// replaceRules changes the index in such an order that whatever is allowed meanwhile was allowed before and will be after.
func (s *Store) replaceRules(wanted map[acl.Binding]struct{}) {
	var add, remove [2][]acl.Binding // denying, allowing
	kind := func(r acl.Binding) int {
		if r.Permission == acl.Allow {
			return 1
		}
		return 0
	}
	for r := range wanted {
		add[kind(r)] = append(add[kind(r)], r)
	}
	for r := range s.acls.All() {
		if _, ok := wanted[r]; !ok {
			remove[kind(r)] = append(remove[kind(r)], r)
		}
	}
	s.acls.Add(add[0]...)
	s.acls.Remove(remove[1]...)
	s.acls.Remove(remove[0]...)
	s.acls.Add(add[1]...)
}

// settleReloaded answers those whose changes were judged in entries that this store has not read.
func (s *Store) settleReloaded(mark writerMark) {
	s.mu.Lock()
	var judged []uint64
	for sequence := range s.waiting {
		if mark.incarnation > s.incarnation || mark.incarnation == s.incarnation && sequence <= mark.sequence {
			judged = append(judged, sequence)
		}
	}
	s.mu.Unlock()
	for _, sequence := range judged {
		s.settle(sequence, ErrVerdictLost)
	}
}
