// Package engine is the broker's data plane behind one narrow door: topics, records, groups and transactions.
//
// An [Engine] is opened once and gives each front-door connection a [Client]. A request passes the guard, which
// resolves topic ids, checks record batches, bounds what a request may ask for and answers itself what the data plane
// would get wrong; then it leases a link to the data plane for as long as the request is unanswered and a moment
// longer; its answer is corrected where the data plane differs from Kafka, and given to the caller's function.
//
// Authorization is not done here, addresses in answers are the front door's to fill in, and nothing that the data
// plane can't take ever reaches it: a panic in there would end the broker.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Options say how an [Engine] is opened.
type Options struct {
	// Dir holds topics and records; empty keeps everything in memory.
	Dir string
	// NodeID is node.id: the only node that the engine's answers name.
	NodeID int32
	// ClusterID is what Metadata and DescribeCluster answer. A Dir that belongs to another cluster is not opened.
	ClusterID string
	// SyncWrites makes each batch durable before it is acknowledged (log.flush.interval.messages=1).
	// Without it an acknowledged record survives the end of the process, not of the machine.
	SyncWrites bool
	// DefaultPartitions is num.partitions; 0 means 1.
	DefaultPartitions int
	// MaxPartitions bounds the partitions of all topics together: each that has records holds two files open. 0 means
	// an eighth of the files that this process may open, and any number without Dir.
	MaxPartitions int
	// BrokerConfigs are Kafka broker properties that the data plane obeys; see [Obeys]. Others are an error.
	BrokerConfigs map[string]string
	// Log gets the engine's own lines; nil drops them.
	Log *slog.Logger
	// Remote is where the data plane is when it is not in this process; of the others only NodeID and Log mean anything
	// then. nil: it is in this process.
	Remote *Remote

	// hosted are the addresses of the nodes 1, 2 … of a data plane that serves several brokers, see [Listen].
	hosted []net.Addr
}

// VersionRange is the versions of one API that can be served, both ends included.
type VersionRange struct{ Min, Max int16 }

// Engine is an open data plane. Safe for concurrent use.
type Engine struct {
	nodeID            int32
	nodes             []int32 // of the data plane in this process
	defaultPartitions int
	maxPartitions     int // 0: any number
	// separateController tells that topics are made over links of their own, see [kfakePlane].
	separateController bool

	plane    plane
	remote   *remotePlane // the same as plane, where that is somewhere else
	leases   leases
	hosted   map[int32]*leases // those of each node, where there are several
	topics   topics
	batches  batches
	windows  windows
	groups   groupConfigs
	policies policies
	rules    map[int16]rule
	versions atomic.Pointer[map[int16]VersionRange]

	dir       *dataDir // nil without Options.Dir
	recovered bool     // Open succeeded: a stop after that is clean
	closeOnce sync.Once
	closeErr  error
}

