package reconcile

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Broker is one broker's comparison, listener by listener. Where nobody counts its sockets it has no listeners.
type Broker struct {
	Node      int32    `json:"node"`
	Mode      string   `json:"mode"`
	Exactness string   `json:"exactness"`
	Why       string   `json:"why,omitempty"`
	Explained bool     `json:"explained"`
	Listeners []Result `json:"listeners"`
	Error     string   `json:"error,omitempty"` // why it did not answer, in place of the above
}

// Cluster compares, for every broker or those of nodes, its list of connections with the kernel's count, over the brokers' own
// protocol. It reads both sides until nothing unexplained is left, reads times at most and pause apart: what is left then was there
// in every reading. The error joins an admin.BrokerError for each broker that did not answer in one of the readings, which is then
// asked no more; the others are compared beside it.
func Cluster(ctx context.Context, adm *admin.Client, reads int, pause time.Duration, nodes ...int32) ([]Broker, error) {
	r := reader{adm: adm, nodes: nodes}
	var last []Broker
	for n := range reads {
		if n > 0 {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(pause):
			}
		}
		now, err := r.readBoth(ctx)
		if err != nil {
			return nil, err
		}
		if last != nil {
			confirmAll(last, now)
		}
		last = now
		if !slices.ContainsFunc(now, func(b Broker) bool { return !b.Explained }) {
			break
		}
	}
	return last, errors.Join(r.failed...)
}

// confirmAll keeps of what is unexplained now what was unexplained before.
func confirmAll(before, now []Broker) {
	for i := range now {
		b := &now[i]
		b.Explained = true
		for j := range b.Listeners {
			l := &b.Listeners[j]
			*l = Confirm(sameListener(before, b.Node, l.Port), l)
			b.Explained = b.Explained && l.Explained()
		}
	}
}

func sameListener(all []Broker, node int32, port uint16) *Result {
	for i := range all {
		for j := range all[i].Listeners {
			if l := &all[i].Listeners[j]; all[i].Node == node && l.Port == port {
				return l
			}
		}
	}
	return &Result{}
}

// reader reads both sides of the brokers that have answered so far.
type reader struct {
	adm    *admin.Client
	nodes  []int32 // nil: all
	failed []error
}

// heard leaves out the brokers that did not answer a question. Its error is that nobody can be asked on.
func (r *reader) heard(ctx context.Context, err error) error {
	failed := admin.BrokerErrors(err)
	if len(failed) == 0 {
		return err
	}
	nodes, problem := r.adm.Answering(ctx, r.nodes, err)
	if problem != nil {
		return problem
	}
	for _, b := range failed {
		r.failed = append(r.failed, b)
	}
	if r.nodes = nodes; len(nodes) == 0 {
		return errors.Join(r.failed...)
	}
	return nil
}

// readBoth reads the kernel's counts before and after the list, to know how much changed meanwhile.
func (r *reader) readBoth(ctx context.Context) ([]Broker, error) {
	before, err := r.adm.DescribeKernel(ctx, admin.KernelFilter{Nodes: r.nodes})
	if failed := r.heard(ctx, err); failed != nil {
		return nil, failed
	}
	conns, err := r.adm.DescribeConnections(ctx, admin.DescribeFilter{Kernel: true, Nodes: r.nodes})
	if failed := r.heard(ctx, err); failed != nil {
		return nil, failed
	}
	after, err := r.adm.DescribeKernel(ctx, admin.KernelFilter{Nodes: r.nodes})
	if failed := r.heard(ctx, err); failed != nil {
		return nil, failed
	}
	brokers := make([]Broker, 0, len(after))
	for _, a := range after {
		b := Broker{Node: a.NodeID, Mode: a.Mode, Exactness: a.Exactness, Why: a.Why, Explained: true}
		for i := range a.Ports {
			if a.Mode == broker.KernelModeOff {
				break
			}
			c := countsOf(a, &a.Ports[i], conns)
			c.Changed = changed(portOf(before, a.NodeID, a.Ports[i].Port), &a.Ports[i])
			l := Compare(c)
			b.Explained = b.Explained && l.Explained()
			b.Listeners = append(b.Listeners, l)
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

func portOf(answers []*protocol.DescribeKernelResponse, node, port int32) *protocol.DescribeKernelResponsePort {
	for _, a := range answers {
		for i := range a.Ports {
			if a.NodeID == node && a.Ports[i].Port == port {
				return &a.Ports[i]
			}
		}
	}
	return &protocol.DescribeKernelResponsePort{}
}

// changed is how many connections opened or closed between two answers.
func changed(before, after *protocol.DescribeKernelResponsePort) int64 {
	return int64(after.Gauge.Opened - before.Gauge.Opened + after.Gauge.Closed - before.Gauge.Closed)
}

func countsOf(a *protocol.DescribeKernelResponse, p *protocol.DescribeKernelResponsePort, conns []admin.Connection) *Counts {
	c := &Counts{
		Listener: p.ListenerName, Port: uint16(p.Port), Kernel: p.Gauge.Established,
		Known:      Known{AcceptQueue: p.AcceptQueue, Closing: p.Closing},
		LowerBound: a.Exactness == broker.KernelLowerBound,
	}
	if b := p.Broker; b != nil {
		c.Known.Held, c.Known.Queued = b.Held, b.Queued
	}
	for i := range conns {
		k := &conns[i]
		if k.NodeID != a.NodeID || k.LocalPort != p.Port {
			continue
		}
		c.Broker++
		handshaking := k.State == protocol.StateHandshaking || k.State == protocol.StateAuthenticating
		if handshaking {
			c.Handshaking++
		}
		if k.Kernel == nil {
			c.Lone = append(c.Lone, Conn{
				ID: k.ConnectionID, Remote: addrPort(k.ClientAddress, k.ClientPort), Cookie: k.SocketCookie,
				Handshaking: handshaking, Closing: k.State == protocol.StateClosing,
			})
		}
	}
	return c
}

// addrPort is the zero value for an address that is none; the connection is then named by its id alone.
func addrPort(addr string, port int32) netip.AddrPort {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, uint16(port))
}
