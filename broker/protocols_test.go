package broker_test

import (
	"crypto/x509/pkix"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// fourProtocols is a broker with a listener for each security protocol on each of two loopback
// addresses, named by protocol and family: SASL_SSL_V6.
func fourProtocols(t *testing.T, p *pki) *broker.Config {
	t.Helper()
	cfg := plainConfig()
	cfg.Listeners = nil
	rules, err := sasl.ParseRules("RULE:^CN=([a-z]+),OU=apps$/$1/,DEFAULT")
	if err != nil {
		t.Fatal(err)
	}
	for family, host := range map[string]string{"V4": "127.0.0.1", "V6": "::1"} {
		for _, security := range []broker.Protocol{broker.Plaintext, broker.SSL, broker.SASLPlaintext, broker.SASLSSL} {
			l := broker.ListenerConfig{Name: string(security) + "_" + family, Protocol: security, Host: host, Threads: 1, MaxAuthFrame: 512 << 10}
			if security.TLS() {
				l.TLS, l.Principals = p.server(t), rules
			}
			if security.SASL() {
				l.Mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
				l.Plain = map[string]string{"alice": "alice-secret"}
			}
			cfg.Listeners = append(cfg.Listeners, l)
		}
	}
	return cfg
}

// versions admits brokerlab's own requests.
func versions() kgo.Opt {
	v := kversion.Stable()
	for _, key := range []int16{
		protocol.DefaultListClientConnectionsKey, protocol.DefaultDescribeConnectionsKey, protocol.DefaultDescribeKernelKey, protocol.DefaultDescribeClosedKey,
		protocol.DefaultDescribeLimitsKey, protocol.DefaultCloseConnectionsKey, protocol.DefaultDescribeTimelineKey,
		protocol.DefaultDescribeClientConfigsKey,
	} {
		v.SetMaxKeyVersion(key, 0)
	}
	return kgo.MaxVersions(v)
}

func TestEveryProtocolServesBothFamiliesAndKnowsItsClients(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	b := start(t, fourProtocols(t, p))
	alice := kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism())
	certified := kgo.DialTLSConfig(p.client(t, pkix.Name{CommonName: "bob", OrganizationalUnit: []string{"apps"}}))
	for listener, want := range map[string]struct {
		principal string
		opts      []kgo.Opt
	}{
		"PLAINTEXT_V4":      {"User:ANONYMOUS", nil},
		"PLAINTEXT_V6":      {"User:ANONYMOUS", nil},
		"SSL_V4":            {"User:bob", []kgo.Opt{certified}},
		"SSL_V6":            {"User:ANONYMOUS", []kgo.Opt{kgo.DialTLSConfig(p.client(t))}},
		"SASL_PLAINTEXT_V4": {"User:alice", []kgo.Opt{alice}},
		"SASL_PLAINTEXT_V6": {"User:alice", []kgo.Opt{alice}},
		"SASL_SSL_V4":       {"User:alice", []kgo.Opt{alice, certified}},
		"SASL_SSL_V6":       {"User:alice", []kgo.Opt{alice, kgo.DialTLSConfig(p.client(t))}},
	} {
		t.Run(listener, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t) // from when it runs, which may be long after its parent
			topic := "topic-" + listener
			addr := b.Addr(listener)
			c := client(t, addr, append(want.opts, versions(), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic),
				kgo.ConsumeTopics(topic), kgo.SoftwareNameAndVersion("protocols-test", "1.2.3"))...)
			if err := c.ProduceSync(ctx, kgo.StringRecord("over "+listener)).FirstErr(); err != nil {
				t.Fatalf("produce: %v", err)
			}
			f := c.PollFetches(ctx)
			if err := f.Err(); err != nil || f.NumRecords() != 1 || string(f.Records()[0].Value) != "over "+listener {
				t.Fatalf("poll = %d records, %v, want the one produced", f.NumRecords(), err)
			}

			// The address that clients are sent to is that of the listener they came through.
			brokers, err := kadm.NewClient(c).BrokerMetadata(ctx)
			if err != nil || len(brokers.Brokers) != 1 {
				t.Fatalf("BrokerMetadata = %+v, %v, want one broker", brokers, err)
			}
			if got := brokers.Brokers[0]; got.Host != addr.Addr().String() || got.Port != int32(addr.Port()) {
				t.Errorf("advertised %s:%d, want %s", got.Host, got.Port, addr)
			}

			req := protocol.NewPtrListClientConnectionsRequest()
			name := strings.ToLower(listener)
			req.ListenerFilter = &name
			list, err := req.RequestWith(ctx, c)
			if err != nil || list.ErrorCode != 0 || len(list.Connections) == 0 {
				t.Fatalf("ListClientConnections = %+v, %v, want rows", list, err)
			}
			for _, row := range list.Connections {
				if row.Principal != want.principal || row.ListenerName != listener || row.SoftwareName != "protocols-test" || row.SoftwareVersion != "1.2.3" {
					t.Errorf("row = %+v, want %s on %s with its software", row, want.principal, listener)
				}
			}
		})
	}
}

