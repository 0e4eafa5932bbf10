package broker_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/acl"
)

// decided is what an authorizer logged.
type decided struct {
	mu    sync.Mutex // guards lines
	lines []string
	own   bool // the logger is the authorizer's
	to    *decided
}

func (*decided) Enabled(context.Context, slog.Level) bool { return true }

func (d *decided) Handle(_ context.Context, r slog.Record) error {
	if d.own {
		d.to.mu.Lock()
		defer d.to.mu.Unlock()
		d.to.lines = append(d.to.lines, r.Level.String()+" "+r.Message)
	}
	return nil
}

func (d *decided) WithAttrs(attrs []slog.Attr) slog.Handler {
	own := slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "logger" && a.Value.String() == "kafka.authorizer.logger" })
	to := d
	if d.to != nil {
		to = d.to
	}
	return &decided{own: own || d.own, to: to}
}

func (d *decided) WithGroup(string) slog.Handler { return d }

func (d *decided) has(line string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.lines, line)
}

// await waits until n lines have been logged that hold a text.
func (d *decided) await(t *testing.T, text string, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := limit(t); ; {
		d.mu.Lock()
		found := 0
		for _, line := range d.lines {
			if strings.Contains(line, text) {
				found++
			}
		}
		d.mu.Unlock()
		if found >= n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%q was logged %d times within a minute, want %d", text, found, n)
		case <-tick.C:
		}
	}
}

// guarded is a broker whose clients at 127.0.0.1 may do everything, and those at 127.0.0.2 what they are let.
type guarded struct {
	t     *testing.T
	addr  netip.AddrPort
	log   *decided
	admin *kgo.Client
}

func guard(t *testing.T) *guarded {
	t.Helper()
	cfg := plainConfig()
	cfg.Authorizer, cfg.AllowEveryone, cfg.NumPartitions = broker.StandardAuthorizer, true, 2
	g := &guarded{t: t, log: &decided{}}
	g.addr = start(t, cfg, broker.WithLog(slog.New(g.log))).Addr("PLAINTEXT")
	g.admin = client(t, g.addr, kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for kind, name := range map[acl.ResourceType]string{acl.Topic: "*", acl.Group: "*", acl.Cluster: acl.ClusterName} {
		g.change(acl.Binding{
			Pattern: acl.Pattern{Type: kind, Name: name, Kind: acl.Literal}, Principal: "User:ANONYMOUS", Host: "127.0.0.1",
			Operation: acl.All, Permission: acl.Allow,
		})
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range []string{"open", "shut"} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
		create.Topics = append(create.Topics, topic)
	}
	if _, err := create.RequestWith(limit(t), g.admin); err != nil {
		t.Fatal(err)
	}
	return g
}

// change adds a rule.
func (g *guarded) change(b acl.Binding) {
	g.t.Helper()
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceType(b.Type), b.Name, kmsg.ACLResourcePatternType(b.Kind)
	c.Principal, c.Host, c.Operation, c.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = append(req.Creations, c)
	resp, err := req.RequestWith(limit(g.t), g.admin)
	if err != nil || resp.Results[0].ErrorCode != 0 {
		g.t.Fatalf("create %v: %v, %+v", b, err, resp)
	}
}

// reads is a rule about reading the topic open from 127.0.0.2.
func reads(p acl.Permission) acl.Binding {
	return acl.Binding{
		Pattern: acl.Pattern{Type: acl.Topic, Name: "open", Kind: acl.Literal}, Principal: "User:ANONYMOUS", Host: "127.0.0.2/31",
		Operation: acl.Read, Permission: p,
	}
}

// guest is a connection from 127.0.0.2.
func (g *guarded) guest() *raw {
	g.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	conn, err := d.DialContext(g.t.Context(), "tcp", g.addr.String())
	if err != nil {
		g.t.Fatal(err)
	}
	r := &raw{g.t, conn}
	g.t.Cleanup(r.close)
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		g.t.Fatal(err)
	}
	return r
}

