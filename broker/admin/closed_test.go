package admin_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func TestClosedConnectionsAreAskedOfEveryBrokerAfterItsOwnSequence(t *testing.T) {
	handle := func(node int32) func(kmsg.Request) kmsg.Response {
		return func(req kmsg.Request) kmsg.Response {
			r := req.(*protocol.DescribeClosedConnectionsRequest)
			resp := req.ResponseKind().(*protocol.DescribeClosedConnectionsResponse)
			resp.NodeID, resp.Sequence = node, r.AfterSequence+1
			for _, f := range []*string{r.PrincipalFilter, r.AddressFilter, r.ListenerFilter, r.ProtocolFilter, r.SoftwareFilter, r.ReasonFilter} {
				if f == nil {
					resp.ErrorCode = kerr.InvalidRequest.Code
				}
			}
			return resp
		}
	}
	keys := []int16{protocol.DefaultDescribeClosedKey}
	c := admintest.Start(
		t,
		&admintest.Broker{NodeID: 2, Keys: keys, Handle: handle(2)},
		&admintest.Broker{NodeID: 1, Keys: keys, Handle: handle(1)},
		&admintest.Broker{NodeID: 3},
	)
	cl := dial(t, c)
	text := "x"
	all, err := cl.DescribeClosedConnections(t.Context(), admin.ClosedFilter{
		Principal: &text, Address: &text, Listener: &text, Protocol: &text, Software: &text, Reason: &text, After: map[int32]int64{1: 10, 2: 20},
	})
	if len(all) != 2 || all[0].NodeID != 1 || all[0].Sequence != 11 || all[1].Sequence != 21 {
		t.Errorf("answers = %+v, want those of the brokers 1 and 2", all)
	}
	if errs := brokerErrors(t, err); len(errs) != 1 || !errors.Is(errs[3], admin.ErrNotOffered) {
		t.Errorf("errors = %v, want that broker 3 does not have it", err)
	}
	if all, err = cl.DescribeClosedConnections(t.Context(), admin.ClosedFilter{Nodes: []int32{2}}); len(all) != 0 || !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("DescribeClosedConnections() = %v, %v, want the broker's error", all, err)
	}
}
