package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ours = []int16{protocol.DefaultListClientConnectionsKey, protocol.DefaultDescribeConnectionsKey, protocol.DefaultDescribeKernelKey}

func dial(t *testing.T, c *admintest.Cluster) *admin.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addr(0)), admin.Versions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return admin.New(cl)
}

// lists answers ListClientConnections with connections of these ids, and an error code.
func lists(code int16, ids ...string) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		resp, ok := req.ResponseKind().(*protocol.ListClientConnectionsResponse)
		if !ok {
			return nil
		}
		resp.ErrorCode = code
		for _, id := range ids {
			resp.Connections = append(resp.Connections, protocol.ListClientConnectionsResponseConnection{ConnectionID: id})
		}
		return resp
	}
}

func brokerErrors(t *testing.T, err error) map[int32]*admin.BrokerError {
	t.Helper()
	all := map[int32]*admin.BrokerError{}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("error is a %T: %v", err, err)
	}
	for _, err := range joined.Unwrap() {
		var b *admin.BrokerError
		if !errors.As(err, &b) {
			t.Fatalf("error of a broker is a %T: %v", err, err)
		}
		all[b.NodeID] = b
	}
	return all
}

func TestListGoesToEveryBrokerAndSaysWhoAnswered(t *testing.T) {
	c := admintest.Start(
		t,
		&admintest.Broker{NodeID: 7, Keys: ours, Handle: lists(0, "b", "a")},
		&admintest.Broker{NodeID: 2, Keys: ours, Handle: lists(0, "c")},
		&admintest.Broker{NodeID: 3, Keys: ours, Handle: lists(0)},
	)
	rows, err := dial(t, c).ListClientConnections(t.Context(), admin.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.NodeID, r.ConnectionID))
	}
	if want := []string{"2c", "7a", "7b"}; !slices.Equal(got, want) {
		t.Errorf("rows = %v, want %v", got, want)
	}
}

func TestOneBrokersTroubleIsItsOwn(t *testing.T) {
	c := admintest.Start(
		t,
		&admintest.Broker{NodeID: 1, Keys: ours, Handle: lists(0, "a")},
		&admintest.Broker{NodeID: 2, Down: true},
		&admintest.Broker{NodeID: 3, Keys: ours, Handle: lists(kerr.ClusterAuthorizationFailed.Code)},
		&admintest.Broker{NodeID: 4},
		&admintest.Broker{NodeID: 5, Keys: ours, Handle: func(kmsg.Request) kmsg.Response { return nil }},
	)
	rows, err := dial(t, c).ListClientConnections(t.Context(), admin.ListFilter{})
	if len(rows) != 1 || rows[0].NodeID != 1 {
		t.Errorf("rows = %v, want the one of broker 1", rows)
	}
	errs := brokerErrors(t, err)
	if len(errs) != 4 || errs[1] != nil {
		t.Errorf("errors = %v, want one of each of the brokers 2 to 5", err)
	}
	if !errors.Is(errs[3], kerr.ClusterAuthorizationFailed) {
		t.Errorf("error of broker 3 = %v, want %v", errs[3], kerr.ClusterAuthorizationFailed)
	}
	if !errors.Is(errs[4], admin.ErrNotOffered) || !strings.Contains(errs[4].Error(), "broker 4 (") ||
		!strings.Contains(errs[4].Error(), "ListClientConnections (key 93) is not offered by the broker") {
		t.Errorf("error of broker 4 = %v, want %v", errs[4], admin.ErrNotOffered)
	}
	if !strings.Contains(errs[5].Error(), "may be another API") {
		t.Errorf("error of broker 5 = %v, want a hint at the number's other meaning", errs[5])
	}
}

func TestNodesNarrowTheCall(t *testing.T) {
	c := admintest.Start(
		t,
		&admintest.Broker{NodeID: 1, Keys: ours, Handle: lists(0, "a")},
		&admintest.Broker{NodeID: 2, Keys: ours, Handle: lists(0, "b")},
	)
	rows, err := dial(t, c).ListClientConnections(t.Context(), admin.ListFilter{Nodes: []int32{2, 9}})
	if len(rows) != 1 || rows[0].NodeID != 2 {
		t.Errorf("rows = %v, want the one of broker 2", rows)
	}
	if errs := brokerErrors(t, err); len(errs) != 1 || errs[9] == nil {
		t.Errorf("errors = %v, want one about broker 9", err)
	}
}

