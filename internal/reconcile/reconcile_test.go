package reconcile

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/brokerlab/brokerlab/broker"
)

func remote(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("10.1.0.7"), port)
}

func socket(cookie uint64, port uint16, state string) broker.KernelSocket {
	return broker.KernelSocket{Cookie: cookie, Remote: remote(port), State: state}
}

func conn(id string, cookie uint64, port uint16) Conn {
	return Conn{ID: id, Cookie: cookie, Remote: remote(port)}
}

func TestJoinNamesEveryDifference(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Lists
		want Result
	}{
		{name: "nothing", want: Result{}},
		{
			name: "the same by cookie",
			in:   Lists{Kernel: []broker.KernelSocket{socket(1, 1, "ESTAB")}, Broker: []Conn{conn("a", 1, 1)}},
			want: Result{Kernel: 1, Broker: 1, Matched: 1},
		},
		{
			name: "the same by address, where there is no cookie",
			in:   Lists{Kernel: []broker.KernelSocket{socket(1, 1, "ESTAB")}, Broker: []Conn{conn("a", 0, 1)}},
			want: Result{Kernel: 1, Broker: 1, Matched: 1},
		},
		{
			name: "an IPv4 address on a dual-stack socket",
			in: Lists{
				Kernel: []broker.KernelSocket{{Remote: netip.MustParseAddrPort("[::ffff:10.1.0.7]:9"), State: "ESTAB"}},
				Broker: []Conn{conn("a", 0, 9)},
			},
			want: Result{Kernel: 1, Broker: 1, Matched: 1},
		},
		{
			name: "the address used again is another connection",
			in:   Lists{Kernel: []broker.KernelSocket{socket(2, 1, "ESTAB")}, Broker: []Conn{conn("a", 1, 1)}},
			want: Result{
				Kernel: 1, Broker: 1, KernelOnly: 1, BrokerOnly: 1,
				KernelSockets: []broker.KernelSocket{socket(2, 1, "ESTAB")}, BrokerConns: []Conn{conn("a", 1, 1)},
			},
		},
		{
			name: "listed twice",
			in:   Lists{Kernel: []broker.KernelSocket{socket(1, 1, "ESTAB")}, Broker: []Conn{conn("a", 1, 1), conn("b", 1, 1)}},
			want: Result{Kernel: 1, Broker: 2, Matched: 1, BrokerOnly: 1, BrokerConns: []Conn{conn("b", 1, 1)}},
		},
		{
			name: "in the accept queue, held, queued and closing",
			in: Lists{
				Kernel: []broker.KernelSocket{
					socket(1, 1, "ESTAB"), socket(2, 2, "ESTAB"), socket(3, 3, "ESTAB"), socket(4, 4, "CLOSE-WAIT"),
					socket(5, 5, "FIN-WAIT-1"), socket(6, 6, "LAST-ACK"),
				},
				Known: Known{AcceptQueue: 1, Held: 1, Queued: 1, Closing: 3},
			},
			want: Result{Kernel: 6, AcceptQueue: 1, Held: 1, Queued: 1, Closing: 3},
		},
		{
			name: "more than the known states hold",
			in: Lists{
				Kernel: []broker.KernelSocket{socket(1, 1, "ESTAB"), socket(2, 2, "ESTAB"), socket(3, 3, "ESTAB")},
				Known:  Known{AcceptQueue: 1},
			},
			want: Result{Kernel: 3, AcceptQueue: 1, KernelOnly: 2, KernelSockets: []broker.KernelSocket{
				socket(1, 1, "ESTAB"), socket(2, 2, "ESTAB"), socket(3, 3, "ESTAB"),
			}},
		},
		{
			name: "a reader's own delay explains as many as changed",
			in: Lists{
				Kernel: []broker.KernelSocket{socket(1, 1, "ESTAB")}, Broker: []Conn{conn("a", 7, 7), conn("b", 8, 8)}, Changed: 2,
			},
			want: Result{Kernel: 1, Broker: 2, Changed: 0, BrokerOnly: 1, BrokerConns: []Conn{conn("b", 8, 8)}},
		},
		{
			name: "listed as closing, gone in the kernel",
			in:   Lists{Broker: []Conn{{ID: "a", Closing: true}}},
			want: Result{Broker: 1, Closing: -1},
		},
		{
			name: "a lower bound may lack connections",
			in:   Lists{Broker: []Conn{conn("a", 1, 1)}, LowerBound: true},
			want: Result{Broker: 1, Uncounted: 1},
		},
		{
			name: "handshaking ones are listed",
			in:   Lists{Kernel: []broker.KernelSocket{socket(1, 1, "ESTAB")}, Broker: []Conn{{ID: "a", Cookie: 1, Handshaking: true}}},
			want: Result{Kernel: 1, Broker: 1, Matched: 1, Handshaking: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Join(&tt.in)
			if diff := cmp.Diff(tt.want, got, compare()...); diff != "" {
				t.Errorf("Join() (-want +got):\n%s", diff)
			}
			balanced(t, &got)
		})
	}
}