func TestASCRAMUserIsMadeAtRunTimeAndAuthenticates(t *testing.T) {
	t.Parallel()
	b := start(t, fourProtocols(t, newPKI(t)))
	ctx := limit(t)
	admin := kadm.NewClient(client(t, b.Addr("PLAINTEXT_V4")))
	carol := func(secret string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: "carol", Pass: secret}.AsSha512Mechanism())
	}
	if err := client(t, b.Addr("SASL_PLAINTEXT_V4"), carol("one")).Ping(ctx); err == nil {
		t.Fatal("carol authenticated before she existed")
	}
	made, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "carol", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "one"}})
	if err != nil || made.Error() != nil {
		t.Fatalf("AlterUserSCRAMs = %v, %v", made.Error(), err)
	}
	if err = client(t, b.Addr("SASL_PLAINTEXT_V4"), carol("one")).Ping(ctx); err != nil {
		t.Errorf("carol with her password: %v", err)
	}
	if err = client(t, b.Addr("SASL_PLAINTEXT_V4"), carol("two")).Ping(ctx); err == nil {
		t.Error("carol authenticated with a wrong password")
	}
	known, err := admin.DescribeUserSCRAMs(ctx)
	if err != nil || len(known["carol"].CredInfos) != 1 || known["carol"].CredInfos[0].Iterations != 4096 {
		t.Errorf("DescribeUserSCRAMs = %+v, %v, want carol with 4096 iterations", known, err)
	}
	refused, err := admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "nobody", Mechanism: kadm.ScramSha256}},
		[]kadm.UpsertSCRAM{{User: "dave", Mechanism: kadm.ScramSha256, Iterations: 100, SaltedPassword: []byte("x"), Salt: []byte("y")}})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for user, r := range refused {
		got = append(got, fmt.Sprintf("%s: %v: %s", user, r.Err, r.ErrMessage))
	}
	slices.Sort(got)
	if all := strings.Join(got, "\n"); !strings.Contains(all, "Too few iterations") || !strings.Contains(all, "Attempt to delete a user credential that does not exist") {
		t.Errorf("refused = %s", all)
	}
}

func TestGroupsAndTransactionsWork(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.NumPartitions = 3
	b := start(t, cfg)
	ctx := limit(t)
	seed := b.Addr("PLAINTEXT")
	producer := client(t, seed, kgo.TransactionalID("tx"), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders"))
	for i := range 4 {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("order ", i))).FirstErr(); err != nil {
			t.Fatalf("produce: %v", err)
		}
		if err := producer.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)); err != nil {
			t.Fatalf("end transaction: %v", err)
		}
	}
	members := []*kgo.Client{}
	for range 2 {
		members = append(members, client(t, seed, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
	}
	got := make(chan string, 16)
	for _, m := range members {
		go func() {
			for ctx.Err() == nil {
				f := m.PollFetches(ctx)
				if f.IsClientClosed() {
					return
				}
				for r := range f.RecordsAll() {
					got <- string(r.Value)
				}
			}
		}()
	}
	read := []string{<-got, <-got}
	slices.Sort(read)
	if want := []string{"order 0", "order 2"}; !slices.Equal(read, want) {
		t.Errorf("read %v, want %v: aborted records are not for read_committed", read, want)
	}
	groups, err := kadm.NewClient(producer).DescribeGroups(ctx, "billing")
	if err != nil || len(groups["billing"].Members) == 0 {
		t.Fatalf("DescribeGroups = %+v, %v, want members", groups, err)
	}
	for _, m := range groups["billing"].Members {
		if m.ClientHost != "/127.0.0.1" {
			t.Errorf("member's host = %q, want /127.0.0.1", m.ClientHost)
		}
	}
	for _, key := range []string{"billing"} {
		if c := kadm.NewClient(producer).FindGroupCoordinators(ctx, key); c[key].NodeID != 1 || c[key].Port != int32(seed.Port()) {
			t.Errorf("coordinator of %s = %+v, want node 1 at %s", key, c[key], seed)
		}
	}
}