// Open starts the data plane and recovers what Options.Dir holds. It reads every segment that was written to since
// the last clean stop. A data plane that is somewhere else is waited for until ctx ends.
func Open(ctx context.Context, o Options) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := checkOptions(&o); err != nil {
		return nil, err
	}
	if o.Remote != nil {
		return openRemote(ctx, &o)
	}
	e := &Engine{
		nodeID:             o.NodeID,
		nodes:              []int32{o.NodeID},
		defaultPartitions:  max(o.DefaultPartitions, 1),
		maxPartitions:      o.MaxPartitions,
		separateController: o.NodeID != 0,
		rules:              rules(),
	}
	if o.Dir != "" {
		dir, err := openDataDir(o.Dir, o.ClusterID, o.Log)
		if err != nil {
			return nil, err
		}
		e.dir = dir
		if e.maxPartitions == 0 {
			e.maxPartitions = partitionsByFiles()
		}
	}
	plane, err := startKfake(o)
	if err != nil {
		return nil, errors.Join(err, e.dir.release())
	}
	e.plane = plane
	e.leases.open, e.leases.linger, e.leases.maxIdle = plane.open, linger, maxIdleLinks
	if len(o.hosted) > 0 {
		e.host(plane)
	}
	err = e.learn(ctx)
	if err == nil && len(o.hosted) > 0 {
		e.placeAll()
	}
	if err == nil && e.dir != nil {
		err = e.restore(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.recovered = true
	return e, nil
}

// restore brings back what the data plane does not keep itself.
func (e *Engine) restore(ctx context.Context, o Options) error {
	e.windows.load(e.dir.windows, e.topics.id)
	e.dir.windows = nil
	if err := e.abortOrphans(ctx, e.dir.orphans, o.Log); err != nil {
		return fmt.Errorf("abort the transactions that were open: %w", err)
	}
	if err := e.groups.load(o.Dir); err != nil {
		return err
	}
	if err := e.restoreGroupConfigs(ctx); err != nil {
		return fmt.Errorf("restore group configs: %w", err)
	}
	return nil
}

// learn asks the data plane what it can do and which topics it has.
func (e *Engine) learn(ctx context.Context) error {
	offers := kmsg.NewPtrApiVersionsRequest()
	offers.SetVersion(0)
	resp, err := e.ask(ctx, offers)
	if err != nil {
		return fmt.Errorf("ask the data plane for its versions: %w", err)
	}
	has, _ := resp.(*kmsg.ApiVersionsResponse)
	e.versions.Store(new(e.offer(has)))

	all := kmsg.NewPtrMetadataRequest()
	all.SetVersion(12)
	resp, err = e.ask(ctx, all)
	if err != nil {
		return fmt.Errorf("ask the data plane for its topics: %w", err)
	}
	metadata, _ := resp.(*kmsg.MetadataResponse)
	for i := range metadata.Topics {
		if t := &metadata.Topics[i]; t.Topic != nil && t.ErrorCode == 0 {
			e.topics.add(*t.Topic, t.TopicID, len(t.Partitions))
		}
	}
	return nil
}

// ask makes one unguarded request and waits for its answer.
func (e *Engine) ask(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return askOver(ctx, func() (link, error) { return e.plane.open(false) }, req)
}

func askOver(ctx context.Context, open func() (link, error), req kmsg.Request) (kmsg.Response, error) {
	type outcome struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan outcome, 1)
	sendOver(open, lessee{}, req, func(resp kmsg.Response, err error) { got <- outcome{resp, err} })
	select {
	case o := <-got:
		return o.resp, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sendOver makes one unguarded request over a link of its own.
func sendOver(open func() (link, error), from lessee, req kmsg.Request, answer func(kmsg.Response, error)) {
	l, err := open()
	if err != nil {
		go answer(nil, err)
		return
	}
	l.send(from, req, func(resp kmsg.Response, err error) {
		l.close()
		answer(resp, err)
	})
}

// Close answers what is in flight with an error, saves the state and ends every goroutine of the engine.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		e.leases.close()
		for _, l := range e.hosted {
			l.close()
		}
		e.closeErr = e.plane.close()
		if e.closeErr == nil && e.recovered {
			e.closeErr = e.dir.markClean()
		}
		e.closeErr = errors.Join(e.closeErr, e.dir.release())
	})
	return e.closeErr
}

// Versions tells what [Client.Do] can serve; the map is the caller's. A key that is absent is refused. Those of a data
// plane somewhere else may change: [Remote].Changed is called then.
func (e *Engine) Versions() map[int16]VersionRange { return maps.Clone(*e.versions.Load()) }

// Client returns the engine for one front-door connection from remote, which group members are described with.
func (e *Engine) Client(remote netip.AddrPort, clientID string) *Client {
	return &Client{engine: e, leases: &e.leases, from: lessee{remote: remote, clientID: clientID, passing: true}}
}

// TopicName resolves a topic id, without blocking. Of a data plane somewhere else it knows what it last saw; who wants to know
// more asks it for the id.
func (e *Engine) TopicName(id [16]byte) (string, bool) { return e.topics.name(id) }

// TopicID resolves a topic name, without blocking. Of a data plane somewhere else it knows what it last saw, and looks again soon
// when it does not know a name.
func (e *Engine) TopicID(name string) ([16]byte, bool) {
	id, ok := e.topics.id(name)
	if !ok && e.remote != nil {
		e.remote.lookForTopic()
	}
	return id, ok
}

// TopicChanges counts how often a topic came or went: as long as it is the same, so are [Engine.TopicNames].
func (e *Engine) TopicChanges() uint64 {
	e.topics.mu.RLock()
	defer e.topics.mu.RUnlock()
	return e.topics.changes
}

// TopicNames lists the topics, in no order.
func (e *Engine) TopicNames() []string { return e.topics.all() }

// Partitions is how many partitions a topic has; 0 where there is none of that name.
func (e *Engine) Partitions(topic string) int { return e.topics.size(topic) }

// LogDir is the directory that the records are in, as clients are told it; "" where they are somewhere else.
func (e *Engine) LogDir() string {
	if e.remote != nil {
		return ""
	}
	path, _, _ := e.dir.disk()
	return path
}
