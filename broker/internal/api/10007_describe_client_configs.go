package api

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// How many clients DescribeClientConfigs tells of in one answer; each configuration with its entries may have
// client.config.max.bytes.
const (
	usualClientConfigs       = 500
	mostClientConfigs        = 5_000
	mostClientConfigsEntries = 500
)

// describeClientConfigs tells which configurations clients have pushed, as far as the policy keeps them.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED; UNSUPPORTED_VERSION where no policy keeps pushed configurations; INVALID_REQUEST for
// an address filter that is neither address nor prefix, or a negative id or number; UNKNOWN_SERVER_ERROR when the policy cannot
// tell. ErrorMessage says which.
// Differs from Kafka: Kafka has no such API.
func describeClientConfigs(
	ctx context.Context, q *call, req *protocol.DescribeClientConfigsRequest,
) (*protocol.DescribeClientConfigsResponse, error) {
	resp := protocol.NewPtrDescribeClientConfigsResponse()
	resp.NodeID, resp.Time = q.server.o.NodeID, time.Now().UnixMilli()
	fail := func(code int16, why string) (*protocol.DescribeClientConfigsResponse, error) {
		resp.ErrorCode, resp.ErrorMessage = code, &why
		return resp, nil
	}
	keeper, ok := q.server.o.ConfigPolicy.(configpush.Lister)
	if !ok {
		return fail(kerr.UnsupportedVersion.Code, "this broker keeps no pushed configurations: client.config.policy.class.name=store does")
	}
	where, why := describedFilter(filter{}, req.AddressFilter, req.ListenerFilter, nil)
	if req.AfterID < 0 || req.Most < 0 {
		why = "an id and a number of clients are not negative"
	}
	if why != "" {
		return fail(kerr.InvalidRequest.Code, why)
	}
	most, bound := int(req.Most), mostClientConfigs
	if req.WithEntries {
		bound = mostClientConfigsEntries
	}
	if most == 0 {
		most = usualClientConfigs
	}
	f := configpush.Filter{
		After: req.AfterID, Most: min(most, bound) + 1, Ambiguous: req.AmbiguousOnly, Entries: req.WithEntries,
		Principal: req.PrincipalFilter, ClientID: req.ClientIDFilter, Listener: where.listener, Software: req.SoftwareFilter,
	}
	if where.address != nil {
		f.Address = *where.address
	}
	clients, err := keeper.List(ctx, f)
	if err != nil {
		return fail(kerr.UnknownServerError.Code, fmt.Sprintf("the policy cannot tell what it keeps: %v", err))
	}
	if len(clients) == f.Most { // one more than a page: there is another page
		clients = clients[:len(clients)-1]
		resp.NextID = clients[len(clients)-1].ID
	}
	for i := range clients {
		resp.Clients = append(resp.Clients, pushedBy(&clients[i]))
	}
	q.audit("DescribeClientConfigs", len(resp.Clients))
	return resp, nil
}

func pushedBy(c *configpush.Client) protocol.DescribeClientConfigsResponseClient {
	row := protocol.DescribeClientConfigsResponseClient{
		ID: c.ID, Principal: c.Principal, ClientAddress: network.JavaAddr(c.Address), ClientID: c.ClientID,
		ListenerName: c.Listener, SecurityProtocol: c.Protocol, SoftwareName: c.Software, SoftwareVersion: c.SoftwareVersion,
		Connections: int32(c.Open), More: int32(c.More),
	}
	for i := range c.Configurations {
		k := &c.Configurations[i]
		configuration := protocol.DescribeClientConfigsResponseConfiguration{
			Bytes: int32(k.Bytes), FirstPushed: k.First.UnixMilli(), LastPushed: k.Last.UnixMilli(), Pushes: k.Pushes,
			ConnectionID: k.ConnectionID, Open: k.Open,
		}
		for _, e := range k.Entries {
			configuration.Entries = append(configuration.Entries, protocol.DescribeClientConfigsResponseEntry{
				Key: e.Key, Value: e.Value, Type: e.Type, Default: e.Default, Redacted: e.Redacted,
			})
		}
		row.Configurations = append(row.Configurations, configuration)
	}
	return row
}