func compare() []cmp.Option {
	return []cmp.Option{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })}
}

// balanced checks that the classes make up the difference.
func balanced(t *testing.T, r *Result) {
	t.Helper()
	sum := r.AcceptQueue + r.Held + r.Queued + r.Closing + r.Changed + r.KernelOnly - r.Uncounted - r.BrokerOnly
	if r.Kernel-r.Broker != sum {
		t.Errorf("kernel - broker = %d, the classes are %d: %+v", r.Kernel-r.Broker, sum, r)
	}
}

func TestCompareNamesEveryDifference(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Counts
		want Result
	}{
		{name: "equal", in: Counts{Kernel: 5, Broker: 5, Handshaking: 2}, want: Result{Kernel: 5, Broker: 5, Matched: 5, Handshaking: 2}},
		{
			name: "known states",
			in:   Counts{Kernel: 9, Broker: 5, Known: Known{AcceptQueue: 1, Held: 1, Queued: 5}},
			want: Result{Kernel: 9, Broker: 5, Matched: 5, AcceptQueue: 1, Held: 1, Queued: 2},
		},
		{name: "a leak", in: Counts{Kernel: 6, Broker: 5}, want: Result{Kernel: 6, Broker: 5, Matched: 5, KernelOnly: 1}},
		{name: "a ghost", in: Counts{Kernel: 4, Broker: 5}, want: Result{Kernel: 4, Broker: 5, Matched: 4, BrokerOnly: 1}},
		{
			name: "a ghost does not hide a leak",
			in:   Counts{Kernel: 5, Broker: 5, Lone: []Conn{{ID: "a"}}},
			want: Result{Kernel: 5, Broker: 5, Matched: 4, KernelOnly: 1, BrokerOnly: 1, BrokerConns: []Conn{{ID: "a"}}},
		},
		{name: "came meanwhile", in: Counts{Kernel: 8, Broker: 5, Changed: 3}, want: Result{Kernel: 8, Broker: 5, Matched: 5, Changed: 3}},
		{name: "went meanwhile", in: Counts{Kernel: 3, Broker: 5, Changed: 3}, want: Result{Kernel: 3, Broker: 5, Matched: 3, Changed: -2}},
		{
			name: "a lower bound", in: Counts{Kernel: 3, Broker: 5, LowerBound: true},
			want: Result{Kernel: 3, Broker: 5, Matched: 3, Uncounted: 2},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Compare(&tt.in)
			if diff := cmp.Diff(tt.want, got, compare()...); diff != "" {
				t.Errorf("Compare() (-want +got):\n%s", diff)
			}
			balanced(t, &got)
		})
	}
}

