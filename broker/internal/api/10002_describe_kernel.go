package api

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

const kernelOff = "off"

// Kernel is what the kernel counted of this broker's sockets, in the shape of its messages.
type Kernel interface {
	// Report fills everything but the broker's own side.
	Report(ctx context.Context) (*protocol.DescribeKernelResponse, error)
	// Sockets lists one port's sockets by cookie.
	Sockets(ctx context.Context, port uint16) (map[uint64]*protocol.DescribeConnectionsResponseKernel, error)
	// Established is when one port's sockets became so, by cookie, as far as the kernel's own programs have seen it.
	Established(ctx context.Context, port uint16) (map[uint64]time.Time, error)
	// Source is how the kernel counts, and what keeps that from being exact.
	Source(ctx context.Context) (mode, why string)
}

// describeKernel tells the kernel's own count of the broker's connections, beside the broker's.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED; UNKNOWN_SERVER_ERROR when the kernel could not be asked, with the cause in ErrorMessage; the
// broker's own counts are there all the same.
// Differs from Kafka: Kafka has no such API.
func describeKernel(ctx context.Context, q *call, req *protocol.DescribeKernelRequest) (*protocol.DescribeKernelResponse, error) {
	resp := protocol.NewPtrDescribeKernelResponse()
	resp.Mode, resp.Exactness, resp.Why = kernelOff, "unavailable", "kernel accounting is off"
	if q.server.o.Kernel != nil {
		report, err := q.server.o.Kernel.Report(ctx)
		if err != nil {
			message := err.Error()
			resp.ErrorCode, resp.ErrorMessage = kerr.UnknownServerError.Code, &message
			resp.Why = message
		} else {
			resp = report
		}
	}
	resp.NodeID = q.server.o.NodeID
	q.server.ownCounts(resp)
	if want := upper(req.ListenerFilter); want != nil {
		resp.Ports = slices.DeleteFunc(resp.Ports, func(p protocol.DescribeKernelResponsePort) bool { return p.ListenerName != *want })
	}
	if !req.Sources {
		for i := range resp.Ports {
			resp.Ports[i].Sources = nil
		}
	}
	return resp, nil
}

// ownCounts puts the broker's own count of each listener beside the kernel's. A listener that the
// kernel does not count is there with the broker's numbers alone.
func (s *Server) ownCounts(resp *protocol.DescribeKernelResponse) {
	counts := s.o.Counts()
	for c := range counts {
		n := &counts[c]
		port := int32(n.Bound.Port())
		i := slices.IndexFunc(resp.Ports, func(p protocol.DescribeKernelResponsePort) bool { return p.Port == port })
		if i < 0 {
			resp.Ports = append(resp.Ports, protocol.DescribeKernelResponsePort{Port: port})
			i = len(resp.Ports) - 1
		}
		p := &resp.Ports[i]
		p.ListenerName = n.Listener.Name
		p.Broker = &protocol.DescribeKernelResponseBroker{
			Listed: n.Established, Handshaking: n.Handshaking, Held: n.Held + n.Throttled, Queued: n.Queued, Accepted: n.Accepted,
		}
		for _, closed := range n.Closed {
			p.Broker.Closed += closed
		}
	}
}
