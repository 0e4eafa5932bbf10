package network

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/brokerlab/brokerlab/broker/quota"
)

func TestConnectionsOfLoopsThatGoAreClosedAndTheOthersAreNot(t *testing.T) {
	s := serve(t, &echo{}, Listener{Threads: 4})
	conns := make([]*net.TCPConn, 8)
	for i := range conns {
		conns[i] = s.dial(t)
		roundTrip(t, conns[i], []byte("before"))
	}
	bytesIn := s.counts().BytesIn
	finish, err := s.Resize(s.counts().Listener.Name, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns {
		roundTrip(t, conn, []byte("until")) // nothing is closed before finish
	}
	finish()
	s.wantClosed(t, ReasonListenerChanged, 6)
	s.wantEstablished(t, 2)
	eventually(t, func() bool { return s.counts().BytesIn >= 2*bytesIn-8 }, "bytes of loops that are gone to stay counted")
	roundTrip(t, s.dial(t), []byte("after"))
	if n := s.counts().Threads; n != 1 {
		t.Errorf("Threads = %d, want 1", n)
	}
	// Loops are numbered on, as Kafka does.
	if _, err = s.Resize(s.counts().Listener.Name, 2); err != nil {
		t.Fatal(err)
	}
	seen := map[int32]bool{}
	for range 4 {
		roundTrip(t, s.dial(t), []byte("more"))
	}
	for c := range s.Connections() {
		seen[c.loop.processor] = true
	}
	if !seen[0] || !seen[4] || len(seen) != 2 {
		t.Errorf("connections are at loops %v, want 0 and 4", seen)
	}
}

// Whatever the moment, each connection is served or closed, and no slot, socket or goroutine is left.
func TestConnectionsMayArriveWhileLoopsComeAndGo(t *testing.T) {
	s := serve(t, &echo{}, Listener{Threads: 2}, limited(quota.Default()))
	name := s.counts().Listener.Name
	stop, cancel := context.WithCancel(t.Context())
	var dialing sync.WaitGroup
	for range 4 {
		dialing.Go(func() {
			for stop.Err() == nil {
				conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(s.addr))
				if err != nil {
					t.Errorf("dial: %v", err)
					return
				}
				_, _ = conn.Write(framed([]byte("hello"))) // it may be closed already
				_, _ = conn.Read(make([]byte, 16))
				_ = conn.Close()
			}
		})
	}
	for round := range 60 {
		finish, err := s.Resize(name, []int{1, 2, 4, 8, 4, 2}[round%6])
		if err != nil {
			t.Fatal(err)
		}
		finish()
	}
	cancel()
	dialing.Wait()
	s.wantSlots(t, 0, 0)
}

func TestARemovedListenerGoesAtOnceAndItsConnectionsWhenToldSo(t *testing.T) {
	s := serve(t, &echo{}, Listener{Threads: 1})
	addr, err := s.Listen(Listener{Name: "ADDED", Host: "127.0.0.1", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	roundTrip(t, conn, []byte("before"))
	finish, err := s.Remove("ADDED")
	if err != nil {
		t.Fatal(err)
	}
	if late, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addr)); err == nil {
		_ = late.Close()
		t.Error("the port still takes connections")
	}
	if n := len(s.Counts()); n != 1 {
		t.Errorf("Counts has %d listeners, want 1", n)
	}
	roundTrip(t, conn, []byte("until"))
	finish()
	wantEnd(t, conn, "")
	eventually(t, func() bool { return s.handler.closed.Load() == 1 }, "the handler to be told")
	if _, err := s.Remove("ADDED"); !errors.Is(err, errNoListener) {
		t.Errorf("Remove again = %v, want %v", err, errNoListener)
	}
	finish() // again: nothing
}

// The shutdown does not wait for a finish that never comes.
func TestAShutdownTakesRemovedListenersWithIt(t *testing.T) {
	s := serve(t, &echo{}, Listener{Threads: 3})
	addr, err := s.Listen(Listener{Name: "ADDED", Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	roundTrip(t, conn, []byte("x"))
	if _, err := s.Remove("ADDED"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resize(s.counts().Listener.Name, 1); err != nil {
		t.Fatal(err)
	}
}

func TestABoundListenerIsNobodysBeforeItIsServed(t *testing.T) {
	s := serve(t, &echo{}, Listener{Threads: 1})
	bound, err := s.Bind(Listener{Name: "BOUND", Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Counts()); n != 1 {
		t.Errorf("Counts has %d listeners, want 1", n)
	}
	if _, err := s.Bind(Listener{Name: "OTHER", Host: "127.0.0.1", Port: int(bound.Addr().Port())}); err == nil {
		t.Error("a port is bound twice")
	}
	bound.Discard()
	bound.Discard()
	if err := bound.Serve(); err != nil || len(s.Counts()) != 1 {
		t.Errorf("Serve after Discard = %v and %d listeners, want nothing to happen", err, len(s.Counts()))
	}
}
