package engine

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

// Environment of the child process that is killed.
const (
	childDir  = "ENGINE_TEST_DIR"
	childAddr = "ENGINE_TEST_ADDR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := runChild(dir, os.Getenv(childAddr)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runChild is a broker of sorts: it serves an engine until it is told to stop, or killed.
func runChild(dir, addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	e, err := Open(ctx, Options{Dir: dir, NodeID: 3, ClusterID: "crash"})
	if err != nil {
		return err
	}
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	b := serveBridge(e, lis)
	if _, err := fmt.Fprintln(os.Stdout, lis.Addr()); err != nil {
		return err
	}
	<-ctx.Done()
	b.close()
	return e.Close()
}

type child struct {
	cmd  *exec.Cmd
	addr string
}

func startChild(t *testing.T, dir, addr string) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")}
	c.cmd.Env = append(os.Environ(), childDir+"="+dir, childAddr+"="+addr)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	c.addr = strings.TrimSpace(line)
	return c
}

func (c *child) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	err := c.cmd.Wait()
	if sig == syscall.SIGTERM && err != nil {
		t.Fatalf("clean stop = %v", err)
	}
}

func TestAcknowledgedRecordsSurviveKillAndTheirProducerGoesOn(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), timeout(t)
	c := startChild(t, dir, "127.0.0.1:0")
	addr := c.addr

	p, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "log", 2, 1
	create.Topics = append(create.Topics, topic)
	if _, err = create.RequestWith(ctx, p); err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	acked := map[string]int{}
	sent := 0
	produce := func(n int) {
		for range n {
			sent++
			p.Produce(ctx, kgo.StringRecord(fmt.Sprintf("r%d", sent)), func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("Produce(%s) = %v", r.Value, err)
					return
				}
				acked[string(r.Value)] = 0
			})
		}
	}
	// Clean stop first, so that what it saved is out of date at the kill.
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL} {
		produce(500)
		if err = p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		produce(500) // some of these are in flight when it ends
		c.end(t, sig)
		c = startChild(t, dir, addr)
	}
	produce(100)
	if err = p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if len(acked) != sent {
		t.Fatalf("%d of %d records were acknowledged", len(acked), sent)
	}

	consumer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("log"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	for got := 0; got < sent; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", got, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			acked[string(r.Value)]++
			got++
		})
	}
	for v, n := range acked {
		if n != 1 {
			t.Errorf("record %s is there %d times, want once", v, n)
		}
	}
	c.end(t, syscall.SIGTERM)
}

func TestProducerWindowsAreRebuiltAfterKill(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), timeout(t)
	c := startChild(t, dir, "127.0.0.1:0")
	addr := c.addr
	p, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "log", 1, 1
	create.Topics = append(create.Topics, topic)
	created, err := create.RequestWith(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	id, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	send := func(sequence int32) (code int16, offset int64) {
		t.Helper()
		req := produce(13, "log", 0, makeBatch(10, id.ProducerID, id.ProducerEpoch, sequence))
		req.Topics[0].TopicID = created.Topics[0].TopicID
		resp, err := req.RequestWith(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		got := resp.Topics[0].Partitions[0]
		return got.ErrorCode, got.BaseOffset
	}
	for i := range int32(8) {
		if code, offset := send(10 * i); code != 0 || offset != int64(10*i) {
			t.Fatalf("batch %d = error %d at %d", i, code, offset)
		}
		if i == 3 {
			c.end(t, syscall.SIGTERM)
			c = startChild(t, dir, addr)
		}
	}
	c.end(t, syscall.SIGKILL)
	c = startChild(t, dir, addr)
	if code, offset := send(70); code != 0 || offset != 70 {
		t.Errorf("the last batch again = error %d at %d, want it known at 70", code, offset)
	}
	if code, offset := send(40); code != 0 || offset != 40 {
		t.Errorf("the fifth last batch again = error %d at %d, want it known at 40", code, offset)
	}
	if code, offset := send(80); code != 0 || offset != 80 {
		t.Errorf("the next batch = error %d at %d, want it at 80", code, offset)
	}
	if code, _ := send(100); code == 0 {
		t.Error("a batch after a gap was accepted")
	}
	c.end(t, syscall.SIGTERM)
}

func TestOnlyCommittedTransactionsAreReadAfterKill(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), timeout(t)
	c := startChild(t, dir, "127.0.0.1:0")
	addr := c.addr
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "tx", 1, 1
	create.Topics = append(create.Topics, topic)
	transact := func(value string, end bool) {
		t.Helper()
		p, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("tx"), kgo.TransactionalID("writer"))
		if err != nil {
			t.Fatal(err)
		}
		defer p.CloseAllowingRebalance()
		if _, err = create.RequestWith(ctx, p); err != nil {
			t.Fatal(err)
		}
		if err = p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err = p.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatalf("produce %s = %v", value, err)
		}
		if !end {
			return
		}
		if err = p.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatalf("commit %s = %v", value, err)
		}
	}
	transact("committed", true)
	transact("open when it was killed", false)
	c.end(t, syscall.SIGKILL)
	c = startChild(t, dir, addr)
	transact("committed after", true)
	c.end(t, syscall.SIGKILL)
	c = startChild(t, dir, addr)

	consumer, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("tx"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	var got []string
	for len(got) < 2 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if want := []string{"committed", "committed after"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	c.end(t, syscall.SIGTERM)
}

func TestAStopThatSavedNothingIsNotClean(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e, err := Open(t.Context(), Options{Dir: dir, NodeID: 1, ClusterID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	createTopic(t, e, "t", 1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // nothing can be saved there
		t.Fatal(err)
	}
	if err := e.Close(); err == nil {
		t.Error("Close() = nil, want to hear that the state was not saved")
	}
}

func TestPropertiesThatWereTakenOutAreForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, configs := range []map[string]string{{"message.max.bytes": "100"}, nil} {
		e := openEngine(t, Options{NodeID: 1, Dir: dir, BrokerConfigs: configs})
		if _, ok := e.TopicID("t"); !ok {
			createTopic(t, e, "t", 1)
		}
		code := ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, goodBatch(10))).Topics[0].Partitions[0].ErrorCode
		if want := map[bool]int16{true: kerr.MessageTooLarge.Code}[configs != nil]; code != want {
			t.Errorf("with %v a produce = error %d, want %d", configs, code, want)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADataDirectoryServesOneBrokerOfItsCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Dir: dir, NodeID: 1, ClusterID: "one"}
	e, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another broker") {
		t.Errorf("Open(a directory in use) = %v, want an error that says so", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, cleanFile)); err != nil {
		t.Errorf("after a clean stop: %v", err)
	}
	o.ClusterID = "other"
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("Open(another cluster's directory) = %v, want an error that names it", err)
	}
}
