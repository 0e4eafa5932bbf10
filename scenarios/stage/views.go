package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Connections is the broker's list (ListClientConnections) without the stage's own. Of a target that keeps no list it is the sockets
// that its network threads look after, by listener, address and port alone.
func (s *Stage) Connections(ctx context.Context) []admin.ClientConnection {
	GinkgoHelper()
	rows := s.everyConnection(ctx)
	return slices.DeleteFunc(rows, func(r admin.ClientConnection) bool { return own(r.ClientAddress) })
}

// everyConnection is [Stage.Connections] with the stage's own.
func (s *Stage) everyConnection(ctx context.Context) []admin.ClientConnection {
	GinkgoHelper()
	var rows []admin.ClientConnection
	var err error
	if s.outside != nil {
		rows, err = s.listFromOutside(ctx)
	} else {
		rows, err = s.admin.ListClientConnections(ctx, admin.ListFilter{Nodes: s.nodes()})
	}
	Expect(err).NotTo(HaveOccurred())
	return rows
}

// ListWhere is the broker's list with filters. A spec that filters needs [Listing].
func (s *Stage) ListWhere(ctx context.Context, f admin.ListFilter) []admin.ClientConnection {
	GinkgoHelper()
	f.Nodes = s.nodes()
	rows, err := s.admin.ListClientConnections(ctx, f)
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(rows, func(r admin.ClientConnection) bool { return own(r.ClientAddress) })
}

// Describe is the broker's rich list (DescribeConnections) without the stage's own connections. A spec that asks for it needs [Listing].
func (s *Stage) Describe(ctx context.Context, f admin.DescribeFilter) []admin.Connection {
	GinkgoHelper()
	f.Nodes = s.nodes()
	rows, err := s.admin.DescribeConnections(ctx, f)
	Expect(err).NotTo(HaveOccurred())
	return slices.DeleteFunc(rows, func(r admin.Connection) bool { return own(r.ClientAddress) })
}

// ClientConfigs is what clients have pushed of their configurations, as the broker keeps it (client.config.policy.class.name=store).
func (s *Stage) ClientConfigs(ctx context.Context, f admin.ClientConfigsFilter) []protocol.DescribeClientConfigsResponseClient {
	GinkgoHelper()
	f.Nodes = s.nodes()
	answers, err := s.admin.DescribeClientConfigs(ctx, f)
	Expect(err).NotTo(HaveOccurred())
	Expect(answers).To(HaveLen(1))
	return answers[0].Clients
}

// own tells whether a connection from this address is the stage's.
func own(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && netip.MustParsePrefix(opsPrefix).Contains(a.Unmap())
}

// Kernel is what the kernel counted for the broker, and what the broker counted at that moment. The stage's own connections
// are among them. Where the target cannot be asked, the kernel counts for this process, and of the broker's own side only Listed and
// Held are known.
func (s *Stage) Kernel(ctx context.Context) *protocol.DescribeKernelResponse {
	GinkgoHelper()
	k, err := s.tryKernel(ctx, admin.KernelFilter{Sources: true})
	Expect(err).NotTo(HaveOccurred())
	return k
}

// errNoAnswer is returned for a broker that does not answer.
var errNoAnswer = errors.New("the broker did not answer")

// TryKernel is [Stage.Kernel], without the addresses of clients, for what looks while a broker may be down.
func (s *Stage) TryKernel(ctx context.Context) (*protocol.DescribeKernelResponse, error) {
	return s.tryKernel(ctx, admin.KernelFilter{})
}

func (s *Stage) tryKernel(ctx context.Context, f admin.KernelFilter) (*protocol.DescribeKernelResponse, error) {
	if s.outside != nil {
		return s.kernelFromOutside(ctx)
	}
	f.Nodes = s.nodes()
	answers, err := s.admin.DescribeKernel(ctx, f)
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return nil, errNoAnswer
	}
	return answers[0], nil
}

