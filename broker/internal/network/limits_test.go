package network

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

func TestASlotIsTakenBeforeAByteAndGivenBackAfterTheClose(t *testing.T) {
	c := quota.Default()
	c.MaxConnections = 3
	s := serve(t, &echo{}, Listener{Protocol: Plaintext}, limited(c))
	var served []*net.TCPConn
	for range 3 {
		conn := s.dial(t)
		roundTrip(t, conn, []byte("in"))
		served = append(served, conn)
	}
	waiting := s.dial(t)
	send(t, waiting, framed([]byte("early")))
	eventually(t, func() bool { return s.counts().Held == 1 }, "the acceptor to hold one")
	if got := s.counts(); got.Established != 3 || got.BytesIn != 3*6 {
		t.Errorf("counts = %+v, want 3 established and nothing read of the fourth", got)
	}
	_ = served[0].Close()
	wantFrame(t, waiting, []byte("early"))
	s.wantSlots(t, 3, 0)
	s.dial(t) // held by the acceptor at shutdown
	eventually(t, func() bool { return s.counts().Held == 1 }, "the acceptor to hold one")
}

// Rules 37 and 38 of Kafka's own tests.
func TestAnAddressWithItsMaximumReadsTheEndOfTheStreamUntilOneCloses(t *testing.T) {
	c := quota.Default()
	c.MaxPerIP = 0
	c.PerIP = map[netip.Addr]int{netip.MustParseAddr("127.0.0.1"): 5}
	s := serve(t, &echo{}, Listener{Protocol: Plaintext}, limited(c))
	var served []*net.TCPConn
	for range 5 {
		conn := s.dial(t)
		roundTrip(t, conn, []byte("in"))
		served = append(served, conn)
	}
	wantEnd(t, s.dial(t), "")
	s.wantClosed(t, ReasonPerIPLimit, 1)
	s.wantSlots(t, 5, 0)
	const rejected = "Rejected connection from /127.0.0.1, address already has the configured maximum of 5 connections."
	eventually(t, func() bool { return strings.Contains(s.log.String(), rejected) }, "the log to say %q", rejected)
	if all, _, _ := s.ClosedConnections(0); len(all) != 1 || !all[0].Refused || all[0].ID() != "" || all[0].Remote.Port() == 0 {
		t.Errorf("remembered = %+v, want the refused socket", all)
	}
	_ = served[0].Close()
	s.wantSlots(t, 4, 0)
	roundTrip(t, s.dial(t), []byte("after"))

	other, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, net.TCPAddrFromAddrPort(s.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	wantEnd(t, other, "")
	if got := s.counts(); got.Refused != 2 || got.RefusedFor[ReasonPerIPLimit] != 2 || got.Admitted != 6 || got.Accepted != 8 {
		t.Errorf("counts = %+v, want two of eight refused", got)
	}
}

func TestATimelineTellsWhatAConnectionWaitedForAndWhenItCameThroughEachStage(t *testing.T) {
	keys := newPKI(t)
	c := quota.Default()
	c.MaxSSLConnections = 1
	l := keys.tlsListener()
	l.Protocol = SASLSSL
	s := serve(t, &echo{onFrame: func(c *Conn, frame []byte) {
		c.SetAuthenticated(true)
		c.Reply(framed(frame))
	}}, l, limited(c))
	first := s.dialTLS(t, keys.clientConfig())
	s.wantSlots(t, 1, 1)
	second := tls.Client(s.dial(t), keys.clientConfig())
	eventually(t, func() bool { return s.counts().Held == 1 }, "the acceptor to hold one")
	_ = first.Close()
	roundTrip(t, second, []byte("authenticates"))

	line := s.only().Timeline()
	if w := line.Waited; w.Limit != quota.MaxSSLConnections || w.Slot <= 0 || w.Rate != 0 || w != s.only().Waited() {
		t.Errorf("waited %+v, want a time for a slot of TLS", w)
	}
	if got := line.Admitted.Sub(line.Accepted); got < line.Waited.Slot {
		t.Errorf("admitted %v after it was accepted, which is less than %v of waiting", got, line.Waited.Slot)
	}
	wantOrder(t, line.Accepted, line.Admitted, line.Registered, line.HandshakeDone, line.Authenticated)
	if !line.FirstRequest.IsZero() || !line.Closed.IsZero() {
		t.Errorf("timeline = %+v, want no request after authentication and no end", line)
	}
	roundTrip(t, second, []byte("asks"))
	line = s.only().Timeline()
	wantOrder(t, line.Authenticated, line.FirstRequest, line.LastActive)
	if since := s.only().Since(); !since.Equal(line.Admitted) {
		t.Errorf("since %v, want when it was admitted, %v", since, line.Admitted)
	}
	if !s.Close(s.only().ID()) {
		t.Error("Close of a connection = false")
	}
	s.wantEstablished(t, 0)
	if s.Close("127.0.0.1:1-127.0.0.1:2-0-0") {
		t.Error("Close of a connection that is none = true")
	}
	all, _, _ := s.ClosedConnections(0)
	ended := all[len(all)-1].Timeline()
	wantOrder(t, line.LastActive, ended.Closed)
	ended.Closed, ended.LastActive = line.Closed, line.LastActive
	if ended != line {
		t.Errorf("timeline of the closed connection = %+v, want as before %+v", ended, line)
	}
}

func wantOrder(t *testing.T, moments ...time.Time) {
	t.Helper()
	for i, at := range moments {
		if at.IsZero() || i > 0 && at.Before(moments[i-1]) {
			t.Errorf("moment %d of %v is missing or before the one before it", i, moments)
		}
	}
}
