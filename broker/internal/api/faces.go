package api

import (
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// face is a broker as clients are told of it: the broker of brokerlab that stands before the data plane's of the same id.
type face struct {
	id     int32
	at     Endpoint
	rack   *string // nil without one
	fenced bool
}

// faces are all that a client may be told of brokers, by the name of the listener that its request came through. A client
// never learns another address: one of the data plane's is none for it.
type faces struct {
	all       []face // that have the listener, by id, fenced ones too
	elsewhere []int32
}

// faces are those for whoever reads the answer to a call. A broker that shares its metadata with nobody is its only one.
func (q *call) faces() faces {
	o := &q.server.o
	registered := o.Metadata.Image().Brokers()
	if len(registered) == 0 {
		return faces{all: []face{{id: o.NodeID, at: q.endpoint(), rack: q.rack()}}}
	}
	var known faces
	listener := q.conn.Listener().Name
	for i := range registered {
		b := &registered[i]
		at := slices.IndexFunc(b.Listeners, func(l metadata.BrokerListener) bool { return l.Name == listener })
		if at < 0 {
			if !b.Fenced {
				known.elsewhere = append(known.elsewhere, b.ID)
			}
			continue
		}
		l := &b.Listeners[at]
		known.all = append(known.all, face{id: b.ID, at: Endpoint{Host: l.Host, Port: l.Port}, rack: nonEmpty(b.Rack), fenced: b.Fenced})
	}
	return known
}

// live are the faces that clients are led to.
func (f faces) live() []face {
	return slices.DeleteFunc(slices.Clone(f.all), func(one face) bool { return one.fenced })
}

// of is the live face of a node.
func (f faces) of(node int32) (face, bool) {
	at := slices.IndexFunc(f.all, func(one face) bool { return one.id == node && !one.fenced })
	if at < 0 {
		return face{}, false
	}
	return f.all[at], true
}

// leads tells whether a node has an address for the client.
func (f faces) leads(node int32) bool {
	_, ok := f.of(node)
	return ok
}

// controller is the node that clients are told is the controller: as in Kafka any live one, since each serves what
// controllers do; -1 where there is none.
func (f faces) controller() int32 {
	live := f.live()
	if len(live) == 0 {
		return noNode
	}
	return live[rand.IntN(len(live))].id //nolint:gosec // any will do
}

// noNode is the node where there is none.
const noNode = -1

// leader is what a partition's leader is to be told as, and with which error, which is code where it has an address.
// telling is whether the version of the answer can say that only the listener is missing.
func (f faces) leader(node int32, code int16, telling bool) (leader int32, told int16) {
	switch {
	case node < 0 || f.leads(node):
		return node, code
	case telling && slices.Contains(f.elsewhere, node):
		return noNode, kerr.ListenerNotFound.Code
	default:
		return noNode, kerr.LeaderNotAvailable.Code
	}
}

// offline adds to the replicas that are offline those that have no address.
func (f faces) offline(replicas, offline []int32) []int32 {
	for _, node := range replicas {
		if !f.leads(node) && !slices.Contains(offline, node) {
			offline = append(offline, node)
		}
	}
	return offline
}

// hints collects the addresses that an answer gives beside the leaders it names.
type hints struct {
	faces   faces
	telling bool
	named   []int32
}

// hints begins to collect those of the answer to a call; telling is whether the answer's version has them (KIP-951). The engine gives
// them in every version, and Java takes an answer of an older one with them for garbage.
func (q *call) hints(telling bool) *hints { return &hints{faces: q.faces(), telling: telling} }

// elsewhere tells of errors that come with a leader in answers to members of share groups; without one of them it says nothing.
func elsewhere(code int16) bool {
	return code == kerr.NotLeaderForPartition.Code || code == kerr.FencedLeaderEpoch.Code
}

// leader keeps the hint that a node leads a partition, or takes it away where the node has no address or the version no hints.
func (h *hints) leader(node, epoch *int32) {
	switch {
	case *node < 0:
	case !h.telling || !h.faces.leads(*node):
		*node, *epoch = noNode, noNode
	case !slices.Contains(h.named, *node):
		h.named = append(h.named, *node)
	}
}

// endpoint is what answers of all kinds say of a node.
type endpoint interface {
	~struct {
		NodeID      int32
		Host        string
		Port        int32
		Rack        *string
		UnknownTags kmsg.Tags
	}
}

// endpoints are the addresses of the nodes that were named.
func endpoints[T endpoint](h *hints) []T {
	slices.Sort(h.named)
	var all []T
	for _, node := range h.named {
		if one, ok := h.faces.of(node); ok {
			all = append(all, T{NodeID: one.id, Host: one.at.Host, Port: one.at.Port, Rack: one.rack})
		}
	}
	return all
}
