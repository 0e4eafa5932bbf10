package engine

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const testPID = 77

// answered is what a batch is answered.
type answered struct {
	code   int16
	offset int64
}

var fenced = answered{kerr.InvalidProducerEpoch.Code, -1}

// sendBatch sends one record of testPID.
func sendBatch(tb testing.TB, e *Engine, topic string, partition int32, epoch int16, sequence int32) answered {
	tb.Helper()
	return sendRecords(tb, e, topic, partition, makeBatch(1, testPID, epoch, sequence))
}

func sendRecords(tb testing.TB, e *Engine, topic string, partition int32, records []byte) answered {
	tb.Helper()
	p := ask[*kmsg.ProduceResponse](tb, e, produce(9, topic, partition, records)).Topics[0].Partitions[0]
	if p.ErrorCode != 0 { // kfake says 0
		p.BaseOffset = -1
	}
	return answered{p.ErrorCode, p.BaseOffset}
}

// wantBatch is sendBatch with what it is to be answered.
func wantBatch(tb testing.TB, e *Engine, topic string, partition int32, epoch int16, sequence int32, want answered) {
	tb.Helper()
	if got := sendBatch(tb, e, topic, partition, epoch, sequence); got != want {
		tb.Errorf("batch %d of epoch %d to partition %d = %+v, want %+v", sequence, epoch, partition, got, want)
	}
}

// What Kafka 4.4 answers, but for the last: it takes that.
func TestABatchOfTheEpochBeforeIsKnownWhereThatGoesOn(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 2)
	wantBatch(t, e, "t", 0, 0, 0, answered{0, 0})
	wantBatch(t, e, "t", 0, 0, 1, answered{0, 1})
	wantBatch(t, e, "t", 1, 1, 0, answered{0, 0}) // the epoch is raised, elsewhere
	wantBatch(t, e, "t", 0, 0, 1, answered{0, 1})
	wantBatch(t, e, "t", 0, 0, 0, answered{0, 0})
	wantBatch(t, e, "t", 0, 1, 0, answered{0, 2}) // and here
	wantBatch(t, e, "t", 0, 0, 1, fenced)
	wantBatch(t, e, "t", 0, 1, 0, answered{0, 2})

	wantBatch(t, e, "t", 1, 2, 0, answered{0, 1})
	wantBatch(t, e, "t", 0, 1, 1, fenced)
	if got := sendRecords(t, e, "t", 0, makeBatch(2, testPID, 1, 0)); got != fenced {
		t.Errorf("a batch with the first sequence of a known one, and more records = %+v, want %+v", got, fenced)
	}
}

func TestTheLastFiveBatchesOfAnEpochAreKnown(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 2)
	for i := range int32(8) {
		wantBatch(t, e, "t", 0, 0, i, answered{0, int64(i)})
		wantBatch(t, e, "t", 0, 0, i, answered{0, int64(i)}) // does not push another out
	}
	wantBatch(t, e, "t", 1, 1, 0, answered{0, 0})
	for i := range int32(8) {
		want := answered{0, int64(i)}
		if i < 3 {
			want = fenced
		}
		wantBatch(t, e, "t", 0, 0, i, want)
	}
}

func TestManyBatchesOfOneRequestAreToldApart(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	topics := []string{"a", "b", "c"}
	ids := map[string][16]byte{}
	for _, name := range topics {
		ids[name] = createTopic(t, e, name, 3)
	}
	createTopic(t, e, "elsewhere", 1)
	for i, name := range topics { // so that no two batches have the same offset
		for p := range int32(3) {
			sendRecords(t, e, name, p, makeBatch(int32(10*i)+p+1, -1, -1, -1))
		}
	}
	all := produce(13, "", 0, nil)
	all.Topics = nil
	for _, name := range topics {
		t := kmsg.NewProduceRequestTopic()
		t.TopicID = ids[name]
		for p := range int32(3) {
			t.Partitions = append(t.Partitions, produce(13, "", p, makeBatch(1, testPID, 0, 0)).Topics[0].Partitions...)
		}
		all.Topics = append(all.Topics, t)
	}
	for _, when := range []string{"at first", "again"} {
		resp := ask[*kmsg.ProduceResponse](t, e, all)
		for i, name := range topics {
			for _, topic := range resp.Topics {
				if topic.TopicID != ids[name] {
					continue
				}
				for _, p := range topic.Partitions {
					if want := int64(10*i) + int64(p.Partition) + 1; p.ErrorCode != 0 || p.BaseOffset != want {
						t.Errorf("%s, %s-%d = error %d at %d, want it at %d", when, name, p.Partition, p.ErrorCode, p.BaseOffset, want)
					}
				}
			}
		}
		wantBatch(t, e, "elsewhere", 0, 1, 0, answered{0, 0})
	}
}

