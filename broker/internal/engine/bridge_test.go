package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// bridge is a front door for tests: real sockets on one side, a Client for each connection on the other.
type bridge struct {
	engine *Engine
	lis    net.Listener
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
}

func openEngine(tb testing.TB, o Options) *Engine {
	tb.Helper()
	if o.ClusterID == "" {
		o.ClusterID = "test-cluster"
	}
	e, err := Open(tb.Context(), o)
	if err != nil {
		tb.Fatalf("Open(%+v) = %v", o, err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
	})
	return e
}

func newBridge(tb testing.TB, e *Engine) *bridge {
	tb.Helper()
	lis, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	b := serveBridge(e, lis)
	tb.Cleanup(b.close)
	return b
}

func serveBridge(e *Engine, lis net.Listener) *bridge {
	b := &bridge{engine: e, lis: lis, conns: map[net.Conn]struct{}{}}
	b.wg.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns[c] = struct{}{}
			b.mu.Unlock()
			b.wg.Go(func() { b.serve(c) })
		}
	})
	return b
}

func (b *bridge) close() {
	_ = b.lis.Close()
	b.mu.Lock()
	for c := range b.conns {
		_ = c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

func (b *bridge) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	remote := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	client := b.engine.Client(netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()), "")
	defer client.Close()
	gone := make(chan struct{})
	frames := make(chan []byte)
	b.wg.Go(func() {
		defer close(gone)
		for {
			var size [4]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return
			}
			frame := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(conn, frame); err != nil {
				return
			}
			select {
			case frames <- frame:
			case <-time.After(time.Minute):
				return
			}
		}
	})
	for {
		var frame []byte
		select {
		case frame = <-frames:
		case <-gone:
			return
		}
		r := kbin.Reader{Src: frame}
		key, version, corr, id := r.Int16(), r.Int16(), r.Int32(), r.NullableString()
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if req.IsFlexible() {
			kmsg.SkipTags(&r)
		}
		if err := req.ReadFrom(r.Src); err != nil {
			return
		}
		if id != nil {
			client.SetClientID(*id)
		}
		type outcome struct {
			resp kmsg.Response
			err  error
		}
		got := make(chan outcome, 1)
		if v, ok := req.(*kmsg.ApiVersionsRequest); ok {
			got <- outcome{b.apiVersions(v), nil}
		} else {
			client.Do(req, func(resp kmsg.Response, err error) { got <- outcome{resp, err} })
		}
		var o outcome
		select {
		case o = <-got:
		case <-gone:
			return
		}
		if o.err != nil {
			return
		}
		if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
			continue
		}
		out := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(corr))
		if o.resp.IsFlexible() && key != 18 {
			out = append(out, 0)
		}
		b.address(o.resp)
		out = o.resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func (b *bridge) address(resp kmsg.Response) {
	addr := b.lis.Addr().(*net.TCPAddr)
	host, port := addr.IP.String(), int32(addr.Port)
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = host, port
		}
	case *kmsg.FindCoordinatorResponse:
		r.Host, r.Port = host, port
		for i := range r.Coordinators {
			r.Coordinators[i].Host, r.Coordinators[i].Port = host, port
		}
	}
}

func (b *bridge) apiVersions(req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	for key, v := range b.engine.Versions() {
		resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: v.Min, MaxVersion: v.Max})
	}
	resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: 18, MaxVersion: 4})
	return resp
}

func (b *bridge) client(tb testing.TB, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.lis.Addr().String())}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// ask makes a request of the broker's own.
func ask[R kmsg.Response](tb testing.TB, e *Engine, req kmsg.Request) R {
	tb.Helper()
	resp, err := e.Request(tb.Context(), req)
	if err != nil {
		tb.Fatalf("Request(key %d) = %v", req.Key(), err)
	}
	r, ok := resp.(R)
	if !ok {
		tb.Fatalf("Request(key %d) = %T", req.Key(), resp)
	}
	return r
}

func createTopic(tb testing.TB, e *Engine, name string, partitions int32) [16]byte {
	tb.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics = append(req.Topics, t)
	resp := ask[*kmsg.CreateTopicsResponse](tb, e, req)
	if got := resp.Topics[0].ErrorCode; got != 0 {
		tb.Fatalf("CreateTopics(%s) = error %d, want 0", name, got)
	}
	return resp.Topics[0].TopicID
}

// eventually polls until the condition holds.
func eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // polling a condition
	}
}

func isRefused(err error, code int16) bool {
	var r *RefusedError
	return errors.As(err, &r) && r.Code == code
}

func timeout(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}
