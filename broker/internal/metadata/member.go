package metadata

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// JoinOptions are Kafka's broker.heartbeat.interval.ms and broker.session.timeout.ms.
type JoinOptions struct {
	Heartbeat time.Duration // between two signs of life
	Session   time.Duration // without any, a broker is fenced
}

// member is a broker in its cluster. It gives signs of life, looks for those of the others, and fences who gives none.
//
// A sign of life is a record in a topic of its own, and whoever reads it notes by its own clock when. A broker that is
// cut off reads nothing and can write nothing, so it fences nobody but itself: it counts from when it sent the last sign of
// life that was acknowledged, so that it is done before anybody else. A sign alone does not do: who gives it has to read the
// log, too, or it would go on by old rules for as long as the signs get through.
type member struct {
	store *Store
	kafka *kafka // of its own: a heartbeat never waits for a large change
	topic string
	JoinOptions

	id          int32
	incarnation string
	ctx         context.Context // until stop
	stop        func()          // ends the signs of life
	work        sync.WaitGroup
	kick        chan struct{} // wakes run
	fenced      atomic.Bool

	mu     sync.Mutex  // guards what follows
	self   Broker      // as it wants to be registered
	alive  *time.Timer // ends with the session
	silent bool        // the session is over
	cut    time.Time   // when it last was
	quiet  bool        // that it is fenced is nobody's news: it has not joined yet, or is leaving

	// Owned by whoever plays a round: Join, then run.
	position int64              // of the next heartbeat to read; -1 is the end
	seen     map[sign]time.Time // the last sign of life
	listened time.Time          // when heartbeats were last read
}

// sign is whom a sign of life is of.
type sign struct {
	id    int32
	epoch int64
}

// Join registers the broker and keeps it alive until [Store.Leave] or Close: it gives signs of life, registers again when
// it was fenced and has caught up, and fences others that give none. It returns when the broker is registered; while an
// earlier incarnation of it counts as alive it waits for the end of that one's session. [ErrLevel] says that the broker
// cannot work at the cluster's metadata.version.
func (s *Store) Join(ctx context.Context, b Broker, o JoinOptions) error {
	switch {
	case s.log.remote == nil:
		return errors.New("join cluster: the metadata log is private")
	case b.ID != s.node:
		return fmt.Errorf("join cluster: broker %d with the store of broker %d", b.ID, s.node)
	case o.Heartbeat <= 0 || o.Session <= o.Heartbeat:
		return fmt.Errorf("join cluster: a session of %v with a heartbeat each %v", o.Session, o.Heartbeat)
	}
	k, err := s.log.remote.connect()
	if err != nil {
		return fmt.Errorf("join cluster: %w", err)
	}
	m := &member{
		store: s, kafka: k, topic: s.log.heartbeats(), JoinOptions: o,
		id: b.ID, incarnation: b.Incarnation,
		kick: make(chan struct{}, 1), self: b, quiet: true,
		position: -1, seen: map[sign]time.Time{},
	}
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithCancel(s.done)
	m.stop = sync.OnceFunc(func() {
		cancel()
		m.alive.Stop()
		m.work.Wait()
		m.kafka.client.Close()
	})
	m.fenced.Store(true)
	m.alive = time.AfterFunc(o.Session, m.expired)
	if !s.member.CompareAndSwap(nil, m) {
		m.stop()
		return errors.New("join cluster: this broker has joined already")
	}
	k.follow(s.log.kafka)
	if err := m.join(ctx); err != nil {
		s.member.Store(nil)
		m.stop()
		return fmt.Errorf("join cluster: %w", err)
	}
	m.work.Go(m.run)
	return nil
}

// join plays rounds until the broker is registered.
func (m *member) join(ctx context.Context) error {
	var why error // of the last round that had all the time it wanted
	for {
		err := m.round(ctx)
		if err == nil && !m.fenced.Load() {
			m.mu.Lock()
			m.quiet = false
			m.mu.Unlock()
			return nil
		}
		if errors.Is(err, ErrLevel) || errors.Is(err, ErrInvalid) || m.store.done.Err() != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), cmp.Or(why, err))
		}
		if why == nil && err != nil {
			m.store.slog.Warn("waiting to join the cluster", slog.Any("error", err))
		}
		why = err
		pause(ctx, min(m.Heartbeat, time.Second))
	}
}

// run plays rounds, one a heartbeat interval or as soon as something has happened to the registration.
func (m *member) run() {
	tick := time.NewTicker(m.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.kick:
		case <-m.ctx.Done():
			return
		}
		err := m.round(m.ctx)
		if m.ctx.Err() != nil {
			return
		}
		var rejected *RejectedError
		switch {
		case errors.As(err, &rejected), errors.Is(err, ErrDuplicateBroker): // tried again next time
			m.store.slog.Warn("the cluster does not take this broker", slog.Any("error", err))
		case err != nil:
			m.store.link.missed(beating, err)
		default:
			m.store.link.heard(beating)
		}
	}
}

