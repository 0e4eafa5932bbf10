// Package reconcile compares a broker's list of its connections with the kernel's, and says what the difference is made of.
//
// The two differ for known reasons, each with a name: a connection waits in the accept queue, the acceptor holds it, it waits
// for its network thread, it is being closed, or it came or went while the two were read. What remains is unexplained: a
// connection that the kernel has and the broker does not know, or the other way round. Reading two lists takes time, so a
// remainder is a finding only if it is still there when both are read again ([Confirm]).
//
// Everything here is arithmetic: no I/O, no clock.
package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker"
)

// Conn is a connection in a broker's list.
type Conn struct {
	ID          string
	Remote      netip.AddrPort
	Cookie      uint64 // SO_COOKIE; 0 where the broker does not know it
	Handshaking bool   // TLS or authentication has not ended
	Closing     bool   // a last answer is held back or being sent
}

// Known is how many connections the broker says are in one of the states in which its list does not show them.
type Known struct {
	AcceptQueue int64 // established, not accepted yet (the kernel knows this one)
	Held        int64 // accepted, not admitted: in the acceptor's hand, or held back by a rate limit
	Queued      int64 // admitted, waiting for their network thread
	Closing     int64 // not listed any more, not closed yet
}

// Lists are both sides of one listener, each connection by itself.
type Lists struct {
	Listener string
	Port     uint16
	Kernel   []broker.KernelSocket
	Broker   []Conn
	Known    Known
	// Changed is how many connections opened or closed between the first and the last of the readings.
	Changed int64
	// LowerBound: the kernel's side is polled, it may lack connections.
	LowerBound bool
}

// Counts are both sides of one listener as numbers, where the kernel's list is far away.
type Counts struct {
	Listener string
	Port     uint16
	Kernel   int64  // established by the kernel's count
	Broker   int64  // listed
	Lone     []Conn // those of them whose socket the kernel does not know
	// Handshaking is how many of the listed have not finished TLS or authentication.
	Handshaking int64
	Known       Known
	Changed     int64
	LowerBound  bool
}

// Result is a listener's difference, class by class. Kernel - Broker is the sum of AcceptQueue, Held, Queued, Closing, Changed
// and KernelOnly, less Uncounted and BrokerOnly.
type Result struct {
	Listener string `json:"listener"`
	Port     uint16 `json:"port"`
	Kernel   int64  `json:"kernel"`
	Broker   int64  `json:"broker"`

	Matched     int64 `json:"matched"`
	Handshaking int64 `json:"handshaking"` // of the broker's: TLS or authentication has not ended

	AcceptQueue int64 `json:"acceptQueue"`
	Held        int64 `json:"held"`
	Queued      int64 `json:"queued"`
	Closing     int64 `json:"closing"`   // negative: listed as closing, and gone in the kernel
	Changed     int64 `json:"changed"`   // came or went between two readings; negative: listed, and gone
	Uncounted   int64 `json:"uncounted"` // listed, and the kernel's side is only a lower bound

	// What nothing explains.
	KernelOnly int64 `json:"kernelOnly"`
	BrokerOnly int64 `json:"brokerOnly"`

	KernelSockets []broker.KernelSocket `json:"kernelSockets,omitempty"` // where they are known: KernelOnly of these
	BrokerConns   []Conn                `json:"brokerConns,omitempty"`   // of BrokerOnly, where they are known
}

// Explained tells whether every difference has a name.
func (r *Result) Explained() bool { return r.KernelOnly == 0 && r.BrokerOnly == 0 }

// String is the result in one line.
func (r *Result) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (port %d): kernel %d, broker %d", r.Listener, r.Port, r.Kernel, r.Broker)
	for _, c := range []struct {
		n    int64
		name string
	}{
		{r.AcceptQueue, "in the accept queue"},
		{r.Held, "held by the acceptor"},
		{r.Queued, "waiting for a network thread"},
		{r.Closing, "closing"},
		{r.Changed, "changed meanwhile"},
		{r.Uncounted, "not counted by the kernel's lower bound"},
		{r.KernelOnly, "UNEXPLAINED in the kernel only"},
		{r.BrokerOnly, "UNEXPLAINED in the broker only"},
	} {
		if c.n != 0 {
			fmt.Fprintf(&text, ", %d %s", c.n, c.name)
		}
	}
	return text.String()
}

