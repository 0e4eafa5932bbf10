package engine

import (
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hostClient talks to the nodes themselves.
func hostClient(tb testing.TB, h *Host, opts ...kgo.Opt) *kgo.Client {
	tb.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(h.Addr())}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func TestAHostIsAClusterToClients(t *testing.T) {
	h := hostEngine(t, 3)
	ctx := timeout(t)
	adm := kadm.NewClient(hostClient(t, h))
	brokers, err := adm.ListBrokers(ctx)
	if err != nil || !slices.Equal(brokers.NodeIDs(), []int32{1, 2, 3}) {
		t.Fatalf("ListBrokers = %v, %v, want 1, 2 and 3", brokers.NodeIDs(), err)
	}
	if _, err = adm.CreateTopic(ctx, 12, 3, nil, "t"); err != nil {
		t.Fatalf("CreateTopic with three replicas = %v", err)
	}
	if _, err = adm.CreateTopic(ctx, 1, 4, nil, "u"); err == nil {
		t.Error("CreateTopic with four replicas on three nodes succeeded")
	}
	logs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	partitions := 0
	logs.Each(func(d kadm.DescribedLogDir) { d.Topics.Each(func(kadm.DescribedLogDirPartition) { partitions++ }) })
	if partitions != 12 {
		t.Errorf("all nodes' directories hold %d partitions, want 12", partitions)
	}
}

func TestAHostTellsNewerClientsHowToAskForItsVersions(t *testing.T) {
	h := hostEngine(t, 1)
	req := kmsg.NewPtrApiVersionsRequest() // the client asks in the highest version that it knows, which the host does not
	req.ClientSoftwareName, req.ClientSoftwareVersion = "test", "1"
	resp, err := req.RequestWith(timeout(t), hostClient(t, h))
	if err != nil || resp.Version != 4 || len(resp.ApiKeys) < 40 || !signed(resp, Sign) {
		t.Errorf("ApiVersions = %+v, %v, want version 4 with all APIs and the feature %s", resp, err, Sign)
	}
}

// The transactions of one client are coordinated by one node, the groups that it commits offsets of by another.
func TestTransactionsCommitOffsetsOfGroupsOnOtherNodes(t *testing.T) {
	h := hostEngine(t, 3)
	ctx := timeout(t)
	adm := kadm.NewClient(hostClient(t, h))
	if _, err := adm.CreateTopics(ctx, 3, 1, nil, "in", "out"); err != nil {
		t.Fatal(err)
	}
	producer := hostClient(t, h, kgo.DefaultProduceTopic("in"))
	const n = 60
	for i := range n {
		if err := producer.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(h.Addr()), kgo.TransactionalID("x"+name), kgo.ConsumerGroup(name), kgo.ConsumeTopics("in"),
			kgo.DefaultProduceTopic("out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			t.Fatal(err)
		}
		for got := 0; got < n; {
			fetches := s.PollFetches(ctx)
			if err = fetches.Err(); err != nil {
				t.Fatal(err)
			}
			if err = s.Begin(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) { s.Produce(ctx, &kgo.Record{Value: r.Value}, nil) })
			committed, failed := s.End(ctx, kgo.TryCommit)
			if failed != nil || !committed {
				t.Fatalf("End = %t, %v, want it committed", committed, failed)
			}
			got += fetches.NumRecords()
		}
		s.Close()
		lag, err := adm.Lag(ctx, name)
		if err != nil || lag[name].Lag.Total() != 0 {
			t.Errorf("group %s lags by %d, %v, want 0", name, lag[name].Lag.Total(), err)
		}
	}
	listed, err := adm.ListTransactions(ctx, nil, nil)
	if err != nil || len(listed) != 4 {
		t.Errorf("ListTransactions = %v, %v, want 4", listed, err)
	}
	all := 0
	for node := range int32(3) {
		face := openFace(t, node+1, Remote{Seeds: []string{h.Addr()}})
		req := kmsg.NewPtrListTransactionsRequest()
		all += len(ask[*kmsg.ListTransactionsResponse](t, face, req).TransactionStates)
	}
	if all != 4 {
		t.Errorf("the nodes list %d transactions, want 4", all)
	}
}

func TestWhatIsNoRequestEndsItsConnectionOnly(t *testing.T) {
	h := hostEngine(t, 1)
	for name, frame := range map[string]string{
		"2 GB":              "\x7f\xff\xff\xff",
		"a negative length": "\xff\xff\xff\xff",
		"an unknown key":    "\x00\x00\x00\x0a\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff",
		"an old Produce":    "\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff",
		"half a header":     "\x00\x00\x00\x02\x00\x00",
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(frame)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s is answered with %d bytes", name, n)
		}
		_ = conn.Close()
	}
	if _, err := kadm.NewClient(hostClient(t, h)).ListBrokers(timeout(t)); err != nil {
		t.Errorf("ListBrokers after that = %v", err)
	}
}

func TestAHostNeedsAnAddressThatBrokersCanReach(t *testing.T) {
	for _, o := range []HostOptions{
		{Nodes: 0, Listen: "127.0.0.1:0"},
		{Nodes: 2, Listen: "127.0.0.1:0", Alone: true},
		{Nodes: 1, Listen: "127.0.0.1"},
		{Nodes: 1, Listen: "0.0.0.0:0"},
		{Nodes: 3, Listen: "127.0.0.1:65533"},
	} {
		if h, err := Listen(t.Context(), o); err == nil {
			t.Errorf("Listen(%d nodes, %s) succeeded", o.Nodes, o.Listen)
			_ = h.Close()
		}
	}
}
