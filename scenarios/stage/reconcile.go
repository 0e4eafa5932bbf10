package stage

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
	"github.com/brokerlab/brokerlab/internal/reconcile"
)

// Reconcile compares the broker's list of connections with the kernel's count, listener by listener, the stage's own
// connections included. A difference without a name is looked at again, and only what is still there is kept. Where the
// kernel does not count at all there is nothing to compare: no result.
func (s *Stage) Reconcile(ctx context.Context) []reconcile.Result {
	GinkgoHelper()
	first := s.compare(ctx)
	if !slices.ContainsFunc(first, func(r reconcile.Result) bool { return !r.Explained() }) {
		return first
	}
	second := s.compare(ctx)
	for i := range min(len(first), len(second)) {
		second[i] = reconcile.Confirm(&first[i], &second[i])
	}
	return second
}

// compare reads both sides once: the kernel's counts before and after the list, so that what came or went
// between is known.
func (s *Stage) compare(ctx context.Context) []reconcile.Result {
	GinkgoHelper()
	before := s.Kernel(ctx)
	if before.Exactness == "unavailable" {
		return nil
	}
	rows, err := s.admin.DescribeConnections(ctx, admin.DescribeFilter{Kernel: true})
	Expect(err).NotTo(HaveOccurred())
	after := s.Kernel(ctx)
	results := make([]reconcile.Result, 0, len(after.Ports))
	for i := range after.Ports {
		port := &after.Ports[i]
		c := reconcile.Counts{
			Listener: port.ListenerName, Port: uint16(port.Port), Kernel: port.Gauge.Established,
			LowerBound: after.Exactness == "lower bound",
			Known:      reconcile.Known{AcceptQueue: port.AcceptQueue},
		}
		if b := port.Broker; b != nil {
			c.Known.Held, c.Known.Queued = b.Held, b.Queued
		}
		c.Known.Closing = s.ending(c.Port)
		for k := range before.Ports {
			if was := &before.Ports[k]; was.Port == port.Port {
				c.Changed = int64(port.Gauge.Opened - was.Gauge.Opened + port.Gauge.Closed - was.Gauge.Closed)
			}
		}
		listed(&c, rows)
		results = append(results, reconcile.Compare(&c))
	}
	return results
}

// ending is how many of the broker's sockets at port have been closed by the broker but not yet by the kernel, which waits
// for the client: the socket table says so.
func (s *Stage) ending(port uint16) int64 {
	GinkgoHelper()
	sockets, err := s.sockets(port, sockdiag.Set(sockdiag.FinWait1, sockdiag.FinWait2, sockdiag.Closing, sockdiag.LastAck))
	Expect(err).NotTo(HaveOccurred())
	return int64(len(sockets))
}

// listed adds the rows of c's listener to c.
func listed(c *reconcile.Counts, rows []admin.Connection) {
	for i := range rows {
		row := &rows[i]
		if row.ListenerName != c.Listener {
			continue
		}
		c.Broker++
		handshaking := row.State == protocol.StateHandshaking || row.State == protocol.StateAuthenticating
		if handshaking {
			c.Handshaking++
		}
		if row.Kernel == nil {
			addr, _ := netip.ParseAddr(row.ClientAddress) // an address that is none is reported as it is, by its id
			c.Lone = append(c.Lone, reconcile.Conn{
				ID: row.ConnectionID, Remote: netip.AddrPortFrom(addr, uint16(row.ClientPort)), Cookie: row.SocketCookie,
				Handshaking: handshaking, Closing: row.State == protocol.StateClosing,
			})
		}
	}
}

// BeExplained succeeds when every difference between broker and kernel has a name.
func BeExplained() types.GomegaMatcher { return explained{} }

type explained struct{}

// Match takes what [Stage.Reconcile] returned.
func (explained) Match(actual any) (bool, error) {
	results, ok := actual.([]reconcile.Result)
	if !ok {
		return false, fmt.Errorf("BeExplained takes the result of Reconcile, not a %T", actual)
	}
	return !slices.ContainsFunc(results, func(r reconcile.Result) bool { return !r.Explained() }), nil
}

// FailureMessage shows all listeners.
func (explained) FailureMessage(actual any) string {
	return "Expected every difference between broker and kernel to have a name:\n" + Explain(actual.([]reconcile.Result)) //nolint:forcetypeassert // Match looked
}

// NegatedFailureMessage shows all listeners.
func (explained) NegatedFailureMessage(actual any) string {
	return "Expected a difference without a name:\n" + Explain(actual.([]reconcile.Result)) //nolint:forcetypeassert // Match looked
}

// Explain prints results one a line, with the connections behind what is not explained.
func Explain(results []reconcile.Result) string {
	var b strings.Builder
	for i := range results {
		r := &results[i]
		fmt.Fprintln(&b, r.String())
		for _, k := range r.KernelSockets {
			fmt.Fprintf(&b, "    kernel only: %v %s cookie %d\n", k.Remote, k.State, k.Cookie)
		}
		for _, c := range r.BrokerConns {
			fmt.Fprintf(&b, "    broker only: %s cookie %d\n", c.ID, c.Cookie)
		}
	}
	return b.String()
}