// KernelExact tells whether the kernel counts in the broker's lab exactly.
func (s *Stage) KernelExact(ctx context.Context) bool {
	GinkgoHelper()
	k := s.Kernel(ctx)
	if k.Exactness != "exact" {
		AddReportEntry("kernel", ReportEntryVisibilityFailureOrVerbose, fmt.Sprintf("%s (%s): %s", k.Exactness, k.Mode, k.Why))
	}
	return k.Exactness == "exact"
}

// NeedKernel skips the spec unless the kernel counts in the broker's lab exactly, and tells why it does not.
func (s *Stage) NeedKernel(ctx context.Context) {
	GinkgoHelper()
	if k := s.Kernel(ctx); k.Exactness != "exact" {
		skip(report.LackKernel, fmt.Sprintf("the kernel's count is not exact here: %s (%s): %s", k.Exactness, k.Mode, k.Why))
	}
}

// Port is the kernel's and the broker's counts of one listener.
func (s *Stage) Port(ctx context.Context, listener string) protocol.DescribeKernelResponsePort {
	GinkgoHelper()
	ports := s.Kernel(ctx).Ports
	i := slices.IndexFunc(ports, func(p protocol.DescribeKernelResponsePort) bool { return strings.EqualFold(p.ListenerName, listener) })
	Expect(i).To(BeNumerically(">=", 0), "the kernel does not count for listener %s", listener)
	return ports[i]
}

// KernelByClient is how many established connections the kernel counts for each client address, without the stage's own.
func (s *Stage) KernelByClient(ctx context.Context) map[netip.Addr]int64 {
	GinkgoHelper()
	count := map[netip.Addr]int64{}
	ports := s.Kernel(ctx).Ports
	for i := range ports {
		for _, source := range ports[i].Sources {
			a, err := netip.ParseAddr(source.Address)
			Expect(err).NotTo(HaveOccurred())
			if source.Count != 0 && !own(source.Address) {
				count[a] += source.Count
			}
		}
	}
	return count
}

// CountByClient counts records by client address.
func CountByClient(records []fleet.Record) map[netip.Addr]int64 {
	count := map[netip.Addr]int64{}
	for i := range records {
		count[records[i].Local.Addr()]++
	}
	return count
}

// Own is how many of the stage's own connections are at a listener.
func (s *Stage) Own(ctx context.Context, listener string) int64 {
	GinkgoHelper()
	rows := s.everyConnection(ctx)
	n := int64(0)
	for i := range rows {
		if own(rows[i].ClientAddress) && strings.EqualFold(rows[i].ListenerName, listener) {
			n++
		}
	}
	return n
}

// OwnAddresses are the addresses that the stage asks from, as the broker sees them.
func (s *Stage) OwnAddresses(ctx context.Context) []string {
	GinkgoHelper()
	rows := s.everyConnection(ctx)
	var all []string
	for i := range rows {
		if a := rows[i].ClientAddress; own(a) && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// Metrics is the broker's metrics: each series, with its labels as it prints them, and its value. A spec that reads them needs
// [Metrics], or asks [Has] before it does.
func (s *Stage) Metrics(ctx context.Context) map[string]float64 {
	GinkgoHelper()
	transport := &http.Transport{DialContext: s.ops.Dialer(netip.Addr{}), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/metrics", s.node.Name, metricsPort), http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	resp, err := (&http.Client{Transport: transport}).Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	Expect(resp).To(HaveHTTPStatus(http.StatusOK))
	series := map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || i < 0 {
			continue
		}
		if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			series[line[:i]] = v
		}
	}
	return series
}

// closedMetric counts connections that ended, by listener and reason.
const closedMetric = "brokerlab_connections_closed_total"

// Closed is how many connections the broker has closed, by reason, over all listeners.
func (s *Stage) Closed(ctx context.Context) map[string]int {
	GinkgoHelper()
	reasons := map[string]int{}
	for series, v := range s.Metrics(ctx) {
		if !strings.HasPrefix(series, closedMetric+"{") || v == 0 {
			continue
		}
		_, rest, _ := strings.Cut(series, `reason="`)
		reason, _, _ := strings.Cut(rest, `"`)
		reasons[reason] += int(v)
	}
	return reasons
}
