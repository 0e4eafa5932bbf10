package broker_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/configpush/store"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// recorder is a policy that tells what it was told, and behaves as it is asked to.
type recorder struct {
	name string

	mu         sync.Mutex
	configured []map[string]string
	altered    []map[string]string
	pushes     []*configpush.Push
	closed     int
	process    func(ctx context.Context, p *configpush.Push) error // nil: takes everything
	configure  func() error
}

func (r *recorder) Configure(properties map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.configured = append(r.configured, properties)
	if r.configure != nil {
		return r.configure()
	}
	return nil
}

func (r *recorder) Reconfigure(properties map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.altered = append(r.altered, properties)
	return nil
}

func (r *recorder) Process(ctx context.Context, p *configpush.Push) error {
	r.mu.Lock()
	r.pushes = append(r.pushes, p)
	process := r.process
	r.mu.Unlock()
	if process != nil {
		return process(ctx, p)
	}
	return nil
}

func (r *recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	return nil
}

func (r *recorder) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pushes)
}

// last is the latest push.
func (r *recorder) last() *configpush.Push {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pushes[len(r.pushes)-1]
}

// told is how often the policy was closed, and what it was configured and reconfigured with.
func (r *recorder) told() (closed int, configured, altered []map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed, slices.Clone(r.configured), slices.Clone(r.altered)
}

func (r *recorder) behave(process func(context.Context, *configpush.Push) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = process
}

// policy registers a recorder under a name of the test's.
func policy(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	r.name = register(t, func() configpush.Policy { return r })
	return r
}

// register registers a policy under a name that no other test has, nor the same one when it runs again.
func register(t *testing.T, policy func() configpush.Policy) string {
	t.Helper()
	name := fmt.Sprintf("test.%s.%d", t.Name(), time.Now().UnixNano())
	configpush.Register(name, policy)
	return name
}

// pushing is a request with keys and values in turn.
func pushing(configs ...string) *protocol.PushConfigRequest {
	req := protocol.NewPtrPushConfigRequest()
	for i := 0; i < len(configs); i += 2 {
		req.Configs = append(req.Configs, protocol.PushConfigRequestConfig{Key: configs[i], Value: configs[i+1], Type: protocol.ConfigTypeString})
	}
	return req
}

// answered fails unless a push is answered with a code, and a message that has some texts in it.
func answered(r *raw, req *protocol.PushConfigRequest, code int16, texts ...string) {
	r.t.Helper()
	resp := ask[*protocol.PushConfigResponse](r, req)
	message := ""
	if resp.ErrorMessage != nil {
		message = *resp.ErrorMessage
	}
	if resp.ErrorCode != code || resp.ThrottleMillis != 0 || (message == "") != (code == 0) {
		r.t.Errorf("PushConfig = %d %q, throttled for %d, want %d", resp.ErrorCode, message, resp.ThrottleMillis, code)
	}
	for _, text := range texts {
		if !strings.Contains(message, text) {
			r.t.Errorf("PushConfig = %d %q, want %q in it", resp.ErrorCode, message, text)
		}
	}
}

// advertised tells whether ApiVersions has a key.
func advertised(resp *kmsg.ApiVersionsResponse, key int16) bool {
	return slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		return k.ApiKey == key && k.MinVersion == 0 && k.MaxVersion == 0
	})
}

// over is a connection to one of the four protocols, authenticated where that is asked for.
func over(t *testing.T, p *pki, listener string, addr netip.AddrPort) *raw {
	t.Helper()
	r := dial(t, addr)
	if strings.Contains(listener, "SSL") {
		config := p.client(t, pkix.Name{CommonName: "bob", OrganizationalUnit: []string{"apps"}})
		config.InsecureSkipVerify = true
		r.conn = tls.Client(r.conn, config)
	}
	if strings.HasPrefix(listener, "SASL") {
		ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
		if resp := ask[*kmsg.SASLAuthenticateResponse](r, token("\x00alice\x00alice-secret")); resp.ErrorCode != 0 {
			t.Fatalf("SaslAuthenticate = %+v", resp)
		}
	}
	return r
}

