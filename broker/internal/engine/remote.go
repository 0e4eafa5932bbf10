package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/brokerlab/brokerlab/broker/internal/wire"
)

// Remote is a data plane somewhere else: any cluster that speaks Kafka's protocol. The engine is the face of its node
// [Options].NodeID, and asks nobody else but for addresses.
type Remote struct {
	// Seeds are addresses, host:port, at which the cluster is asked for the others.
	Seeds []string
	// Dial makes a connection, TLS and all, as kgo's dialer does; nil makes plain TCP connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// SASL authenticates each connection, and again before its session ends; nil: nobody asks for it.
	SASL sasl.Mechanism
	// Hidden tells which topics clients never see; nil hides none.
	Hidden func(topic string) bool
	// Changed is called on a goroutine of its own when [Engine.Versions] have changed.
	Changed func()

	patience time.Duration // how long an answer about topics may take before the far end is taken to be gone; 0: lookPatience
}

const (
	// lookEvery is how often the far end is asked for its topics and nodes. Many topics are asked for less often.
	lookEvery = 5 * time.Second
	// lookAgainAfter is how soon it is asked again when a topic is not known.
	lookAgainAfter = 200 * time.Millisecond
	// lookPatience is how long an answer to that may take before the far end is taken to be gone.
	lookPatience = 15 * time.Second
	// dialPatience bounds a connection's way up to its first request.
	dialPatience = 10 * time.Second
	// backOff is the least and mostBackOff the most time between two attempts to find a far end that is gone.
	backOff     = 100 * time.Millisecond
	mostBackOff = 2 * time.Second

	// tellAfter is how long a first attempt to find it may take before its reason is told.
	tellAfter = 2 * time.Second

	// maxIdleRemote bounds the connections that wait for a lessee, idleLife how long they do: an idle client costs none.
	maxIdleRemote = 128
	idleLife      = 30 * time.Second
	// maxDialling bounds the connections that are being made at once.
	maxDialling = 64
	// maxWaiting bounds the bytes of the requests that are on their way or wait for an answer.
	maxWaiting = 256 << 20
)

// Sign is the feature by which a data plane of ours says in ApiVersions that it is one; logSign says that it is there for a metadata
// log alone.
const (
	Sign    = "brokerlab.engine"
	logSign = "brokerlab.metadata"
)

// reach is what is known of the far end while it is there. It is not changed.
type reach struct {
	address string   // of our node
	others  []string // those of the others
	cluster string
	nodes   []int32
	kafka   bool
}

// members takes in which nodes there are, and tells the address of ours; "" where it is none of them.
func (r *reach) members(metadata *kmsg.MetadataResponse, ours int32) (address string) {
	r.nodes, r.others = nil, nil
	for _, b := range metadata.Brokers {
		r.nodes = append(r.nodes, b.NodeID)
		at := net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
		if b.NodeID == ours {
			address = at
		} else {
			r.others = append(r.others, at)
		}
	}
	slices.Sort(r.nodes)
	return address
}

// remotePlane is a data plane somewhere else. One goroutine looks after it: it finds our node, follows versions, topics and
// addresses, and says when it is gone. Everything else fails fast then.
type remotePlane struct {
	nodeID int32
	o      *Remote
	log    *slog.Logger
	// learnt takes in what the far end offers and has, before anybody can use it.
	learnt func(*kmsg.ApiVersionsResponse)
	follow func(*kmsg.MetadataResponse)

	reach    atomic.Pointer[reach] // nil: gone
	last     atomic.Pointer[reach] // what it was last; nil before the first time
	why      atomic.Pointer[string]
	seen     atomic.Pointer[outline] // what topics were when they were last asked for
	waiting  atomic.Int64            // bytes of requests without an answer
	dialling chan struct{}
	frames   wire.Buffers
	bodies   wire.Buffers
	pipes    pipes

	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	first  chan struct{} // closed when the far end was reached for the first time

	mu      sync.Mutex
	links   map[*tcpLink]struct{}
	waiters map[*waiter]struct{}
	gone    sync.WaitGroup // one for each open link
	down    bool
	watcher *remoteConn // waits for the next look; nil while it does not
	looked  time.Time
	took    time.Duration // how long the last look took
	again   bool          // look before it is time
}

var _ plane = (*remotePlane)(nil)

