package broker_test

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// series is the value of one series, -1 when there is none.
func series(body, name string) float64 {
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err == nil {
				return v
			}
		}
	}
	return -1
}

// Each step moves exactly the series that it should.
func TestMetricsTellWhatLimitsDidToConnections(t *testing.T) {
	t.Parallel()
	b := start(t, load(t, limitableProperties(t)+"metrics.listener=127.0.0.1:0\nquota.window.num=2\nmax.ssl.connections=1\n"+
		"max.connections.per.ip.overrides=127.0.0.9:0\nlistener.name.client.max.connections=2\n"))
	wait := func(what string, want map[string]float64) {
		t.Helper()
		var wrong []string
		defer func() {
			if len(wrong) > 0 {
				t.Log(strings.Join(wrong, "\n"))
			}
		}()
		eventually(t, what, func() bool {
			body := metrics(t, b)
			wrong = nil
			for name, value := range want {
				if got := series(body, name); got != value {
					wrong = append(wrong, fmt.Sprintf("%s = %v, want %v", name, got, value))
				}
			}
			return wrong == nil
		})
	}
	const (
		all, ssl = "kafka_network_connectionquotas_connectionscount_value", "kafka_network_connectionquotas_sslconnectionscount_value"
		outcome  = `brokerlab_connections_outcome_total{listener="CLIENT",reason="%s"}`
		blocked  = `kafka_network_acceptor_acceptorblockedpercent_%s{listener="%s"}`
	)
	inside := dial(t, b.Addr("INSIDE"))
	ask[*kmsg.ApiVersionsResponse](inside, versionsRequest(3))
	setIPRate(inside, new("127.0.0.3"), 1e-7) // none at all
	// At rest.
	wait("the counts at rest", map[string]float64{
		all: 1, ssl: 0, fmt.Sprintf(outcome, "admitted"): 0, fmt.Sprintf(blocked, "count", "CLIENT"): 0, fmt.Sprintf(blocked, "count", "SECURE"): 0,
	})
	// Two are let in, a third waits; TLS has one slot of its own.
	clients := []*attempt{connect(t, "127.0.0.1", b.Addr("CLIENT"), nil), connect(t, "127.0.0.1", b.Addr("CLIENT"), nil)}
	secure := dial(t, b.Addr("SECURE"))
	clients[0].served("the first")
	clients[1].served("the second")
	waits := connect(t, "127.0.0.1", b.Addr("CLIENT"), nil)
	wait("two clients and one that waits", map[string]float64{
		all: 4, ssl: 1, `brokerlab_connections_held{listener="CLIENT"}`: 1, fmt.Sprintf(outcome, "admitted"): 2,
		`kafka_server_socket_server_metrics_connections{clientsoftwarename="raw-test",clientsoftwareversion="1.0",listener="CLIENT"}`:    2,
		`kafka_server_socket_server_metrics_connections{clientsoftwarename="unknown",clientsoftwareversion="unknown",listener="SECURE"}`: 1,
		`brokerlab_network_thread_connections{listener="CLIENT",networkprocessor="0"}`:                                                   2,
	})
	clients[0].close()
	waits.served("the third")
	body := metrics(t, b)
	if n := series(body, fmt.Sprintf(blocked, "count", "CLIENT")); n <= 0 {
		t.Errorf("blocked for %v ns, want some", n)
	}
	if n := series(body, fmt.Sprintf(blocked, "meanrate", "CLIENT")); n <= 0 || n > 1 {
		t.Errorf("mean of the blocked share = %v, want some of it", n)
	}
	if n := series(body, fmt.Sprintf(blocked, "count", "SECURE")); n != 0 {
		t.Errorf("the other listener was blocked for %v ns, want 0", n)
	}
	// An address without a slot, one without a rate. Of the latter nothing is recorded (rule 16).
	waits.close()
	before := series(metrics(t, b), `kafka_server_socket_server_metrics_connection_accept_rate{listener="CLIENT"}`)
	refused := from(t, "127.0.0.9", b.Addr("CLIENT"))
	if _, err := refused.conn.Read(make([]byte, 1)); err == nil {
		t.Error("a refused client is answered")
	}
	held := from(t, "127.0.0.3", b.Addr("CLIENT"))
	wait("one refused and one held", map[string]float64{
		fmt.Sprintf(outcome, "per_ip_limit"): 1, fmt.Sprintf(outcome, "per_ip_rate"): 1, fmt.Sprintf(outcome, "admitted"): 3,
		`brokerlab_connections_throttled{listener="CLIENT"}`:                              1,
		`kafka_server_socket_server_metrics_connection_accept_rate{ip="127.0.0.3"}`:       0,
		`brokerlab_connections_closed_total{listener="CLIENT",reason="per_ip_rate"}`:      0,
		`brokerlab_connections_closed_total{listener="CLIENT",reason="per_ip_limit"}`:     1,
		`brokerlab_connections_outcome_total{listener="INSIDE",reason="admitted"}`:        1,
		`kafka_server_socket_server_metrics_connection_creation_total{listener="CLIENT"}`: 3, // not those refused and held
	})
	body = metrics(t, b)
	if n := series(body, `kafka_server_socket_server_metrics_ip_connection_accept_throttle_time{listener="CLIENT"}`); n <= 0 {
		t.Errorf("average time that sockets are held = %v ms, want some", n)
	}
	if !strings.Contains(body, `kafka_server_socket_server_metrics_connection_accept_throttle_time{listener="CLIENT"} NaN`) {
		t.Error("there is an average of delays that nobody had")
	}
	if now := series(body, `kafka_server_socket_server_metrics_connection_accept_rate{listener="CLIENT"}`); now <= 0 || before <= 0 {
		t.Errorf("accept rate = %v, then %v, want some", before, now)
	}
	if n := series(body, "kafka_server_socket_server_metrics_broker_connection_accept_rate"); n <= 0 {
		t.Errorf("accept rate of the broker = %v, want some", n)
	}
	if _, err := io.ReadAll(held.conn); err != nil {
		t.Errorf("a held client reads %v, want the end of the stream", err)
	}
	for _, name := range []string{`kafka_network_processor_idlepercent_value{networkprocessor="0"}`, "kafka_network_socketserver_networkprocessoravgidlepercent_value"} {
		if n := series(body, name); n <= 0 || n > 1 {
			t.Errorf("%s = %v, want some share of the time", name, n)
		}
	}
	secure.close()
	clients[1].close()
	wait("all to be gone but the one inside", map[string]float64{
		all: 1, ssl: 0, `brokerlab_connections_throttled{listener="CLIENT"}`: 0,
		`brokerlab_connections_closed_total{listener="CLIENT",reason="per_ip_rate"}`: 1,
	})
}