func TestPushConfigIsAdvertisedWithAPolicyAndNeverWithout(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	rec := policy(t)
	with, without := fourProtocols(t, pki), fourProtocols(t, pki)
	with.ConfigPolicy = rec.name
	for wants, b := range map[bool]*broker.Broker{true: start(t, with), false: start(t, without)} {
		for i := range with.Listeners {
			name := with.Listeners[i].Name
			for _, version := range []int16{0, 3, 4} {
				if name[:4] != "SASL" || version == 3 { // before authentication once only
					r := dial(t, b.Addr(name))
					if strings.Contains(name, "SSL") {
						r.conn = tls.Client(r.conn, insecure())
					}
					if got := advertised(ask[*kmsg.ApiVersionsResponse](r, versionsRequest(version)), 95); got != wants {
						t.Errorf("%s, before authentication: ApiVersions v%d has PushConfig: %v, want %v", name, version, got, wants)
					}
				}
				r := over(t, pki, name, b.Addr(name))
				if got := advertised(ask[*kmsg.ApiVersionsResponse](r, versionsRequest(version)), 95); got != wants {
					t.Errorf("%s: ApiVersions v%d has PushConfig: %v, want %v", name, version, got, wants)
				}
			}
		}
	}
}

func TestWithoutAPolicyAPushIsAnsweredThatItIsNotSupported(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	cfg := fourProtocols(t, pki)
	b := start(t, cfg)
	for i := range cfg.Listeners {
		name := cfg.Listeners[i].Name
		r := over(t, pki, name, b.Addr(name))
		for range 2 { // it is no reason to close
			answered(r, pushing("acks", "all"), 35, "client.config.policy.class.name")
		}
		r.frame(95, 1, true, nil)
		r.closed("version 1 of PushConfig")
	}
}

