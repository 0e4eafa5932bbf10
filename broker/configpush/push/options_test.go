package push

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func newClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1"), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// A version of franz-go with other defaults fails here.
func TestTheTableHasTheDefaultsOfKgo(t *testing.T) {
	cl, err := kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	grouped := newClient(t, kgo.ConsumerGroup("g"))
	all := options()
	for i := range all {
		o := &all[i]
		value, ok := o.value(cl, &Config{})
		if !ok {
			value, ok = o.value(grouped, &Config{})
		}
		set := o.name == "group.id" // by the grouped one
		if ok && value != o.normal && !set || !ok && o.normal != "" {
			t.Errorf("%s = %q, %v; want kgo's default, %q", o.name, value, ok, o.normal)
		}
		for _, f := range o.from {
			if cl.OptValues(f) == nil {
				t.Errorf("%s: kgo knows no option %s", o.name, kgoName(f))
			}
		}
		if configpush.Sensitive(o.name, o.typ) {
			t.Errorf("%s is in the table though it is never pushed", o.name)
		}
	}
}

func TestOptionsAreCalledAsInKafka(t *testing.T) {
	cl := newClient(
		t, kgo.ClientID("orders"), kgo.Rack("r1"), kgo.ConnIdleTimeout(time.Minute), kgo.MetadataMaxAge(2*time.Minute), kgo.RequestTimeoutOverhead(7*time.Second),
		kgo.DialTimeout(3*time.Second),
		kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(3), kgo.ProducerBatchMaxBytes(16384),
		kgo.MaxBufferedBytes(32<<20), kgo.ProducerBatchCompression(kgo.ZstdCompression().WithLevel(7), kgo.NoCompression()), kgo.RecordDeliveryTimeout(2*time.Minute),
		kgo.ProducerLinger(5*time.Millisecond), kgo.BrokerMaxWriteBytes(2<<20), kgo.RecordRetries(9), kgo.TransactionTimeout(time.Minute),
		kgo.AllowAutoTopicCreation(), kgo.AutoCommitInterval(time.Second), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.DisableFetchCRCValidation(),
		kgo.FetchMaxBytes(1<<20), kgo.FetchMaxWait(time.Second), kgo.FetchMinBytes(100), kgo.ConsumerGroup("billing"), kgo.InstanceID("i-1"),
		kgo.HeartbeatInterval(time.Second), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(4096), kgo.RebalanceTimeout(5*time.Minute),
		kgo.SessionTimeout(10*time.Second), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
	)
	entries, withheld := collect(cl, &Config{})
	var got []string
	for _, e := range entries {
		if e.Default != (e.Key == "group.protocol") { // it alone is left as it is
			t.Errorf("%s=%s is told as default: %v", e.Key, e.Value, e.Default)
		}
		got = append(got, e.Key+"="+e.Value)
	}
	want := []string{
		"client.id=orders", "client.rack=r1", "connections.max.idle.ms=60000", "metadata.max.age.ms=120000", "request.timeout.ms=7000",
		"socket.connection.setup.timeout.ms=3000", "enable.metrics.push=false",
		"acks=1", "batch.size=16384", "buffer.memory=33554432", "compression.type=zstd", "delivery.timeout.ms=120000", "enable.idempotence=false", "linger.ms=5",
		"max.in.flight.requests.per.connection=3", "max.request.size=2097152", "retries=9", "transaction.timeout.ms=60000",
		"allow.auto.create.topics=true", "auto.commit.interval.ms=1000", "auto.offset.reset=latest", "check.crcs=false", "enable.auto.commit=false",
		"fetch.max.bytes=1048576", "fetch.max.wait.ms=1000", "fetch.min.bytes=100", "group.id=billing", "group.instance.id=i-1", "group.protocol=classic", "heartbeat.interval.ms=1000",
		"isolation.level=read_committed", "max.partition.fetch.bytes=4096", "max.poll.interval.ms=300000", "session.timeout.ms=10000",
	}
	if !slices.Equal(got, want) || withheld != nil {
		t.Errorf("collect() = %q, %q; want %q", got, withheld, want)
	}
}

