package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kfakePlane is franz-go's kfake in this process, reached over [memLink].
//
// Its nodes count from 0 and its controller stays the node that was there first, so that with another node.id topics
// are made over a link to node 0, whose listener outlives its node. Where it hosts several nodes, it starts with one
// more, and the last is its controller.
type kfakePlane struct {
	cluster    *kfake.Cluster
	data       *memListener   // of node.id
	controller *memListener   // of the node that kfake started with; the same as data when node.id is 0
	hosted     []*memListener // of the nodes 1, 2 … of [Options].hosted

	log *slogger

	frames sync.Pool

	mu    sync.Mutex
	links map[*memLink]struct{}
	gone  sync.WaitGroup // one for each open link
	down  bool
}

func startKfake(o Options) (*kfakePlane, error) {
	p := &kfakePlane{links: map[*memLink]struct{}{}, log: &slogger{log: o.Log}}
	p.frames.New = func() any { return new([]byte) }

	var made []*memListener
	opts := []kfake.Opt{
		kfake.NumBrokers(1 + len(o.hosted)),
		kfake.ClusterID(o.ClusterID),
		kfake.DefaultNumPartitions(max(o.DefaultPartitions, 1)),
		kfake.ListenFn(func(string, string) (net.Listener, error) {
			// kfake splits the port off to answer it; the front door answers its own.
			first := len(made) == 0
			addr := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1})
			if !first && len(o.hosted) > 0 {
				addr = o.hosted[len(made)-1]
			}
			l := newMemListener(addr, first && o.NodeID != 0 && len(o.hosted) == 0)
			made = append(made, l)
			return l, nil
		}),
		kfake.WithLogger(p.log),
	}
	if o.Dir != "" {
		opts = append(opts, kfake.DataDir(o.Dir))
	}
	if o.SyncWrites {
		opts = append(opts, kfake.SyncWrites())
	}
	if len(o.BrokerConfigs) > 0 {
		values := make(map[string]string, len(o.BrokerConfigs))
		for name, value := range o.BrokerConfigs {
			values[name] = ticking(name, value)
		}
		opts = append(opts, kfake.BrokerConfigs(values))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start the data plane: %w", err)
	}
	p.cluster, p.controller = cluster, made[len(made)-1]
	if o.NodeID != 0 {
		if len(o.hosted) == 0 {
			_, _, err = cluster.AddNode(o.NodeID, 0)
		}
		if err == nil {
			err = cluster.RemoveNode(0)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("name the data plane's node %d: %w", o.NodeID, err), p.close())
		}
	}
	p.data, p.hosted = made[len(made)-1], made[1:]
	return p, nil
}

func (p *kfakePlane) open(controller bool) (link, error) {
	if controller {
		return p.openTo(p.controller)
	}
	return p.openTo(p.data)
}

// openTo makes a link to one node.
func (p *kfakePlane) openTo(to *memListener) (link, error) {
	var l *memLink
	l = newMemLink(&p.frames, func() { p.forget(l) })
	p.mu.Lock()
	if p.down {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	p.links[l] = struct{}{}
	p.gone.Add(1)
	p.mu.Unlock()
	if err := to.dial(l); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (p *kfakePlane) unsaved() uint64 { return p.log.unsaved.Load() }

func (p *kfakePlane) forget(l *memLink) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	p.gone.Done()
}

// count tells how many links are open.
func (p *kfakePlane) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *kfakePlane) close() error {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.log.last.Store(nil)
	p.cluster.Close() // writes the state, then drops its ends of the links
	failed := p.log.last.Load()
	p.controller.hangUp()
	if p.data != nil {
		p.data.hangUp()
	}
	for _, l := range p.hosted {
		l.hangUp()
	}
	p.mu.Lock()
	left := make([]*memLink, 0, len(p.links))
	for l := range p.links {
		left = append(left, l)
	}
	p.mu.Unlock()
	for _, l := range left {
		l.shut(ErrClosed)
	}
	p.gone.Wait()
	if failed != nil {
		return fmt.Errorf("save the data plane's state: %s", *failed)
	}
	return nil
}

// slogger passes kfake's lines on, and keeps the last error: kfake tells only its log that it could not save its state.
type slogger struct {
	log     *slog.Logger
	last    atomic.Pointer[string]
	unsaved atomic.Uint64
}

func (s *slogger) Logf(level kfake.LogLevel, format string, args ...any) {
	var to slog.Level
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
		text := fmt.Sprintf(format, args...)
		s.last.Store(&text)
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
		// It answers all the same, but for records.
		if strings.HasPrefix(format, "persist ") && !strings.HasPrefix(format, "persist batch") {
			s.unsaved.Add(1)
		}
	default: // what kfake calls info is a line for each odd request
		to = slog.LevelDebug
	}
	ctx := context.Background()
	if s.log.Enabled(ctx, to) {
		s.log.LogAttrs(ctx, to, "data plane", slog.String("text", fmt.Sprintf(format, args...)))
	}
}
