package fidelity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

const (
	kafkaVersion = "4.4.0"
	clusterID    = "MkU3OEVBNTcwNTJENDM2Qg"
	// patience is how long a peer may take for what it does at once on a quiet machine. Nothing depends on how soon it does.
	patience = 3 * time.Minute
)

// plainUsers are how many users named u0, u1 … there are beside those of [defaults].
const plainUsers = 1000

// peer is one of the two brokers. Its methods are for one goroutine at a time, but dial, request and what they use are for any.
type peer struct {
	name string  // "ours" or "kafka"
	dir  string  // its folder: data, server.properties
	pki  kit.PKI // who signs, and what carol shows
	pid  int     // of its process, while it runs

	properties map[string]string // what it runs with, by key
	order      []string          // their keys, as first given
	ports      map[string]int    // by listener's name; kept over restarts
	process    *exec.Cmd
	ended      chan struct{}
	said       *kit.Log

	mu       sync.Mutex
	topics   map[[16]byte]string // by id, for [peer.view]
	sessions map[string]*conn    // by user, for [peer.request]
}

// defaults are the properties of every pair: a listener of each protocol on 127.0.0.1, PEM certificates that a client may
// answer with its own, and the users root, broker, alice, bob, carol and u0 … u999 of PLAIN, whose passwords are their names,
// of whom root and broker are super users. [peer.scram] makes users of SCRAM.
func (p *peer) defaults() []string {
	var users strings.Builder
	for _, user := range []string{"root", "broker", "alice", "bob", "carol"} {
		fmt.Fprintf(&users, ` user_%s="%s"`, user, user)
	}
	for i := range plainUsers {
		fmt.Fprintf(&users, ` user_u%d="u%d"`, i, i)
	}
	plain := `org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="broker"` + users.String() + ";"
	scram := "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	return []string{
		"node.id=1",
		"listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
		"inter.broker.listener.name=SASL_PLAINTEXT",
		"log.dirs=" + filepath.Join(p.dir, "data"),
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + p.pki.Server,
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + p.pki.CA,
		"ssl.client.auth=requested",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=" + plain,
		"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=" + scram,
		"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=" + scram,
		"listener.name.sasl_ssl.plain.sasl.jaas.config=" + plain,
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=" + scram,
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=" + scram,
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:root;User:broker",
		"offsets.topic.num.partitions=1", "offsets.topic.replication.factor=1",
		"transaction.state.log.num.partitions=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.num.partitions=1", "share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
	}
}

// oursOnly is what Kafka takes from its formatted storage.
func oursOnly() []string { return []string{"cluster.id=" + clusterID} }

// kafkaOnly is what makes a Kafka a cluster of one. Its controller's listener asks for a password, so that nobody needs to be
// a super user without one.
func (p *peer) kafkaOnly() []string {
	return []string{
		"process.roles=broker,controller",
		"controller.listener.names=CONTROLLER",
		"controller.quorum.voters=1@127.0.0.1:" + strconv.Itoa(p.port("CONTROLLER")),
		"sasl.mechanism.controller.protocol=PLAIN",
		"listener.name.controller.sasl.enabled.mechanisms=PLAIN",
		"sasl.mechanism.inter.broker.protocol=PLAIN",
		"listener.name.controller.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required " +
			`username="broker" password="broker" user_broker="broker";`,
	}
}

func newPeer(name, dir string) *peer {
	return &peer{
		name: name, dir: filepath.Join(dir, name), ports: map[string]int{}, said: &kit.Log{},
		topics: map[[16]byte]string{}, sessions: map[string]*conn{},
	}
}

// start starts the peer's process with its properties and waits until it serves.
func (p *peer) start(properties []string) error {
	if p.pki == (kit.PKI{}) {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return err
		}
		var err error
		if p.pki, err = kit.NewPKI(p.dir, "fidelity"); err != nil {
			return err
		}
	}
	release := p.configure(properties)
	file := filepath.Join(p.dir, "server.properties")
	if err := os.WriteFile(file, []byte(p.text()), 0o600); err != nil {
		return err
	}
	var err error
	if p.process, err = p.command(file, release); err != nil {
		return err
	}
	p.process.Stdout, p.process.Stderr = p.said, p.said
	p.process.Dir = p.dir
	dieWithUs(p.process)
	if err := p.process.Start(); err != nil {
		return err
	}
	p.pid, p.ended = p.process.Process.Pid, make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		_ = process.Wait()
		close(ended)
	}(p.process, p.ended)
	return p.wait()
}

