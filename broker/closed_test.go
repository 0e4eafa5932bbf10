package broker_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

func TestConnectionsThatEndedAreRememberedWithTheirReason(t *testing.T) {
	t.Parallel()
	began := time.Now().UnixMilli()
	b := start(t, plainConfig())
	me := dial(t, b.Addr("PLAINTEXT"))
	closed := func(set func(*protocol.DescribeClosedConnectionsRequest)) *protocol.DescribeClosedConnectionsResponse {
		req := protocol.NewPtrDescribeClosedConnectionsRequest()
		if set != nil {
			set(req)
		}
		return ask[*protocol.DescribeClosedConnectionsResponse](me, req)
	}
	if first := closed(nil); first.ErrorCode != 0 || first.NodeID != 1 || first.Sequence != 0 || len(first.Connections) != 0 || first.Capacity < 1000 {
		t.Fatalf("nothing has ended, but the answer is %+v", first)
	}

	want := map[int32]string{}
	end := func(reason string, how func(r *raw)) {
		r := dial(t, b.Addr("PLAINTEXT"))
		ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
		want[int32(local(r).Port())] = reason
		how(r)
	}
	send := func(bytes ...byte) func(*raw) {
		return func(r *raw) {
			if _, err := r.conn.Write(bytes); err != nil {
				t.Error(err)
			}
		}
	}
	end("client_closed", func(r *raw) { _ = r.conn.Close() })
	end("client_reset", func(r *raw) {
		_ = r.conn.(*net.TCPConn).SetLinger(0)
		_ = r.conn.Close()
	})
	end("malformed_request", send(0xff, 0xff, 0xff, 0xff))
	end("oversize_frame", send(0x7f, 0xff, 0xff, 0xff))
	eventually(t, "four connections ended", func() bool { return closed(nil).Sequence == int64(len(want)) })

	all := closed(nil)
	for i := range all.Connections {
		c := &all.Connections[i]
		if c.Reason != want[c.ClientPort] || c.Principal != "User:ANONYMOUS" || c.ListenerName != "PLAINTEXT" || c.SecurityProtocol != "PLAINTEXT" {
			t.Errorf("row = %+v, want reason %q", c, want[c.ClientPort])
		}
		if c.ConnectionID == "" || c.SoftwareName == "" || c.BytesIn == 0 || c.BytesOut == 0 || c.ConnectedSince < began || c.ClosedAt < c.ConnectedSince || c.ClosedAt > all.Time {
			t.Errorf("row lacks what the connection was: %+v", c)
		}
		delete(want, c.ClientPort)
	}
	if len(want) != 0 {
		t.Errorf("not remembered: %v", want)
	}
	if !slices.IsSortedFunc(all.Connections, func(a, b protocol.DescribeClosedConnectionsResponseConnection) int {
		return int(a.Sequence - b.Sequence)
	}) {
		t.Error("rows are not in order")
	}

	text := func(s string) *string { return &s }
	for name, test := range map[string]struct {
		set  func(*protocol.DescribeClosedConnectionsRequest)
		want int
	}{
		"after":           {func(r *protocol.DescribeClosedConnectionsRequest) { r.AfterSequence = 3 }, 1},
		"after the end":   {func(r *protocol.DescribeClosedConnectionsRequest) { r.AfterSequence = 99 }, 0},
		"reason":          {func(r *protocol.DescribeClosedConnectionsRequest) { r.ReasonFilter = text("CLIENT_reset") }, 1},
		"prefix":          {func(r *protocol.DescribeClosedConnectionsRequest) { r.AddressFilter = text("127.0.0.0/8") }, 4},
		"other prefix":    {func(r *protocol.DescribeClosedConnectionsRequest) { r.AddressFilter = text("10.0.0.0/8") }, 0},
		"principal":       {func(r *protocol.DescribeClosedConnectionsRequest) { r.PrincipalFilter = text("User:ANONYMOUS") }, 4},
		"other principal": {func(r *protocol.DescribeClosedConnectionsRequest) { r.PrincipalFilter = text("User:bob") }, 0},
		"listener":        {func(r *protocol.DescribeClosedConnectionsRequest) { r.ListenerFilter = text("plaintext") }, 4},
		"protocol":        {func(r *protocol.DescribeClosedConnectionsRequest) { r.ProtocolFilter = text("ssl") }, 0},
		"software":        {func(r *protocol.DescribeClosedConnectionsRequest) { r.SoftwareFilter = text("nobody") }, 0},
	} {
		if got := closed(test.set); got.ErrorCode != 0 || len(got.Connections) != test.want || got.Sequence != 4 {
			t.Errorf("filter by %s = %+v, want %d rows", name, got, test.want)
		}
	}
	for name, set := range map[string]func(*protocol.DescribeClosedConnectionsRequest){
		"reason":   func(r *protocol.DescribeClosedConnectionsRequest) { r.ReasonFilter = text("boredom") },
		"address":  func(r *protocol.DescribeClosedConnectionsRequest) { r.AddressFilter = text("here") },
		"sequence": func(r *protocol.DescribeClosedConnectionsRequest) { r.AfterSequence = -1 },
	} {
		if got := closed(set); got.ErrorCode != kerr.InvalidRequest.Code || got.ErrorMessage == nil {
			t.Errorf("wrong %s = %+v, want INVALID_REQUEST and why", name, got)
		}
	}
}
