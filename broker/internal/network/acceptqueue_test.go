package network

import (
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

func TestTheAcceptQueueIsWhoTheAcceptorHasNotTakenYet(t *testing.T) {
	c := quota.Default()
	c.MaxConnections = 1
	s := serve(t, &echo{}, Listener{Protocol: Plaintext, Backlog: 7}, limited(c))
	if _, err := s.AcceptQueue("NOBODY"); err == nil {
		t.Error("AcceptQueue() of no listener succeeds")
	}
	if got, err := s.AcceptQueue("PLAINTEXT"); err != nil || got != (AcceptQueue{0, 7}) {
		t.Errorf("AcceptQueue() = %+v, %v, want an empty one of 7", got, err)
	}
	first := s.dial(t)
	roundTrip(t, first, []byte("in"))
	for range 4 {
		s.dial(t)
	}
	want := AcceptQueue{3, 7} // one of the four is in the acceptor's hand
	eventually(t, func() bool {
		got, err := s.AcceptQueue("PLAINTEXT")
		return err == nil && got == want
	}, "the kernel to have %+v", want)
	_ = first.Close()
	eventually(t, func() bool {
		got, err := s.AcceptQueue("PLAINTEXT")
		return err == nil && got.Length == 2
	}, "the next one to be taken")
}

// Who waits in the kernel's queue is not accepted yet, so that only the kernel knows since when.
func TestATimelineBeginsWhereTheKernelSaysNotWhereTheBrokerLooked(t *testing.T) {
	c := quota.Default()
	c.MaxConnections = 1
	s := serve(t, &echo{}, Listener{Protocol: Plaintext}, limited(c))
	first := s.dial(t)
	roundTrip(t, first, []byte("in"))
	held := s.dial(t)
	eventually(t, func() bool { return s.counts().Held == 1 }, "the acceptor to hold one")
	before := time.Now()
	queued := s.dial(t)
	after := time.Now()
	const long = 700 * time.Millisecond
	eventually(t, func() bool { return time.Since(after) > long }, "some time to pass")
	_ = first.Close()
	roundTrip(t, held, []byte("second"))
	_ = held.Close()
	roundTrip(t, queued, []byte("third"))
	remembered := func(n int) func() bool {
		return func() bool { all, _, _ := s.ClosedConnections(0); return len(all) == n }
	}
	eventually(t, remembered(2), "the others to be gone")
	line := s.only().Timeline()
	const tick = 50 * time.Millisecond // the kernel's, and what a busy machine adds
	if line.Established.Before(before.Add(-tick)) || line.Established.After(after.Add(tick)) {
		t.Errorf("established at %v, want between %v and %v", line.Established, before, after)
	}
	if waited := line.Accepted.Sub(line.Established); waited < long-tick {
		t.Errorf("accepted %v after that, want %v or more", waited, long)
	}
	_ = queued.Close()
	eventually(t, remembered(3), "all to be remembered")
	all, _, _ := s.ClosedConnections(0)
	if got := all[2].Timeline(); !got.Established.Equal(line.Established) {
		t.Errorf("remembered as established at %v, want %v", got.Established, line.Established)
	}
}
