package push_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/configpush/push"
)

// recorded is the policy that keeps what it is given, for brokers of the tests.
type recorded struct {
	mu     sync.Mutex
	pushes []*configpush.Push
	fail   error
}

func (*recorded) Configure(map[string]string) error   { return nil }
func (*recorded) Reconfigure(map[string]string) error { return nil }
func (*recorded) Close() error                        { return nil }

func (r *recorded) Process(_ context.Context, p *configpush.Push) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushes = append(r.pushes, p)
	return r.fail
}

// of are the pushes of a client id.
func (r *recorded) of(clientID string) []*configpush.Push {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*configpush.Push
	for _, p := range r.pushes {
		if p.ClientID == clientID {
			all = append(all, p)
		}
	}
	return all
}

var keeps, fails = &recorded{}, &recorded{fail: errors.New("the disk is full")}

func TestMain(m *testing.M) {
	configpush.Register("push.test.keeps", func() configpush.Policy { return keeps })
	configpush.Register("push.test.fails", func() configpush.Policy { return fails })
	goleak.VerifyTestMain(m)
}

const policyKeeps = "client.config.policy.class.name=push.test.keeps"

// startBroker is a broker with an open listener and one for users, alice being the only one.
func startBroker(t *testing.T, properties ...string) (open, users netip.AddrPort) {
	t.Helper()
	b := admintest.Real(t, append([]string{
		"listeners=PLAINTEXT://127.0.0.1:0,USERS://127.0.0.1:0",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN",
		`listener.name.users.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";`,
		"log.dirs=" + t.TempDir(),
	}, properties...))
	return b.Addr("PLAINTEXT"), b.Addr("USERS")
}

// setup is a client whose connections pass a proxy, and what it says.
type setup struct {
	*proxy
	hook   *push.Hook
	client *kgo.Client
	log    *lines
}

func connect(t *testing.T, broker netip.AddrPort, c push.Config, opts ...kgo.Opt) *setup {
	t.Helper()
	s := &setup{proxy: startProxy(t, broker.String()), hook: push.New(c), log: &lines{}}
	s.start(t, opts...)
	return s
}

func (s *setup) start(t *testing.T, opts ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.broker), kgo.Dialer(s.dial), kgo.WithHooks(s.hook), kgo.WithLogger(s.log), kgo.AllowAutoTopicCreation(),
		kgo.DisableClientMetrics(), kgo.ClientID(t.Name()), kgo.RetryTimeout(20 * time.Second),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s.client = cl
}

// works produces a record and consumes it again, over connections of the client's own and new ones.
func (s *setup) works(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.client.Ping(ctx); err != nil {
		t.Errorf("Ping() = %v, want nil", err)
	}
	topic := strings.NewReplacer("/", "-", "'", "-", ",", "").Replace(t.Name())
	if err := s.client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatalf("ProduceSync() = %v, want nil", err)
	}
	s.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
	if f := s.client.PollFetches(ctx); f.NumRecords() == 0 || f.Err() != nil {
		t.Errorf("PollFetches() = %d records and %v, want some", f.NumRecords(), f.Err())
	}
	s.client.RemoveConsumePartitions(map[string][]int32{topic: {0}})
}

func (s *setup) became(t *testing.T, want push.Outcome) push.Result {
	t.Helper()
	got, ok := s.hook.Result()
	if !ok || got.Outcome != want {
		t.Fatalf("Result() = %q (%v, code %d %q), %v; want %q", got.Outcome, got.Err, got.Code, got.Message, ok, want)
	}
	return got
}

// lines are a client's log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (*lines) Level() kgo.LogLevel { return kgo.LogLevelInfo }

func (l *lines) Log(level kgo.LogLevel, text string, values ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprint(level, " ", text, values))
}

func (l *lines) warned(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(line string) bool { return strings.HasPrefix(line, "WARN") && strings.Contains(line, text) })
}

