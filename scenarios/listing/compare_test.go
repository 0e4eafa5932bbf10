package listing

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// pair is a client and the row that is right for it.
func pair(port uint16, started time.Time) (fleet.Record, admin.ClientConnection) {
	client := fleet.Record{
		Group: "g", Principal: "User:alice", Listener: "SSL", Protocol: fleet.SSL, Software: "tool", SoftwareVersion: "1.0",
		Local: netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), port), Started: started, Ready: 10 * time.Millisecond, Outcome: fleet.Up,
	}
	var row admin.ClientConnection
	row.ConnectionID, row.Principal, row.ListenerName, row.SecurityProtocol = "id", "User:alice", "SSL", "SSL"
	row.ClientAddress, row.ClientPort = "2001:db8:0:0:0:0:0:1", int32(port)
	row.SoftwareName, row.SoftwareVersion, row.ConnectedSince = "tool", "1.0", started.UnixMilli()
	return client, row
}

func TestEveryDifferenceIsSeen(t *testing.T) {
	now := time.Now()
	one, oneRow := pair(1, now)
	two, twoRow := pair(2, now)
	clients, rows := []fleet.Record{one, two}, []admin.ClientConnection{oneRow, twoRow}
	if got := differences(clients, rows); len(got) != 0 {
		t.Fatalf("differences of equals = %v, want none", got)
	}
	changed := func(change func(*admin.ClientConnection)) []admin.ClientConnection {
		other := twoRow
		change(&other)
		return []admin.ClientConnection{oneRow, other}
	}
	// The same address and port may be in use towards another listener.
	three, threeRow := pair(1, now)
	three.Listener, threeRow.ListenerName = "OTHER", "OTHER"
	if got := differences(append(clients, three), append(rows, threeRow)); len(got) != 0 {
		t.Errorf("differences of equals with a port that is used twice = %v, want none", got)
	}
	for _, test := range []struct {
		name string
		rows []admin.ClientConnection
		want string
	}{
		{"missing", rows[:1], "is up but not listed"},
		{"twice", []admin.ClientConnection{oneRow, twoRow, twoRow}, "listed twice"},
		{"a stranger", changed(func(r *admin.ClientConnection) { r.ClientPort = 3 }), "no client of ours"},
		{"no address", changed(func(r *admin.ClientConnection) { r.ClientAddress = "x" }), "is not an address"},
		{"no port", changed(func(r *admin.ClientConnection) { r.ClientPort = 0 }), "is not an address"},
		{"principal", changed(func(r *admin.ClientConnection) { r.Principal = "User:bob" }), `principal = "User:bob", want "User:alice"`},
		{"listener", changed(func(r *admin.ClientConnection) { r.ListenerName = "ssl" }), "at ssl is listed as id but no client of ours"},
		{"protocol", changed(func(r *admin.ClientConnection) { r.SecurityProtocol = "PLAINTEXT" }), "protocol ="},
		{"software", changed(func(r *admin.ClientConnection) { r.SoftwareName = "unknown" }), "software name ="},
		{"version", changed(func(r *admin.ClientConnection) { r.SoftwareVersion = "" }), "software version ="},
		{"since never", changed(func(r *admin.ClientConnection) { r.ConnectedSince = 0 }), "since ="},
		{"since later", changed(func(r *admin.ClientConnection) { r.ConnectedSince += 5000 }), "since ="},
	} {
		if got := strings.Join(differences(clients, test.rows), "\n"); !strings.Contains(got, test.want) {
			t.Errorf("%s: differences = %q, want %q in it", test.name, got, test.want)
		}
	}
}

func TestOnlyWhatCameOrWentMeanwhileMayContradictAList(t *testing.T) {
	const lag = time.Second
	asked := time.Now()
	answered := asked.Add(100 * time.Millisecond)
	at := asked.Add
	for _, test := range []struct {
		name           string
		started, ended time.Duration // from the asking; ended 0: not
		listed         bool
		fine           bool
	}{
		{"up and listed", -time.Second, 0, true, true},
		{"up and not listed", -time.Second, 0, false, false},
		{"came meanwhile, not listed", 20 * time.Millisecond, 0, false, true},
		{"came meanwhile, listed", 20 * time.Millisecond, 0, true, true},
		{"came later, listed", 200 * time.Millisecond, 0, true, false},
		{"went meanwhile, not listed", -time.Second, 50 * time.Millisecond, false, true},
		{"went meanwhile, listed", -time.Second, 50 * time.Millisecond, true, true},
		{"went just before, still listed", -time.Second, -500 * time.Millisecond, true, true},
		{"went long before, still listed", -5 * time.Second, -2 * time.Second, true, false},
		{"went after the answer, not listed", -time.Second, 200 * time.Millisecond, false, false},
	} {
		client, row := pair(1, at(test.started))
		if test.ended != 0 {
			client.Ended = at(test.ended)
		}
		s := snapshot{asked: asked, answered: answered}
		if test.listed {
			s.rows = append(s.rows, row)
		}
		if got := s.contradictions([]fleet.Record{client}, lag); (len(got) == 0) != test.fine {
			t.Errorf("%s: contradictions = %v, want fine = %v", test.name, got, test.fine)
		}
	}
}

func TestAPortThatIsUsedAgainIsAnotherClient(t *testing.T) {
	asked := time.Now()
	old, _ := pair(1, asked.Add(-time.Minute))
	old.Ended = asked.Add(-50 * time.Second)
	again, row := pair(1, asked.Add(-time.Second))
	s := snapshot{asked: asked, answered: asked.Add(time.Millisecond), rows: []admin.ClientConnection{row}}
	if got := s.contradictions([]fleet.Record{old, again}, time.Second); len(got) != 0 {
		t.Errorf("contradictions = %v, want none", got)
	}
}

func TestSpellingsMeanTheSameAddress(t *testing.T) {
	for _, text := range []string{"10.1.0.7", "2001:db8::1", "fd00:1:0:2::30", "::1"} {
		addr := netip.MustParseAddr(text)
		for _, s := range spellings(addr) {
			got, err := netip.ParseAddr(s)
			if err != nil || got.Unmap() != addr {
				t.Errorf("spelling %q of %s = %v, %v", s, text, got, err)
			}
		}
	}
}
