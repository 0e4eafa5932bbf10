// Package admintest is a cluster of fake brokers on real sockets, for tests of what asks brokers who is connected. A
// fake broker answers ApiVersions and Metadata by itself and everything else by its Handle function.
package admintest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Broker is one fake broker. Its fields are read while it runs and must not change.
type Broker struct {
	NodeID int32
	// Keys are the API keys it offers beside ApiVersions and Metadata; it can decode those of package protocol.
	Keys []int16
	// Handle answers a request, on a goroutine of the request's connection; nil closes the connection.
	Handle func(kmsg.Request) kmsg.Response
	// Down closes its port at once, so that the cluster names a broker that cannot be reached.
	Down bool
	// Hangs never takes a connection from its port, so that clients are connected and get no answer.
	Hangs bool
}

// Cluster is fake brokers that know each other. They stop when their test ends.
type Cluster struct {
	brokers   []*Broker
	listeners []net.Listener

	mu     sync.Mutex // guards conns
	conns  map[net.Conn]struct{}
	closed bool
	work   sync.WaitGroup
}

// Start starts brokers on loopback ports of the kernel's choice.
func Start(tb testing.TB, brokers ...*Broker) *Cluster {
	tb.Helper()
	c := &Cluster{brokers: brokers, conns: map[net.Conn]struct{}{}}
	tb.Cleanup(c.stop)
	var lc net.ListenConfig
	for _, b := range brokers {
		l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		c.listeners = append(c.listeners, l)
		if b.Down {
			if err := l.Close(); err != nil {
				tb.Fatal(err)
			}
			continue
		}
		if !b.Hangs {
			c.work.Go(func() { c.accept(b, l) })
		}
	}
	return c
}

// Addr is the address of the broker at index i.
func (c *Cluster) Addr(i int) string { return c.listeners[i].Addr().String() }

func (c *Cluster) stop() {
	c.mu.Lock()
	c.closed = true
	for conn := range c.conns {
		_ = conn.Close() // its goroutine sees it
	}
	c.mu.Unlock()
	for _, l := range c.listeners {
		_ = l.Close() // so does the accepting one
	}
	c.work.Wait()
}

func (c *Cluster) accept(b *Broker, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		if c.closed {
			_ = conn.Close() // nobody waits for it any more
		} else {
			c.conns[conn] = struct{}{}
		}
		c.mu.Unlock()
		c.work.Go(func() {
			defer func() {
				c.mu.Lock()
				delete(c.conns, conn)
				c.mu.Unlock()
				_ = conn.Close() // the peer may have been first
			}()
			for c.serveOne(b, conn) == nil {
			}
		})
	}
}

var errNoAnswer = errors.New("no answer")

// serveOne reads and answers one request.
func (c *Cluster) serveOne(b *Broker, conn net.Conn) error {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, frame); err != nil {
		return err
	}
	r := kbin.Reader{Src: frame}
	key, version, correlation := r.Int16(), r.Int16(), r.Int32()
	r.NullableString() // client id
	req := requestFor(key)
	if req == nil {
		return errNoAnswer
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if err := errors.Join(r.Complete(), req.ReadFrom(r.Src)); err != nil {
		return err
	}
	resp := c.answer(b, req)
	if resp == nil {
		return errNoAnswer
	}
	resp.SetVersion(version)
	out := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(correlation))
	if resp.IsFlexible() && key != int16(kmsg.ApiVersions) {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	_, err := conn.Write(out)
	return err
}

func requestFor(key int16) kmsg.Request {
	switch key {
	case protocol.DefaultListClientConnectionsKey:
		return protocol.NewPtrListClientConnectionsRequest()
	case protocol.DefaultDescribeConnectionsKey:
		return protocol.NewPtrDescribeConnectionsRequest()
	case protocol.DefaultDescribeKernelKey:
		return protocol.NewPtrDescribeKernelRequest()
	case protocol.DefaultDescribeClosedKey:
		return protocol.NewPtrDescribeClosedConnectionsRequest()
	case protocol.DefaultDescribeLimitsKey:
		return protocol.NewPtrDescribeLimitsRequest()
	case protocol.DefaultCloseConnectionsKey:
		return protocol.NewPtrCloseConnectionsRequest()
	case protocol.DefaultDescribeTimelineKey:
		return protocol.NewPtrDescribeConnectionTimelineRequest()
	case protocol.DefaultDescribeClientConfigsKey:
		return protocol.NewPtrDescribeClientConfigsRequest()
	case protocol.DefaultDescribeMetadataKey:
		return protocol.NewPtrDescribeMetadataRequest()
	}
	return kmsg.RequestForKey(key)
}

func (c *Cluster) answer(b *Broker, req kmsg.Request) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 4}, {ApiKey: 3, MaxVersion: 12}}
		for _, k := range b.Keys {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: k})
		}
		return resp
	case *kmsg.MetadataRequest:
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for i, b := range c.brokers {
			addr := c.listeners[i].Addr().(*net.TCPAddr)
			resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: b.NodeID, Host: addr.IP.String(), Port: int32(addr.Port)})
		}
		return resp
	}
	if b.Handle == nil {
		return nil
	}
	return b.Handle(req)
}
