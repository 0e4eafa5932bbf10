package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// families are the address families, by the names that the page has for them.
func families() []string { return []string{"IPv4", "IPv6"} }

func protocols() []string { return []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} }

// pair is one way to reach a broker.
type pair struct{ protocol, family string }

func (p pair) String() string { return p.protocol + "/" + p.family }

// listener is the name of the listener of a pair: PLAINTEXT, PLAINTEXT6, …
func (p pair) listener() string {
	if p.family == "IPv6" {
		return p.protocol + "6"
	}
	return p.protocol
}

func (p pair) host() string {
	if p.family == "IPv6" {
		return "::1"
	}
	return "127.0.0.1"
}

// mechanism is the SASL mechanism that a pair is tried with, so that each is tried with each protocol or family.
func (p pair) mechanism() string {
	switch p.String() {
	case "SASL_PLAINTEXT/IPv6":
		return "SCRAM-SHA-256"
	case "SASL_SSL/IPv4":
		return "SCRAM-SHA-512"
	}
	return "PLAIN"
}

// pairs are all ways there are on this machine.
func pairs() []pair {
	var all []pair
	for _, protocol := range protocols() {
		for _, family := range families() {
			if family != "IPv6" || hasIPv6() {
				all = append(all, pair{protocol, family})
			}
		}
	}
	return all
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// broker is a running `brokerlab broker` with a listener for each pair, one called ADMIN that is spared by limits, and one called
// OTHER for a second client whose connections are not to be taken for those of the first.
type broker struct {
	t     *testing.T
	w     *workshop
	dir   string
	port  map[string]int // by listener
	admin *kadm.Client
	http  string // host:port of its metrics

	cmd  *exec.Cmd
	log  *kit.Log
	done chan struct{}
}

const (
	password = "a-secret" // of every user
	operator = "127.0.0.9"
)

// startBroker starts a broker, with more lines in its properties, and waits until it answers.
func startBroker(t *testing.T, w *workshop, more ...string) *broker {
	t.Helper()
	b := &broker{t: t, w: w, dir: t.TempDir(), port: map[string]int{}, log: &kit.Log{}}
	listeners, mapping := []string{}, []string{"ADMIN:SASL_PLAINTEXT", "OTHER:PLAINTEXT"}
	names := map[string]string{"ADMIN": "127.0.0.1", "OTHER": "127.0.0.1"}
	for _, p := range pairs() {
		names[p.listener()] = p.host()
		mapping = append(mapping, p.listener()+":"+p.protocol)
	}
	sasl := []string{}
	for name, host := range names {
		b.port[name] = kit.FreePort()
		listeners = append(listeners, name+"://"+net.JoinHostPort(host, strconv.Itoa(b.port[name])))
		prefix := "listener.name." + strings.ToLower(name) + "."
		if name == "ADMIN" || strings.HasPrefix(name, "SASL") {
			sasl = append(sasl, prefix+`plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required `+
				`username="admin" password="`+password+`" user_admin="`+password+`" user_alice="`+password+`";`)
			for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
				sasl = append(sasl, prefix+mechanism+".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
			}
		}
	}
	b.http = net.JoinHostPort("127.0.0.1", strconv.Itoa(kit.FreePort()))
	var others []string
	if *kafka {
		controller := "127.0.0.1:" + strconv.Itoa(kit.FreePort())
		others = append(kafkaOnly(), "controller.quorum.bootstrap.servers="+controller)
		listeners = append(listeners, "CONTROLLER://"+controller)
		mapping = append(mapping, "CONTROLLER:SASL_PLAINTEXT")
	}
	config := append([]string{
		"node.id=1",
		"listeners=" + strings.Join(listeners, ","),
		"listener.security.protocol.map=" + strings.Join(mapping, ","),
		"inter.broker.listener.name=ADMIN",
		"log.dirs=" + b.dir + "/data",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + w.pki.Server,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + w.pki.CA,
		"ssl.client.auth=requested",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:admin",
		"allow.everyone.if.no.acl.found=true",
		"group.initial.rebalance.delay.ms=0",
		"kernel.accounting=off",
		"metrics.listener=" + b.http,
	}, slices.Concat(sasl, others, more)...)
	if err := os.WriteFile(b.dir+"/server.properties", []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if *kafka {
		formatKafka(t, b.dir)
	}
	b.start()
	t.Cleanup(func() {
		b.stop(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the last that the broker said:\n%s", kit.Last(b.log.String(), kit.Told))
		}
	})
	b.admin = b.operator()
	return b
}

// operator is a client of an administrator that no limit hits. It comes from an address of its own.
func (b *broker) operator() *kadm.Client {
	b.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(operator)}}
	c, err := kgo.NewClient(kgo.SeedBrokers(net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port["ADMIN"]))), kgo.Dialer(dialer.DialContext),
		kgo.SASL(plain.Auth{User: "admin", Pass: password}.AsMechanism()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	a := kadm.NewClient(c)
	var users []kadm.UpsertSCRAM
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		users = append(users, kadm.UpsertSCRAM{User: "alice", Mechanism: m, Iterations: 4096, Password: password})
	}
	for _, u := range users { // the two of one user cannot be altered in one request
		altered, err := a.AlterUserSCRAMs(b.ctx(), nil, []kadm.UpsertSCRAM{u})
		if err == nil {
			err = altered.Error()
		}
		if err != nil {
			b.t.Fatalf("give alice a %v password: %v", u.Mechanism, err)
		}
	}
	return a
}