// configure merges properties into what p runs with and returns the level for formatting, or "".
func (p *peer) configure(properties []string) string {
	p.properties, p.order = map[string]string{}, nil
	set := func(lines []string) {
		for _, line := range lines {
			if other, rest, ok := strings.Cut(line, ":"); ok && (other == "ours" || other == "kafka") {
				if other != p.name {
					continue
				}
				line = rest
			}
			key, value, _ := strings.Cut(line, "=")
			if !slices.Contains(p.order, key) {
				p.order = append(p.order, key)
			}
			p.properties[key] = value
		}
	}
	set(p.defaults())
	if p.name == "ours" {
		set(oursOnly())
	}
	set(properties)
	listeners, names := []string{}, []string{}
	for one := range strings.SplitSeq(p.properties["listeners"], ",") {
		name, _, _ := strings.Cut(one, "://")
		name = strings.TrimSpace(name)
		if at, ok := strings.CutSuffix(one, ":0"); ok {
			one = at + ":" + strconv.Itoa(p.port(name))
		} else if colon := strings.LastIndex(one, ":"); colon > 0 {
			p.ports[name], _ = strconv.Atoi(one[colon+1:])
		}
		listeners, names = append(listeners, strings.TrimSpace(one)), append(names, name)
	}
	p.properties["listeners"] = strings.Join(listeners, ",")
	release := p.properties["metadata.version"]
	if p.name == "ours" {
		return release
	}
	delete(p.properties, "metadata.version")
	mapping := []string{p.properties["listener.security.protocol.map"]}
	if mapping[0] == "" {
		mapping = nil
		for _, name := range names {
			mapping = append(mapping, name+":"+name)
		}
	}
	set(append(p.kafkaOnly(),
		"listeners="+p.properties["listeners"]+",CONTROLLER://127.0.0.1:"+strconv.Itoa(p.port("CONTROLLER")),
		"listener.security.protocol.map="+strings.Join(append(mapping, "CONTROLLER:SASL_PLAINTEXT"), ",")))
	set(slices.DeleteFunc(slices.Clone(properties), func(line string) bool { return !strings.HasPrefix(line, "kafka:") }))
	return release
}

