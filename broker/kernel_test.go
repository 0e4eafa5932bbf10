package broker_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// countingKernel is a kernel that says what the test wants it to.
type countingKernel struct {
	mu      sync.Mutex
	watched []uint16
	closed  int
	report  func(ports []uint16) broker.KernelReport
	sockets []broker.KernelSocket
}

func (k *countingKernel) Watch(ports []uint16) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watched = append(k.watched, ports...)
	return nil
}

func (k *countingKernel) Report(context.Context) (broker.KernelReport, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.report(k.watched), nil
}

func (k *countingKernel) Sockets(context.Context, uint16) ([]broker.KernelSocket, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sockets, nil
}

func (k *countingKernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed++
	return nil
}

func TestTheKernelsCountStandsBesideTheBrokers(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	second := cfg.Listeners[0]
	second.Name = "SECOND"
	cfg.Listeners = append(cfg.Listeners, second)
	kernel := &countingKernel{report: func(ports []uint16) broker.KernelReport {
		r := broker.KernelReport{Mode: broker.KernelModeFull, Exactness: broker.KernelExact, Lost: map[string]uint64{"map full": 2}}
		for _, port := range ports {
			r.Ports = append(r.Ports, broker.KernelPort{
				Port: port, Established: 5, ServedMax: 4,
				Sources: []broker.KernelSourceCount{{Addr: netip.MustParseAddr("::1"), Count: 5}},
			})
		}
		r.Group.Established = 10
		return r
	}}
	b := start(t, cfg, broker.WithKernel(kernel))
	kernel.mu.Lock()
	if want := []uint16{b.Addr("PLAINTEXT").Port(), b.Addr("SECOND").Port()}; !slices.Equal(kernel.watched, want) {
		t.Errorf("watched ports %v, want %v", kernel.watched, want)
	}
	kernel.mu.Unlock()

	r := dial(t, b.Addr("SECOND"))
	ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
	req := protocol.NewPtrDescribeKernelRequest()
	req.Sources = true
	resp := ask[*protocol.DescribeKernelResponse](r, req)
	if resp.ErrorCode != 0 || resp.NodeID != 1 || resp.Mode != "full" || resp.Exactness != "exact" || len(resp.Ports) != 2 || resp.Group.Established != 10 || len(resp.Lost) != 1 {
		t.Fatalf("DescribeKernel = %+v", resp)
	}
	port := resp.Ports[1]
	if port.ListenerName != "SECOND" || port.Gauge.Established != 5 || port.Gauge.ServedMax != 4 || len(port.Sources) != 1 || port.Sources[0].Address != "0:0:0:0:0:0:0:1" {
		t.Errorf("port = %+v", port)
	}
	if port.Broker == nil || port.Broker.Listed != 1 || port.Broker.Accepted != 1 {
		t.Errorf("the broker's side = %+v, want one connection", port.Broker)
	}
	name := "second"
	req.ListenerFilter, req.Sources = &name, false
	if resp := ask[*protocol.DescribeKernelResponse](r, req); len(resp.Ports) != 1 || resp.Ports[0].ListenerName != "SECOND" || resp.Ports[0].Sources != nil {
		t.Errorf("filtered = %+v, want SECOND without sources", resp.Ports)
	}

	row := describe(r, nil).Connections[0]
	kernel.mu.Lock()
	kernel.sockets = []broker.KernelSocket{{Cookie: row.SocketCookie, State: "ESTAB", Protocol: "plaintext", RTTMicros: 40, BytesIn: 77}}
	kernel.mu.Unlock()
	rich := describe(r, func(q *protocol.DescribeConnectionsRequest) { q.Kernel = true })
	if k := rich.Connections[0].Kernel; rich.KernelSource != "full" || k == nil || k.State != "ESTAB" || k.BytesIn != 77 || k.RTTMicros != 40 {
		t.Errorf("DescribeConnections = %+v, kernel %+v, want the socket of the cookie", rich, k)
	}
}

func TestWithoutAKernelTheBrokersCountStandsAlone(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	resp := ask[*protocol.DescribeKernelResponse](r, protocol.NewPtrDescribeKernelRequest())
	if resp.ErrorCode != 0 || resp.Mode != "off" || resp.Exactness != "unavailable" || resp.Why == "" || len(resp.Ports) != 1 || resp.Ports[0].Broker.Listed != 1 {
		t.Errorf("DescribeKernel = %+v, want the broker's own count and why there is no other", resp)
	}
}

// A broker whose socket cannot be watched does not listen: its first connections would be uncounted.
func TestAPortThatCannotBeWatchedIsNotServed(t *testing.T) {
	t.Parallel()
	b, err := broker.New(plainConfig(), broker.WithKernel(refusingKernel{&countingKernel{}}))
	if !errors.Is(err, errRefused) {
		t.Errorf("New = %v, %v, want the kernel's refusal", b, err)
	}
}

var errRefused = errors.New("not today")

type refusingKernel struct{ *countingKernel }

func (refusingKernel) Watch([]uint16) error { return errRefused }