// openRemote waits until the far end was reached, or ctx ends.
func openRemote(ctx context.Context, o *Options) (*Engine, error) {
	if len(o.Remote.Seeds) == 0 {
		return nil, errors.New("an engine somewhere else needs an address")
	}
	e := &Engine{nodeID: o.NodeID, rules: remoteRules()}
	e.topics.hidden = o.Remote.Hidden
	e.versions.Store(new(map[int16]VersionRange{}))
	p := &remotePlane{
		nodeID: o.NodeID, o: o.Remote, log: o.Log, learnt: e.offered, follow: e.topics.follow,
		dialling: make(chan struct{}, maxDialling), first: make(chan struct{}), links: map[*tcpLink]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.plane, e.remote = p, p
	e.leases.open, e.leases.linger, e.leases.maxIdle, e.leases.life = p.open, linger, maxIdleRemote, idleLife
	p.done.Go(p.watch)
	if err := p.await(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.recovered = true
	return e, nil
}

// await waits until the far end was reached, and says meanwhile, once for each reason, why it was not.
func (p *remotePlane) await(ctx context.Context) error {
	tick := time.NewTicker(tellAfter)
	defer tick.Stop()
	told, at := "", strings.Join(p.o.Seeds, ",")
	for {
		select {
		case <-p.first:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("reach node %d of the engine at %s: %s", p.nodeID, at, p.because())
		case <-tick.C:
		}
		if why := p.because(); why != told {
			told = why
			p.log.Warn("waiting for the engine", slog.Int("node", int(p.nodeID)), slog.String("at", at), slog.String("error", why))
		}
	}
}

// offered takes in what the far end offers now.
func (e *Engine) offered(has *kmsg.ApiVersionsResponse) {
	now := e.offer(has)
	before := *e.versions.Swap(&now)
	if changed := e.remote.o.Changed; changed != nil && len(before) > 0 && !equalVersions(before, now) {
		go changed()
	}
}

func equalVersions(a, b map[int16]VersionRange) bool {
	if len(a) != len(b) {
		return false
	}
	for key, v := range a {
		if w, ok := b[key]; !ok || v != w {
			return false
		}
	}
	return true
}

// Remote tells whether the data plane is somewhere else: answers name its nodes then, not only NodeID.
func (e *Engine) Remote() bool { return e.remote != nil }

// Kafka tells whether the data plane is somebody else's: then its faults are its own.
func (e *Engine) Kafka() bool {
	r := e.lastReach()
	return r != nil && r.kafka
}

// ClusterID is the cluster's id as a data plane somewhere else tells it; "" of one in this process.
func (e *Engine) ClusterID() string {
	if r := e.lastReach(); r != nil {
		return r.cluster
	}
	return ""
}

// Nodes are the nodes of the data plane that are there, by id, as they were last seen.
func (e *Engine) Nodes() []int32 {
	if r := e.lastReach(); r != nil {
		return slices.Clone(r.nodes)
	}
	return slices.Clone(e.nodes)
}

// Available tells whether requests can be made now, and if not, why.
func (e *Engine) Available() error {
	if e.remote == nil || e.remote.reach.Load() != nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, e.remote.because())
}

func (e *Engine) lastReach() *reach {
	if e.remote == nil {
		return nil
	}
	return e.remote.last.Load()
}

func (p *remotePlane) because() string {
	if why := p.why.Load(); why != nil {
		return *why
	}
	return "no answer yet"
}

// open makes a link to our node: Kafka's nodes, and ours, pass on themselves what the controller is to do.
func (p *remotePlane) open(bool) (link, error) {
	r := p.reach.Load()
	if r == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, p.because())
	}
	l := &tcpLink{plane: p, reach: r}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, ErrClosed
	}
	p.links[l] = struct{}{}
	p.gone.Add(1)
	return l, nil
}

func (*remotePlane) unsaved() uint64 { return 0 }

func (p *remotePlane) forget(l *tcpLink) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	p.gone.Done()
}

func (p *remotePlane) close() error {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.cancel()
	p.wakeWaiters()
	p.wake()
	p.done.Wait()
	p.hangUp(ErrClosed)
	p.gone.Wait()
	p.pipes.close()
	return nil
}

// hangUp ends every link; err answers what they have in flight.
func (p *remotePlane) hangUp(err error) {
	p.mu.Lock()
	left := make([]*tcpLink, 0, len(p.links))
	for l := range p.links {
		left = append(left, l)
	}
	p.mu.Unlock()
	for _, l := range left {
		l.shut(err)
	}
}