// A controller's listener is not there at all: no scope of it can have the request.
func TestControllerListenersAreNotThere(t *testing.T) {
	t.Parallel()
	b := start(t, load(t, "process.roles=broker,controller\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"+
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\nclient.config.policy.class.name=log\n"))
	if addr := b.Addr("CONTROLLER"); addr.IsValid() {
		t.Errorf("the controller's listener is at %v", addr)
	}
	if !advertised(ask[*kmsg.ApiVersionsResponse](dial(t, b.Addr("PLAINTEXT")), versionsRequest(3)), 95) {
		t.Error("the broker's listener does not have PushConfig")
	}
}

func TestThePolicySeesWhoPushesOverEveryProtocol(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	rec := policy(t)
	cfg := fourProtocols(t, pki)
	cfg.ConfigPolicy = rec.name
	b := start(t, cfg)
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		r := over(t, pki, l.Name, b.Addr(l.Name))
		ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
		body := pushing("acks", "all", "ssl.keystore.password", "hunter2").AppendTo(nil)
		header := binary.BigEndian.AppendUint32([]byte{0, 95, 0, 0}, 7)
		header = append(header, 0, 3, 'a', 'p', 'p', 0)
		before := time.Now()
		r.bytes(append(binary.BigEndian.AppendUint32(nil, uint32(len(header)+len(body))), append(header, body...)...))
		if got, err := r.answer(true); err != nil || !bytes.Equal(got, []byte{0, 0, 0, 0, 0, 0, 0, 0}) {
			t.Fatalf("%s: answer = %x, %v, want success", l.Name, got, err)
		}
		got := rec.last()
		want := configpush.Context{
			Listener: l.Name, Protocol: string(l.Protocol), Address: netip.MustParseAddr(l.Host), ClientID: "app", CorrelationID: 7,
			Principal: map[broker.Protocol]string{broker.Plaintext: "User:ANONYMOUS", broker.SSL: "User:bob", broker.SASLPlaintext: "User:alice", broker.SASLSSL: "User:alice"}[l.Protocol],
			Software:  "raw-test", SoftwareVersion: "1.0", ConnectionID: got.ConnectionID, Connected: got.Connected,
		}
		if got.Context != want {
			t.Errorf("%s: the policy saw\n%+v, want\n%+v", l.Name, got.Context, want)
		}
		rows := list(r, nil, nil, new(l.Name)).Connections
		if !slices.ContainsFunc(rows, func(c protocol.ListClientConnectionsResponseConnection) bool {
			return c.ConnectionID == got.ConnectionID && c.Principal == got.Principal && c.ConnectedSince == got.Connected.UnixMilli()
		}) {
			t.Errorf("%s: connection %s of %v is not listed: %+v", l.Name, got.ConnectionID, got.Connected, rows)
		}
		entries := []configpush.Entry{
			{Key: "acks", Value: "all", Type: protocol.ConfigTypeString}, {Key: "ssl.keystore.password", Value: configpush.Redacted, Type: protocol.ConfigTypeString, Redacted: true},
		}
		if !slices.Equal(got.Entries, entries) || got.Bytes != 4+3+21+7 || got.Received.Before(before) {
			t.Errorf("%s: the policy saw %+v of %d bytes at %v, want %+v", l.Name, got.Entries, got.Bytes, got.Received, entries)
		}
	}
}

func TestAPushOfAsManyBytesAsAllowedPassesAndNotOneMore(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	cfg := plainConfig()
	cfg.ConfigPolicy = rec.name
	r := dial(t, start(t, cfg).Addr("PLAINTEXT"))
	value := strings.Repeat("x", 10240-1)
	answered(r, pushing("k", value), 0)
	answered(r, pushing("k", value+"x"), 137, "10240", "10241")
	answered(r, pushing("kk", value), 137, "10240", "10241")
	// Bytes count, not characters.
	wide := strings.Repeat("語", (10240-1)/3)
	answered(r, pushing("k", wide), 0)
	answered(r, pushing("k", wide+"é"), 137, "10240", "10242")
	answered(r, pushing("é", wide, "k", "v"), 137, "10243")
	// A key that comes twice counts twice, and is refused only when it is not too large.
	answered(r, pushing("k", value[:5120], "k", value[:5120]), 137, "10242")
	answered(r, pushing("k", "v", "k", "v"), 42, "twice")
	if n := rec.calls(); n != 2 {
		t.Errorf("the policy was called %d times, want 2", n)
	}
}

func TestEveryStrangePushHasItsAnswer(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	cfg := plainConfig()
	cfg.ConfigPolicy = rec.name
	r := dial(t, start(t, cfg).Addr("PLAINTEXT"))
	answered(r, pushing(), 0)
	answered(r, pushing("acks", ""), 0)
	answered(r, pushing("", "v"), 42, "empty")
	answered(r, pushing("", ""), 42, "empty")
	answered(r, pushing("a\x1b[31m", "v", "a\x1b[31m", "w"), 42, `a\x1b[31m`)
	for typ := -128; typ <= 127; typ++ { // any byte
		req := pushing("k", "v")
		req.Configs[0].Type = int8(typ)
		if resp := ask[*protocol.PushConfigResponse](r, req); typ > -40 && typ < 40 && resp.ErrorCode != 0 { // then the connection is told to rest
			t.Errorf("a type of %d is answered %d", typ, resp.ErrorCode)
		}
		if typ == -40 {
			r = dial(t, r.conn.RemoteAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort())
		}
	}
	r = dial(t, r.conn.RemoteAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort())
	var many []string
	for i := range 100_000 {
		many = append(many, fmt.Sprint("key", i), "")
	}
	answered(r, pushing(many...), 137)
	answered(r, pushing(make([]string, 200_000)...), 42, "empty")
	answered(r, pushing("\xff\xfe\x00", "\x00\xff"), 0)
	if got := rec.last().Entries[0]; got.Key != "\xff\xfe\x00" || got.Value != "\x00\xff" {
		t.Errorf("the policy saw %q, want what was sent", []string{got.Key, got.Value})
	}
}

func TestAnUnauthenticatedPushEndsTheConnection(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	cfg := saslConfig()
	cfg.ConfigPolicy = rec.name
	addr := start(t, cfg).Addr("SASL")
	r := dial(t, addr)
	r.request(pushing("acks", "all"))
	r.closed("PushConfig before anything")
	r = dial(t, addr)
	ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
	r.request(pushing("acks", "all"))
	r.closed("PushConfig after ApiVersions")
	r = dial(t, addr)
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	answered(r, pushing("acks", "all"), 34, "") // as every request then
	r.closed("PushConfig during authentication")
	if n := rec.calls(); n != 0 {
		t.Errorf("the policy was called %d times, want never", n)
	}
}

func TestAPolicyThatFailsOrPanicsIsAnsweredAndCounted(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	b := start(t, load(t, "listeners=PLAINTEXT://127.0.0.1:0\nmetrics.listener=127.0.0.1:0\nclient.config.policy.class.name="+rec.name+"\n"))
	r := dial(t, b.Addr("PLAINTEXT"))
	rec.behave(func(context.Context, *configpush.Push) error { return errors.New("no room in here") })
	answered(r, pushing("acks", "all"), -1)
	for _, boom := range []any{"boom", errors.New("boom"), kmsg.NewPtrProduceRequest()} {
		rec.behave(func(context.Context, *configpush.Push) error { panic(boom) })
		answered(r, pushing("acks", "all"), -1)
	}
	rec.behave(func(_ context.Context, p *configpush.Push) error {
		return []error{nil}[len(p.Entries)] // a bug
	})
	answered(r, pushing("acks", "all"), -1)
	rec.behave(nil)
	answered(r, pushing("acks", "all"), 0)
	answered(r, pushing("acks", strings.Repeat("x", 10241)), 137)
	answered(r, pushing("a", "1", "a", "2"), 42)
	body := metrics(t, b)
	for name, want := range map[string]float64{
		`brokerlab_config_pushes_total{result="accepted"}`: 1, `brokerlab_config_pushes_total{result="too_large"}`: 1,
		`brokerlab_config_pushes_total{result="invalid"}`: 1, `brokerlab_config_pushes_total{result="policy_error"}`: 1,
		`brokerlab_config_pushes_total{result="policy_panic"}`: 4, `brokerlab_config_pushes_total{result="timeout"}`: 0,
		"brokerlab_config_push_bytes_total": 6*7 + 4 + 10241 + 4, "brokerlab_config_push_policy_calls_total": 6, "brokerlab_config_push_queue": 0,
		`kafka_network_requestmetrics_requestspersec_count{request="PushConfig",version="0"}`:            8,
		`kafka_network_requestmetrics_errorspersec_count{error="CONFIG_TOO_LARGE",request="PushConfig"}`: 1,
	} {
		if got := series(body, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	sum, longest, average := series(body, "brokerlab_config_push_policy_time_ms_sum"), series(body, "brokerlab_config_push_policy_time_ms_max"), series(body, "brokerlab_config_push_policy_time_ms_avg")
	if sum <= 0 || longest <= 0 || longest > sum || average <= 0 || average > longest {
		t.Errorf("the policy took %v ms, at most %v, on average %v", sum, longest, average)
	}
}

// A policy that does not come back costs those who push their patience, and nobody else anything.
func TestAPolicyThatSleepsHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	wake := make(chan struct{})
	rec.behave(func(context.Context, *configpush.Push) error { <-wake; return nil })
	cfg := load(t, "listeners=PLAINTEXT://127.0.0.1:0\nnum.io.threads=1\nmetrics.listener=127.0.0.1:0\nclient.config.policy.timeout.ms=300\nclient.config.policy.class.name="+rec.name+"\n")
	b := start(t, cfg)
	const clients = 20
	var pushers []*raw
	for range clients { // more than there are workers
		r := dial(t, b.Addr("PLAINTEXT"))
		r.request(pushing("acks", "all"))
		pushers = append(pushers, r)
	}
	other := dial(t, b.Addr("PLAINTEXT"))
	eventually(t, "the policy has all that it takes at a time", func() bool { return rec.calls() == 4 })
	ask[*kmsg.ApiVersionsResponse](other, versionsRequest(3)) // served meanwhile
	for _, r := range pushers {
		answer, err := r.answer(true)
		if err != nil || len(answer) < 6 || int16(binary.BigEndian.Uint16(answer[4:])) != -1 || !strings.Contains(string(answer), "300ms") {
			t.Errorf("a push that takes too long is answered %q, %v, want -1 and the time", answer, err)
		}
		ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3)) // the connection goes on
	}
	if got := series(metrics(t, b), `brokerlab_config_pushes_total{result="timeout"}`); got != clients {
		t.Errorf("%v pushes took too long, want %d", got, clients)
	}
	rec.behave(nil)
	close(wake)
	answered(other, pushing("acks", "all"), 0)
	if n := rec.calls(); n != 5 { // nobody wants those that waited too long
		t.Errorf("the policy was called %d times, want 5", n)
	}
}

