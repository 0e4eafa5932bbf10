package broker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// kernelMessages puts what a [KernelSource] says into the shape of the messages that ask for it.
type kernelMessages struct {
	source KernelSource
	names  func() map[uint16]string // of the listeners, by port
}

// Report is the answer to a DescribeKernel.
func (k kernelMessages) Report(ctx context.Context) (*protocol.DescribeKernelResponse, error) {
	r, err := k.report(ctx)
	if err != nil {
		return nil, err
	}
	return r.Message(), nil
}

// Message puts a report into the shape of the answer to a DescribeKernel.
func (r *KernelReport) Message() *protocol.DescribeKernelResponse {
	resp := protocol.NewPtrDescribeKernelResponse()
	resp.Mode, resp.Exactness, resp.Why = r.Mode, r.Exactness, r.Why
	g := &r.Group
	resp.Group = protocol.DescribeKernelResponseGauge{
		Established: g.Established, TLS: g.TLS, Plaintext: g.Plaintext, Undecided: g.Undecided, Unknown: g.Unknown,
		Opened: g.Opened, Closed: g.Closed,
		Served: g.Served, ServedMax: g.ServedMax, ServedTLS: g.ServedTLS, ServedTLSMax: g.ServedTLSMax, ServedTotal: g.ServedTotal,
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		port := protocol.DescribeKernelResponsePort{
			Port: int32(p.Port), ListenerName: p.Listener, Seeded: p.Seeded, BytesIn: p.BytesIn, BytesOut: p.BytesOut,
			AcceptQueue: p.AcceptQueue, Closing: p.Closing, Backlog: p.Backlog, Overflows: p.Overflows,
			Gauge: protocol.DescribeKernelResponseGauge{
				Established: p.Established, TLS: p.TLS, Plaintext: p.Plaintext, Undecided: p.Undecided, Unknown: p.Unknown,
				Opened: p.Opened, Closed: p.Closed,
				Served: p.Served, ServedMax: p.ServedMax, ServedTLS: p.ServedTLS, ServedTLSMax: p.ServedTLSMax, ServedTotal: p.ServedTotal,
			},
		}
		for _, s := range p.Sources {
			port.Sources = append(port.Sources, protocol.DescribeKernelResponseSource{Address: network.JavaAddr(s.Addr), Count: s.Count})
		}
		resp.Ports = append(resp.Ports, port)
	}
	for _, cause := range slices.Sorted(maps.Keys(r.Lost)) {
		resp.Lost = append(resp.Lost, protocol.DescribeKernelResponseLost{Cause: cause, Count: r.Lost[cause]})
	}
	return resp
}

// report asks the source, and names the ports.
func (k kernelMessages) report(ctx context.Context) (KernelReport, error) {
	r, err := k.source.Report(ctx)
	if err != nil {
		return KernelReport{}, err
	}
	names := k.names()
	r.Ports = slices.DeleteFunc(slices.Clone(r.Ports), func(p KernelPort) bool {
		_, known := names[p.Port]
		return !known && p.Established == 0 // of a listener that was removed
	})
	for i := range r.Ports {
		if p := &r.Ports[i]; p.Listener == "" {
			p.Listener = names[p.Port]
		}
	}
	return r, nil
}

// Sockets are one port's sockets by cookie.
func (k kernelMessages) Sockets(ctx context.Context, port uint16) (map[uint64]*protocol.DescribeConnectionsResponseKernel, error) {
	sockets, err := k.source.Sockets(ctx, port)
	if err != nil {
		return nil, err
	}
	byCookie := make(map[uint64]*protocol.DescribeConnectionsResponseKernel, len(sockets))
	for i := range sockets {
		s := &sockets[i]
		byCookie[s.Cookie] = &protocol.DescribeConnectionsResponseKernel{
			State: s.State, Protocol: s.Protocol, RTTMicros: int64(s.RTTMicros), BytesIn: s.BytesIn, BytesOut: s.BytesOut,
		}
	}
	return byCookie, nil
}

// Established is when the sockets of one port became so, by cookie, as far as the kernel's own programs have seen it.
func (k kernelMessages) Established(ctx context.Context, port uint16) (map[uint64]time.Time, error) {
	sockets, err := k.source.Sockets(ctx, port)
	if err != nil {
		return nil, err
	}
	byCookie := make(map[uint64]time.Time, len(sockets))
	for i := range sockets {
		if s := &sockets[i]; !s.Since.IsZero() {
			byCookie[s.Cookie] = s.Since
		}
	}
	return byCookie, nil
}

// Source is how the kernel counts.
func (k kernelMessages) Source(ctx context.Context) (mode, why string) {
	r, err := k.source.Report(ctx)
	if err != nil {
		return KernelModeOff, err.Error()
	}
	return r.Mode, r.Why
}
