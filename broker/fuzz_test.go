package broker_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// FuzzRequests sends any bytes as the body of any request. Whatever they are, the request is answered
// or its connection closed, and the broker goes on serving others.
func FuzzRequests(f *testing.F) {
	b, err := broker.New(plainConfig())
	if err != nil {
		f.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { served <- b.Serve(ctx) }()
	f.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			f.Errorf("Serve: %v", err)
		}
	})
	<-b.Ready()
	for key := range int16(95) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for version := range req.MaxVersion() + 1 {
			req.SetVersion(version)
			f.Add(key, version, req.IsFlexible(), req.AppendTo(nil))
		}
	}
	for _, req := range []kmsg.Request{
		protocol.NewPtrListClientConnectionsRequest(), protocol.NewPtrDescribeConnectionsRequest(), protocol.NewPtrDescribeKernelRequest(),
		protocol.NewPtrDescribeClosedConnectionsRequest(), protocol.NewPtrDescribeLimitsRequest(),
		protocol.NewPtrCloseConnectionsRequest(), protocol.NewPtrDescribeConnectionTimelineRequest(),
		protocol.NewPtrDescribeClientConfigsRequest(),
		protocol.NewPtrDescribeMetadataRequest(),
	} {
		f.Add(req.Key(), int16(0), true, req.AppendTo(nil))
	}
	f.Add(int16(3), int16(12), true, autoCreate("fuzzed").AppendTo(nil))

	f.Fuzz(func(t *testing.T, key, version int16, flexible bool, body []byte) {
		if len(body) > 1<<20 {
			return
		}
		r := dial(t, b.Addr("PLAINTEXT"))
		r.frame(key, version, flexible, body)
		// A long poll is cut off by hanging up.
		if err := r.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(io.Discard, r.conn, 1) // an answer, a close, a reset or silence
		r.close()
		other := dial(t, b.Addr("PLAINTEXT"))
		if resp := ask[*kmsg.ApiVersionsResponse](other, versionsRequest(3)); resp.ErrorCode != 0 {
			t.Errorf("afterwards ApiVersions = error %d", resp.ErrorCode)
		}
		other.close()
	})
}
