package broker_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// reconfigurable is a broker whose listener ADDED may come and go: the listeners that are advertised must stay.
func reconfigurable(t *testing.T, more string, opts ...broker.Option) *broker.Broker {
	t.Helper()
	return start(t, load(t, `listeners=PLAINTEXT://127.0.0.1:0
advertised.listeners=PLAINTEXT://127.0.0.1:0
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADDED:PLAINTEXT,SPARE:SASL_PLAINTEXT
metrics.listener=127.0.0.1:0
`+more), opts...)
}

func mustAlter(r *raw, resource string, configs map[string]*string) {
	r.t.Helper()
	if code, message := alter(r, resource, configs); code != 0 {
		r.t.Fatalf("alter %q = %d %s, want it done", resource, code, message)
	}
}

func metrics(t *testing.T, b *broker.Broker) string {
	t.Helper()
	req, err := http.NewRequestWithContext(limit(t), http.MethodGet, "http://"+b.MetricsAddr().String()+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAListenerComesAndGoesWhileClientsAreConnected(t *testing.T) {
	t.Parallel()
	kernel := &countingKernel{report: func(ports []uint16) broker.KernelReport {
		r := broker.KernelReport{Mode: broker.KernelModeFull, Exactness: broker.KernelExact}
		for _, port := range ports {
			r.Ports = append(r.Ports, broker.KernelPort{Port: port})
		}
		return r
	}}
	b := reconfigurable(t, "", broker.WithKernel(kernel))
	old := dial(t, b.Addr("PLAINTEXT"))
	mustAlter(old, "1", map[string]*string{"listeners": new("PLAINTEXT://127.0.0.1:0,ADDED://127.0.0.1:0")})

	at := b.Addr("ADDED")
	kernel.mu.Lock()
	if !slices.Contains(kernel.watched, at.Port()) {
		t.Errorf("watched ports %v, want %d among them", kernel.watched, at.Port())
	}
	kernel.mu.Unlock()
	through := dial(t, at)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	if brokers := ask[*kmsg.MetadataResponse](through, metadata).Brokers; len(brokers) != 1 || brokers[0].Port != int32(at.Port()) {
		t.Errorf("Metadata through ADDED = %+v, want port %d", brokers, at.Port())
	}
	cluster := kmsg.NewPtrDescribeClusterRequest()
	if brokers := ask[*kmsg.DescribeClusterResponse](through, cluster).Brokers; len(brokers) != 1 || brokers[0].Port != int32(at.Port()) {
		t.Errorf("DescribeCluster through ADDED = %+v, want port %d", brokers, at.Port())
	}
	if find(list(old, nil, nil, new("ADDED")).Connections, through) == nil {
		t.Error("the list does not show the connection through ADDED")
	}
	if series := `kafka_server_socket_server_metrics_connection_count{listener="ADDED"} 1`; !strings.Contains(metrics(t, b), series) {
		t.Errorf("metrics lack %s", series)
	}
	if ports := ask[*protocol.DescribeKernelResponse](old, protocol.NewPtrDescribeKernelRequest()).Ports; len(ports) != 2 {
		t.Errorf("DescribeKernel has ports %+v, want two", ports)
	}

	// Asked through the listener that goes, and answered all the same.
	mustAlter(through, "1", map[string]*string{"listeners": nil})
	through.closed("a connection of a listener that was removed")
	eventually(t, "the connection leaves the list", func() bool { return len(list(old, nil, nil, new("ADDED")).Connections) == 0 })
	eventually(t, "the connection is remembered as closed by the change", func() bool {
		closed := ask[*protocol.DescribeClosedConnectionsResponse](old, protocol.NewPtrDescribeClosedConnectionsRequest()).Connections
		return slices.ContainsFunc(closed, func(c protocol.DescribeClosedConnectionsResponseConnection) bool {
			return c.ListenerName == "ADDED" && c.Reason == "listener_changed"
		})
	})
	var d net.Dialer
	if conn, err := d.DialContext(limit(t), "tcp", at.String()); err == nil {
		_ = conn.Close()
		t.Error("the removed listener still takes connections")
	}
	if strings.Contains(metrics(t, b), `listener="ADDED"`) {
		t.Error("metrics still show ADDED")
	}
	if ports := ask[*protocol.DescribeKernelResponse](old, protocol.NewPtrDescribeKernelRequest()).Ports; len(ports) != 1 {
		t.Errorf("DescribeKernel has ports %+v, want one", ports)
	}
	if b.Addr("ADDED") != (netip.AddrPort{}) {
		t.Errorf("Addr(ADDED) = %v, want none", b.Addr("ADDED"))
	}
	// Its name and port are free again.
	mustAlter(old, "1", map[string]*string{"listeners": new("PLAINTEXT://127.0.0.1:0,ADDED://" + at.String())})
	ask[*kmsg.MetadataResponse](dial(t, at), metadata)
}

func TestClientsCarryOnWhileThreadsComeAndGo(t *testing.T) {
	t.Parallel()
	b := reconfigurable(t, "num.network.threads=2\n")
	ctx := limit(t)
	const clients, rounds = 6, 6
	stop, cancel := context.WithCancel(ctx)
	var producing sync.WaitGroup
	sent := make([]int, clients)
	for i := range clients {
		c := client(t, b.Addr("PLAINTEXT"), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("carried"), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
		producing.Go(func() {
			for stop.Err() == nil {
				// franz-go takes a connection that is closed before its first answer for one that wants SASL or TLS, and gives up.
				if err := c.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err == nil {
					sent[i]++
				} else if ctx.Err() != nil || !strings.Contains(err.Error(), "is SASL missing?") && !strings.Contains(err.Error(), "is TLS missing?") {
					t.Errorf("client %d: produce: %v", i, err)
					return
				}
			}
		})
	}
	for round := range rounds {
		// The connection that asks may be one of those that go, after its answer.
		mustAlter(dial(t, b.Addr("PLAINTEXT")), "1", map[string]*string{
			"num.network.threads": &[]string{"4", "8", "4", "2", "1", "2"}[round], "num.io.threads": &[]string{"8", "16", "8", "4", "4", "8"}[round],
		})
	}
	cancel()
	producing.Wait()
	total := 0
	for _, n := range sent {
		total += n
	}
	if total == 0 {
		t.Error("nothing was produced")
	}
	consumer := client(t, b.Addr("PLAINTEXT"), kgo.ConsumeTopics("carried"))
	got := 0
	for got < total {
		f := consumer.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("poll after %d of %d: %v", got, total, err)
		}
		got += f.NumRecords()
	}
	if used := processors(list(dial(t, b.Addr("PLAINTEXT")), nil, nil, nil).Connections); len(used) > 2 {
		t.Errorf("connections are served by loops %v, want two at most", used)
	}
}

// processors lists the loops that serve connections.
func processors(connections []protocol.ListClientConnectionsResponseConnection) (ids []string) {
	for i := range connections {
		parts := strings.Split(connections[i].ConnectionID, "-")
		if id := parts[len(parts)-2]; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func plainLogin(r *raw, user, password string) *kmsg.SASLAuthenticateResponse {
	r.t.Helper()
	ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
	return ask[*kmsg.SASLAuthenticateResponse](r, token("\x00"+user+"\x00"+password))
}

const internalListener = `listeners=PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT
listener.name.internal.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.internal.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a";
`

func TestALifetimeThatIsAlteredActsOnTheNextAuthentication(t *testing.T) {
	t.Parallel()
	b := start(t, load(t, internalListener))
	r := dial(t, b.Addr("PLAINTEXT"))
	before := dial(t, b.Addr("INTERNAL"))
	if got := plainLogin(before, "alice", "a").SessionLifetimeMillis; got != 0 {
		t.Errorf("lifetime = %d, want none", got)
	}
	mustAlter(r, "1", map[string]*string{"listener.name.internal.connections.max.reauth.ms": new("60000")})
	if got := plainLogin(dial(t, b.Addr("INTERNAL")), "alice", "a").SessionLifetimeMillis; got != 60000 {
		t.Errorf("lifetime = %d, want 60000", got)
	}
	mustAlter(r, "1", map[string]*string{"listener.name.internal.plain.connections.max.reauth.ms": new("30000")})
	if got := plainLogin(dial(t, b.Addr("INTERNAL")), "alice", "a").SessionLifetimeMillis; got != 30000 {
		t.Errorf("lifetime = %d, want the mechanism's own, 30000", got)
	}
	mustAlter(r, "1", map[string]*string{"listener.name.internal.connections.max.reauth.ms": nil, "listener.name.internal.plain.connections.max.reauth.ms": nil})
	if got := plainLogin(dial(t, b.Addr("INTERNAL")), "alice", "a").SessionLifetimeMillis; got != 0 {
		t.Errorf("lifetime = %d, want none again", got)
	}
	// The session of before has no lifetime: it goes on.
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 12
	ask[*kmsg.MetadataResponse](before, metadata)
}

func TestUsersAndMechanismsThatAreAlteredActOnTheNextAuthentication(t *testing.T) {
	t.Parallel()
	b := start(t, load(t, internalListener))
	r := dial(t, b.Addr("PLAINTEXT"))
	mustAlter(r, "1", map[string]*string{"listener.name.internal.plain.sasl.jaas.config": new(`org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="b";`)})
	if got := plainLogin(dial(t, b.Addr("INTERNAL")), "bob", "b"); got.ErrorCode != 0 {
		t.Errorf("bob = %d, want in", got.ErrorCode)
	}
	if got := plainLogin(dial(t, b.Addr("INTERNAL")), "alice", "a"); got.ErrorCode != 58 {
		t.Errorf("alice = %d, want 58", got.ErrorCode)
	}
	if c := brokerConfig(r, "1")["listener.name.internal.plain.sasl.jaas.config"]; !c.IsSensitive || c.Value != nil || c.Source != kmsg.ConfigSourceDynamicBrokerConfig {
		t.Errorf("the users are described as %+v, want hidden", c)
	}
	mustAlter(r, "1", map[string]*string{"listener.name.internal.sasl.enabled.mechanisms": new("SCRAM-SHA-256")})
	if got := ask[*kmsg.SASLHandshakeResponse](dial(t, b.Addr("INTERNAL")), handshake("PLAIN")); got.ErrorCode != 33 || !slices.Equal(got.SupportedMechanisms, []string{"SCRAM-SHA-256"}) {
		t.Errorf("handshake = %+v, want 33 and SCRAM-SHA-256", got)
	}
	if code, message := alter(r, "1", map[string]*string{"listener.name.internal.sasl.enabled.mechanisms": new("GSSAPI")}); code != 42 || !strings.Contains(message, "GSSAPI is not supported") {
		t.Errorf("GSSAPI = %d %s, want it refused", code, message)
	}
	mustAlter(r, "1", map[string]*string{"listener.name.internal.sasl.enabled.mechanisms": nil, "listener.name.internal.plain.sasl.jaas.config": nil})
	c := client(t, b.Addr("INTERNAL"), kgo.SASL(plain.Auth{User: "alice", Pass: "a"}.AsMechanism()))
	if err := c.Ping(limit(t)); err != nil {
		t.Errorf("alice after the values of the file hold again: %v", err)
	}
}

func TestALaterConnectionIsHeldToAlteredClientCertificates(t *testing.T) {
	t.Parallel()
	b, filled := alterable(t)
	r := dial(t, b.Addr("PLAINTEXT"))
	dir := filled.Replace("$STORES")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "one.pem"), filepath.Join(dir, "one.pem"))
	if err != nil {
		t.Fatal(err)
	}
	anonymous := &tls.Config{InsecureSkipVerify: true}
	certified := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}
	principal := func(config *tls.Config) string {
		conn := overTLS(t, dial(t, b.Addr("SECURE")), config)
		ask[*kmsg.ApiVersionsResponse](conn, versionsRequest(3))
		row := find(list(r, nil, nil, new("SECURE")).Connections, conn)
		if row == nil {
			t.Fatal("the list lacks a connection")
		}
		return row.Principal
	}
	if got := principal(anonymous); got != "User:ANONYMOUS" {
		t.Errorf("principal = %s, want ANONYMOUS", got)
	}
	mustAlter(r, "1", map[string]*string{"listener.name.secure.ssl.client.auth": new("required"), "listener.name.secure.ssl.principal.mapping.rules": new(`RULE:^CN=(.*)$/$1/U,DEFAULT`)})
	if got := principal(certified); got != "User:ONE" {
		t.Errorf("principal = %s, want ONE", got)
	}
	conn := overTLS(t, dial(t, b.Addr("SECURE")), anonymous)
	conn.request(versionsRequest(3))
	if _, err := conn.answer(false); err == nil {
		t.Error("a client without a certificate is served")
	}
}

func TestWatchedStoresAreLoadedWhenTheirFilesChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeStore(t, filepath.Join(dir, "one.pem"), "one", []string{"localhost"})
	b := start(t, load(t, alterableProperties(dir, "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")+"brokerlab.ssl.store.watch.ms=20\n"))
	shown := func() *x509.Certificate {
		t.Helper()
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(limit(t), "tcp", b.Addr("SECURE").String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	}
	first := shown()
	writeStore(t, filepath.Join(dir, "one.pem"), "one", []string{"localhost"})
	eventually(t, "the renewed certificate is shown", func() bool { return !shown().Equal(first) })
	second := shown()
	if err := os.WriteFile(filepath.Join(dir, "one.pem"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if !shown().Equal(second) {
			t.Fatal("a broken store has replaced a good one")
		}
	}
}

func TestTheDataPlaneObeysAlteredConfigs(t *testing.T) {
	t.Parallel()
	b := reconfigurable(t, "")
	r := dial(t, b.Addr("PLAINTEXT"))
	c := client(t, b.Addr("PLAINTEXT"), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("small"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	big := &kgo.Record{Value: make([]byte, 5000)}
	if err := c.ProduceSync(limit(t), big).FirstErr(); err != nil {
		t.Fatal(err)
	}
	mustAlter(r, "", map[string]*string{"message.max.bytes": new("1000")})
	if err := c.ProduceSync(limit(t), &kgo.Record{Value: make([]byte, 5000)}).FirstErr(); err == nil {
		t.Error("a record above message.max.bytes is taken")
	}
	mustAlter(r, "1", map[string]*string{"message.max.bytes": new("100000")})
	if err := c.ProduceSync(limit(t), &kgo.Record{Value: make([]byte, 5000)}).FirstErr(); err != nil {
		t.Errorf("the broker's own value does not win: %v", err)
	}
}

func TestAlteredConfigsSurviveKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startChild(t, dir)
	seed, err := netip.ParseAddrPort(first.seed)
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	r := dial(t, seed)
	mustAlter(r, "", map[string]*string{"num.io.threads": new("6"), "max.connections": new("1000")})
	mustAlter(r, "1", map[string]*string{
		"num.io.threads": new("5"), "nobody.knows": new("x"),
		"listener.security.protocol.map": new("PLAINTEXT:PLAINTEXT,ADDED:PLAINTEXT"),
		"listeners":                      new(fmt.Sprintf("PLAINTEXT://127.0.0.1:0,ADDED://127.0.0.1:%d", port)),
	})
	before := allDynamic(r)
	first.kill()

	startChild(t, dir)
	again := dial(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	if after := allDynamic(again); after != before {
		t.Errorf("after kill -9 the configs are\n%s\nwant\n%s", after, before)
	}
	if c := brokerConfig(again, "1")["num.io.threads"]; *c.Value != "5" || c.Source != kmsg.ConfigSourceDynamicBrokerConfig {
		t.Errorf("num.io.threads = %+v, want the broker's own 5", c)
	}
	// The bound of a step is what runs: 5 at most doubles.
	if code, message := alter(again, "1", map[string]*string{"num.io.threads": new("11")}); code != 42 || !strings.Contains(message, "current value 5") {
		t.Errorf("11 threads = %d %s, want the bound of 5", code, message)
	}
}

func TestAStoredListenerWhosePortIsTakenKeepsNobodyFromStarting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startChild(t, dir)
	seed, err := netip.ParseAddrPort(first.seed)
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	mustAlter(dial(t, seed), "1", map[string]*string{
		"listener.security.protocol.map": new("PLAINTEXT:PLAINTEXT,ADDED:PLAINTEXT"),
		"listeners":                      new(fmt.Sprintf("PLAINTEXT://127.0.0.1:0,ADDED://127.0.0.1:%d", port)),
	})
	first.kill()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	second, err := netip.ParseAddrPort(startChild(t, dir).seed)
	if err != nil {
		t.Fatal(err)
	}
	mustAlter(dial(t, second), "1", map[string]*string{"max.connections": new("1000")})
}

func TestAnAlterationThatWaitsForNobodyLeavesNoSocket(t *testing.T) {
	t.Parallel()
	b := reconfigurable(t, "")
	r := dial(t, b.Addr("PLAINTEXT"))
	port := freePort(t)
	value := fmt.Sprintf("PLAINTEXT://127.0.0.1:0,ADDED://127.0.0.1:%d", port)
	code, message := resend(r, false, true, "1", func(add func(string, kmsg.IncrementalAlterConfigOp, *string)) { add("listeners", 0, &value) })
	if code != 0 {
		t.Fatalf("validate = %d %s", code, message)
	}
	// Two listeners, of which the second cannot be bound: the first is not left behind.
	value = fmt.Sprintf("PLAINTEXT://127.0.0.1:0,ADDED://127.0.0.1:%d,SPARE://127.0.0.1:%d", port, b.Addr("PLAINTEXT").Port())
	if code, _ = alter(r, "1", map[string]*string{
		"listeners": &value, "listener.name.spare.sasl.enabled.mechanisms": new("SCRAM-SHA-256"),
	}); code != 42 {
		t.Errorf("alter = %d, want 42", code)
	}
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("the port of a refused listener is not free: %v", err)
	}
	_ = socket.Close()
}
