package cluster

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// franz is clients of franz-go: three that produce and two that consume, in this process.
type franz struct {
	journal   *journal
	producers []*kgo.Client
	consumers []*kgo.Client
	producing sync.WaitGroup
	consuming sync.WaitGroup
	stop      context.CancelFunc // ends the producing
	calm      context.CancelFunc // ends the consuming
}

// beginFranz starts producers by password over TLS and by certificate, and consumers in one group.
func beginFranz(ctx context.Context, s *stage.Stage, j *journal) *franz {
	GinkgoHelper()
	f := &franz{journal: j}
	producing, stop := context.WithCancel(context.WithoutCancel(ctx))
	consuming, calm := context.WithCancel(context.WithoutCancel(ctx))
	f.stop, f.calm = stop, calm
	for i, listener := range []string{"SASL_SSL", "SSL", "SASL_PLAINTEXT"} {
		p := s.Client(office, fmt.Sprintf("10.1.0.%d", 10+i), listener, "alice", append(fault(),
			kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(10_000),
			kgo.ProducerBatchCompression(kgo.NoCompression()))...) // else Java needs native code, which it leaves in /tmp
		f.producers = append(f.producers, p)
		f.producing.Go(func() { f.produce(producing, p, i) })
	}
	for i, listener := range []string{"SSL", "SASL_SSL"} {
		c := s.Client(office, fmt.Sprintf("10.1.0.%d", 20+i), listener, "bob", append(fault(),
			kgo.ConsumeTopics(topic), kgo.ConsumerGroup(franzGo.group()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.SessionTimeout(10*time.Second), kgo.RebalanceTimeout(10*time.Second))...)
		f.consumers = append(f.consumers, c)
		f.consuming.Go(func() { f.consume(consuming, c) })
	}
	return f
}

// fault is how a client of franz-go bears that brokers come and go.
func fault() []kgo.Opt {
	const soon = 250 * time.Millisecond
	return []kgo.Opt{
		kgo.RetryBackoffFn(func(int) time.Duration { return soon }), kgo.RetryTimeout(patience), kgo.MetadataMinAge(soon), kgo.DialTimeout(2 * time.Second),
		kgo.WithLogger(kgo.BasicLogger(GinkgoWriter, kgo.LogLevelInfo, func() string { return time.Now().Format("15:04:05.000 ") })),
	}
}

// produce sends records to one partition after another until ctx ends, and waits for what is under way.
func (f *franz) produce(ctx context.Context, p *kgo.Client, who int) {
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
		value := strconv.Itoa(who) + "-" + strconv.Itoa(n)
		flying.Add(1)
		p.TryProduce(context.WithoutCancel(ctx), &kgo.Record{Partition: int32(n % partitions), Value: []byte(value)}, func(r *kgo.Record, err error) {
			defer flying.Done()
			if l := (lane{franzGo, r.Partition}); err != nil {
				f.journal.refuse(l, err.Error())
			} else {
				f.journal.acknowledge(l, value, r.Offset)
			}
		})
	}
}

// consume notes what the group gets, until ctx ends.
func (f *franz) consume(ctx context.Context, c *kgo.Client) {
	for ctx.Err() == nil {
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) { f.journal.got(franzGo, string(r.Value)) })
	}
}

// settle ends the producing, and waits until each record has an answer.
func (f *franz) settle(ctx context.Context) error {
	f.stop()
	for _, p := range f.producers {
		if err := p.Flush(ctx); err != nil {
			return fmt.Errorf("records without an answer: %w", err)
		}
	}
	return nil
}

// end ends the clients: what is not acknowledged by now never is.
func (f *franz) end(context.Context) {
	f.stop()
	for _, p := range f.producers {
		p.Close()
	}
	f.producing.Wait()
	f.calm()
	f.consuming.Wait()
	for _, c := range f.consumers {
		c.Close()
	}
}