func TestAClientPushesAfterAuthenticationAndBeforeItsFirstRequest(t *testing.T) {
	open, users := startBroker(t, policyKeeps)
	login := kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism())
	for _, c := range []struct {
		name      string
		addr      netip.AddrPort
		opts      []kgo.Opt
		principal string
		want      []int16 // then come the client's own
	}{
		{"PLAINTEXT", open, nil, "User:ANONYMOUS", []int16{keyVersions, keyVersions, keyPush}},
		{"SASL_PLAINTEXT", users, []kgo.Opt{login}, "User:alice", []int16{keyVersions, keyHandshake, keyAuthenticate, keyVersions, keyPush}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := connect(t, c.addr, push.Config{}, c.opts...)
			s.works(t)
			r := s.became(t, push.Accepted)
			if r.Took <= 0 || r.Bytes == 0 || r.Broker.Port != int32(c.addr.Port()) {
				t.Errorf("Result() = %+v, want the time, the size and the broker", r)
			}
			if got := s.requests(0, len(c.want)); !slices.Equal(got, c.want) {
				t.Errorf("requests = %v, want %v first", got, c.want)
			}
			if got := s.count(keyPush); got != 1 {
				t.Errorf("%d pushes, want 1", got)
			}
			answered := slices.Index(s.events(), seen{0, true, keyPush})
			for _, e := range s.events()[:answered] {
				if !e.answer && !slices.Contains(c.want, e.key) {
					t.Errorf("request %d is sent before the push is answered", e.key)
				}
			}
			got := keeps.of(t.Name())
			if len(got) != 1 {
				t.Fatalf("the policy has %d pushes, want 1", len(got))
			}
			p := got[0]
			if p.Principal != c.principal || p.Listener != map[string]string{"PLAINTEXT": "PLAINTEXT", "SASL_PLAINTEXT": "USERS"}[c.name] ||
				p.Software != "kgo" || !p.Address.IsLoopback() {
				t.Errorf("pushed by %+v", p.Context)
			}
			if !slices.Equal(p.Entries, r.Entries) || p.Bytes != r.Bytes {
				t.Errorf("the policy has %v (%d bytes), want %v (%d)", p.Entries, p.Bytes, r.Entries, r.Bytes)
			}
		})
	}
}

func TestAProduceThatComesEarlyWaitsForThePush(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	s := &setup{proxy: startProxy(t, open.String()), hook: push.New(push.Config{}), log: &lines{}}
	const clients = 20
	early, release := make(chan struct{}), make(chan struct{})
	s.onPush = func(client io.Writer, answer []byte) bool {
		close(early)
		<-release
		s.note(seen{-1, true, keyPush})
		_, err := client.Write(answer)
		return err == nil
	}
	s.start(t)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			topic := fmt.Sprintf("early-%d", i)
			if err := s.client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
				t.Errorf("ProduceSync() = %v, want nil", err)
			}
		})
	}
	<-early
	if err := s.client.Ping(expired(t, 200*time.Millisecond)); err == nil {
		t.Error("Ping() = nil while the push is not answered, want an error")
	}
	if got := s.requests(0, 10); !slices.Equal(got, []int16{keyVersions, keyVersions, keyPush}) {
		t.Errorf("requests = %v while the push is not answered", got)
	}
	close(release)
	all.Wait()
	if got := s.count(keyPush); got != 1 {
		t.Errorf("%d pushes, want 1", got)
	}
	if r := s.became(t, push.Accepted); r.Took < 200*time.Millisecond {
		t.Errorf("Took = %v, want all the time that the calls waited", r.Took)
	}
	events := s.events()
	if slices.Index(events, seen{-1, true, keyPush}) > slices.IndexFunc(events, func(e seen) bool { return e.key == keyProduce }) {
		t.Error("a Produce is sent before the push is answered")
	}
}

func expired(t *testing.T, after time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	t.Cleanup(cancel)
	return ctx
}

func TestSecretsAreNeverOnTheWire(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	s := connect(t, open, push.Config{AllowedKeys: []string{
		"sasl.jaas.config", "client.id", "bootstrap.servers", "ssl.key.password", "my.token", "transactional.id", "linger.ms", "client.id", "no.such.config",
	}}, kgo.TransactionalID("x password=hunter2"))
	if err := s.client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := s.became(t, push.Accepted)
	if want := []string{"sasl.jaas.config", "bootstrap.servers", "ssl.key.password", "my.token", "transactional.id"}; !slices.Equal(r.Withheld, want) {
		t.Errorf("Withheld = %q, want %q", r.Withheld, want)
	}
	want := []configpush.Entry{{Key: "client.id", Value: t.Name(), Type: 2}, {Key: "linger.ms", Value: "10", Type: 5, Default: true}}
	if got := keeps.of(t.Name()); len(got) != 1 || !slices.Equal(got[0].Entries, want) {
		t.Errorf("pushed %v, want %v once", got, want)
	}
	for _, text := range []string{"hunter2", "jaas", "bootstrap", "password", "token"} {
		if bytes.Contains(s.sent(), []byte(text)) {
			t.Errorf("%q is on the wire", text)
		}
	}
	if !s.log.warned("sasl.jaas.config") {
		t.Errorf("log = %q, want a warning that names the key", s.log.all)
	}
}