func TestFiltersReachTheBroker(t *testing.T) {
	principal, address, listener, empty := "User:alice", "::1", "SSL", ""
	var got []protocol.ListClientConnectionsRequest
	c := admintest.Start(t, &admintest.Broker{NodeID: 1, Keys: ours, Handle: func(req kmsg.Request) kmsg.Response {
		if r, ok := req.(*protocol.ListClientConnectionsRequest); ok {
			got = append(got, *r)
		}
		return lists(0)(req)
	}})
	cl := dial(t, c)
	for _, f := range []admin.ListFilter{{}, {Principal: &principal, ClientAddress: &address, Listener: &listener}, {Principal: &empty}} {
		if _, err := cl.ListClientConnections(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		r := got[len(got)-1]
		for _, pair := range [][2]*string{{f.Principal, r.PrincipalFilter}, {f.ClientAddress, r.ClientAddressFilter}, {f.Listener, r.ListenerFilter}} {
			want, have := pair[0], pair[1]
			if (want == nil) != (have == nil) || want != nil && *want != *have {
				t.Errorf("filter %v arrived as %v", want, have)
			}
		}
	}
}

func TestDescribeReadsAllPages(t *testing.T) {
	const pages = 5
	c := admintest.Start(t, &admintest.Broker{NodeID: 1, Keys: ours, Handle: func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*protocol.DescribeConnectionsRequest)
		if !ok || r.PageSize != 2 || !r.Kernel {
			return nil
		}
		var cursor protocol.Cursor
		if r.Cursor != nil {
			var err error
			if cursor, err = protocol.ParseCursor(r.Cursor); err != nil {
				return nil
			}
		}
		resp := req.ResponseKind().(*protocol.DescribeConnectionsResponse)
		resp.KernelSource = "full"
		for i := range uint64(r.PageSize) {
			id := fmt.Sprintf("%02d", cursor.Slot+i)
			resp.Connections = append(resp.Connections, protocol.DescribeConnectionsResponseConnection{ConnectionID: id})
		}
		if cursor.Slot += uint64(r.PageSize); cursor.Slot < pages*uint64(r.PageSize) {
			resp.NextCursor = cursor.AppendTo(nil)
		}
		return resp
	}})
	rows, err := dial(t, c).DescribeConnections(t.Context(), admin.DescribeFilter{PageSize: 2, Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		if r.ConnectionID != fmt.Sprintf("%02d", i) || r.KernelSource != "full" || r.NodeID != 1 {
			t.Errorf("row %d = %+v", i, r)
		}
	}
	if len(rows) != 2*pages {
		t.Errorf("%d rows, want %d", len(rows), 2*pages)
	}
}

func TestDescribeKeepsTheRowsBeforeAnError(t *testing.T) {
	page := 0
	c := admintest.Start(t, &admintest.Broker{NodeID: 1, Keys: ours, Handle: func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*protocol.DescribeConnectionsResponse)
		page++
		if page == 2 {
			message := "the broker has restarted"
			resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, &message
			return resp
		}
		resp.Connections = make([]protocol.DescribeConnectionsResponseConnection, 3)
		resp.NextCursor = []byte{1}
		return resp
	}})
	rows, err := dial(t, c).DescribeConnections(t.Context(), admin.DescribeFilter{})
	if len(rows) != 3 || !errors.Is(err, kerr.InvalidRequest) || !strings.Contains(err.Error(), "the broker has restarted") {
		t.Errorf("%d rows and %v, want 3 and the broker's message", len(rows), err)
	}
}

func TestListWithoutAnEndEnds(t *testing.T) {
	c := admintest.Start(t, &admintest.Broker{NodeID: 1, Keys: ours, Handle: func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*protocol.DescribeConnectionsResponse)
		resp.NextCursor = []byte{1}
		return resp
	}})
	if _, err := dial(t, c).DescribeConnections(t.Context(), admin.DescribeFilter{}); err == nil {
		t.Error("a page that is its own next one is no error")
	}
}

func TestDescribeKernelIsPerBroker(t *testing.T) {
	handle := func(node int32) func(kmsg.Request) kmsg.Response {
		return func(req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*protocol.DescribeKernelResponse)
			resp.NodeID, resp.Mode = node, "full"
			return resp
		}
	}
	c := admintest.Start(
		t,
		&admintest.Broker{NodeID: 2, Keys: ours, Handle: handle(2)},
		&admintest.Broker{NodeID: 1, Keys: ours, Handle: handle(1)},
	)
	all, err := dial(t, c).DescribeKernel(t.Context(), admin.KernelFilter{Sources: true})
	if err != nil || len(all) != 2 || all[0].NodeID != 1 || all[1].NodeID != 2 {
		t.Errorf("DescribeKernel() = %v, %v", all, err)
	}
}

func TestMovedKeysAreAskedFor(t *testing.T) {
	keys := protocol.DefaultKeys()
	keys.ListClientConnections = 20000
	c := admintest.Start(t, &admintest.Broker{NodeID: 1, Keys: ours})
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addr(0)), admin.Versions(keys))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	_, err = admin.New(cl, admin.WithKeys(keys)).ListClientConnections(t.Context(), admin.ListFilter{})
	if !errors.Is(err, admin.ErrNotOffered) || !strings.Contains(err.Error(), "key 20000") {
		t.Errorf("error = %v, want that key 20000 is not offered", err)
	}
}

func TestUnreachableClusterIsAnErrorInTime(t *testing.T) {
	c := admintest.Start(t, &admintest.Broker{NodeID: 1, Down: true})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := dial(t, c).ListClientConnections(ctx, admin.ListFilter{}); err == nil || ctx.Err() != nil {
		t.Errorf("error = %v, context = %v", err, ctx.Err())
	}
}