// batcher is a recorder that takes several pushes at a time.
type batcher struct {
	*recorder

	batches chan handed
}

// handed is what a batcher was given, until it is told what to make of it.
type handed struct {
	pushes []*configpush.Push
	answer chan func(n int) []error
}

func (b *batcher) ProcessAll(_ context.Context, pushes []*configpush.Push) []error {
	it := handed{pushes, make(chan func(int) []error)}
	b.batches <- it
	return (<-it.answer)(len(pushes))
}

func TestAPolicyThatTakesSeveralPushesIsGivenThoseThatWait(t *testing.T) {
	t.Parallel()
	b := &batcher{recorder: &recorder{}, batches: make(chan handed)}
	name := register(t, func() configpush.Policy { return b })
	broke := start(t, load(t, "listeners=PLAINTEXT://127.0.0.1:0\nmetrics.listener=127.0.0.1:0\nclient.config.policy.timeout.ms=60000\nclient.config.policy.class.name="+name+"\n"))
	var first []*raw
	var alone []handed
	for range 4 { // as many as there are workers
		r := dial(t, broke.Addr("PLAINTEXT"))
		r.request(pushing("acks", "all"))
		first = append(first, r)
		got := <-b.batches
		if len(got.pushes) != 1 {
			t.Fatalf("the policy is given %d pushes, want the one that there is", len(got.pushes))
		}
		alone = append(alone, got)
	}
	const waiting = 300
	var rest []*raw
	for i := range waiting {
		r := dial(t, broke.Addr("PLAINTEXT"))
		r.request(pushing("n", strconv.Itoa(i)))
		rest = append(rest, r)
	}
	eventually(t, "all wait", func() bool { return series(metrics(t, broke), "brokerlab_config_push_queue") == waiting })
	alone[0].answer <- func(int) []error { return []error{nil} }
	many := <-b.batches
	if len(many.pushes) != 256 {
		t.Errorf("the policy is given %d pushes of %d that wait, want 256", len(many.pushes), waiting)
	}
	many.answer <- func(n int) []error {
		errs := make([]error, n)
		errs[7] = errors.New("no room for this one")
		return errs
	}
	last := <-b.batches
	if len(last.pushes) != waiting-256 {
		t.Errorf("the policy is given %d pushes, want the other %d", len(last.pushes), waiting-256)
	}
	last.answer <- func(int) []error { panic("boom") }
	for _, it := range alone[1:] {
		it.answer <- func(int) []error { return []error{nil, nil} } // a bug
	}
	codes := map[int16]int{}
	for _, r := range append(first, rest...) {
		answer, err := r.answer(true)
		if err != nil {
			t.Fatal(err)
		}
		codes[int16(binary.BigEndian.Uint16(answer[4:]))]++
	}
	if want := 1 + 255; codes[0] != want || codes[-1] != 4+waiting-want {
		t.Errorf("answers are %v, want %d times 0", codes, want)
	}
	body := metrics(t, broke)
	for name, want := range map[string]float64{
		`brokerlab_config_pushes_total{result="accepted"}`: 256, `brokerlab_config_pushes_total{result="policy_panic"}`: waiting - 256,
		`brokerlab_config_pushes_total{result="policy_error"}`: 4, "brokerlab_config_push_policy_calls_total": 4 + waiting, "brokerlab_config_push_queue": 0,
	} {
		if got := series(body, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

func TestABrokerStopsThoughItsPolicyHangs(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	wake := make(chan struct{})
	t.Cleanup(func() { close(wake) })
	rec.behave(func(context.Context, *configpush.Push) error { <-wake; return nil })
	cfg := plainConfig()
	cfg.ConfigPolicy = rec.name
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	r.request(pushing("acks", "all"))
	eventually(t, "the policy has the push", func() bool { return rec.calls() == 1 })
	stopsWithin(t, b, 9*time.Second)
	if closed, _, _ := rec.told(); closed != 1 {
		t.Errorf("the policy was closed %d times, want once", closed)
	}
}

func TestAConnectionThatPushesAgainAndAgainIsToldToRest(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	cfg := plainConfig()
	cfg.ConfigPolicy = rec.name
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	passed := 0
	for range 300 {
		if resp := ask[*protocol.PushConfigResponse](r, pushing("acks", "all")); resp.ErrorCode == 0 {
			passed++
		} else if resp.ErrorCode != -1 || !strings.Contains(*resp.ErrorMessage, "again and again") {
			t.Fatalf("PushConfig = %+v, want -1", resp)
		}
	}
	if passed < 100 || passed == 300 || passed != rec.calls() {
		t.Errorf("%d of 300 pushes passed, and the policy saw %d; want a hundred, and few more", passed, rec.calls())
	}
	answered(dial(t, b.Addr("PLAINTEXT")), pushing("acks", "all"), 0)
}

// P62: a client that ignores the answer and sends what is too large for ever is named, ever more seldom.
func TestAClientThatIgnoresItsLimitIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	text := &logText{}
	cfg := plainConfig()
	cfg.ConfigPolicy = configpush.Log
	b := start(t, cfg, broker.WithLog(slog.New(slog.NewTextHandler(text, nil))))
	r := dial(t, b.Addr("PLAINTEXT"))
	for range 1000 {
		answered(r, pushing("k", strings.Repeat("x", 20000)), 137)
	}
	for _, want := range []string{"refused_on_connection=1 ", "refused_on_connection=512 "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if n := strings.Count(text.String(), "too large"); n != 10 {
		t.Errorf("the log has %d lines about 1000 refused pushes, want 10", n)
	}
}

// A policy whose disk is full fails each push, and a log on that disk must not be what fills it.
func TestAPolicyThatFailsForEveryClientDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	rec.behave(func(context.Context, *configpush.Push) error { return errors.New("disk is full") })
	text := &logText{}
	cfg := plainConfig()
	cfg.ConfigPolicy = rec.name
	b := start(t, cfg, broker.WithLog(slog.New(slog.NewTextHandler(text, nil))))
	const pushes, aSecond = 2000, 100
	begun := time.Now()
	for range pushes / 100 { // so many each may send
		r := dial(t, b.Addr("PLAINTEXT"))
		for range 100 {
			answered(r, pushing("acks", "all"), -1)
		}
	}
	seconds := int(time.Since(begun)/time.Second) + 2
	n := strings.Count(text.String(), "the policy for client configurations failed")
	if n < aSecond || n > seconds*aSecond {
		t.Errorf("the log has %d lines about %d pushes that failed within %d seconds, want at most %d a second", n, pushes, seconds, aSecond)
	}
}

func TestThePropertiesOfPushesAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"client.config.policy.class.name=org.example.Mine": `client.config.policy.class.name: "org.example.Mine" is no policy here (allowed: empty, fault, log, `,
		"client.config.policy.class.name=Store":            "store",
		"client.config.max.bytes=0":                        "client.config.max.bytes: 0: Value must be at least 1",
		"client.config.max.bytes=10KB":                     "Not a number of type INT",
		"client.config.policy.timeout.ms=0":                "client.config.policy.timeout.ms: 0 must be at least 1",
		"client.config.store.max.instances=0":              "client.config.store.max.instances: 0 must be at least 1",
		"client.config.fault.panic=acks, =1":               `client.config.fault.panic: "=1" names no configuration (allowed: KEY, KEY=VALUE or *)`,
		"client.config.fault.sleep.ms=3600001":             "client.config.fault.sleep.ms: 3600001 is not from 0 to 3600000",
		"push.config.api.key=0":                            "push.config.api.key: 0 is no API key",
		"push.config.api.key=40000":                        "push.config.api.key: 40000 is no API key",
	} {
		_, err := broker.LoadConfig(write(t, "listeners=PLAINTEXT://127.0.0.1:0\n"+text+"\n"), nil, true)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("LoadConfig of %s = %v, want %q in it", text, err, want)
		}
	}
	for _, keys := range []string{"push.config.api.key=93", "push.config.api.key=18", "push.config.api.key=10001", "list.client.connections.api.key=95"} {
		b, err := broker.New(load(t, "listeners=PLAINTEXT://127.0.0.1:0\n"+keys+"\n"))
		if err == nil || !strings.Contains(err.Error(), "push.config.api.key") {
			t.Errorf("New with %s = %v, %v, want an error that names the property", keys, b, err)
		}
	}
	rec := policy(t)
	b := start(t, load(t, "listeners=PLAINTEXT://127.0.0.1:0\npush.config.api.key=20095\nclient.config.policy.class.name="+rec.name+"\n"))
	r := dial(t, b.Addr("PLAINTEXT"))
	if versions := ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3)); advertised(versions, 95) || !advertised(versions, 20095) {
		t.Error("the moved key is not where it was moved to")
	}
	req := pushing("acks", "all")
	req.SetKey(20095)
	answered(r, req, 0)
	r.request(pushing("acks", "all"))
	r.closed("PushConfig under the key that was moved")
}

