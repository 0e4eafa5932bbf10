package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// killed is a copy of a data directory in use: what a kill leaves.
func killed(t *testing.T, dir string) string {
	t.Helper()
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return left
}

// cuts are what a kill can leave of an index, whose last entry was being written.
func cuts() map[string]func(file string, size int64) error {
	return map[string]func(string, int64) error{
		"whole":    func(string, int64) error { return nil },
		"an entry": func(file string, size int64) error { return os.Truncate(file, size-indexEntrySize) },
		"half one": func(file string, size int64) error { return os.Truncate(file, size-7) },
		"all":      func(file string, _ int64) error { return os.Remove(file) },
	}
}

// cut cuts the index of the first segment of a partition.
func cut(t *testing.T, dir, partition string, how func(string, int64) error) {
	t.Helper()
	file := filepath.Join(dir, "partitions", partition, "0.idx")
	info, err := os.Stat(file)
	if err == nil {
		err = how(file, info.Size())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A client follows no leader of an epoch that is less than one it has seen. Who led leads again.
func TestLeadersEpochsDoNotFallWhateverAKillLeaves(t *testing.T) {
	t.Parallel()
	for what, how := range cuts() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx, dir, before, leader := timeout(t), t.TempDir(), int32(-1), int32(0)
			for life := range 5 {
				h, err := Listen(ctx, HostOptions{Options: Options{ClusterID: "c", Dir: dir}, Nodes: 2, Listen: "127.0.0.1:0"})
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() { served <- h.Serve() }()
				cl, err := kgo.NewClient(kgo.SeedBrokers(h.Addr()), kgo.DefaultProduceTopic("t"))
				if err != nil {
					t.Fatal(err)
				}
				if life == 0 {
					create := kmsg.NewPtrCreateTopicsRequest()
					topic := kmsg.NewCreateTopicsRequestTopic()
					topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
					create.Topics = append(create.Topics, topic)
					if _, err = create.RequestWith(ctx, cl); err != nil {
						t.Fatal(err)
					}
				}
				metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
				if err != nil {
					t.Fatal(err)
				}
				p := &metadata.Topics[0].Partitions[0]
				if p.LeaderEpoch <= before || life > 0 && p.Leader != leader {
					t.Errorf("life %d has leader %d of epoch %d, the one before had %d of epoch %d and wrote in it", life, p.Leader, p.LeaderEpoch, leader, before)
				}
				before, leader = p.LeaderEpoch, p.Leader
				for range 3 {
					if err = cl.ProduceSync(ctx, kgo.StringRecord("r")).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
				cl.Close()
				dir = killed(t, dir)
				if err = h.Close(); err != nil {
					t.Fatal(err)
				}
				if err = <-served; err != nil {
					t.Fatal(err)
				}
				cut(t, dir, "t-0", how)
			}
		})
	}
}

func TestNothingUncommittedIsReadWhateverAKillLeaves(t *testing.T) {
	t.Parallel()
	for what, how := range cuts() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx, dir := timeout(t), t.TempDir()
			e := openEngine(t, Options{NodeID: 1, Dir: dir})
			createTopic(t, e, "t", 1)
			writer := func() *kgo.Client {
				return newBridge(t, e).client(t, kgo.DefaultProduceTopic("t"), kgo.TransactionalID("writer"), kgo.ProducerBatchCompression(kgo.NoCompression()))
			}
			write := func(w *kgo.Client, value string) {
				t.Helper()
				if err := w.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				if err := w.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			commit := func(w *kgo.Client) {
				t.Helper()
				if err := w.EndTransaction(ctx, kgo.TryCommit); err != nil {
					t.Fatal(err)
				}
			}
			w := writer()
			write(w, "committed")
			commit(w)
			write(w, "open when it was killed")
			dir = killed(t, dir)
			cut(t, dir, "t-0", how)
			e = openEngine(t, Options{NodeID: 1, Dir: dir})
			w = writer()
			write(w, "committed after")
			commit(w)
			dir = killed(t, dir) // which reads it all anew
			e = openEngine(t, Options{NodeID: 1, Dir: dir})
			reader := newBridge(t, e).client(t, kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			var got []string
			for !slices.Contains(got, "committed after") {
				fetches := reader.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatalf("after %q: %v", got, err)
				}
				fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
			}
			if want := []string{"committed", "committed after"}; !slices.Equal(got, want) {
				t.Errorf("read %q, want %q", got, want)
			}
		})
	}
}

// What is made of the batches is what kfake had written, but for the timestamp that it makes anew.
func TestAnIndexIsMadeAsItWas(t *testing.T) {
	t.Parallel()
	ctx, dir := timeout(t), t.TempDir()
	e := openEngine(t, Options{NodeID: 1, Dir: dir})
	createTopic(t, e, "t", 1)
	w := newBridge(t, e).client(t, kgo.DefaultProduceTopic("t"), kgo.TransactionalID("writer"))
	if err := w.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := w.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := w.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, goodBatch(10)))
	dir = killed(t, dir)
	file := filepath.Join(dir, "partitions", "t-0", "0.idx")
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err = os.Remove(file); err != nil {
		t.Fatal(err)
	}
	var found producers
	if err = found.read(dir); err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(file)
	if err != nil || len(is) != len(was) || len(is) < 3*indexEntrySize {
		t.Fatalf("the index has %d bytes, %v, want the %d of three batches or more", len(is), err, len(was))
	}
	const timestampAt = 6
	for at := 0; at < len(was); at += indexEntrySize {
		a, b := was[at:at+indexEntrySize], is[at:at+indexEntrySize]
		if a[0] != b[0] || !bytes.Equal(a[indexEpochAt:timestampAt], b[indexEpochAt:timestampAt]) || a[indexTransactedAt] != b[indexTransactedAt] {
			t.Errorf("entry %d = %x, want %x", at/indexEntrySize, b, a)
		}
	}
}
