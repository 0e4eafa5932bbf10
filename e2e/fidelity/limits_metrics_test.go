package fidelity

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// measured is the property with which ours shows its metrics; Kafka's are read from its JVM.
func measured(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "ours:metrics.listener=" + l.Addr().String()
}

// numbers are a peer's metrics by the names that Prometheus has for them, with those labels that both brokers have, in order.
type numbers map[string]float64

// numbers reads the metrics of a broker.
func (g *ground) numbers() numbers {
	g.t.Helper()
	var all numbers
	var err error
	if g.p.name == "kafka" {
		all, err = g.desk.beans(g.p.pid)
	} else {
		all, err = page("http://" + g.p.properties["metrics.listener"] + "/metrics")
	}
	if err != nil {
		g.t.Fatalf("metrics of %s: %v", g.p.name, err)
	}
	return all
}

// page reads a page of Prometheus.
func page(url string) (numbers, error) {
	client := http.Client{Timeout: bound}
	resp, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := numbers{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, err
		}
		all[line[:at]] = value
	}
	return all, lines.Err()
}

// reader is a JVM that reads the beans of another.
type reader struct {
	in  io.WriteCloser
	out *bufio.Reader
	end func()
}

// newReader starts a reader of the JVM that is process pid.
func newReader(pid int) (*reader, error) {
	cmd := exec.Command("java", append(javaOptions(), "testdata/Beans.java", strconv.Itoa(pid))...)
	var said kit.Log
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &reader{in: in, out: bufio.NewReaderSize(out, 1<<20), end: func() {
		_ = in.Close()
		_ = cmd.Wait()
	}}, nil
}

// read gets the numbers of all beans that a pattern is for.
func (r *reader) read(pattern string) (map[string]map[string]string, error) {
	if _, err := io.WriteString(r.in, pattern+"\n"); err != nil {
		return nil, err
	}
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read beans: %w", err)
	}
	beans := map[string]map[string]string{}
	err = json.Unmarshal(line, &beans)
	return beans, err
}

// beans are Kafka's metrics under the names of Prometheus: what its network threads count is summed up.
func (d *desk) beans(pid int) (numbers, error) {
	if d.reader == nil {
		var err error
		if d.reader, err = newReader(pid); err != nil {
			return nil, err
		}
	}
	all := numbers{}
	for _, pattern := range []string{
		"kafka.server:type=socket-server-metrics", "kafka.server:type=socket-server-metrics,*", "kafka.network:type=Acceptor,*",
		"kafka.network:type=RequestMetrics,name=RequestsPerSec,*", "kafka.network:type=RequestMetrics,name=ErrorsPerSec,*",
	} {
		beans, err := d.reader.read(pattern)
		if err != nil {
			return nil, err
		}
		for bean, attributes := range beans {
			domain, rest, _ := strings.Cut(bean, ":")
			labels, name := map[string]string{}, strings.ReplaceAll(domain, ".", "_")
			for pair := range strings.SplitSeq(rest, ",") {
				key, value, _ := strings.Cut(pair, "=")
				labels[strings.ToLower(key)] = value
			}
			name += "_" + labels["type"] + "_"
			if labels["name"] != "" {
				name += labels["name"] + "_"
			}
			for _, key := range []string{"type", "name", "networkprocessor"} {
				delete(labels, key)
			}
			for attribute, value := range attributes {
				number, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return nil, fmt.Errorf("%s of %s: %w", attribute, bean, err)
				}
				series := strings.ToLower(strings.ReplaceAll(name+attribute, "-", "_")) + labelled(labels)
				all[series] += number
			}
		}
	}
	return all, nil
}