func TestAPolicyThatCannotBeConfiguredFailsTheStart(t *testing.T) {
	t.Parallel()
	for what, configure := range map[string]func() error{
		"error": func() error { return errors.New("no such table") }, "panic": func() error { panic("no such table") },
	} {
		rec := policy(t)
		rec.configure = configure
		dir := t.TempDir()
		_, err := broker.New(load(t, "listeners=PLAINTEXT://127.0.0.1:0\nclient.config.policy.class.name="+rec.name+"\nlog.dirs="+dir+"\n"))
		if err == nil || !strings.Contains(err.Error(), "client.config.policy.class.name") || !strings.Contains(err.Error(), "no such table") {
			t.Errorf("New with a policy of an %s = %v, want the property and the cause", what, err)
		}
		if closed, _, _ := rec.told(); closed != 1 {
			t.Errorf("a policy that cannot be configured is closed %d times, want once", closed)
		}
		start(t, load(t, "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs="+dir+"\n")) // nothing holds the directory
	}
	none := register(t, func() configpush.Policy { return nil })
	if _, err := broker.New(load(t, "listeners=PLAINTEXT://127.0.0.1:0\nclient.config.policy.class.name="+none+"\n")); err == nil {
		t.Error("New with a policy that is none succeeds")
	}
}

