//go:build soak

package soak

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

const (
	limitsInternal = "127.0.0.1:29831"
	limitsPlain    = "127.0.0.1:29832"
	limitsTLS      = "127.0.0.1:29833"
	limitsSASL     = "127.0.0.1:29834"
	limitsSASLTLS  = "127.0.0.1:29835"
	limitsMetrics  = "127.0.0.1:29836"
)

// What the broker may serve at once. There are more clients than that of each kind all the time.
const (
	mostInAll    = 100 // max.connections
	mostTLS      = 15  // max.ssl.connections, over both TLS listeners
	mostSASL     = 10  // listener.name.sasl_plaintext.max.connections
	mostShared   = 2   // max.connections.per.ip of an address that many clients share
	limitsVisits = 250 // clients at the same time
)

const (
	totalSeries = "kafka_network_connectionquotas_connectionscount_value"
	sslSeries   = "kafka_network_connectionquotas_sslconnectionscount_value"
)

// A million clients come to a broker whose limits are reached all the time, over all four protocols, and leave by FIN or RST, some in
// the middle of what they say, some turned away. The kernel never sees more of them served at one instant than a limit allows, and
// sees each limit reached. Afterwards every count is what it was, and as many clients get in as there are slots.
func TestAMillionConnectionsStayWithinTheLimits(t *testing.T) {
	total := number(t, "SOAK_CONNECTIONS", 1_000_000)
	b := limitedBroker(t)
	c := newClient(t, kgo.SeedBrokers(limitsInternal))
	untilAnswers(t, c)
	a := admin.New(c)
	if k := kernelOf(t, a); k.Exactness != broker.KernelExact {
		t.Skipf("the kernel's count is %s here: %s", k.Exactness, k.Why)
	}
	files := b.files(t)
	p := newProgress("limits", total)
	refused, err := crowd(t, total, func(done int64) {
		k := kernelOf(t, a)
		if broken := overLimits(k); broken != "" {
			t.Fatal(broken)
		}
		p.at(int(min(done, int64(total))), fmt.Sprintf(", served at once at most %d, TLS %d", k.Group.ServedMax, k.Group.ServedTLSMax))
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(p.begin)
	k := kernelOf(t, a)
	if broken := overLimits(k); broken != "" {
		t.Error(broken)
	}
	marks := map[string]int64{"PLAINTEXT": 0}
	for i := range k.Ports {
		marks[k.Ports[i].ListenerName] = k.Ports[i].Gauge.ServedMax
	}
	if k.Group.ServedMax != mostInAll || k.Group.ServedTLSMax != mostTLS || marks["SASL_PLAINTEXT"] != mostSASL {
		t.Errorf("served at once at most %d, TLS %d, by listener %v: the limits were not reached", k.Group.ServedMax, k.Group.ServedTLSMax, marks)
	}
	turned := int(metric(t, limitsMetrics, `brokerlab_connections_closed_total{listener="PLAINTEXT",reason="per_ip_limit"}`))
	if turned == 0 || turned < int(refused) {
		t.Errorf("the broker turned away %d, clients saw %d", turned, refused)
	}
	until(t, "every count is what it was", func() bool { return atRest(t, a, b, files) == "" })
	fillAll(t, int(metric(t, limitsMetrics, totalSeries)))
	until(t, "every count is what it was again", func() bool { return atRest(t, a, b, files) == "" })
	p.summary("%d connections, %.0f a second, with %d clients at once; served at one instant at most %d of max.connections=%d, TLS %d of max.ssl.connections=%d, "+
		"SASL_PLAINTEXT %d of its %d (kernel, %s, %d served in all); %d turned away by max.connections.per.ip=%d; afterwards no slot missing",
		total, float64(total)/took.Seconds(), limitsVisits, k.Group.ServedMax, mostInAll, k.Group.ServedTLSMax, mostTLS,
		marks["SASL_PLAINTEXT"], mostSASL, k.Exactness, k.Group.ServedTotal, turned, mostShared)
}

// limitedBroker is a broker with limits, and an inter-broker listener for questions.
func limitedBroker(t *testing.T) *process {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "server.properties")
	const alice = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";"
	properties := "node.id=1\nlisteners=INTERNAL://" + limitsInternal + ",PLAINTEXT://" + limitsPlain + ",SSL://" + limitsTLS +
		",SASL_PLAINTEXT://" + limitsSASL + ",SASL_SSL://" + limitsSASLTLS +
		"\nlistener.security.protocol.map=INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL" +
		"\ninter.broker.listener.name=INTERNAL\nssl.keystore.type=PEM\nssl.keystore.location=" + selfSigned(t) + "\nsasl.enabled.mechanisms=PLAIN\n" +
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=" + alice + "\nlistener.name.sasl_ssl.plain.sasl.jaas.config=" + alice + "\n" +
		fmt.Sprintf("max.connections=%d\nmax.ssl.connections=%d\nlistener.name.sasl_plaintext.max.connections=%d\n", mostInAll, mostTLS, mostSASL) +
		fmt.Sprintf("max.connections.per.ip.overrides=127.9.9.9:%d\nlistener.name.internal.max.connections=1000\n", mostShared) +
		"metrics.listener=" + limitsMetrics + "\nsocket.listen.backlog.size=4096\nlog.dirs=" + dir + "/data\n"
	if err := os.WriteFile(config, []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	return startBroker(t, config)
}

// kernelOf is what the kernel has counted so far, by listener and over all.
func kernelOf(t *testing.T, a *admin.Client) *protocol.DescribeKernelResponse {
	t.Helper()
	answers, err := a.DescribeKernel(t.Context(), admin.KernelFilter{})
	if err != nil || len(answers) != 1 {
		t.Fatalf("DescribeKernel = %d answers, %v, want one", len(answers), err)
	}
	return answers[0]
}

// overLimits tells which mark is over its limit, "" when none is.
func overLimits(k *protocol.DescribeKernelResponse) string {
	if k.Exactness != broker.KernelExact {
		return "the kernel's count is no longer exact: " + k.Why
	}
	if k.Group.ServedMax > mostInAll {
		return fmt.Sprintf("the kernel saw %d served at one instant, over max.connections=%d", k.Group.ServedMax, mostInAll)
	}
	if k.Group.ServedTLSMax > mostTLS {
		return fmt.Sprintf("the kernel saw %d TLS connections served at one instant, over max.ssl.connections=%d", k.Group.ServedTLSMax, mostTLS)
	}
	for i := range k.Ports {
		if p := &k.Ports[i]; p.ListenerName == "SASL_PLAINTEXT" && p.Gauge.ServedMax > mostSASL {
			return fmt.Sprintf("the kernel saw %d served at one instant on SASL_PLAINTEXT, over its limit of %d", p.Gauge.ServedMax, mostSASL)
		}
	}
	return ""
}

// crowd makes so many visits, limitsVisits at a time, and tells once a second how many were begun. It returns how many clients were
// turned away.
func crowd(t *testing.T, total int, each func(begun int64)) (refused int64, _ error) {
	t.Helper()
	var (
		n, turned atomic.Int64
		working   sync.WaitGroup
		failed    = make(chan error, limitsVisits)
	)
	for worker := range limitsVisits {
		working.Go(func() {
			for i := n.Add(1); i <= int64(total); i = n.Add(1) {
				switch err := limitedVisit(t.Context(), worker, i); {
				case err == nil:
				case shared(i) && turnedAway(err):
					turned.Add(1)
				default:
					failed <- fmt.Errorf("connection %d: %w", i, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			close(failed)
			return turned.Load(), <-failed
		case <-tick.C:
			each(n.Load())
		}
	}
}

// shared tells whether the i-th client comes from the address that many share.
func shared(i int64) bool { return i%40 == 7 }

// turnedAway tells whether an error is the end that the broker makes at once.
func turnedAway(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// limitedVisit is one connection. One in ten is over TLS, one in seven authenticates, so that each limit has more clients than slots.
func limitedVisit(ctx context.Context, worker int, i int64) error {
	target, s := limitsPlain, speech{}
	switch {
	case i%20 == 5:
		target, s = limitsTLS, speech{tls: true}
	case i%20 == 16:
		target, s = limitsSASLTLS, speech{tls: true, sasl: true}
	case i%10 == 4:
		target, s = limitsSASL, speech{sasl: true}
	}
	from := net.IPv4(127, 1, byte(worker), byte(1+i%250))
	if shared(i) {
		from = net.IPv4(127, 9, 9, 9)
	}
	tcp, err := dialFrom(ctx, from, target)
	if err != nil {
		return err
	}
	defer func() { _ = tcp.Close() }()
	return converse(tcp, s, i)
}

// atRest tells what is not as before anybody came, "" when nothing is.
func atRest(t *testing.T, a *admin.Client, b *process, files int) string {
	t.Helper()
	rows, err := a.ListClientConnections(t.Context(), admin.ListFilter{})
	if err != nil {
		return err.Error()
	}
	own := len(rows)
	if slices.ContainsFunc(rows, func(r admin.ClientConnection) bool { return r.ListenerName != "INTERNAL" }) {
		return "connections are left"
	}
	k := kernelOf(t, a)
	switch {
	case int(metric(t, limitsMetrics, totalSeries)) != own || metric(t, limitsMetrics, sslSeries) != 0:
		return "the broker's counts are wrong"
	case int(k.Group.Established) != own || int(k.Group.Served) != own:
		return "the kernel has more"
	case b.files(t) > files+2:
		return "files are left"
	}
	return ""
}

// fillAll has as many clients at the same time as there are slots beside those of own connections: with one slot lost, one would wait
// for ever.
func fillAll(t *testing.T, own int) {
	t.Helper()
	var open []net.Conn
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	fill := func(target string, n int, wrap func(net.Conn) net.Conn) {
		for i := range n {
			tcp, err := dialFrom(t.Context(), net.IPv4(127, 2, 0, byte(1+i)), target)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, tcp)
			if err = tcp.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if err = ask(wrap(tcp), apiVersions()); err != nil {
				t.Fatalf("client %d of %d at %s: %v: a slot is missing", i+1, n, target, err)
			}
		}
	}
	asItIs := func(c net.Conn) net.Conn { return c }
	fill(limitsTLS, mostTLS, func(c net.Conn) net.Conn { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) })
	fill(limitsSASL, mostSASL, asItIs)
	fill(limitsPlain, mostInAll-mostTLS-mostSASL-own, asItIs)
}
