package broker_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func TestPushedConfigurationsAreDescribedPageByPage(t *testing.T) {
	t.Parallel()
	cfg := load(t, "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT\n"+
		"client.config.policy.class.name=store\nlog.dirs="+t.TempDir()+"\n")
	b := start(t, cfg, broker.WithLog(slog.New(slog.DiscardHandler)))
	me := dial(t, b.Addr("PLAINTEXT"))
	answered(me, pushing("acks", "all", "ssl.key.password", "secret"), 0)
	answered(dial(t, b.Addr("PLAINTEXT")), pushing("acks", "1\x1b[2J"), 0) // of the same identity: ambiguous
	answered(dial(t, b.Addr("OTHER")), pushing("acks", "0"), 0)
	described := func(set func(*protocol.DescribeClientConfigsRequest)) *protocol.DescribeClientConfigsResponse {
		req := protocol.NewPtrDescribeClientConfigsRequest()
		set(req)
		return ask[*protocol.DescribeClientConfigsResponse](me, req)
	}
	first := described(func(req *protocol.DescribeClientConfigsRequest) { req.Most, req.WithEntries = 1, true })
	if len(first.Clients) != 1 || len(first.Clients[0].Configurations) != 2 || first.NextID != first.Clients[0].ID || first.NodeID != cfg.NodeID {
		t.Fatalf("first page = %+v, want the ambiguous client and where to go on", first)
	}
	for _, k := range first.Clients[0].Configurations {
		for _, e := range k.Entries {
			if strings.ContainsAny(e.Value, "\x1b") || e.Value == "secret" || e.Redacted != (e.Key == "ssl.key.password") {
				t.Errorf("entry = %+v, want it shown safely and without secrets", e)
			}
		}
	}
	last := described(func(req *protocol.DescribeClientConfigsRequest) { req.AfterID = first.NextID })
	if len(last.Clients) != 1 || last.NextID != 0 || last.Clients[0].ListenerName != "OTHER" || last.Clients[0].Configurations[0].Entries != nil {
		t.Errorf("last page = %+v, want the other client without entries", last)
	}
	for name, c := range map[string]struct {
		set  func(*protocol.DescribeClientConfigsRequest)
		want int
	}{
		"listener":  {func(req *protocol.DescribeClientConfigsRequest) { req.ListenerFilter = new("other") }, 1},
		"ambiguous": {func(req *protocol.DescribeClientConfigsRequest) { req.AmbiguousOnly = true }, 1},
		"address":   {func(req *protocol.DescribeClientConfigsRequest) { req.AddressFilter = new("127.0.0.0/8") }, 2},
		"nobody":    {func(req *protocol.DescribeClientConfigsRequest) { req.PrincipalFilter = new("User:nobody") }, 0},
		"most":      {func(req *protocol.DescribeClientConfigsRequest) { req.Most = 1 << 30 }, 2},
	} {
		if got := described(c.set); got.ErrorCode != 0 || len(got.Clients) != c.want {
			t.Errorf("by %s = %+v, want %d clients", name, got, c.want)
		}
	}
	for name, set := range map[string]func(*protocol.DescribeClientConfigsRequest){
		"address": func(req *protocol.DescribeClientConfigsRequest) { req.AddressFilter = new("10.0.0.0/40") },
		"id":      func(req *protocol.DescribeClientConfigsRequest) { req.AfterID = -1 },
		"number":  func(req *protocol.DescribeClientConfigsRequest) { req.Most = -1 },
	} {
		if got := described(set); got.ErrorCode != kerr.InvalidRequest.Code || got.ErrorMessage == nil || len(got.Clients) != 0 {
			t.Errorf("wrong %s = %+v, want INVALID_REQUEST and why", name, got)
		}
	}
}

func TestWhoKeepsNoConfigurationsSaysSo(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"", "client.config.policy.class.name=log\n"} {
		b := start(t, load(t, "listeners=PLAINTEXT://127.0.0.1:0\n"+policy))
		got := ask[*protocol.DescribeClientConfigsResponse](dial(t, b.Addr("PLAINTEXT")), protocol.NewPtrDescribeClientConfigsRequest())
		if got.ErrorCode != kerr.UnsupportedVersion.Code || got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, "client.config.policy.class.name=store") {
			t.Errorf("with %q DescribeClientConfigs = %+v, want UNSUPPORTED_VERSION and what would keep them", policy, got)
		}
	}
}

func TestPushedConfigurationsAreForThoseWhoMayDescribeTheCluster(t *testing.T) {
	t.Parallel()
	addr := authorizedBroker(t)
	root, alice := &authority{raw: login(t, addr, "root")}, login(t, addr, "alice")
	for _, test := range []struct {
		rules string
		may   bool
	}{
		{"", false},
		{"allow DESCRIBE Cluster kafka-cluster", true},
		{"allow ALTER Cluster kafka-cluster; deny DESCRIBE Cluster kafka-cluster", false},
	} {
		root.rules(rules(t, test.rules))
		got := ask[*protocol.DescribeClientConfigsResponse](alice, protocol.NewPtrDescribeClientConfigsRequest())
		if may := got.ErrorCode != kerr.ClusterAuthorizationFailed.Code; may != test.may || !may && (got.NodeID != 0 || got.Time != 0) {
			t.Errorf("with %q DescribeClientConfigs = %+v", test.rules, got)
		}
	}
}
