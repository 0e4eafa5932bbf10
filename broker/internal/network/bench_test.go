package network

import (
	"context"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// benched is a running server with limits on one listener.
func benched(b *testing.B, l Listener, limits *quota.Connections) *serving {
	b.Helper()
	s := New(Options{Handler: &echo{}, Limits: limits})
	l.Name, l.Host = "BENCH", "127.0.0.1"
	addr, err := s.Listen(l)
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	b.Cleanup(func() {
		if err := s.Shutdown(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	return &serving{Server: s, addr: addr, limits: limits}
}

// BenchmarkFreedSlot is how long a client waits from the moment at which another
// one closes, and frees the slot that it waits for, to its first byte of an answer:
// over TLS that of its handshake. A thousand others are there, idle.
func BenchmarkFreedSlot(b *testing.B) {
	keys := newPKI(b)
	secure := keys.tlsListener()
	for _, l := range []Listener{{Protocol: Plaintext}, secure} {
		b.Run(l.Protocol.String(), func(b *testing.B) {
			const others = 1000
			c := quota.Default()
			c.MaxConnections = others + 1
			s := benched(b, l, quota.New(quota.Window{}, c))
			early := framed([]byte("early"))
			if l.Protocol.TLS() {
				early = clientHello(b, keys.clientConfig())
			}
			dial := func() *net.TCPConn {
				conn := s.connect("127.0.0.1")
				if conn == nil {
					b.Fatal("no connection")
				}
				_ = conn.SetDeadline(time.Time{})
				return conn
			}
			var idle []*net.TCPConn
			for range others {
				idle = append(idle, dial())
			}
			inside := dial()
			var all []time.Duration
			for b.Loop() {
				waiting := dial()
				if _, err := waiting.Write(early); err != nil {
					b.Fatal(err)
				}
				for s.counts().Held == 0 {
					runtime.Gosched()
				}
				freed := time.Now()
				_ = inside.Close()
				if _, err := io.ReadFull(waiting, make([]byte, 4)); err != nil {
					b.Fatal(err)
				}
				all = append(all, time.Since(freed))
				inside = waiting
			}
			_ = inside.Close()
			for _, conn := range idle {
				_ = conn.Close()
			}
			slices.Sort(all)
			for name, at := range map[string]int{"median": len(all) / 2, "p99": len(all) * 99 / 100, "max": len(all) - 1} {
				b.ReportMetric(float64(all[at].Microseconds())/1000, name+"-ms/slot")
			}
		})
	}
}

// BenchmarkAccept is what a connection costs that is accepted, served once and
// closed, in processor time of both ends: with every limit set, by what it costs
// without limits. The two take turns.
func BenchmarkAccept(b *testing.B) {
	c := quota.Default()
	c.MaxConnections, c.MaxSSLConnections, c.MaxPerIP, c.CreationRate = 1e6, 1e6, 1e6, math.MaxInt32-1
	c.Listeners = map[string]quota.ListenerConfig{"BENCH": {MaxConnections: 1e6, CreationRate: math.MaxInt32 - 1}}
	all := quota.New(quota.Window{}, c)
	all.SetIPRates(math.MaxInt32-1, nil)
	servers := []*serving{benched(b, Listener{}, nil), benched(b, Listener{}, all)}
	frame := framed([]byte("x"))
	var spent [2]int64
	const batch = 50
	turns := 0
	for b.Loop() {
		for i, s := range servers {
			before, err := ownUsage()
			if err != nil {
				b.Fatal(err)
			}
			for range batch {
				conn := s.connect("127.0.0.1")
				if conn == nil {
					b.Fatal("no connection")
				}
				_, _ = conn.Write(frame)
				if _, err = io.ReadFull(conn, make([]byte, len(frame))); err != nil {
					b.Fatal(err)
				}
				reset(conn)
			}
			after, err := ownUsage()
			if err != nil {
				b.Fatal(err)
			}
			spent[i] += after.CPU - before.CPU
		}
		turns++
	}
	per := float64(turns * batch * 1000)
	b.ReportMetric(float64(spent[0])/per, "cpu-us/unlimited")
	b.ReportMetric(float64(spent[1])/per, "cpu-us/limited")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
}