func metadataOf(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func fetchOf(topic string, waitMillis int32, partitions ...int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, waitMillis, 1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for _, p := range partitions {
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.PartitionMaxBytes = p, 1<<20
		t.Partitions = append(t.Partitions, one)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func TestDecisionsAreLoggedAsKafkaLogsThem(t *testing.T) {
	t.Parallel()
	g := guard(t)
	g.change(reads(acl.Allow))
	guest := g.guest()
	ask[*kmsg.FetchResponse](guest, fetchOf("open", 0, 0, 1))
	ask[*kmsg.FetchResponse](guest, fetchOf("shut", 0, 0, 1))
	ask[*kmsg.MetadataResponse](guest, metadataOf())
	ask[*kmsg.MetadataResponse](guest, metadataOf("shut"))
	id := kmsg.NewPtrInitProducerIDRequest()
	id.Version = 4
	ask[*kmsg.InitProducerIDResponse](guest, id)
	const who, where = "Principal = User:ANONYMOUS is ", " from host = 127.0.0.2 on resource = "
	for _, line := range []string{
		"DEBUG " + who + "Allowed operation = READ" + where + "Topic:LITERAL:open for request = Fetch with resourceRefCount = 2 based on rule " +
			"MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=open, patternType=LITERAL, principal=User:ANONYMOUS, host=127.0.0.2/31, operation=READ, permissionType=ALLOW])",
		"INFO " + who + "Denied operation = READ" + where + "Topic:LITERAL:shut for request = Fetch with resourceRefCount = 2 based on rule DefaultDeny",
		"DEBUG-4 " + who + "Denied operation = DESCRIBE" + where + "Topic:LITERAL:shut for request = Metadata with resourceRefCount = 1 based on rule DefaultDeny",
		"INFO " + who + "Denied operation = DESCRIBE" + where + "Topic:LITERAL:shut for request = Metadata with resourceRefCount = 1 based on rule DefaultDeny",
		"DEBUG-4 " + who + "Denied operation = IDEMPOTENT_WRITE" + where + "Cluster:LITERAL:kafka-cluster for request = InitProducerId with resourceRefCount = 1 based on rule DefaultDeny",
	} {
		if !g.log.has(line) {
			t.Errorf("no line\n%s\nin\n%q", line, g.log.lines)
		}
	}
}

func TestAWaitingFetchGetsNothingOnceItsReaderIsDenied(t *testing.T) {
	t.Parallel()
	g := guard(t)
	g.change(reads(acl.Allow))
	guest := g.guest()
	req := fetchOf("open", 30_000, 0)
	guest.request(req)
	g.log.await(t, "User:ANONYMOUS is Allowed operation = READ from host = 127.0.0.2 on resource = Topic:LITERAL:open for request = Fetch", 1)
	g.change(reads(acl.Deny))
	if err := g.admin.ProduceSync(limit(t), &kgo.Record{Topic: "open", Value: []byte("a secret")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	body, err := guest.answer(resp.IsFlexible())
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 29 || len(p.RecordBatches) != 0 {
		t.Errorf("error %d with %d bytes of records, want 29 and none", p.ErrorCode, len(p.RecordBatches))
	}
}

func TestAChangeOfRulesActsOnOpenConnections(t *testing.T) {
	t.Parallel()
	g := guard(t)
	guest := g.guest()
	code := func() int16 { return ask[*kmsg.MetadataResponse](guest, metadataOf("open")).Topics[0].ErrorCode }
	if got := code(); got != 29 {
		t.Errorf("without a rule: %d, want 29", got)
	}
	g.change(reads(acl.Allow))
	if got := code(); got != 0 {
		t.Errorf("once it is allowed: %d, want 0", got)
	}
	deny := reads(acl.Deny)
	deny.Operation = acl.Describe
	g.change(deny)
	if got := code(); got != 29 {
		t.Errorf("once it is denied: %d, want 29", got)
	}
}