// ctx is for what a broker is asked for: it fails where a quiet broker would be long done.
func (b *broker) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), kit.Patience)
	b.t.Cleanup(cancel)
	return ctx
}

// start starts the process and returns when it serves.
func (b *broker) start() {
	b.t.Helper()
	command := []string{b.w.broker, "broker", "--config", b.dir + "/server.properties"}
	if *kafka {
		command = kafkaCommand(b.t, "kafka.Kafka", b.dir+"/server.properties")
		b.log = &kit.Log{}
	}
	b.cmd, b.done = exec.Command(command[0], command[1:]...), make(chan struct{})
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		b.t.Fatalf("start the broker: %v", err)
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(b.cmd, b.done)
	served := kit.Within(kit.Patience, func() bool {
		select {
		case <-b.done:
			b.t.Fatalf("the broker ended: %s", kit.Last(b.log.String(), 10))
		default:
		}
		if *kafka {
			return strings.Contains(b.log.String(), "Kafka Server started")
		}
		answer, err := http.Get("http://" + b.http + "/healthz")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	if !served {
		b.t.Fatalf("the broker does not serve: %s", kit.Last(b.log.String(), 10))
	}
}

// stop sends a signal and waits for the end.
func (b *broker) stop(sig syscall.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.t.Errorf("signal %v: %v", sig, err)
	}
	select {
	case <-b.done:
	case <-time.After(2 * time.Minute):
		_ = b.cmd.Process.Kill()
		b.t.Errorf("the broker did not end within two minutes of %v", sig)
	}
}

// request makes a request that reaches b by a pair, as alice where there is SASL.
func (b *broker) request(p pair, op, topic string) request {
	r := request{
		Op: op, Bootstrap: net.JoinHostPort(p.host(), strconv.Itoa(b.port[p.listener()])), Protocol: p.protocol, Topic: topic,
		Group: "g-" + topic, TxID: "tx-" + topic, Count: 5, TimeoutMS: 60_000, ClientID: "c-" + topic, PauseMS: 100,
	}
	if strings.HasSuffix(p.protocol, "SSL") {
		r.CA = b.w.pki.CA
		r.Size = 20_000 // more than a record of TLS holds
	}
	if p.String() == "SSL/IPv4" {
		r.Cert, r.Key = b.w.pki.Client, b.w.pki.ClientKey
	}
	if strings.HasPrefix(p.protocol, "SASL") {
		r.Mechanism, r.User, r.Password = p.mechanism(), "alice", password
	}
	return r
}

// topics makes topics of one partition.
func (b *broker) topics(names ...string) {
	b.t.Helper()
	made, err := b.admin.CreateTopics(b.ctx(), 1, 1, nil, names...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		b.t.Fatalf("create topics %v: %v", names, err)
	}
}

// set alters configs of the broker.
func (b *broker) set(pairs ...string) {
	b.t.Helper()
	var configs []kadm.AlterConfig
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	answers, err := b.admin.AlterBrokerConfigs(b.ctx(), configs, 1)
	if err != nil {
		b.t.Fatalf("set %v: %v", pairs, err)
	}
	for _, a := range answers {
		if a.Err != nil {
			b.t.Fatalf("set %v: %v %s", pairs, a.Err, a.ErrMessage)
		}
	}
}

// metric sums the series of a name whose labels have all of some texts, such as listener="SSL". A broker of Apache Kafka tells
// nothing this way: 0.
func (b *broker) metric(name string, labels ...string) int {
	b.t.Helper()
	if *kafka {
		return 0
	}
	answer, err := http.Get("http://" + b.http + "/metrics")
	if err != nil {
		b.t.Fatalf("read metrics: %v", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatalf("read metrics: %v", err)
	}
	sum := 0.0
lines:
	for l := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(l), " ")
		if base, _, _ := strings.Cut(series, "{"); !ok || base != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			b.t.Fatalf("metric %s: %v", series, err)
		}
		sum += v
	}
	return int(sum)
}

// software is what clients of a listener say they are, other than "unknown".
func (b *broker) software(p pair) string {
	b.t.Helper()
	if *kafka {
		return ""
	}
	answer, err := http.Get("http://" + b.http + "/metrics")
	if err != nil {
		b.t.Fatalf("read metrics: %v", err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	series := regexp.MustCompile(`metrics_connections\{([^}]*)\} [1-9]`)
	name, version := regexp.MustCompile(`clientsoftwarename="([^"]*)"`), regexp.MustCompile(`clientsoftwareversion="([^"]*)"`)
	for _, m := range series.FindAllStringSubmatch(string(text), -1) {
		n, v := name.FindStringSubmatch(m[1]), version.FindStringSubmatch(m[1])
		if strings.Contains(m[1], `listener="`+p.listener()+`"`) && n != nil && v != nil && n[1] != "unknown" {
			return n[1] + " " + v[1]
		}
	}
	return ""
}

// counted waits until a metric says so. What cannot be counted, as in Apache Kafka, is given a second.
func (b *broker) counted(what string, ok func() bool) {
	b.t.Helper()
	if *kafka {
		kit.Within(time.Second, func() bool { return false })
		return
	}
	kit.Eventually(b.t, what, ok)
}

// brokerBinary returns the path of the broker under test, built into dir where nobody says which.
func brokerBinary(dir string) (string, error) {
	if path := os.Getenv("BROKERLAB_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "brokerlab")
	build := exec.Command("go", "build", "-o", path, "./cmd/brokerlab")
	build.Dir, build.Env = tree(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build brokerlab: %w\n%s", err, out)
	}
	return path, nil
}
