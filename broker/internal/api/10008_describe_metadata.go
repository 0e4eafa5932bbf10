package api

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// describeClusterMetadata tells how this broker is with the metadata of its cluster, and which brokers it knows.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED.
// Differs from Kafka: Kafka has no such API.
func describeClusterMetadata(_ context.Context, q *call, req *protocol.DescribeMetadataRequest) (*protocol.DescribeMetadataResponse, error) {
	o := &q.server.o
	image, status := o.Metadata.Image(), o.Metadata.Status()
	resp := protocol.NewPtrDescribeMetadataResponse()
	resp.NodeID, resp.ClusterID, resp.Time = o.NodeID, o.ClusterID, time.Now().UnixMilli()
	resp.Offset, resp.End = image.Offset(), max(status.End, image.Offset())
	resp.Connected, resp.Fenced = status.Connected, status.Fenced
	if !status.Since.IsZero() {
		resp.Since = status.Since.UnixMilli()
	}
	resp.Level = image.Feature(feature.MetadataVersion)
	if req.WithHash {
		resp.Hash = new(image.Hash())
	}
	registered := image.Brokers()
	resp.Shared = len(registered) > 0
	for i := range registered {
		b := &registered[i]
		row := protocol.DescribeMetadataResponseBroker{
			NodeID: b.ID, Epoch: b.Epoch, Incarnation: b.Incarnation, Rack: nonEmpty(b.Rack),
			MinLevel: b.MinLevel, MaxLevel: b.MaxLevel, Fenced: b.Fenced,
		}
		for _, l := range b.Listeners {
			row.Listeners = append(row.Listeners, protocol.DescribeMetadataResponseListener{Name: l.Name, SecurityProtocol: l.Protocol, Host: l.Host, Port: l.Port})
		}
		resp.Brokers = append(resp.Brokers, row)
	}
	if !resp.Shared {
		resp.Connected, resp.Since = true, resp.Time
		resp.Brokers = append(resp.Brokers, q.alone())
	}
	return resp, nil
}

// alone is the broker itself, where none registers.
func (q *call) alone() protocol.DescribeMetadataResponseBroker {
	row := protocol.DescribeMetadataResponseBroker{NodeID: q.server.o.NodeID, Epoch: noNode, Rack: q.rack(), MinLevel: feature.Minimum, MaxLevel: feature.Latest}
	if most := q.server.o.SupportedLevel; most != 0 {
		row.MaxLevel = most
	}
	listeners := *q.server.listeners.Load()
	for _, name := range slices.Sorted(maps.Keys(listeners)) {
		l := listeners[name]
		row.Listeners = append(row.Listeners, protocol.DescribeMetadataResponseListener{
			Name: name, SecurityProtocol: l.Protocol, Host: l.Advertised.Host, Port: l.Advertised.Port,
		})
	}
	return row
}
