package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const (
	// office is where clients are; nobody else is there.
	office = "10.1.0.0/24"
	// topic is what they produce to and consume, partitions of each broker.
	topic, partitions = "orders", 6
	// pace is the time between two records of a producer.
	pace = 5 * time.Millisecond
	// patience bounds what has to come by itself, on a machine that is busy with other things.
	patience = 60 * time.Second
)

// load is producers that wait for every acknowledgement, and a group that consumes what they produce, throughout a spec.
type load struct {
	s         *stage.Stage
	producers []*kgo.Client
	consumers []*kgo.Client
	running   sync.WaitGroup
	produced  sync.WaitGroup
	stop      context.CancelFunc
	calm      context.CancelFunc // ends the consumers

	mu       sync.Mutex // guards what follows
	acked    map[string]time.Time
	longest  time.Duration // between two acknowledgements of a partition, while there was something to acknowledge
	last     map[int32]time.Time
	refused  map[string]int // errors of records that were not acknowledged
	consumed map[string]int
}

// begin starts the load: producers by password over TLS and by certificate, and consumers in one group.
func begin(ctx context.Context, s *stage.Stage) *load {
	GinkgoHelper()
	s.CreateTopic(ctx, topic, partitions)
	l := &load{s: s, acked: map[string]time.Time{}, last: map[int32]time.Time{}, refused: map[string]int{}, consumed: map[string]int{}}
	producing, stop := context.WithCancel(context.WithoutCancel(ctx))
	consuming, calm := context.WithCancel(context.WithoutCancel(ctx))
	l.stop, l.calm = stop, calm
	for i, listener := range []string{"SASL_SSL", "SSL", "SASL_PLAINTEXT"} {
		p := s.Client(office, fmt.Sprintf("10.1.0.%d", 10+i), listener, "alice", append(fault(),
			kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(10_000))...)
		l.producers = append(l.producers, p)
		l.produced.Go(func() { l.produce(producing, p, i) })
	}
	for i, listener := range []string{"SSL", "SASL_SSL"} {
		c := s.Client(office, fmt.Sprintf("10.1.0.%d", 20+i), listener, "bob", append(fault(),
			kgo.ConsumeTopics(topic), kgo.ConsumerGroup("billing"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.SessionTimeout(10*time.Second), kgo.RebalanceTimeout(10*time.Second))...)
		l.consumers = append(l.consumers, c)
		l.running.Go(func() { l.consume(consuming, c) })
	}
	DeferCleanup(l.end)
	l.flows(ctx)
	return l
}

// fault is how a client bears that brokers come and go.
func fault() []kgo.Opt {
	const soon = 250 * time.Millisecond
	return []kgo.Opt{
		kgo.RetryBackoffFn(func(int) time.Duration { return soon }), kgo.RetryTimeout(patience), kgo.MetadataMinAge(soon), kgo.DialTimeout(2 * time.Second),
		kgo.WithLogger(kgo.BasicLogger(GinkgoWriter, kgo.LogLevelInfo, func() string { return time.Now().Format("15:04:05.000 ") })),
	}
}

// produce sends records, one after another to each partition, until ctx ends, and waits for what is under way.
func (l *load) produce(ctx context.Context, p *kgo.Client, who int) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	var flying sync.WaitGroup
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			flying.Wait()
			return
		case <-tick.C:
		}
		key := strconv.Itoa(who) + "-" + strconv.Itoa(n)
		flying.Add(1)
		p.TryProduce(context.WithoutCancel(ctx), &kgo.Record{Partition: int32(n % partitions), Value: []byte(key)}, func(r *kgo.Record, err error) {
			defer flying.Done()
			l.answered(key, r.Partition, err)
		})
	}
}

// answered notes what became of a record.
func (l *load) answered(key string, partition int32, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused[err.Error()]++
		return
	}
	now := time.Now()
	if before, ok := l.last[partition]; ok {
		l.longest = max(l.longest, now.Sub(before))
	}
	l.acked[key], l.last[partition] = now, now
}

// consume counts what the group gets, until ctx ends.
func (l *load) consume(ctx context.Context, c *kgo.Client) {
	for ctx.Err() == nil {
		fetches := c.PollFetches(ctx)
		l.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) { l.consumed[string(r.Value)]++ })
		l.mu.Unlock()
	}
}

// acknowledged is how many records have been.
func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// flows waits until records are acknowledged again in every partition.
func (l *load) flows(ctx context.Context) {
	GinkgoHelper()
	since := time.Now()
	Eventually(func() []int32 {
		l.mu.Lock()
		defer l.mu.Unlock()
		var missing []int32
		for p := range int32(partitions) {
			if l.last[p].Before(since) {
				missing = append(missing, p)
			}
		}
		return missing
	}).WithContext(ctx).WithTimeout(patience).Should(BeEmpty(), "partitions in which nothing is acknowledged; so far was refused: %v", l.refusals())
}