// text is the server.properties file.
func (p *peer) text() string {
	var b strings.Builder
	for _, key := range p.order {
		if value := p.properties[key]; value != "" {
			fmt.Fprintf(&b, "%s=%s\n", key, strings.ReplaceAll(value, `\`, `\\`))
		}
	}
	return b.String()
}

// command makes the process; Kafka's storage is formatted where it is not.
func (p *peer) command(file, release string) (*exec.Cmd, error) {
	if p.name == "ours" {
		path, err := theBinary()
		if err != nil {
			return nil, err
		}
		return exec.Command(path, "broker", "--config", file), nil
	}
	data := p.properties["log.dirs"]
	if _, err := os.Stat(filepath.Join(data, "meta.properties")); err != nil {
		if err := format(file, data, release); err != nil {
			return nil, err
		}
	}
	log4j := filepath.Join(p.dir, "log4j2.properties")
	if err := os.WriteFile(log4j, []byte(log4jText), 0o600); err != nil {
		return nil, err
	}
	args := append(javaOptions(), "-Xmx768m", "-Dlog4j2.configurationFile="+log4j, "-cp", filepath.Join(theKafka, "libs", "*"), "kafka.Kafka", file)
	return exec.Command("java", args...), nil
}

// javaOptions make a JVM start soon and leave the other processor alone.
func javaOptions() []string {
	return []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true"}
}

const log4jText = `status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
logger.authorizer.name=kafka.authorizer.logger
logger.authorizer.level=warn
`

// formatted are folders that Kafka's tool formatted once for each level, to copy.
var (
	formatting sync.Mutex
	formatted  = map[string]fstest.MapFS{}
)

// format makes data a folder that kafka.tools.StorageTool has formatted.
func format(file, data, release string) error {
	formatting.Lock()
	defer formatting.Unlock()
	if copied, ok := formatted[release]; ok {
		return os.CopyFS(data, copied)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	args := append(javaOptions(), "-cp", filepath.Join(theKafka, "libs", "*"), "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", file)
	if release != "" {
		args = append(args, "--release-version", release)
	}
	if out, err := exec.CommandContext(ctx, "java", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's storage: %w\n%s", err, out)
	}
	files := fstest.MapFS{}
	err := filepath.WalkDir(data, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(data, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files[filepath.ToSlash(name)] = &fstest.MapFile{Data: content, Mode: 0o600}
		return err
	})
	if err != nil {
		return fmt.Errorf("keep what formatting made: %w", err)
	}
	formatted[release] = files
	return nil
}

// wait returns when p serves: it accepts connections, and its broker is in its own metadata, or, where root cannot get in,
// a listener answers at all.
func (p *peer) wait() error {
	deadline := time.Now().Add(patience)
	var last error
	for tick := time.NewTicker(50 * time.Millisecond); time.Now().Before(deadline); <-tick.C {
		select {
		case <-p.ended:
			return fmt.Errorf("it ended at once:\n%s", p.tail())
		default:
		}
		if last = p.serves(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("not there within %v: %w\n%s", patience, last, p.tail())
}

// serves asks for metadata over the inter-broker listener, or the first there is; as root where it asks for a password.
func (p *peer) serves() error {
	name := p.properties["inter.broker.listener.name"]
	if _, ok := p.ports[name]; !ok {
		name, _, _ = strings.Cut(p.properties["listeners"], "://")
	}
	c, err := p.connect(context.Background(), name, how{user: "root"})
	if err != nil {
		return err
	}
	defer c.close()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
	resp, end := c.exchange(req, patience)
	if end != "" {
		return errors.New(end)
	}
	if brokers := resp.(*kmsg.MetadataResponse).Brokers; len(brokers) == 0 {
		return errors.New("no broker is registered")
	}
	return nil
}

// stop asks the process to end and waits until it has.
func (p *peer) stop() error {
	p.mu.Lock()
	for user, c := range p.sessions {
		c.close()
		delete(p.sessions, user)
	}
	p.mu.Unlock()
	if p.process == nil || p.process.Process == nil || p.ended == nil {
		return nil
	}
	_ = p.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(p.grace()):
		_ = p.process.Process.Kill()
		<-p.ended
		if p.name == "ours" {
			return fmt.Errorf("it did not end within %v of SIGTERM", p.grace())
		}
		return nil
	}
}

// grace is how long p may take to end: a Kafka whose clients are blocked does not always end.
func (p *peer) grace() time.Duration {
	if p.name == "kafka" {
		return 20 * time.Second
	}
	return patience
}

// log is what the process has said so far, of all its starts.
func (p *peer) log() string { return p.said.String() }

// tail is the last that the process has said.
func (p *peer) tail() string { return kit.Last(p.log(), kit.Told) }

// address is where a listener is, by its name: that of its protocol where nobody said otherwise.
func (p *peer) address(listener string) string {
	host := "127.0.0.1"
	for one := range strings.SplitSeq(p.properties["listeners"], ",") {
		if at, ok := strings.CutPrefix(one, listener+"://"); ok {
			host = strings.Trim(at[:strings.LastIndex(at, ":")], "[]")
		}
	}
	switch host {
	case "", "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return net.JoinHostPort(host, strconv.Itoa(p.ports[listener]))
}

// protocol is what a listener speaks.
func (p *peer) protocol(listener string) string {
	for one := range strings.SplitSeq(p.properties["listener.security.protocol.map"], ",") {
		if name, protocol, _ := strings.Cut(strings.TrimSpace(one), ":"); name == listener {
			return protocol
		}
	}
	return listener
}

// port is the port of a name: the same one whenever it is asked for, on which nobody listened before.
func (p *peer) port(name string) int {
	if port, ok := p.ports[name]; ok {
		return port
	}
	p.ports[name] = kit.FreePort()
	return p.ports[name]
}

// theKafka is the folder of Kafka's release, with libs/*.jar in it.
var theKafka, noKafka = findKafka()

// findKafka looks where `make kafka` and `brokerlab kafka fetch` put it; the second result is why it cannot be used.
func findKafka() (folder, reason string) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", "Kafka cannot run: java is not installed (make deps installs it)"
	}
	var tried []string
	candidates := []string{os.Getenv("BROKERLAB_KAFKA_DIR")}
	if candidates[0] == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = "."
		}
		candidates = []string{filepath.Join(cache, "brokerlab", "kafka"), "../../build/kafka"}
	}
	for _, dir := range candidates {
		folder, err := filepath.Abs(filepath.Join(dir, kafkaVersion))
		if err != nil {
			return "", err.Error()
		}
		if jars, _ := filepath.Glob(filepath.Join(folder, "libs", "kafka_*-"+kafkaVersion+".jar")); len(jars) > 0 {
			return folder, ""
		}
		tried = append(tried, folder)
	}
	return "", "there is no Kafka " + kafkaVersion + " in " + strings.Join(tried, " or ") + " (make kafka gets it)"
}

// needKafka skips t where Kafka cannot be started here.
func needKafka(t *testing.T) {
	t.Helper()
	if noKafka != "" {
		theList.incomplete.Store(true)
		t.Skip(noKafka)
	}
}

// theBinary is the path of the brokerlab under test: that of BROKERLAB_BINARY, or built once.
var (
	binaryDir string
	theBinary = sync.OnceValues(func() (string, error) {
		if path := os.Getenv("BROKERLAB_BINARY"); path != "" {
			return filepath.Abs(path)
		}
		dir, err := os.MkdirTemp("", "brokerlab-fidelity-bin-")
		if err != nil {
			return "", err
		}
		binaryDir = dir
		path := filepath.Join(dir, "brokerlab")
		build := exec.Command("go", "build", "-o", path, "../../cmd/brokerlab")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build brokerlab: %w\n%s", err, out)
		}
		return path, nil
	})
)