// A client chooses its address and the name of its software: neither may grow what a scrape costs.
func TestLabelsThatClientsChooseAreBounded(t *testing.T) {
	t.Parallel()
	b := start(t, load(t, limitableProperties(t)+"metrics.listener=127.0.0.1:0\n"))
	inside := dial(t, b.Addr("INSIDE"))
	setIPRate(inside, nil, 1000)
	const clients = 150
	for i := range clients {
		c := from(t, fmt.Sprintf("127.0.1.%d", 1+i), b.Addr("CLIENT"))
		req := versionsRequest(3)
		req.ClientSoftwareName = fmt.Sprintf("client-%d", i)
		ask[*kmsg.ApiVersionsResponse](c, req)
	}
	body := metrics(t, b)
	count := func(pattern string) int { return len(regexp.MustCompile(pattern).FindAllString(body, -1)) }
	if n := count(`(?m)^kafka_server_socket_server_metrics_connection_accept_rate\{ip=`); n != 100 {
		t.Errorf("%d series with an address, want 100", n)
	}
	if n := count(`(?m)^kafka_server_socket_server_metrics_connections\{`); n != 102 {
		t.Errorf("%d series with a software, want 100 and one for the rest of each of two listeners", n)
	}
	total := 0.0
	for _, line := range regexp.MustCompile(`(?m)^kafka_server_socket_server_metrics_connections\{.* (\d+)$`).FindAllStringSubmatch(body, -1) {
		n, _ := strconv.Atoi(line[1])
		total += float64(n)
	}
	if total != clients+1 {
		t.Errorf("the series have %v connections in all, want %d", total, clients+1)
	}
}

// Kafka's listeners count an authentication each, whatever it is of: over TLS alone the handshake.
func TestMetricsCountAuthentications(t *testing.T) {
	t.Parallel()
	b := start(t, load(t, limitableProperties(t)+"metrics.listener=127.0.0.1:0\nconnection.failed.authentication.delay.ms=0\n"+
		"listener.name.login.sasl.enabled.mechanisms=PLAIN\nlistener.name.login.connections.max.reauth.ms=60000\nlistener.name.login.plain.sasl.jaas.config="+
		"org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"a\";\n"))
	ask[*kmsg.ApiVersionsResponse](dial(t, b.Addr("CLIENT")), versionsRequest(3))
	ask[*kmsg.ApiVersionsResponse](overTLS(t, dial(t, b.Addr("SECURE")), insecure()), versionsRequest(3))
	for _, listener := range []string{"SECURE", "LOGIN"} {
		plain := dial(t, b.Addr(listener))
		if _, err := plain.conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	user := overTLS(t, dial(t, b.Addr("LOGIN")), insecure())
	plainLogin(user, "alice", "a")
	plainLogin(overTLS(t, dial(t, b.Addr("LOGIN")), insecure()), "alice", "wrong")
	ask[*kmsg.SASLHandshakeResponse](overTLS(t, dial(t, b.Addr("LOGIN")), insecure()), handshake("GSSAPI"))
	again := overTLS(t, dial(t, b.Addr("LOGIN")), insecure())
	plainLogin(again, "alice", "a")
	plainLogin(again, "alice", "wrong")
	want := map[string]float64{
		`successful_authentication_total{listener="CLIENT"}`: 0, `failed_authentication_total{listener="CLIENT"}`: 0,
		`successful_authentication_total{listener="SECURE"}`: 1, `failed_authentication_total{listener="SECURE"}`: 1,
		`successful_authentication_total{listener="LOGIN"}`: 2, `failed_authentication_total{listener="LOGIN"}`: 3,
		`successful_reauthentication_total{listener="LOGIN"}`: 0, `failed_reauthentication_total{listener="LOGIN"}`: 1,
		`connection_creation_total{listener="LOGIN"}`: 5, `connection_close_total{listener="LOGIN"}`: 4,
	}
	var body string
	eventually(t, "the counts", func() bool {
		body = metrics(t, b)
		for name, value := range want {
			if series(body, "kafka_server_socket_server_metrics_"+name) != value {
				return false
			}
		}
		return true
	})
}