func TestConfirmKeepsOnlyWhatPersists(t *testing.T) {
	a, b, c := socket(1, 1, "ESTAB"), socket(2, 2, "ESTAB"), socket(3, 3, "ESTAB")
	first := Join(&Lists{Kernel: []broker.KernelSocket{a, b}, Broker: []Conn{conn("x", 8, 8), conn("y", 9, 9)}})
	second := Join(&Lists{Kernel: []broker.KernelSocket{b, c}, Broker: []Conn{conn("y", 9, 9), conn("z", 7, 7)}})
	got := Confirm(&first, &second)
	if got.KernelOnly != 1 || got.BrokerOnly != 1 || len(got.KernelSockets) != 1 || got.KernelSockets[0].Cookie != 2 ||
		len(got.BrokerConns) != 1 || got.BrokerConns[0].ID != "y" || got.Explained() {
		t.Errorf("Confirm() = %+v, want socket 2 and connection y", got)
	}
	balanced(t, &got)
	if again := second; again.KernelOnly != 2 || again.BrokerOnly != 2 {
		t.Errorf("Confirm changed its argument: %+v", again)
	}
	clean := Join(&Lists{})
	if got = Confirm(&clean, &second); !got.Explained() || len(got.KernelSockets)+len(got.BrokerConns) > 0 {
		t.Errorf("Confirm(nothing, some) = %+v, want everything explained", got)
	}
	balanced(t, &got)

	leak, less := Compare(&Counts{Kernel: 9, Broker: 5}), Compare(&Counts{Kernel: 7, Broker: 5})
	if got = Confirm(&leak, &less); got.KernelOnly != 2 {
		t.Errorf("Confirm(4 more, 2 more) = %+v, want 2", got)
	}
	ghost := Compare(&Counts{Kernel: 3, Broker: 5})
	if got = Confirm(&leak, &ghost); !got.Explained() {
		t.Errorf("Confirm(more, fewer) = %+v, want explained: they are not the same connections", got)
	}
	balanced(t, &got)
}

func TestStringNamesOnlyWhatIsThere(t *testing.T) {
	r := Compare(&Counts{Listener: "SSL", Port: 9093, Kernel: 7, Broker: 5, Known: Known{AcceptQueue: 1}})
	if got, want := r.String(), "SSL (port 9093): kernel 7, broker 5, 1 in the accept queue, 1 UNEXPLAINED in the kernel only"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	r = Compare(&Counts{Listener: "SSL", Kernel: 5, Broker: 5})
	if strings.Contains(r.String(), "UNEXPLAINED") {
		t.Errorf("String() = %q, want nothing unexplained", r.String())
	}
}

// Whatever the numbers, the classes make up the difference, and equal lists are explained.
func TestClassesAlwaysMakeUpTheDifference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	n := func() int64 { return rnd.Int64N(6) }
	states := []string{"ESTAB", "CLOSE-WAIT", "FIN-WAIT-2", "LAST-ACK"}
	list := func() *Lists {
		l := &Lists{
			Known:   Known{AcceptQueue: n(), Held: n(), Queued: n(), Closing: n()},
			Changed: n(), LowerBound: n() == 0,
		}
		for range n() {
			l.Kernel = append(l.Kernel, socket(uint64(n()), uint16(n()), states[rnd.IntN(len(states))]))
		}
		for range n() {
			l.Broker = append(l.Broker, Conn{Cookie: uint64(n()), Remote: remote(uint16(n())), Closing: n() == 0, Handshaking: n() == 0})
		}
		return l
	}
	for range 20000 {
		c := &Counts{
			Kernel: n() + n(), Broker: n() + n(), Changed: n(), LowerBound: n() == 0,
			Known: Known{AcceptQueue: n(), Held: n(), Queued: n(), Closing: n()},
		}
		for range min(n(), c.Broker) {
			c.Lone = append(c.Lone, Conn{Closing: n() == 0})
		}
		compared, joined, other := Compare(c), Join(list()), Join(list())
		confirmed := Confirm(&other, &joined)
		for _, r := range []*Result{&compared, &joined, &confirmed} {
			balanced(t, r)
			if r.KernelOnly < 0 || r.BrokerOnly < 0 || r.Matched < 0 || r.Uncounted < 0 {
				t.Fatalf("negative class in %+v of %+v", r, c)
			}
		}
		if t.Failed() {
			t.Fatalf("of %+v", c)
		}
	}
}
