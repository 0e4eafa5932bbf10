package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/wire"
)

// What goes out in pieces is what kmsg would have written.
func TestAProduceInPiecesIsTheSameRequest(t *testing.T) {
	large, small := bytes.Repeat([]byte("large"), apartFrom), []byte("small")
	requests := map[string]func(*kmsg.ProduceRequest){
		"one large":           func(r *kmsg.ProduceRequest) { r.Topics = produceTopics(large) },
		"one small":           func(r *kmsg.ProduceRequest) { r.Topics = produceTopics(small) },
		"null":                func(r *kmsg.ProduceRequest) { r.Topics = produceTopics(nil) },
		"empty":               func(r *kmsg.ProduceRequest) { r.Topics = produceTopics([]byte{}) },
		"none":                func(*kmsg.ProduceRequest) {},
		"a topic without any": func(r *kmsg.ProduceRequest) { r.Topics = produceTopics() },
		"many": func(r *kmsg.ProduceRequest) {
			r.TransactionID, r.Acks, r.TimeoutMillis = new("t"), -1, 7
			r.Topics = slices.Concat(produceTopics(large, small, nil, large, large), produceTopics(), produceTopics(small), produceTopics(large))
			r.UnknownTags.Set(300, []byte("x"))
			r.Topics[0].UnknownTags.Set(1, bytes.Repeat([]byte("y"), 200))
			r.Topics[0].Partitions[0].UnknownTags.Set(5, nil)
			r.Topics[0].Partitions[1].UnknownTags.Set(6, []byte("z"))
		},
	}
	for name, fill := range requests {
		for version := range int16(firstProduceByID + 1) {
			t.Run(fmt.Sprintf("%s/v%d", name, version), func(t *testing.T) {
				req := kmsg.NewPtrProduceRequest()
				fill(req)
				req.Version = version
				var pool wire.Buffers
				o := newOutgoing(&pool, "client", req)
				got := bytes.Join(o.pieces(), nil)
				if want := appendRequest(nil, 0, "client", req); !bytes.Equal(got, want) || o.size != len(want) {
					t.Errorf("newOutgoing = %d bytes, size %d, want the %d of kmsg:\n%.200q\n%.200q", len(got), o.size, len(want), got, want)
				}
				if version >= 3 && len(o.text) > 2000 {
					t.Errorf("%d bytes are copied, want those of large records left where they are", len(o.text))
				}
			})
		}
	}
}

func TestLargeRecordsPassThroughAFace(t *testing.T) {
	h := hostEngine(t, 1)
	b := newBridge(t, openFace(t, 1, Remote{Seeds: []string{h.Addr()}}))
	ctx := timeout(t)
	client := b.client(t, kgo.ConsumeTopics("t"), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 3, 1, nil, "t"); err != nil {
		t.Fatalf("CreateTopic = %v", err)
	}
	var records []*kgo.Record
	want := map[string]int{}
	for i := range 30 {
		value := strings.Repeat(strconv.Itoa(i), 1+i%3*apartFrom)
		records, want[value] = append(records, kgo.StringRecord(value)), 1
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("ProduceSync = %v", err)
	}
	for len(want) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("PollFetches = %v, and %d records have not come", err, len(want))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want[string(r.Value)] != 1 {
				t.Errorf("a record of %d bytes is none that was written, or came twice", len(r.Value))
			}
			delete(want, string(r.Value))
		})
	}
}

// writing is a connection that tells whether somebody writes much to it.
type writing struct {
	net.Conn

	writers *atomic.Int64
}

func (w writing) Write(p []byte) (int, error) {
	if len(p) >= 1<<20 {
		w.writers.Add(1)
		defer w.writers.Add(-1)
	}
	return w.Conn.Write(p)
}

// What is sent is its maker's memory, which may be used again as soon as there is an answer.
func TestARequestHasNoAnswerWhileItIsBeingSent(t *testing.T) {
	h := hostEngine(t, 1)
	line := newLine(t)
	var writers atomic.Int64
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Dial: func(ctx context.Context, transport, address string) (net.Conn, error) {
		conn, err := line.dial(ctx, transport, address)
		return writing{conn, &writers}, err
	}})
	client := face.Client(netip.AddrPort{}, "")
	done := make(chan error, 1)
	client.Do(metadataRequest(), func(_ kmsg.Response, err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	line.pull() // so that a write does not end
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.Topics = firstProduceByID-1, -1, produceTopics(make([]byte, 1<<20))
	client.Do(req, func(_ kmsg.Response, err error) {
		if n := writers.Load(); n != 0 {
			t.Errorf("%d writes go on when there is an answer", n)
		}
		done <- err
	})
	eventually(t, "it is being written", func() bool { return writers.Load() == 1 })
	client.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("answer = %v, want ErrClosed", err)
	}
}

// produceTopics is a topic of a Produce with some partitions' records.
func produceTopics(records ...[]byte) []kmsg.ProduceRequestTopic {
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = "topic", [16]byte{1, 2, 3}
	for i, r := range records {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), r
		topic.Partitions = append(topic.Partitions, p)
	}
	return []kmsg.ProduceRequestTopic{topic}
}