func TestTheLimitOfPushesIsAlteredWhileTheBrokerRunsAndOutlivesIt(t *testing.T) {
	t.Parallel()
	rec := policy(t)
	dir := t.TempDir()
	properties := "listeners=PLAINTEXT://127.0.0.1:0\nclient.config.max.bytes=100\nlog.dirs=" + dir + "\nclient.config.policy.class.name=" + rec.name + "\n"
	b, stop := startLogged(t, properties, &logText{})
	r := dial(t, b.Addr("PLAINTEXT"))
	limited := func(n int) {
		t.Helper()
		answered(r, pushing("k", strings.Repeat("x", n-1)), 0)
		answered(r, pushing("k", strings.Repeat("x", n)), 137, strconv.Itoa(n), strconv.Itoa(n+1))
	}
	limited(100)
	_, configured, before := rec.told() // a new cluster has dynamic configs from the start
	if got := configured[0]; got["log.dirs"] != dir || got["client.config.max.bytes"] != "100" || got["client.config.policy.timeout.ms"] != "5000" ||
		got["client.config.store.max.instances"] != "10000" {
		t.Errorf("the policy was configured with %v", got)
	}
	mustAlter(r, "", map[string]*string{"client.config.max.bytes": new("200")})
	limited(200)
	mustAlter(r, "1", map[string]*string{"client.config.max.bytes": new("300")})
	limited(300)
	_, _, altered := rec.told()
	if told := altered[len(before):]; len(told) != 2 || told[0]["client.config.max.bytes"] != "200" || told[1]["client.config.max.bytes"] != "300" {
		t.Errorf("the policy was told of %d alterations: %v, want two", len(told), told)
	}
	for value, want := range map[string]string{"0": "Value must be at least 1", "abc": "Not a number of type INT", "": "Not a number of type INT"} {
		if code, text := alter(r, "1", map[string]*string{"client.config.max.bytes": &value}); code != 42 || !strings.Contains(text, want) {
			t.Errorf("client.config.max.bytes=%q = %d %s, want 42 %s", value, code, text, want)
		}
	}
	for name, value := range map[string]string{
		"client.config.policy.class.name": "log", "push.config.api.key": "96", "client.config.policy.timeout.ms": "1", "client.config.store.max.instances": "1",
		"client.config.fault.fail": "*",
	} {
		if code, text := alter(r, "1", map[string]*string{name: &value}); code != 42 || !strings.Contains(text, "Cannot update these configs dynamically: ["+name+"]") {
			t.Errorf("%s = %d %s, want 42", name, code, text)
		}
	}
	described := func(resource, name string) string {
		t.Helper()
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version, req.IncludeSynonyms = 4, true
		one := kmsg.NewDescribeConfigsRequestResource()
		one.ResourceType, one.ResourceName, one.ConfigNames = kmsg.ConfigResourceTypeBroker, resource, []string{name}
		req.Resources = append(req.Resources, one)
		all := ask[*kmsg.DescribeConfigsResponse](r, req).Resources[0].Configs
		if len(all) != 1 || all[0].Value == nil {
			return fmt.Sprintf("%+v", all)
		}
		return fmt.Sprintf("%s %d %v %v: %s", *all[0].Value, all[0].ConfigType, all[0].ReadOnly, all[0].IsSensitive, synonyms(all[0]))
	}
	const key = "client.config.max.bytes"
	for what, want := range map[[2]string]string{
		{"1", key}:                               "300 3 false false: 2 " + key + "=300, 3 " + key + "=200, 4 " + key + "=100, 5 " + key + "=10240",
		{"", key}:                                "200 3 false false: 3 " + key + "=200",
		{"1", "client.config.policy.class.name"}: rec.name + " 8 true false: 4 client.config.policy.class.name=" + rec.name,
	} {
		if got := described(what[0], what[1]); got != want {
			t.Errorf("DescribeConfigs of %q %s = %s, want %s", what[0], what[1], got, want)
		}
	}
	r.close()
	stop()
	if closed, _, _ := rec.told(); closed != 1 {
		t.Errorf("the policy was closed %d times, want once", closed)
	}
	b, stop = startLogged(t, properties, &logText{})
	defer stop()
	r = dial(t, b.Addr("PLAINTEXT"))
	limited(300)
	_, _, altered = rec.told()
	if n := len(altered); n == len(before)+2 || altered[n-1]["client.config.max.bytes"] != "300" {
		t.Errorf("the policy was not told what an earlier run has stored: %v", altered)
	}
	mustAlter(r, "1", map[string]*string{"client.config.max.bytes": nil})
	limited(200)
	mustAlter(r, "", map[string]*string{"client.config.max.bytes": nil})
	limited(100)
}

func TestWhatWasPushedSurvivesKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const clients = 200
	for round := range 3 {
		c := startChild(t, dir, childPolicy+"=store")
		for i := range clients {
			r := dial(t, seedOf(t, c))
			answered(r, pushing("round", strconv.Itoa(round), "n", strconv.Itoa(i), "my.password", "hunter2"), 0)
			r.close()
		}
		c.kill()
	}
	p := store.New(slog.New(slog.DiscardHandler))
	if err := p.Configure(map[string]string{"log.dirs": dir}); err != nil {
		t.Fatal(err)
	}
	all, err := p.List(t.Context(), configpush.Filter{Entries: true})
	if err = errors.Join(err, p.Close()); err != nil || len(all) != 1 { // they have one identity, and none stayed
		t.Fatalf("List() = %d clients, %v, want one", len(all), err)
	}
	if got := all[0].Configurations[0].Entries; got[0].Value != "2" || got[1].Value != strconv.Itoa(clients-1) || got[2].Value != configpush.Redacted {
		t.Errorf("the last push was %+v", got)
	}
	files, err := os.ReadDir(filepath.Join(dir, store.Dir))
	if err != nil || len(files) != 1 {
		t.Errorf("the store's files are %v, %v, want one when it is closed", files, err)
	}
}

// The store of a broker, with real connections: who is told apart, and who is not.
func TestTheStoreTellsClientsApartByTheirConnections(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	cfg := fourProtocols(t, pki)
	dir := t.TempDir()
	cfg.ConfigPolicy, cfg.LogDirs = configpush.Store, []string{dir}
	served, err := broker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- served.Serve(t.Context()) }()
	<-served.Ready()
	for i := range cfg.Listeners {
		name := cfg.Listeners[i].Name
		answered(over(t, pki, name, served.Addr(name)), pushing("listener", name), 0)
	}
	twin := over(t, pki, "PLAINTEXT_V4", served.Addr("PLAINTEXT_V4"))
	answered(twin, pushing("listener", "another"), 0)
	if err = errors.Join(served.Shutdown(limit(t)), <-done); err != nil {
		t.Fatal(err)
	}
	p := store.New(slog.New(slog.DiscardHandler))
	if err = p.Configure(map[string]string{"log.dirs": dir}); err != nil {
		t.Fatal(err)
	}
	all, err := p.List(t.Context(), configpush.Filter{Entries: true})
	if err = errors.Join(err, p.Close()); err != nil || len(all) != len(cfg.Listeners) {
		t.Fatalf("List() = %d clients, %v, want %d", len(all), err, len(cfg.Listeners))
	}
	for _, c := range all {
		if last := c.Configurations[len(c.Configurations)-1].Entries[0].Value; last != c.Listener || c.Ambiguous() != (c.Listener == "PLAINTEXT_V4") {
			t.Errorf("%s of %s has %+v", c.Principal, c.Listener, c.Configurations)
		}
	}
}

