package admin_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// clusterOf is two brokers that answer with handle, and one that does not have the request.
func clusterOf(t *testing.T, key int16, handle func(node int32, req kmsg.Request) kmsg.Response) *admin.Client {
	t.Helper()
	of := func(node int32) *admintest.Broker {
		return &admintest.Broker{NodeID: node, Keys: []int16{key}, Handle: func(req kmsg.Request) kmsg.Response { return handle(node, req) }}
	}
	return dial(t, admintest.Start(t, of(2), of(1), &admintest.Broker{NodeID: 3}))
}

// wantTwo fails unless brokers 1 and 2 answered, and broker 3 does not have the request.
func wantTwo(t *testing.T, err error, nodes ...int32) {
	t.Helper()
	if fmt.Sprint(nodes) != "[1 2]" {
		t.Errorf("answers are of %v, want 1 and 2", nodes)
	}
	if errs := brokerErrors(t, err); len(errs) != 1 || !errors.Is(errs[3], admin.ErrNotOffered) {
		t.Errorf("errors = %v, want that broker 3 does not have it", err)
	}
}

func TestLimitsAreAskedOfEveryBroker(t *testing.T) {
	cl := clusterOf(t, protocol.DefaultDescribeLimitsKey, func(node int32, req kmsg.Request) kmsg.Response {
		r, resp := req.(*protocol.DescribeLimitsRequest), protocol.NewPtrDescribeLimitsResponse()
		resp.NodeID = node
		if r.ListenerFilter == nil || r.AddressFilter == nil || r.AddressLimit != 5 {
			resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, new("why")
		}
		return resp
	})
	all, err := cl.DescribeLimits(t.Context(), admin.LimitsFilter{Listener: new("x"), Address: new("x"), Addresses: 5})
	if len(all) != 2 {
		t.Fatalf("answers = %v, %v", all, err)
	}
	wantTwo(t, err, all[0].NodeID, all[1].NodeID)
	if all, err = cl.DescribeLimits(t.Context(), admin.LimitsFilter{Nodes: []int32{2}}); len(all) != 0 || !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("DescribeLimits() = %v, %v, want the broker's error", all, err)
	}
}

func TestClosingIsAskedOfEveryBrokerWithEveryFilter(t *testing.T) {
	cl := clusterOf(t, protocol.DefaultCloseConnectionsKey, func(node int32, req kmsg.Request) kmsg.Response {
		r, resp := req.(*protocol.CloseConnectionsRequest), protocol.NewPtrCloseConnectionsResponse()
		resp.NodeID, resp.NotFound = node, r.ConnectionIDs
		for _, f := range []*string{r.PrincipalFilter, r.AddressFilter, r.ListenerFilter, r.ProtocolFilter, r.SoftwareFilter} {
			if f == nil || !r.All || !r.ValidateOnly || r.Most != 3 {
				resp.ErrorCode = kerr.InvalidRequest.Code
			}
		}
		return resp
	})
	x := new("x")
	all, err := cl.CloseConnections(t.Context(), admin.CloseFilter{
		Principal: x, Address: x, Listener: x, Protocol: x, Software: x, IDs: []string{"id"}, All: true, Most: 3, DryRun: true,
	})
	if len(all) != 2 || all[0].NotFound[0] != "id" {
		t.Fatalf("answers = %v, %v", all, err)
	}
	wantTwo(t, err, all[0].NodeID, all[1].NodeID)
	if all, err = cl.CloseConnections(t.Context(), admin.CloseFilter{Nodes: []int32{1}}); len(all) != 0 || !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("CloseConnections() = %v, %v, want the broker's error", all, err)
	}
}

func TestTimelinesAreAskedOfEveryBroker(t *testing.T) {
	cl := clusterOf(t, protocol.DefaultDescribeTimelineKey, func(node int32, req kmsg.Request) kmsg.Response {
		r, resp := req.(*protocol.DescribeConnectionTimelineRequest), protocol.NewPtrDescribeConnectionTimelineResponse()
		resp.NodeID = node
		if r.ConnectionID == nil || r.AddressFilter == nil || r.ListenerFilter == nil || r.ClientPort != 4 || r.Most != 5 {
			resp.ErrorCode = kerr.InvalidRequest.Code
		}
		return resp
	})
	x := new("x")
	all, err := cl.DescribeConnectionTimeline(t.Context(), admin.TimelineFilter{ID: x, Address: x, Port: 4, Listener: x, Most: 5})
	if len(all) != 2 {
		t.Fatalf("answers = %v, %v", all, err)
	}
	wantTwo(t, err, all[0].NodeID, all[1].NodeID)
	if all, err = cl.DescribeConnectionTimeline(t.Context(), admin.TimelineFilter{Nodes: []int32{1}}); len(all) != 0 || !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("DescribeConnectionTimeline() = %v, %v, want the broker's error", all, err)
	}
}
