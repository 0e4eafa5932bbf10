package broker_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

// childDir, when set in the environment, makes this test binary a broker that keeps its data there.
const childDir = "BROKERLAB_TEST_BROKER_DIR"

// childAuthorizer, set beside it, gives that broker an authorizer that lets everybody do what no rule is about.
const childAuthorizer = "BROKERLAB_TEST_BROKER_AUTHORIZER"

// childPolicy, set beside it, is that broker's client.config.policy.class.name.
const childPolicy = "BROKERLAB_TEST_BROKER_POLICY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(childBroker(dir))
	}
	os.Exit(m.Run())
}

// childBroker serves until it is killed, or until whoever started it is gone. Its address is its
// first line.
func childBroker(dir string) int {
	cfg := plainConfig()
	cfg.LogDirs = []string{dir}
	if os.Getenv(childAuthorizer) != "" {
		cfg.Authorizer, cfg.AllowEveryone = broker.StandardAuthorizer, true
	}
	cfg.ConfigPolicy = os.Getenv(childPolicy)
	b, err := broker.New(cfg)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		stop()
	}()
	if _, err := fmt.Fprintln(os.Stdout, b.Addr("PLAINTEXT")); err != nil {
		return 2
	}
	if err := b.Serve(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a broker in a process of its own.
type child struct {
	cmd  *exec.Cmd
	seed string
}

func startChild(t *testing.T, dir string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), exe)
	cmd.Env = append(append(os.Environ(), childDir+"="+dir), env...)
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd}
	t.Cleanup(func() {
		_ = stdin.Close() // a killed child has closed it
		c.kill()
	})
	line := make([]byte, 64)
	n, err := stdout.Read(line)
	if err != nil {
		t.Fatalf("the child broker said nothing: %v", err)
	}
	c.seed = strings.TrimSpace(string(line[:n]))
	return c
}

// kill is kill -9.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be gone
	_ = c.cmd.Wait()
}

func TestWhatWasAcknowledgedSurvivesKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx := limit(t)
	var want []string
	var cluster string
	for round := range 3 {
		b := startChild(t, dir)
		c, err := kgo.NewClient(kgo.SeedBrokers(b.seed), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("kept"))
		if err != nil {
			t.Fatal(err)
		}
		admin := kadm.NewClient(c)
		meta, err := admin.BrokerMetadata(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if cluster == "" {
			cluster = meta.Cluster
		}
		if meta.Cluster != cluster || len(cluster) != 22 {
			t.Errorf("round %d: cluster id %q, want %q", round, meta.Cluster, cluster)
		}
		for i := range 20 {
			value := fmt.Sprintf("%d/%d", round, i)
			if err = c.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
				t.Fatalf("round %d: produce: %v", round, err)
			}
			want = append(want, value)
		}
		user := fmt.Sprint("user", round)
		if _, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "x"}}); err != nil {
			t.Fatal(err)
		}
		b.kill()
		c.Close()
	}

	b := startChild(t, dir)
	c, err := kgo.NewClient(kgo.SeedBrokers(b.seed), kgo.ConsumeTopics("kept"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got []string
	for len(got) < len(want) {
		f := c.PollFetches(ctx)
		if err = f.Err(); err != nil {
			t.Fatalf("poll after %d of %d records: %v", len(got), len(want), err)
		}
		for r := range f.RecordsAll() {
			got = append(got, string(r.Value))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	users, err := kadm.NewClient(c).DescribeUserSCRAMs(ctx)
	if err != nil || len(users) != 3 {
		t.Errorf("DescribeUserSCRAMs = %v, %v, want three users", users, err)
	}
}

func TestADataDirectoryHasOneBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := plainConfig()
	cfg.LogDirs = []string{dir}
	start(t, cfg)
	second := plainConfig()
	second.LogDirs = []string{dir}
	if b, err := broker.New(second); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("New = %v, %v, want an error: the directory is in use", b, err)
	}
}

func TestADirectoryOfAnotherClusterOrBrokerIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "version=1\ncluster.id=abc\nnode.id=7\n"
	if err := os.WriteFile(filepath.Join(dir, "meta.properties"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*broker.Config){
		"stored node id 7 doesn't match node id 1": func(*broker.Config) {},
		"expected xyz, but read abc":               func(c *broker.Config) { c.NodeID, c.ClusterID = 7, "xyz" },
	} {
		cfg := plainConfig()
		cfg.LogDirs = []string{dir}
		change(cfg)
		if b, err := broker.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, %v, want %q", b, err, want)
		}
	}
}

// After an error nothing is left: the same port can be bound, the same directory locked.
func TestABrokerThatCannotStartLeavesNothing(t *testing.T) {
	t.Parallel()
	taken := start(t, plainConfig())
	dir := t.TempDir()
	cfg := plainConfig()
	cfg.LogDirs = []string{dir}
	first := broker.ListenerConfig{Name: "FIRST", Protocol: broker.Plaintext, Host: "127.0.0.1", Threads: 1}
	second := first
	second.Name, second.Port = "SECOND", int(taken.Addr("PLAINTEXT").Port())
	cfg.Listeners = []broker.ListenerConfig{first, second}
	if b, err := broker.New(cfg); err == nil || !strings.Contains(err.Error(), "listener SECOND") {
		t.Fatalf("New = %v, %v, want an error of listener SECOND", b, err)
	}
	cfg.Listeners = []broker.ListenerConfig{first}
	b, err := broker.New(cfg)
	if err != nil {
		t.Fatalf("New afterwards: %v", err)
	}
	port := b.Addr("FIRST")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Shutdown(ctx); err != nil {
		t.Fatalf("Shutdown of a broker that never served: %v", err)
	}
	first.Port = int(port.Port())
	cfg.Listeners = []broker.ListenerConfig{first}
	start(t, cfg)
}

func TestShutdownEndsWhatClientsWaitFor(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	b, err := broker.New(cfg, broker.WithLog(testLog(t)))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(context.WithoutCancel(t.Context())) }()
	<-b.Ready()
	r := dial(t, b.Addr("PLAINTEXT"))
	ask[*kmsg.MetadataResponse](r, autoCreate("waited-for"))
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 12, 60_000, 1, 1<<20
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "waited-for", Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	r.request(fetch)
	began := time.Now()
	if err := b.Shutdown(limit(t)); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("Shutdown took %v: it waited for a long poll", took)
	}
	r.closed("a long poll at shutdown")
}

func autoCreate(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 4, true
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	return req
}