// Thousands push at once: each is answered, and memory is bounded.
func TestThousandsPushAtOnce(t *testing.T) {
	t.Parallel()
	cfg := load(t, "listeners=PLAINTEXT://127.0.0.1:0\nclient.config.policy.class.name=store\nclient.config.policy.timeout.ms=60000\nlog.dirs="+t.TempDir()+"\n")
	b := start(t, cfg, broker.WithLog(slog.New(slog.DiscardHandler)))
	const clients = 1000
	var all []*raw
	for range clients {
		all = append(all, dial(t, b.Addr("PLAINTEXT")))
	}
	begun := time.Now()
	for i, r := range all {
		body := pushing("n", strconv.Itoa(i), "value", strings.Repeat("x", 1000)).AppendTo(nil)
		id := fmt.Sprint("client-", i)
		header := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32([]byte{0, 95, 0, 0}, 7), uint16(len(id)))
		header = append(append(header, id...), 0)
		r.bytes(append(binary.BigEndian.AppendUint32(nil, uint32(len(header)+len(body))), append(header, body...)...))
	}
	for _, r := range all {
		if answer, err := r.answer(true); err != nil || !bytes.Equal(answer, make([]byte, 8)) {
			t.Fatalf("a push is answered %x, %v, want success", answer, err)
		}
	}
	t.Logf("%d clients pushed within %v, on %d processors", clients, time.Since(begun), runtime.NumCPU())
}

// Whatever body comes, it is answered or the connection is closed, and the broker lives.
func FuzzPushConfig(f *testing.F) {
	f.Add(pushing("acks", "all", "k\x00", "\xff").AppendTo(nil))
	f.Add(pushing().AppendTo(nil))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	cfg := plainConfig()
	cfg.ConfigPolicy = configpush.Store
	b, err := broker.New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	go func() { _ = b.Serve(f.Context()) }() // ends with the process
	<-b.Ready()
	f.Fuzz(func(t *testing.T, body []byte) {
		r := dial(t, b.Addr("PLAINTEXT"))
		defer r.close()
		r.frame(95, 0, true, body)
		answer, err := r.answer(true)
		if err != nil {
			if !isReset(err) && err.Error() != "EOF" {
				t.Fatalf("%x: %v", body, err)
			}
			return
		}
		resp := protocol.NewPtrPushConfigResponse()
		if err = resp.ReadFrom(answer); err != nil {
			t.Fatalf("%x is answered %x: %v", body, answer, err)
		}
		if !slices.Contains([]int16{0, 42, 137}, resp.ErrorCode) {
			t.Fatalf("%x is answered %+v", body, resp)
		}
	})
}