func TestWhatAClientIsDecidesOnItsLists(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []kgo.Opt
		want []list
	}{
		{"nothing set", nil, []list{everyone, admin}},
		{"default topic", []kgo.Opt{kgo.DefaultProduceTopic("t")}, []list{everyone, producer}},
		{"producer's option", []kgo.Opt{kgo.ProducerLinger(0)}, []list{everyone, producer}},
		{"transactions", []kgo.Opt{kgo.TransactionalID("x")}, []list{everyone, producer}},
		{"topics", []kgo.Opt{kgo.ConsumeTopics("t")}, []list{everyone, consumer}},
		{"partitions", []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset()}})}, []list{everyone, consumer}},
		{"share group", []kgo.Opt{kgo.ShareGroup("g"), kgo.ConsumeTopics("t")}, []list{everyone, consumer}},
		{"both", []kgo.Opt{kgo.ConsumerGroup("g"), kgo.RecordRetries(1)}, []list{everyone, producer, consumer}},
	} {
		if got := lists(newClient(t, c.opts...), options()); !slices.Equal(got, c.want) {
			t.Errorf("%s: lists() = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestValuesThatKafkaHasNoWordForAreLeftOut(t *testing.T) {
	for _, c := range []struct {
		key  string
		opt  kgo.Opt
		want string // "" for none
	}{
		{"auto.offset.reset", kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), "earliest"},
		{"auto.offset.reset", kgo.ConsumeResetOffset(kgo.NoResetOffset()), "none"},
		{"auto.offset.reset", kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(5)), ""},
		{"auto.offset.reset", kgo.ClientID("as by default"), ""},
		{"compression.type", kgo.ProducerBatchCompression(), "none"},
		{"compression.type", kgo.ProducerBatchCompression(kgo.GzipCompression().WithLevel(3)), "gzip"},
		{"compression.type", kgo.ProducerBatchCompression(kgo.Lz4Compression()), "lz4"},
		{"delivery.timeout.ms", kgo.RecordDeliveryTimeout(0), ""},
		{"buffer.memory", kgo.MaxBufferedBytes(0), ""},
		{"buffer.memory", kgo.MaxBufferedBytes(8 << 30), "8589934592"},
		{"group.protocol", kgo.ConsumerGroup("g"), "classic"},
		{"group.protocol", kgo.ShareGroup("g"), ""},
		{"group.id", kgo.ShareGroup("g"), "g"},
		{"session.timeout.ms", kgo.ClientID("in no group"), ""},
		{"client.id", kgo.ClientID(""), "empty"},
		{"retries", kgo.RequestRetries(5), "5"},
		{"enable.config.push", kgo.ClientID("any"), "true"},
		{"config.push.allowed.keys", kgo.ClientID("any"), "config.push.allowed.keys,acks"},
		{"partition.assignment.strategy", kgo.ConsumerGroup("g"), "cooperative-sticky"},
	} {
		allowed := &Config{AllowedKeys: []string{c.key}}
		if c.key == AllowedKeysKey {
			allowed.AllowedKeys = append(allowed.AllowedKeys, "acks")
		}
		entries, _ := collect(newClient(t, c.opt), allowed)
		got := ""
		if len(entries) > 0 {
			got = entries[0].Value
			if got == "" {
				got = "empty"
			}
		}
		if got != c.want {
			t.Errorf("%s = %q, want %q", c.key, got, c.want)
		}
	}
}

// The guide's table is this package's. UPDATE_GUIDE=1 writes it anew.
func TestTheGuideHasTheTable(t *testing.T) {
	const path, begin, end = "../../../docs/guide-config-push.md", "<!-- the table of package push -->\n", "<!-- end of the table -->"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(b), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	if want := guideTable(); got != want {
		if os.Getenv("UPDATE_GUIDE") == "" {
			t.Fatalf("%s has another table (UPDATE_GUIDE=1 writes it):\n%s", path, want)
		}
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func guideTable() string {
	types := map[int8]string{
		protocol.ConfigTypeBoolean: "boolean", protocol.ConfigTypeString: "string", protocol.ConfigTypeInt: "int",
		protocol.ConfigTypeLong: "long", protocol.ConfigTypeList: "list",
	}
	var b strings.Builder
	b.WriteString("\n| Kafka's name | type | list | franz-go's option (`kgo`) | unless set |\n|---|---|---|---|---|\n")
	all := options()
	for i := range all {
		o := &all[i]
		var names []string
		for _, f := range o.from {
			names = append(names, "`"+kgoName(f)+"`")
		}
		if len(names) == 0 {
			names = []string{"`push.Config`"}
		}
		normal := "-"
		if o.normal != "" {
			normal = "`" + o.normal + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", o.name, types[o.typ], o.of, strings.Join(names, ", "), normal)
	}
	b.WriteByte('\n')
	return b.String()
}

func kgoName(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}