// Join compares lists connection by connection: by cookie, or by the client's address and port where one side has no cookie.
func Join(l *Lists) Result {
	r := Result{Listener: l.Listener, Port: l.Port, Kernel: int64(len(l.Kernel)), Broker: int64(len(l.Broker))}
	byCookie, byRemote := map[uint64]int{}, map[netip.AddrPort]int{}
	for i := range l.Kernel {
		if c := l.Kernel[i].Cookie; c != 0 {
			byCookie[c] = i
		}
		byRemote[unmapped(l.Kernel[i].Remote)] = i
	}
	matched := make([]bool, len(l.Kernel))
	var lone []Conn
	for _, c := range l.Broker {
		if c.Handshaking {
			r.Handshaking++
		}
		i, ok := byCookie[c.Cookie]
		if !ok || c.Cookie == 0 {
			i, ok = byRemote[unmapped(c.Remote)]
			// The same address with another cookie is another connection: the one listed has gone.
			ok = ok && (c.Cookie == 0 || l.Kernel[i].Cookie == 0)
		}
		if !ok || matched[i] {
			lone = append(lone, c)
			continue
		}
		matched[i] = true
		r.Matched++
	}
	var extra []broker.KernelSocket
	for i := range l.Kernel {
		switch {
		case matched[i]:
		case begunToClose(l.Kernel[i].State):
			r.Closing++
		default:
			extra = append(extra, l.Kernel[i])
		}
	}
	known := l.Known
	known.Closing = max(0, known.Closing-r.Closing)
	left := r.explain(int64(len(extra)), known)
	r.remainders(left, lone, l.Changed, l.LowerBound)
	if r.KernelOnly > 0 {
		r.KernelSockets = extra
	}
	return r
}

// Compare compares counts.
func Compare(c *Counts) Result {
	r := Result{
		Listener: c.Listener, Port: c.Port, Kernel: c.Kernel, Broker: c.Broker, Handshaking: c.Handshaking,
		Matched: max(0, min(c.Kernel, c.Broker-int64(len(c.Lone)))),
	}
	// Listed with a socket that the kernel knows, and more of them than it counts: the count is from before.
	missing := max(0, c.Broker-int64(len(c.Lone))-c.Kernel)
	left := r.explain(c.Kernel-r.Matched, c.Known)
	changed := min(missing, c.Changed)
	r.Changed -= changed
	missing -= changed
	if c.LowerBound {
		r.Uncounted, missing = missing, 0
	}
	r.BrokerOnly += missing
	r.remainders(left, c.Lone, c.Changed-changed, c.LowerBound)
	return r
}

// explain gives n connections of the kernel's that the broker does not list to the states in which it would not, and returns
// how many are left.
func (r *Result) explain(n int64, known Known) int64 {
	for _, class := range []struct {
		most int64
		sum  *int64
	}{
		{known.AcceptQueue, &r.AcceptQueue},
		{known.Held, &r.Held},
		{known.Queued, &r.Queued},
		{known.Closing, &r.Closing},
	} {
		taken := min(n, max(0, class.most))
		*class.sum += taken
		n -= taken
	}
	return n
}

// remainders gives what is left on either side to the changes that happened meanwhile, and calls the rest unexplained.
func (r *Result) remainders(left int64, lone []Conn, changed int64, lowerBound bool) {
	came := min(left, changed)
	r.Changed += came
	r.KernelOnly += left - came
	changed -= came
	for _, c := range lone {
		switch {
		case c.Closing:
			r.Closing--
		case changed > 0:
			changed--
			r.Changed--
		case lowerBound:
			r.Uncounted++
		default:
			r.BrokerOnly++
			r.BrokerConns = append(r.BrokerConns, c)
		}
	}
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// begunToClose tells of a socket that its server has closed or shut down.
func begunToClose(state string) bool {
	return slices.Contains([]string{"FIN-WAIT-1", "FIN-WAIT-2", "CLOSING", "LAST-ACK"}, strings.ToUpper(state))
}

// Confirm returns the second result with only that of its unexplained part that the first has too: the same connections
// where they are known, else as many. What it takes away is Changed.
func Confirm(first, second *Result) Result {
	r := *second
	kernel := min(first.KernelOnly, second.KernelOnly)
	if first.KernelSockets != nil && second.KernelSockets != nil {
		r.KernelSockets = slices.DeleteFunc(slices.Clone(second.KernelSockets), func(s broker.KernelSocket) bool {
			return !slices.ContainsFunc(first.KernelSockets, func(f broker.KernelSocket) bool { return sameSocket(&f, &s) })
		})
		kernel = min(kernel, int64(len(r.KernelSockets)))
	}
	r.BrokerConns = slices.DeleteFunc(slices.Clone(second.BrokerConns), func(c Conn) bool {
		return !slices.ContainsFunc(first.BrokerConns, func(f Conn) bool { return f.ID == c.ID && f.Cookie == c.Cookie })
	})
	unnamed := min(first.BrokerOnly-int64(len(first.BrokerConns)), second.BrokerOnly-int64(len(second.BrokerConns)))
	lone := max(0, unnamed) + int64(len(r.BrokerConns))
	r.Changed += second.KernelOnly - kernel - (second.BrokerOnly - lone)
	r.KernelOnly, r.BrokerOnly = kernel, lone
	if kernel == 0 {
		r.KernelSockets = nil
	}
	return r
}

func sameSocket(a, b *broker.KernelSocket) bool {
	if a.Cookie != 0 && b.Cookie != 0 {
		return a.Cookie == b.Cookie
	}
	return unmapped(a.Remote) == unmapped(b.Remote)
}