func TestNothingIsSentWhereNothingIsToBePushed(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	old, _ := startBroker(t)
	large := kgo.TransactionalID(strings.Repeat("й", configpush.DefaultMaxBytes/2))
	oldClient := kversion.V2_3_0()
	for _, c := range []struct {
		name     string
		addr     netip.AddrPort
		config   push.Config
		opts     []kgo.Opt
		want     push.Outcome
		warning  string
		versions int // requests for ApiVersions on the first connection
	}{
		{"disabled", open, push.Config{Disable: true, AllowedKeys: []string{"sasl.x"}}, nil, push.Disabled, "", 1},
		{"all sensitive", open, push.Config{AllowedKeys: []string{"sasl.mechanism", "ssl.keystore.location"}}, nil, push.Nothing, "ssl.keystore.location", 1},
		{"empty list", open, push.Config{AllowedKeys: []string{}}, nil, push.Nothing, "", 1},
		{"unset", open, push.Config{AllowedKeys: []string{"transactional.id", "no.such.config"}}, nil, push.Nothing, "", 1},
		{"too large", open, push.Config{AllowedKeys: []string{"transactional.id"}}, []kgo.Opt{large}, push.TooLarge, "10256", 1},
		{"old broker", old, push.Config{}, nil, push.Unsupported, "", 2},
		{"client held to old versions", open, push.Config{}, []kgo.Opt{kgo.MaxVersions(oldClient)}, push.Unsupported, "", 1},
		{"other key", open, push.Config{Key: 1234}, nil, push.Unsupported, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := connect(t, c.addr, c.config, c.opts...)
			if err := s.client.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.became(t, c.want)
			if s.count(keyPush) != 0 || s.count(1234) != 0 {
				t.Error("a push is sent, want none")
			}
			if got := s.count(keyVersions); got != c.versions {
				t.Errorf("%d requests for ApiVersions, want %d", got, c.versions)
			}
			if c.warning == "" && s.log.warned("") || !s.log.warned(c.warning) && c.warning != "" {
				t.Errorf("log = %q, want a warning with %q", s.log.all, c.warning)
			}
		})
	}
}

func TestTheLimitIsReachedExactlyInMultiByteText(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	text := strings.Repeat("й", (configpush.DefaultMaxBytes-len("transactional.id"))/2)
	s := connect(t, open, push.Config{AllowedKeys: []string{"transactional.id"}}, kgo.TransactionalID(text))
	if err := s.client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := s.became(t, push.Accepted); r.Bytes != configpush.DefaultMaxBytes {
		t.Errorf("Bytes = %d, want the limit, %d", r.Bytes, configpush.DefaultMaxBytes)
	}
}

func TestAPushThatGoesWrongDoesNotBreakTheClientAndIsNotRepeated(t *testing.T) {
	small, _ := startBroker(t, policyKeeps, "client.config.max.bytes=50")
	failing, _ := startBroker(t, "client.config.policy.class.name=push.test.fails")
	open, _ := startBroker(t, policyKeeps)
	for _, c := range []struct {
		name   string
		addr   netip.AddrPort
		onPush func(client io.Writer, answer []byte) bool
		want   push.Outcome
		code   int16
	}{
		{"too large for this broker", small, nil, push.Refused, 137},
		{"policy fails", failing, nil, push.Refused, -1},
		{"unknown error", open, changed(func(b []byte) []byte { b[13], b[14] = 0x7f, 0x01; return b }), push.Refused, 0x7f01},
		{"disconnect", open, func(io.Writer, []byte) bool { return false }, push.Failed, 0},
		{"no answer", open, func(io.Writer, []byte) bool { return true }, push.Failed, 0},
		{"half an answer", open, changed(func(b []byte) []byte { return b[:9] }), push.Failed, 0},
		{"another's answer", open, changed(func(b []byte) []byte { b[7]++; return b }), push.Failed, 0},
		{"an answer that claims a lot", open, changed(func(b []byte) []byte { b[0] = 0x7f; return b }), push.Failed, 0},
		{"an answer that is cut", open, changed(func(b []byte) []byte { return append([]byte{0, 0, 0, 6}, b[4:10]...) }), push.Failed, 0},
		{"no frame", open, changed(func([]byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }), push.Failed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &setup{proxy: startProxy(t, c.addr.String()), log: &lines{}}
			s.onPush = c.onPush
			told := make(chan push.Result, 10)
			s.hook = push.New(push.Config{Timeout: time.Second, OnResult: func(r push.Result) { told <- r }})
			s.start(t)
			s.works(t)
			r := s.became(t, c.want)
			if r.Code != c.code || (r.Err != nil) != (c.want == push.Failed) {
				t.Errorf("Result() = code %d, error %v; want code %d", r.Code, r.Err, c.code)
			}
			if got := s.count(keyPush); got != 1 {
				t.Errorf("%d pushes, want 1", got)
			}
			if len(told) != 1 {
				t.Errorf("OnResult is called %d times, want once", len(told))
			}
			if !s.log.warned("configuration") {
				t.Errorf("log = %q, want a warning", s.log.all)
			}
		})
	}
}