// lookAgain has the far end asked for its topics soon.
func (p *remotePlane) lookAgain() {
	p.mu.Lock()
	soon := p.watcher != nil && !p.again && time.Since(p.looked) >= lookAgainAfter
	p.again = p.again || soon
	p.mu.Unlock()
	if soon {
		p.wake()
	}
}

// lookForTopic does so where a topic is not known, which any client can make up: where there are many topics, seldom.
func (p *remotePlane) lookForTopic() {
	const seldom = 10
	p.mu.Lock()
	early := time.Since(p.looked) < seldom*p.took
	p.mu.Unlock()
	if !early {
		p.lookAgain()
	}
}

// wake ends the watcher's wait.
func (p *remotePlane) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watcher != nil {
		_ = p.watcher.conn.SetReadDeadline(time.Now())
	}
}

// watch finds the far end, looks at it until it is gone, and begins anew, until the plane is closed.
func (p *remotePlane) watch() {
	wait := backOff
	for p.ctx.Err() == nil {
		c, err := p.find()
		if err == nil {
			wait = backOff
			err = p.look(c)
			_ = c.conn.Close()
		}
		if p.ctx.Err() != nil {
			return
		}
		p.lost(err)
		select {
		case <-p.ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, mostBackOff)
	}
}

// lost makes everything fail fast.
func (p *remotePlane) lost(err error) {
	why := err.Error()
	p.why.Store(&why)
	if p.reach.Swap(nil) != nil {
		p.log.Warn("the engine cannot be reached", slog.Int("node", int(p.nodeID)), slog.Any("error", err))
		p.hangUp(fmt.Errorf("%w: %s", ErrUnavailable, why))
	}
}

// find asks the addresses that are known for our node's, connects to it and learns what it offers.
func (p *remotePlane) find() (*remoteConn, error) {
	addresses := p.o.Seeds
	if last := p.last.Load(); last != nil {
		addresses = distinct(slices.Concat([]string{last.address}, addresses, last.others), same)
	}
	var errs []error
	for _, address := range addresses {
		c, err := p.findAt(address)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address, err))
	}
	return nil, errors.Join(errs...)
}

func (p *remotePlane) findAt(address string) (_ *remoteConn, err error) {
	c, err := p.connect(p.ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && c != nil { // nil: the node itself could not be reached, and the first connection is closed
			_ = c.conn.Close()
		}
	}()
	offers, err := p.offers(c)
	if err != nil {
		return nil, err
	}
	if signed(offers, logSign) {
		return nil, errors.New("it holds a metadata log and no topics: it is for metadata.bootstrap.servers")
	}
	metadata, err := p.metadata(c)
	if err != nil {
		return nil, err
	}
	found := reach{cluster: deref(metadata.ClusterID)}
	found.address = found.members(metadata, p.nodeID)
	last := p.last.Load()
	if last != nil {
		if last.cluster != found.cluster {
			return nil, fmt.Errorf("the cluster is %s, but was %s", found.cluster, last.cluster)
		}
		p.hear(metadata) // who leads now is told, though our own node may be away
	}
	if found.address == "" {
		return nil, fmt.Errorf("the cluster has no node %d now, only %d: node.id has to be that of one of its nodes", p.nodeID, found.nodes)
	}
	if found.address != address {
		_ = c.conn.Close()
		if c, err = p.connect(p.ctx, found.address); err != nil {
			return nil, fmt.Errorf("node %d at %s: %w", p.nodeID, found.address, err)
		}
		if offers, err = p.offers(c); err == nil {
			metadata, err = p.metadata(c)
		}
		if err != nil {
			return nil, fmt.Errorf("node %d at %s: %w", p.nodeID, found.address, err)
		}
	}
	found.kafka = !signed(offers, Sign)
	p.reached(&found, offers, metadata)
	return c, nil
}

// signed tells whether a node says that it has a feature.
func signed(offers *kmsg.ApiVersionsResponse, feature string) bool {
	return slices.ContainsFunc(offers.SupportedFeatures, func(f kmsg.ApiVersionsResponseSupportedFeature) bool { return f.Name == feature })
}

// reached lets the far end be used.
func (p *remotePlane) reached(found *reach, offers *kmsg.ApiVersionsResponse, metadata *kmsg.MetadataResponse) {
	p.learnt(offers)
	p.hear(metadata)
	known := p.last.Swap(found) != nil
	before := p.reach.Swap(found)
	p.wakeWaiters()
	switch {
	case !known:
		close(p.first)
		fallthrough
	case before == nil:
		p.log.Info("reached the engine", slog.Int("node", int(p.nodeID)), slog.String("address", found.address),
			slog.String("cluster_id", found.cluster), slog.Bool("kafka", found.kafka))
	case before.address != found.address:
		p.log.Info("the engine's node has moved", slog.Int("node", int(p.nodeID)), slog.String("address", found.address))
	}
}