func TestARequestThatNamesATopicTwiceTeachesNothing(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 2)
	twice := produce(9, "t", 0, makeBatch(1, testPID, 0, 0))
	twice.Topics = append(twice.Topics, produce(9, "t", 0, makeBatch(1, testPID, 0, 5)).Topics...) // refused, answered as the first
	ask[*kmsg.ProduceResponse](t, e, twice)
	wantBatch(t, e, "t", 1, 1, 0, answered{0, 0})
	wantBatch(t, e, "t", 0, 0, 5, fenced)
}

func TestAWrittenBatchIsKnownThoughItsClientWentAway(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 2)
	sendRecords(t, e, "t", 1, makeBatch(1, -1, -1, -1)) // nothing is to be asked about the topic after this
	const n = 5
	for i := range int32(n) {
		gone := make(chan struct{})
		c := e.Client(netip.AddrPort{}, "c")
		c.Do(produce(9, "t", 0, makeBatch(1, testPID, 0, i)), func(kmsg.Response, error) { close(gone) })
		c.Close()
		<-gone
	}
	wantBatch(t, e, "t", 1, 1, 0, answered{0, 1})
	for i := range int32(n) {
		wantBatch(t, e, "t", 0, 0, i, answered{0, int64(i)})
	}
	if got := sendRecords(t, e, "t", 0, makeBatch(1, -1, -1, -1)); got != (answered{0, n}) {
		t.Errorf("the next batch = %+v, want it at %d", got, n)
	}
	eventually(t, "the links of who went away are closed", func() bool {
		return e.plane.(*kfakePlane).count() == e.leases.idleLinks()
	})
}

func TestBatchesAreKnownAfterAStop(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"clean": syscall.SIGTERM, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ctx := t.TempDir(), timeout(t)
			c := startChild(t, dir, "127.0.0.1:0")
			p, err := kgo.NewClient(kgo.SeedBrokers(c.addr))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			create := kmsg.NewPtrCreateTopicsRequest()
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 2, 1
			create.Topics = append(create.Topics, topic)
			created, err := create.RequestWith(ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			send := func(partition int32, epoch int16, sequence int32, want answered) {
				t.Helper()
				req := produce(13, "t", partition, makeBatch(3, testPID, epoch, sequence))
				req.Topics[0].TopicID = created.Topics[0].TopicID
				resp, err := req.RequestWith(ctx, p)
				if err != nil {
					t.Fatal(err)
				}
				got := resp.Topics[0].Partitions[0]
				if got.ErrorCode != want.code || got.ErrorCode == 0 && got.BaseOffset != want.offset {
					t.Errorf("batch %d of epoch %d to partition %d = error %d at %d, want %+v", sequence, epoch, partition, got.ErrorCode, got.BaseOffset, want)
				}
			}
			send(0, 0, 0, answered{0, 0})
			send(0, 0, 3, answered{0, 3})
			send(1, 1, 0, answered{0, 0})
			addr := c.addr
			c.end(t, sig)
			c = startChild(t, dir, addr)
			send(1, 1, 3, answered{0, 3}) // recovery learns no epoch from the log
			send(0, 0, 3, answered{0, 3})
			send(0, 0, 6, fenced)
			send(0, 1, 0, answered{0, 6})
			send(0, 0, 3, fenced)
			c.end(t, syscall.SIGTERM)
		})
	}
}