// changed passes on another answer; one that ends early is followed by nothing, as of a broker that hangs.
func changed(change func([]byte) []byte) func(io.Writer, []byte) bool {
	return func(client io.Writer, answer []byte) bool {
		_, err := client.Write(change(answer))
		return err == nil
	}
}

// A client once sent the same metrics for ever though each was refused as too large (KAFKA-21077).
func TestARefusedClientPushesNoSecondTimeHoweverOftenItConnects(t *testing.T) {
	small, _ := startBroker(t, policyKeeps, "client.config.max.bytes=1024")
	s := connect(t, small, push.Config{AllowedKeys: []string{"transactional.id"}}, kgo.TransactionalID(strings.Repeat("x", 5<<10)))
	for range 10 {
		if _, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), s.client); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.conns = nil
		s.mu.Unlock()
	}
	r := s.became(t, push.Refused)
	if s.count(keyPush) != 1 || !strings.Contains(r.Message, "5136") || !strings.Contains(r.Message, "1024") {
		t.Errorf("%d pushes, refused with %q; want 1, and both sizes", s.count(keyPush), r.Message)
	}
}

func TestAProducerWithoutAcknowledgementsPushes(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	s := connect(t, open, push.Config{}, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	if err := s.client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := s.client.ProduceSync(t.Context(), &kgo.Record{Topic: "unacknowledged", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.became(t, push.Accepted); !slices.Contains(r.Entries, configpush.Entry{Key: "acks", Value: "0", Type: 2}) {
		t.Errorf("pushed %v, want acks=0 among it", r.Entries)
	}
}

func TestClosingAClientEndsItsPush(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	s := &setup{proxy: startProxy(t, open.String()), hook: push.New(push.Config{Timeout: time.Hour}), log: &lines{}}
	pushed := make(chan struct{})
	s.onPush = func(io.Writer, []byte) bool { close(pushed); return true }
	s.start(t)
	pinged := make(chan error, 1)
	go func() { pinged <- s.client.Ping(context.WithoutCancel(t.Context())) }()
	<-pushed
	s.client.Close()
	if err := <-pinged; err == nil {
		t.Error("Ping() = nil of a closed client, want an error")
	}
	s.became(t, push.Failed)
}

func TestAHookServesOneClient(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	s := connect(t, open, push.Config{})
	first := s.client
	s.start(t, kgo.ClientID("second"))
	if err := cmp.Or(s.client.Ping(t.Context()), first.Ping(t.Context())); err != nil {
		t.Fatal(err)
	}
	if !s.log.warned("one client") || s.count(keyPush) != 1 {
		t.Errorf("%d pushes and log %q, want one push and a warning", s.count(keyPush), s.log.all)
	}
}

// BROKERLAB_TEST_KAFKA is the PLAINTEXT listener of a Kafka without the API: to it a client is one that does not push.
func TestToKafkaNothingChanges(t *testing.T) {
	kafka := os.Getenv("BROKERLAB_TEST_KAFKA")
	if kafka == "" {
		t.Skip("BROKERLAB_TEST_KAFKA names no Kafka")
	}
	addr, err := net.ResolveTCPAddr("tcp", kafka)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, addr.AddrPort(), push.Config{})
	s.works(t)
	r := s.became(t, push.Unsupported)
	t.Logf("a Kafka without the API is asked for %v", r.Took)
	if s.count(keyPush) != 0 {
		t.Error("Kafka is sent a push, want none")
	}
}

func TestPropertiesAreReadByKafkasNames(t *testing.T) {
	for _, c := range []struct {
		enable, keys string
		want         push.Config
		bad          bool
	}{
		{"true", "", push.Config{AllowedKeys: []string{}}, false},
		{" FALSE ", " acks , ,linger.ms", push.Config{Disable: true, AllowedKeys: []string{"acks", "linger.ms"}}, false},
		{"yes", "acks", push.Config{}, true},
	} {
		got, err := push.ParseConfig(map[string]string{push.EnableKey: c.enable, push.AllowedKeysKey: c.keys, "acks": "1"})
		if (err != nil) != c.bad || got.Disable != c.want.Disable || !slices.Equal(got.AllowedKeys, c.want.AllowedKeys) ||
			(got.AllowedKeys == nil) != (c.want.AllowedKeys == nil) {
			t.Errorf("ParseConfig(%q, %q) = %+v, %v; want %+v", c.enable, c.keys, got, err, c.want)
		}
	}
	if got, err := push.ParseConfig(nil); err != nil || got.Disable || got.AllowedKeys != nil {
		t.Errorf("ParseConfig(nil) = %+v, %v; want the zero Config", got, err)
	}
}
