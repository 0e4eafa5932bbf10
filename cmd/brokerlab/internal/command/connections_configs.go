package command

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// configLinks tell what the client of a connection runs with, where brokers keep what clients push.
type configLinks map[configLink]pusher

// configLink is what a broker knows a client by: a push carries no id of its sender.
type configLink struct {
	node                                                  int32
	principal, address, clientID, listener, name, version string
}

// linkConfigs asks for what clients have pushed. It is a help beside the list: a broker that keeps nothing, or does not know the
// request, adds nothing.
func linkConfigs(ctx context.Context, cl *admin.Client, f admin.DescribeFilter, asked error) configLinks {
	var answers []*protocol.DescribeClientConfigsResponse
	_ = beside(ctx, cl, f.Nodes, asked, func(nodes []int32) (err error) {
		answers, err = cl.DescribeClientConfigs(ctx, admin.ClientConfigsFilter{
			Principal: f.Principal, Address: f.Address, Listener: f.Listener, Software: f.Software, Nodes: nodes,
		})
		return err
	})
	links := configLinks{}
	for _, a := range answers {
		for i := range a.Clients {
			c := &a.Clients[i]
			links[configLink{a.NodeID, c.Principal, c.ClientAddress, c.ClientID, c.ListenerName, c.SoftwareName, c.SoftwareVersion}] = pusher{a.NodeID, a.Time, c}
		}
	}
	return links
}

// of finds what the client of a connection has pushed. exact: it came over this very connection.
func (l configLinks) of(r *admin.Connection) (from *pusher, k *protocol.DescribeClientConfigsResponseConfiguration, exact bool) {
	clientID := ""
	if r.ClientID != nil {
		clientID = *r.ClientID
	}
	p, ok := l[configLink{
		r.NodeID, configpush.Printable(r.Principal), r.ClientAddress, configpush.Printable(clientID), r.ListenerName,
		configpush.Printable(r.SoftwareName), configpush.Printable(r.SoftwareVersion),
	}]
	if !ok || len(p.Configurations) == 0 {
		return nil, nil, false
	}
	for i := range p.Configurations {
		if k := &p.Configurations[i]; k.ConnectionID == r.ConnectionID {
			return &p, k, true
		}
	}
	return &p, p.latest(), false
}

// text is of in words; "" where nothing is known.
func (l configLinks) text(r *admin.Connection) string {
	p, k, exact := l.of(r)
	switch {
	case p == nil:
		return ""
	case !exact && p.ambiguous():
		return fmt.Sprintf("AMBIGUOUS: one of %s, see brokerlab clients show", plural(len(p.Configurations)+int(p.More), "configuration"))
	}
	where := "over another connection of this client"
	if exact {
		where = "over this connection"
	}
	return fmt.Sprintf("%s pushed %s ago %s", byteCount(uint64(max(k.Bytes, 0))), age(time.Duration(p.now-k.LastPushed)*time.Millisecond), where)
}

// jsonConfigLink is where brokerlab clients has the configuration of a connection's client.
type jsonConfigLink struct {
	ID         int64   `json:"id"`
	Ambiguous  bool    `json:"ambiguous"`
	LastPushed *string `json:"lastPushed"` // null where it is ambiguous
	Exact      bool    `json:"overThisConnection"`
}

func (l configLinks) json(r *admin.Connection) *jsonConfigLink {
	p, k, exact := l.of(r)
	switch {
	case p == nil:
		return nil
	case !exact && p.ambiguous():
		return &jsonConfigLink{ID: p.ID, Ambiguous: true}
	}
	return &jsonConfigLink{ID: p.ID, LastPushed: timestamp(k.LastPushed), Exact: exact}
}