// round gives a sign of life, reads those of the others and does what follows from them.
func (m *member) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.Session/3) // the way may be another one next time
	defer cancel()
	sent := time.Now()
	if err := m.reads(ctx); err != nil {
		return err
	}
	me, registered := m.registration()
	if err := m.beat(ctx, me, registered); err != nil {
		return err
	}
	if err := m.fenceSilent(ctx, registered); err != nil {
		return err
	}
	m.mu.Lock()
	self := m.self
	m.mu.Unlock()
	known := registered && me.says(self)
	if known && !m.fenced.Load() {
		if read := m.store.link.current(); read.Before(sent) {
			sent = read
		}
		m.acknowledged(sent)
		return nil
	}
	if err := m.catchUp(ctx); err != nil {
		return err
	}
	if !known {
		if err := m.register(ctx, self); err != nil {
			return err
		}
	}
	m.acknowledged(sent)
	return nil
}

// reads waits for the log to be read when that was too long ago: a broker that lives by its signs alone is to be fenced by the others, too.
func (m *member) reads(ctx context.Context) error {
	for {
		silence := time.Since(m.store.link.current())
		if silence < m.Session {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no sign of life without the metadata log, which was not read for %v: %w", silence.Round(time.Second), ctx.Err())
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// beat gives a sign of life, if the broker is registered, and reads those of the others. Their topic holds nothing that would be
// missed: when it alone is gone, and the log is still there, it is made anew.
func (m *member) beat(ctx context.Context, me Broker, registered bool) error {
	var err error
	if registered {
		value := binary.AppendVarint(binary.AppendVarint([]byte{0}, int64(me.ID)), me.Epoch)
		_, err = m.kafka.produce(ctx, m.topic, [][]byte{value}, m.Session/3)
	}
	if err == nil {
		err = m.listen(ctx)
	}
	if !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.UnknownTopicID) && !errors.As(err, new(final)) {
		return err
	}
	m.kafka.forget(m.store.log.topic)
	if _, err := m.kafka.leader(ctx, m.store.log.topic); err != nil {
		return err
	}
	m.kafka.renounce(m.topic)
	m.position = -1
	if failed := m.store.log.makeTopic(ctx, m.store.slog, m.topic, heartbeatSettings()); failed != nil {
		return failed
	}
	return fmt.Errorf("topic %s is another one than before", m.topic)
}

func (m *member) register(ctx context.Context, self Broker) error {
	if other, ok := m.store.Image().live(m.id); ok && other.Incarnation != m.incarnation { // the log would refuse it, and keep the attempt
		return fmt.Errorf("broker %d %w: %s", m.id, ErrDuplicateBroker, other.Incarnation)
	}
	return m.store.Append(ctx, RegisterBroker{Broker: self})
}

// registration is the broker's own, if it is registered in this incarnation and not fenced.
func (m *member) registration() (Broker, bool) {
	b, ok := m.store.Image().live(m.id)
	return b, ok && b.Incarnation == m.incarnation
}

// listen reads the heartbeats that there are.
func (m *member) listen(ctx context.Context) error {
	if time.Since(m.listened) > m.Session/2 {
		clear(m.seen) // nobody knows who was silent meanwhile
	}
	for {
		if m.position < 0 {
			end, err := m.kafka.offset(ctx, m.topic, atEnd)
			if err != nil {
				return err
			}
			m.position = end
		}
		records, end, err := m.kafka.fetch(ctx, m.topic, m.position, 0)
		if errors.Is(err, kerr.OffsetOutOfRange) { // they are kept for minutes only
			m.position = -1
			continue
		}
		if err != nil {
			return err
		}
		now := time.Now()
		for _, r := range records {
			m.position = r.Offset + 1
			body := reader{b: r.Value}
			format, id, epoch := body.byte(), body.int32(), body.varint()
			if format == 0 && !body.bad {
				m.seen[sign{id, epoch}] = now
			}
		}
		if m.position >= end || len(records) == 0 {
			m.listened = now
			return nil
		}
	}
}

// fenceSilent fences brokers that have given no sign of life for a session. The live one with the lowest id does so first,
// the others when it has not after half a session more; an earlier incarnation of its own is the broker's own to fence. That is all
// it fences until it is registered itself: another may live that has its id.
func (m *member) fenceSilent(ctx context.Context, registered bool) error {
	now := time.Now()
	known := map[sign]time.Time{}
	lowest := m.id
	var live []Broker
	for _, b := range m.store.Image().Brokers() {
		if b.Fenced || b.ID == m.id && b.Incarnation == m.incarnation {
			continue
		}
		who := sign{b.ID, b.Epoch}
		last, ok := m.seen[who]
		if !ok {
			last = now // its session begins when it is first missed
		}
		known[who] = last
		live = append(live, b)
		if now.Sub(last) < m.Session {
			lowest = min(lowest, b.ID)
		}
	}
	m.seen = known
	patience := m.Session
	if lowest != m.id {
		patience += m.Session / 2
	}
	for _, b := range live {
		silence, most := now.Sub(known[sign{b.ID, b.Epoch}]), patience
		switch {
		case b.ID == m.id:
			most = m.Session
		case !registered:
			continue
		}
		if silence < most {
			continue
		}
		if err := m.fence(ctx, b, silence); err != nil {
			return err
		}
	}
	return nil
}

// fence fences a broker, unless somebody else has.
func (m *member) fence(ctx context.Context, b Broker, silence time.Duration) error {
	err := m.store.Append(ctx, FenceBroker{ID: b.ID, Epoch: b.Epoch})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err == nil:
		m.store.slog.Warn("fenced a broker that gave no sign of life", slog.Int("broker", int(b.ID)), slog.Duration("silent", silence))
	}
	return err
}

// catchUp waits until the image holds all that the log has now, and the log was read since the broker was cut off from it.
func (m *member) catchUp(ctx context.Context) error {
	m.mu.Lock()
	cut := m.cut
	m.mu.Unlock()
	m.kafka.forget(m.store.log.topic) // whoever is asked for the end has to be the log's own cluster
	end, err := m.kafka.offset(ctx, m.store.log.topic, atEnd)
	if err != nil {
		return err
	}
	for m.store.Image().offset < end || m.store.link.lastRead().Before(cut) {
		if ctx.Err() != nil {
			return fmt.Errorf("metadata log has entries up to %d and %d are applied, last read %v ago: %w",
				end, m.store.Image().offset, time.Since(m.store.link.lastRead()).Round(time.Millisecond), ctx.Err())
		}
		pause(ctx, 10*time.Millisecond)
	}
	return nil
}

// acknowledged begins a new session at the time when a sign of life was sent. Where one was over, the log has to have been read since, too.
func (m *member) acknowledged(sent time.Time) {
	m.mu.Lock()
	rest := m.Session - time.Since(sent)
	if rest <= 0 || m.silent && m.store.link.lastRead().Before(m.cut) {
		m.mu.Unlock()
		return
	}
	m.silent = false
	m.alive.Reset(rest)
	m.mu.Unlock()
	m.judge()
}

// expired is called when a session is over.
func (m *member) expired() {
	m.mu.Lock()
	m.silent, m.cut = true, time.Now()
	m.mu.Unlock()
	m.judge()
}

// judge finds out whether the broker is fenced, and says so when that has changed.
func (m *member) judge() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, registered := m.registration()
	fenced := m.silent || !registered
	if m.fenced.Swap(fenced) == fenced || m.quiet {
		return
	}
	if !registered {
		select {
		case m.kick <- struct{}{}:
		default:
		}
	}
	switch {
	case !fenced:
		m.store.slog.Info("this broker is not fenced any more")
	case !registered:
		m.store.slog.Warn("this broker is fenced: the cluster's metadata says so")
	default:
		m.store.slog.Warn("this broker is fenced: no heartbeat was acknowledged for a session", slog.Duration("session", m.Session))
	}
}

// Reregister changes what the cluster knows of this broker, such as its listeners. While the broker is fenced, and after an
// error, the change holds once the log can be written again.
func (s *Store) Reregister(ctx context.Context, b Broker) error {
	m := s.member.Load()
	if m == nil {
		return errors.New("register broker again: it has not joined a cluster")
	}
	m.mu.Lock()
	b.ID, b.Incarnation = m.id, m.incarnation
	m.self = b
	_, registered := m.registration()
	m.mu.Unlock()
	if !registered {
		return nil
	}
	if err := s.Append(ctx, RegisterBroker{Broker: b}); err != nil {
		return fmt.Errorf("register broker again: %w", err)
	}
	return nil
}

// Leave ends what Join began: the broker gives no sign of life any more and is fenced at once.
func (s *Store) Leave(ctx context.Context) error {
	m := s.member.Load()
	if m == nil {
		return nil
	}
	m.mu.Lock()
	m.quiet = true // what becomes of it is nobody's news
	m.mu.Unlock()
	m.stop()
	b, registered := m.registration()
	if !registered {
		return nil
	}
	if err := s.Append(ctx, FenceBroker{ID: b.ID, Epoch: b.Epoch}); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("leave cluster: %w", err)
	}
	return nil
}