// look asks for topics and nodes again and again, until an error tells that the far end is gone.
func (p *remotePlane) look(c *remoteConn) error {
	every := lookEvery
	for {
		if err := p.pause(c, every); err != nil {
			return err
		}
		begin := time.Now()
		metadata, err := p.metadata(c)
		if err != nil {
			return err
		}
		took := time.Since(begin)
		p.mu.Lock()
		p.took = took
		p.mu.Unlock()
		every = max(lookEvery, 20*took)
		p.hear(metadata)
		if err := p.moved(metadata); err != nil {
			return err
		}
	}
}

// hear takes in what topics there are.
func (p *remotePlane) hear(metadata *kmsg.MetadataResponse) {
	p.follow(metadata)
	p.seen.Store(newOutline(metadata.Topics))
}

// moved follows which nodes there are. An error tells that ours is somewhere else now.
func (p *remotePlane) moved(metadata *kmsg.MetadataResponse) error {
	now := *p.reach.Load()
	address := now.members(metadata, p.nodeID)
	if address != "" && address != now.address {
		return fmt.Errorf("node %d has moved to %s", p.nodeID, address)
	}
	if last := p.last.Load(); !slices.Equal(now.nodes, last.nodes) || !slices.Equal(now.others, last.others) {
		p.last.Store(&now)
	}
	return nil
}

// pause waits until it is time to look again. It notices at once when the far end hangs up.
func (p *remotePlane) pause(c *remoteConn, d time.Duration) error {
	p.mu.Lock()
	p.looked = time.Now()
	p.watcher, p.again = c, false
	err := c.conn.SetReadDeadline(p.looked.Add(d))
	p.mu.Unlock()
	if err == nil && p.ctx.Err() == nil {
		_, err = c.read.Peek(1)
	}
	p.mu.Lock()
	p.watcher = nil
	p.mu.Unlock()
	var timeout net.Error
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case err == nil:
		return errors.New("it answered what it was not asked")
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil
	}
	return fmt.Errorf("the engine hung up: %w", err)
}

func (p *remotePlane) metadata(c *remoteConn) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = c.metadata, false
	resp, err := p.askConn(c, req)
	if err != nil {
		return nil, fmt.Errorf("ask for its topics: %w", err)
	}
	metadata, _ := resp.(*kmsg.MetadataResponse)
	return metadata, nil
}

// Metadata tells topic ids from a version that Kafka has since 2.8.
const (
	metadataIDs  = 10
	metadataMost = 12
)

// offers asks a node what it can do: first in the version that names all features, which Kafka has since 3.9.
func (p *remotePlane) offers(c *remoteConn) (*kmsg.ApiVersionsResponse, error) {
	for _, version := range []int16{4, 3, 0} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "brokerlab", "1"
		resp, err := p.askConn(c, req)
		if err != nil {
			return nil, fmt.Errorf("ask for its versions: %w", err)
		}
		offers, _ := resp.(*kmsg.ApiVersionsResponse)
		switch offers.ErrorCode {
		case 0:
			for _, k := range offers.ApiKeys {
				if k.ApiKey == kmsg.Metadata.Int16() {
					c.metadata = min(metadataMost, k.MaxVersion)
				}
			}
			if c.metadata < metadataIDs {
				return nil, errors.New("it is older than Kafka 2.8: it has no topic ids")
			}
			return offers, nil
		case kerr.UnsupportedVersion.Code:
		default:
			return nil, fmt.Errorf("ask for its versions: %w", kerr.ErrorForCode(offers.ErrorCode))
		}
	}
	return nil, errors.New("ask for its versions: it knows none of ours")
}

// askConn makes one request over the watcher's connection.
func (p *remotePlane) askConn(c *remoteConn, req kmsg.Request) (kmsg.Response, error) {
	if err := c.conn.SetDeadline(time.Now().Add(cmp.Or(p.o.patience, lookPatience))); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(p.ctx, func() { _ = c.conn.SetDeadline(time.Now()) })
	defer stop()
	if err := p.renew(p.ctx, c); err != nil {
		return nil, err
	}
	return c.ask(req)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