func (l *load) refusals() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.refused)
}

// end stops the load: what is not acknowledged by now never is. It may be called twice.
func (l *load) end() {
	l.stop()
	for _, p := range l.producers {
		p.Close()
	}
	l.produced.Wait()
	l.calm()
	l.running.Wait()
	for _, c := range l.consumers {
		c.Close()
	}
}

// twice says whether a record may be there more than once.
type twice bool

// What a cluster promises of records that were produced once: ours may have one again that was produced at the moment of a kill.
const (
	never twice = false
	maybe twice = true
)

// finish stops the producers, waits until the group has consumed every acknowledged record, reads the topic anew and holds it
// to what was acknowledged, ends the clients, and holds the brokers' lists to the kernel's counts.
func (l *load) finish(ctx context.Context, t twice) {
	GinkgoHelper()
	l.flows(ctx)
	l.stop()
	flushed, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, p := range l.producers {
		Expect(p.Flush(flushed)).To(Succeed(), "records without an answer")
	}
	Eventually(l.unconsumed).WithContext(ctx).WithTimeout(patience).Should(BeEmpty(), "acknowledged, and not consumed by the group")
	found := l.read(ctx)
	lost, again := 0, 0
	l.mu.Lock()
	for key := range l.acked {
		if found[key] == 0 {
			lost++
		}
		if found[key] > 1 {
			again++
		}
	}
	acked, longest := len(l.acked), l.longest
	l.mu.Unlock()
	report.Attach(report.Figure{Name: "records acknowledged", Value: float64(acked)})
	report.Attach(report.Figure{Name: "longest wait for an acknowledgement", Value: longest.Seconds(), Unit: "s"})
	report.Attach(report.Figure{Name: "records not acknowledged", Value: float64(sum(l.refusals()))})
	GinkgoWriter.Printf("not acknowledged: %v\n", l.refusals())
	Expect(lost).To(BeZero(), "acknowledged records that are not there")
	if t == never {
		Expect(again).To(BeZero(), "records that are there more than once")
	} else {
		report.Attach(report.Figure{Name: "records there more than once", Value: float64(again)})
	}
	l.end()
	nobodyLeft(ctx, l.s)
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// unconsumed are some of the records that were acknowledged and that the group has not got.
func (l *load) unconsumed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var some []string
	for key := range l.acked {
		if l.consumed[key] == 0 {
			if some = append(some, key); len(some) == 5 {
				break
			}
		}
	}
	return some
}

// read counts each record of the topic, from its beginning to its end of now.
func (l *load) read(ctx context.Context) map[string]int {
	GinkgoHelper()
	ends := map[int32]int64{}
	for p := range int32(partitions) {
		var err error
		ends[p], err = l.s.EndOffset(ctx, topic, p)
		Expect(err).NotTo(HaveOccurred())
	}
	c := l.s.Client(office, "10.1.0.30", "SASL_PLAINTEXT", "bob", append(fault(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	defer c.Close()
	found := map[string]int{}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	maps.DeleteFunc(ends, func(_ int32, end int64) bool { return end == 0 })
	for len(ends) > 0 {
		fetches := c.PollFetches(bounded)
		Expect(bounded.Err()).NotTo(HaveOccurred(), "read %s to its end: %v are left", topic, ends)
		fetches.EachRecord(func(r *kgo.Record) { found[string(r.Value)]++ })
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if r.Offset >= ends[p.Partition]-1 {
					delete(ends, p.Partition)
				}
			}
		})
	}
	return found
}

// nobodyLeft waits until no broker lists a client, and holds each broker's list to the kernel's count.
func nobodyLeft(ctx context.Context, s *stage.Stage) {
	GinkgoHelper()
	for _, b := range s.All() {
		Eventually(func() int { return len(b.Connections(ctx)) }).WithContext(ctx).WithTimeout(patience).Should(BeZero(), "clients that %s still lists", b.Name())
		if b.KernelExact(ctx) {
			Eventually(func() int64 { return sumOf(b.KernelByClient(ctx)) }).WithContext(ctx).WithTimeout(patience).Should(BeZero(), "clients that the kernel still counts at %s", b.Name())
		}
		Expect(b.Reconcile(ctx)).To(stage.BeExplained(), "at %s", b.Name())
	}
}

func sumOf[K comparable](counts map[K]int64) int64 {
	n := int64(0)
	for _, c := range slices.Collect(maps.Values(counts)) {
		n += c
	}
	return n
}