func TestNoBatchOfATopicThatWasMadeAgainIsKnown(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	createTopic(t, e, "elsewhere", 1)
	wantBatch(t, e, "t", 0, 0, 0, answered{0, 0})
	wantBatch(t, e, "elsewhere", 0, 1, 0, answered{0, 0})
	wantBatch(t, e, "t", 0, 0, 0, answered{0, 0})
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.Version, remove.TopicNames = 3, []string{"t"}
	if code := ask[*kmsg.DeleteTopicsResponse](t, e, remove).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("DeleteTopics = error %d", code)
	}
	createTopic(t, e, "t", 1)
	wantBatch(t, e, "t", 0, 0, 0, fenced)
}

func TestATransactionOfTheEpochBeforeIsFenced(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	producer, epoch := initProducer(t, e, "mine")
	batch := makeBatch(1, producer, epoch, 0)
	binary.BigEndian.PutUint16(batch[batchAttributesAt:], attrTransaction)
	send := func() answered {
		t.Helper()
		p := ask[*kmsg.ProduceResponse](t, e, produce(12, "t", 0, seal(batch))).Topics[0].Partitions[0]
		return answered{p.ErrorCode, p.BaseOffset}
	}
	if got := send(); got != (answered{0, 0}) {
		t.Fatalf("a batch of a transaction = %+v", got)
	}
	if got := send(); got != (answered{0, 0}) {
		t.Fatalf("the same again = %+v", got)
	}
	// As if it had been written outside of one, which no order of requests can make sure of here.
	id, _ := e.TopicID("t")
	e.windows.load([]*seqWindow{{PID: producer, Topic: "t", Entries: [windowSlots]seqIn{{NextSeq: 1}}, Count: 1, At: 1, Epoch: epoch, Seen: true, NextSeq: 1}}, e.topics.id)
	if _, later := initProducer(t, e, "mine"); later <= epoch {
		t.Fatalf("the epoch after %d = %d", epoch, later)
	}
	if got := send(); got.code != fenced.code {
		t.Errorf("a batch of the transaction before = %+v, want %+v", got, fenced)
	}
	if e.windows.all[windowKey{producer, id, 0}] == nil {
		t.Error("the window is gone, so that it could not have been used")
	}
}

func TestTheWindowsOfProducersAreBounded(t *testing.T) {
	t.Parallel()
	var w windows
	req := produce(9, "t", 0, nil)
	req.Topics[0].TopicID = [16]byte{1}
	resp := kmsg.NewPtrProduceResponse()
	resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{{}}}}
	batch := makeBatch(1, 0, 0, 0)
	req.Topics[0].Partitions[0].Records = batch
	const more = 100
	for pid := range uint64(maxWindows + more) {
		binary.BigEndian.PutUint64(batch[batchPIDAt:], pid)
		w.settle(req, resp)
		if _, there := w.all[windowKey{int64(pid), [16]byte{1}, 0}]; !there {
			t.Fatalf("the window of producer %d is not there", pid)
		}
	}
	if len(w.all) != maxWindows {
		t.Errorf("there are %d windows after %d producers, want %d", len(w.all), maxWindows+more, maxWindows)
	}
}

func BenchmarkSettle(b *testing.B) {
	var w windows
	req := produce(9, "t", 0, makeBatch(100, testPID, 0, 0))
	req.Topics[0].TopicID = [16]byte{1}
	resp := kmsg.NewPtrProduceResponse()
	resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{{}}}}
	records := req.Topics[0].Partitions[0].Records
	for name, next := range map[string]func(uint64){
		"known": func(i uint64) { binary.BigEndian.PutUint32(records[batchSequenceAt:], uint32(100*i)&(1<<31-1)) },
		"new":   func(i uint64) { binary.BigEndian.PutUint64(records[batchPIDAt:], i) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				next(i)
				w.settle(req, resp)
			}
		})
	}
}
