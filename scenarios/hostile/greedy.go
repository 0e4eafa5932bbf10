package hostile

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Clients that ask for very much", Label("hostile"), func() {
	It("get it, or an error, and nobody else pays for it", func(ctx SpecContext) {
		f := newField(ctx, "auto.create.topics.enable=false")
		f.CreateTopic(ctx, "big", 1)
		f.fill(ctx, "big", 32)

		names := kmsg.NewPtrMetadataRequest()
		names.Version = 9
		for i := range 20_000 {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = new(fmt.Sprintf("no-such-topic-%d", i))
			names.Topics = append(names.Topics, t)
		}
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 5, 1000
		for i := range 100 {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("huge-%d", i), 0x7fffffff, 1
			create.Topics = append(create.Topics, t)
		}
		list := kmsg.NewPtrListOffsetsRequest()
		list.Version, list.ReplicaID = 4, -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = "big"
		for i := range int32(100_000) {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = i, -1
			t.Partitions = append(t.Partitions, p)
		}
		list.Topics = append(list.Topics, t)
		describe := protocol.NewPtrDescribeConnectionsRequest()
		connections := request(describe)
		// What clients leave unread and what is on its way to them is bounded for the whole broker, at 128 MiB each; a piece on
		// its way is there twice.
		const unread = 3 * 128 * mebibyte
		f.endure(ctx,
			attack{name: "20,000 topics that do not exist", listener: "PLAINTEXT", count: many(20), reason: "client_closed", do: func(a *assailant) error { return a.ask(names) }},
			attack{name: "100 topics of 2^31-1 partitions", listener: "PLAINTEXT", count: many(20), reason: "client_closed", do: func(a *assailant) error { return a.ask(create) }},
			attack{name: "offsets of 100,000 partitions", listener: "PLAINTEXT", count: many(10), reason: "client_closed", do: func(a *assailant) error { return a.ask(list) }},
			attack{name: "a Fetch of 2 GiB, never read", listener: "PLAINTEXT", count: many(50), reason: "client_reset", unread: true, room: unread, hold: time.Second, do: says(request(fetch("big")))},
			attack{name: "a Fetch of 2 GiB, never read, inside TLS", listener: "SSL", count: many(50), reason: "client_reset", unread: true, room: unread, hold: time.Second, do: overTLS(says(request(fetch("big"))))},
			attack{name: "10,000 requests at once, answers never read", listener: "PLAINTEXT", count: many(50), reason: "client_reset", unread: true, hold: time.Second, do: shouts(bytes.Repeat(request(kmsg.NewPtrMetadataRequest()), 10_000))},
			attack{name: "1,000 lists of connections, answers never read", spares: "it has no such request", listener: "PLAINTEXT", count: many(20), reason: "client_reset", unread: true, hold: time.Second, do: shouts(bytes.Repeat(connections, 1000))},
			attack{name: "answers read byte by byte", listener: "PLAINTEXT", count: many(50), reason: "client_reset", room: unread, do: func(a *assailant) error {
				if _, err := a.Write(request(fetch("big"))); err != nil {
					return err
				}
				for b, n := make([]byte, 1), 0; n < 1000; n++ {
					if _, err := a.Read(b); err != nil {
						return err
					}
				}
				return nil
			}},
		)
	}, SpecTimeout(stage.Within(4*time.Minute)))
})

// fetch asks for all that a topic's first partition has.
func fetch(topic string) kmsg.Request {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.ReplicaID = 11, 100, 1, 0x7fffffff, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 0x7fffffff
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// shouts sends as much as goes out in a second, and reads nothing.
func shouts(b []byte) func(*assailant) error {
	return func(a *assailant) error {
		if err := a.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		_, _ = a.Write(b) // what does not go out stays with its sender
		return nil
	}
}

// fill writes mebibytes of records that cannot be told from noise.
func (f *field) fill(ctx SpecContext, topic string, mebibytes int) {
	GinkgoHelper()
	n := f.Network(goodNet)
	client, err := kgo.NewClient(kgo.SeedBrokers("broker:9092"), kgo.Dialer(n.Dialer(n.Addr(250))), kgo.ProducerBatchCompression(kgo.NoCompression()))
	Expect(err).NotTo(HaveOccurred())
	defer client.Close()
	value := make([]byte, mebibyte/2)
	source := rand.NewChaCha8([32]byte{})
	for range 2 * mebibytes {
		_, _ = source.Read(value) // never fails
		Expect(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: slices.Clone(value)}).FirstErr()).To(Succeed())
	}
}