// labelled writes labels as Prometheus does, in order.
func labelled(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var all []string
	for _, key := range ordered(labels) {
		all = append(all, fmt.Sprintf("%s=%q", key, labels[key]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// of a listener.
func of(metric, listener string) string {
	return "kafka_server_socket_server_metrics_" + metric + labelled(map[string]string{"listener": listener})
}

// blocked is for how many nanoseconds an acceptor was.
func blocked(listener string) string {
	return "kafka_network_acceptor_acceptorblockedpercent_count" + labelled(map[string]string{"listener": listener})
}

// moved is by how much something differs from what it was, in a way that does not depend on time, for [ground.moves].
type moved struct {
	series string
	want   string // a number, or "more" for any above 0, or "none" where there is no such series or no number; several between |
}

// moves waits until metrics have moved so since before, and notes how they have.
func (g *ground) moves(title string, before numbers, want ...moved) {
	g.t.Helper()
	how := func(now numbers, m moved) string {
		value, there := now[m.series]
		was := before[m.series]
		if math.IsNaN(was) {
			was = 0
		}
		switch by := value - was; {
		case !there || math.IsNaN(value):
			return "none"
		case strings.Contains(m.want, "more") && by > 0:
			return "more"
		default:
			return strconv.FormatFloat(by, 'f', -1, 64)
		}
	}
	var now numbers
	for end := time.Now().Add(bound / 4); ; g.pause(20 * time.Millisecond) {
		now = g.numbers()
		if time.Now().After(end) || !slices.ContainsFunc(want, func(m moved) bool { return !slices.Contains(strings.Split(m.want, "|"), how(now, m)) }) {
			break
		}
	}
	for _, m := range want {
		g.say(title+": "+m.series, how(now, m), strings.Split(m.want, "|")...)
	}
}

func metricCases() []limitCase {
	return []limitCase{
		{name: "metrics/a connection is counted from its admission to its end, by its listener", run: func(g *ground) {
			before := g.numbers()
			in := g.enter("a", "EXT", "", 3)
			in = append(in, g.enter("b", "SSL", "", 2)...)
			in = append(in, g.come("silent", "SSL", ""), g.come("silent of IPv6", "V6", ""), g.come("not authenticated", "SASL_SSL", ""))
			g.moves("come", before,
				moved{of("connection_count", "EXT"), "3"}, moved{of("connection_count", "SSL"), "3"}, moved{of("connection_count", "V6"), "1"},
				moved{of("connection_count", "SASL_SSL"), "1"}, moved{of("connection_creation_total", "SSL"), "3"}, moved{of("connection_close_total", "SSL"), "0"})
			for i, one := range in {
				if i%2 == 0 {
					one.leave()
				} else {
					one.abort()
				}
			}
			g.moves("gone", before,
				moved{of("connection_count", "EXT"), "0"}, moved{of("connection_count", "SSL"), "0"}, moved{of("connection_count", "V6"), "0"},
				moved{of("connection_creation_total", "EXT"), "3"}, moved{of("connection_close_total", "EXT"), "3"},
				moved{of("connection_creation_total", "SSL"), "3"}, moved{of("connection_close_total", "SSL"), "3"})
		}},
		{name: "metrics/who waits for a slot is counted when it has one, and the wait when it has ended", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			in := g.enter("a", "EXT", "", 1)
			before := g.numbers()
			w := g.come("w", "EXT", "")
			g.waits(w)
			g.moves("waits", before, moved{of("connection_count", "EXT"), "0"}, moved{of("connection_creation_total", "EXT"), "0"}, moved{blocked("EXT"), "0"})
			in[0].leave()
			g.serves(w)
			g.moves("served", before, moved{of("connection_count", "EXT"), "0"}, moved{of("connection_creation_total", "EXT"), "1"}, moved{blocked("EXT"), "more"}, moved{blocked("TWO"), "0"})
		}},
		{name: "metrics/who is turned away for its address is counted nowhere", run: func(g *ground) {
			g.set("max.connections.per.ip=1", "max.connections.per.ip.overrides="+everybody)
			g.enter("a", "EXT", "127.0.0.2", 1)
			before := g.numbers()
			for range 3 {
				g.leaves(eof, g.come("over", "EXT", "127.0.0.2"))
			}
			g.moves("over", before, moved{of("connection_count", "EXT"), "0"}, moved{of("connection_creation_total", "EXT"), "0"}, moved{of("connection_close_total", "EXT"), "0"}, moved{blocked("EXT"), "0"})
		}},
		{name: "metrics/who is held for the rate of its address shows in its listener's and its address's", run: func(g *ground) {
			const from = "127.0.1.40"
			ip := "kafka_server_socket_server_metrics_connection_accept_rate" + labelled(map[string]string{"ip": from})
			before := g.numbers()
			g.moves("at first", before, moved{of("ip_connection_accept_throttle_time", "R1"), "none"}, moved{of("connection_accept_throttle_time", "R1"), "none"}, moved{ip, "none"})
			g.rate(from, 1)
			g.enter("a", "R1", from, 9)
			before = g.numbers()
			for range 4 { // of which one at least is one too many for ten seconds
				g.come("b", "R1", from)
			}
			g.moves("held", numbers{}, moved{of("ip_connection_accept_throttle_time", "R1"), "more"}, moved{of("connection_accept_throttle_time", "R1"), "none"}, moved{ip, "more"})
			g.moves("held", before, moved{blocked("R1"), "0"})
		}},
		{name: "metrics/who is held for a listener's rate shows in that, and as blocked", run: func(g *ground) {
			g.enter("a", "R2", "", 30)
			before := g.numbers()
			g.set("listener.name.r2.max.connection.creation.rate=1")
			g.serves(g.come("held", "R2", ""))
			g.moves("held", before,
				moved{of("connection_accept_throttle_time", "R2"), "more"}, moved{of("ip_connection_accept_throttle_time", "R2"), "none"},
				moved{blocked("R2"), "more"}, moved{blocked("R3"), "0"}, moved{of("connection_creation_total", "R2"), "1"})
			now := g.numbers()
			for _, series := range []string{of("connection_accept_rate", "R2"), "kafka_server_socket_server_metrics_broker_connection_accept_rate"} {
				g.say(series, strconv.FormatBool(now[series] > 0.5), "true")
			}
		}},
		{name: "metrics/authentications are counted by how they end, handshakes of TLS too", run: func(g *ground) {
			before := g.numbers()
			c := g.p.dial(g.t, "SASL_PLAINTEXT", how{user: "alice"})
			_, failed := g.p.connect(g.ctx, "SASL_PLAINTEXT", how{user: "alice", password: "wrong"})
			g.say("a wrong password", fmt.Sprint(failed))
			secure := g.p.dial(g.t, "SASL_SSL", how{user: "bob"})
			plain := g.p.dial(g.t, "PLAINTEXT", how{})
			mutual := g.p.dial(g.t, "SSL", how{carol: true})
			bad := g.come("bad", "SSL", "")
			_, _ = bad.tcp.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
			g.say("no TLS", endOf(bad, true), gone)
			want := []moved{
				{of("successful_authentication_total", "SASL_PLAINTEXT"), "1"},
				{of("failed_authentication_total", "SASL_PLAINTEXT"), "1"},
				{of("successful_authentication_total", "SASL_SSL"), "1"},
				{of("failed_authentication_total", "SASL_SSL"), "0"},
				{of("successful_authentication_total", "PLAINTEXT"), "0"},
				{of("failed_authentication_total", "PLAINTEXT"), "0"},
				{of("successful_authentication_total", "SSL"), "1"},
				{of("failed_authentication_total", "SSL"), "1"},
				{of("successful_reauthentication_total", "SASL_PLAINTEXT"), "0"},
			}
			g.moves("ended", before, want...)
			for _, one := range []*conn{c, secure, plain, mutual} {
				one.close()
			}
		}},
		{name: "metrics/bytes and requests are counted", run: func(g *ground) {
			one := g.come("a", "EXT", "")
			before := g.numbers()
			unknown := kmsg.NewPtrMetadataRequest()
			unknown.Version = 7
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = new("no-such-topic")
			unknown.Topics = append(unknown.Topics, topic)
			unknown.AllowAutoTopicCreation = false
			g.say("answered", g.pipeline(one, false, g.metadata(), g.metadata(), kmsg.NewPtrApiVersionsRequest(), unknown), "1 2 3 4, open")
			request := func(metric string, labels map[string]string) string {
				return "kafka_network_requestmetrics_" + metric + "_count" + labelled(labels)
			}
			g.moves("asked", before,
				moved{of("incoming_byte_total", "EXT"), "118"}, moved{of("outgoing_byte_total", "EXT"), "more"},
				moved{request("requestspersec", map[string]string{"request": "Metadata", "version": "7"}), "3"},
				moved{request("errorspersec", map[string]string{"request": "Metadata", "error": "UNKNOWN_TOPIC_OR_PARTITION"}), "1"},
				moved{request("errorspersec", map[string]string{"request": "Metadata", "error": "NONE"}), "none|3"})
		}},
		{name: "metrics/clients are counted by what they say they are", run: func(g *ground) {
			software := func(name, version string) string {
				return "kafka_server_socket_server_metrics_connections" + labelled(map[string]string{"clientsoftwarename": name, "clientsoftwareversion": version, "listener": "EXT"})
			}
			before := g.numbers()
			one, two := g.come("a", "EXT", ""), g.come("b", "EXT", "")
			g.moves("unknown", before, moved{software("unknown", "unknown"), "2"}, moved{software("fidelity", "1.0"), "none"})
			req := kmsg.NewPtrApiVersionsRequest()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "fidelity", "1.0"
			g.say("told", g.pipeline(one, false, req), "1, open")
			g.moves("told", before, moved{software("unknown", "unknown"), "1"}, moved{software("fidelity", "1.0"), "1"})
			one.leave()
			two.leave()
			g.moves("gone", before, moved{software("unknown", "unknown"), "0|none"}, moved{software("fidelity", "1.0"), "0|none"})
		}},
	}
}
