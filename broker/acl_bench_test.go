package broker_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

// benchBroker serves a broker in memory, with an authorizer or without one.
func benchBroker(b *testing.B, authorizer string) netip.AddrPort {
	b.Helper()
	cfg := plainConfig()
	cfg.Authorizer, cfg.AllowEveryone = authorizer, true
	br, err := broker.New(cfg, broker.WithLog(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(b.Context())
	go func() { served <- br.Serve(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	<-br.Ready()
	return br.Addr("PLAINTEXT")
}

// asker sends one request again and again.
type asker struct {
	conn  net.Conn
	frame []byte
	into  []byte
}

func newAsker(b *testing.B, addr netip.AddrPort) *asker {
	b.Helper()
	var d net.Dialer
	conn, err := d.DialContext(b.Context(), "tcp", addr.String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return &asker{conn: conn, into: make([]byte, 16<<20)}
}

func (a *asker) ask(b *testing.B, req kmsg.Request) []byte {
	b.Helper()
	head := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(req.Key()))
	head = binary.BigEndian.AppendUint16(head, uint16(req.GetVersion()))
	head = append(head, 0, 0, 0, 7, 0xff, 0xff)
	if req.IsFlexible() {
		head = append(head, 0)
	}
	a.frame = req.AppendTo(head)
	binary.BigEndian.PutUint32(a.frame, uint32(len(a.frame)-4))
	return a.again(b)
}

// again sends what was sent last.
func (a *asker) again(b *testing.B) []byte {
	b.Helper()
	if _, err := a.conn.Write(a.frame); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(a.conn, a.into[:4]); err != nil {
		b.Fatal(err)
	}
	answer := a.into[4 : 4+binary.BigEndian.Uint32(a.into)]
	if _, err := io.ReadFull(a.conn, answer); err != nil {
		b.Fatal(err)
	}
	return answer
}

// BenchmarkAuthorizedRequest asks a broker with a million ACLs and one without an authorizer in turns where a topic's records begin. The
// ratio is how much longer the answer takes with them.
func BenchmarkAuthorizedRequest(b *testing.B) {
	const million, batch = 1_000_000, 10_000
	with, without := newAsker(b, benchBroker(b, broker.StandardAuthorizer)), newAsker(b, benchBroker(b, ""))
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version, metadata.AllowAutoTopicCreation = 9, true
	metadata.Topics = []kmsg.MetadataRequestTopic{{Topic: new("topic-0")}}
	with.ask(b, metadata) // makes the topic
	without.ask(b, metadata)
	began := time.Now()
	for i := 0; i < million; i += batch {
		create := kmsg.NewPtrCreateACLsRequest()
		create.Version = 3
		for j := i; j < i+batch; j++ {
			create.Creations = append(create.Creations, creation(func(c *kmsg.CreateACLsRequestCreation) {
				c.ResourceName, c.Principal = fmt.Sprintf("topic-%d", j/100), fmt.Sprintf("User:u%d", j%1000)
				c.Host = fmt.Sprintf("10.%d.%d.0/24", j/256%256, j%256)
				if j/100%100 == 0 { // as many rules that let the asker in
					c.Principal, c.Host = "User:ANONYMOUS", fmt.Sprintf("127.0.0.%d/32", j%100+1)
				}
			}))
		}
		with.ask(b, create)
	}
	loaded := time.Since(began)
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version, list.ReplicaID = 7, -1
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp = -2
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "topic-0", Partitions: []kmsg.ListOffsetsRequestTopicPartition{partition}}}
	for _, a := range []*asker{with, without} {
		resp := kmsg.NewPtrListOffsetsResponse()
		resp.Version = 7
		if err := resp.ReadFrom(a.ask(b, list)[5:]); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			b.Fatalf("ListOffsets = %+v, %v", resp, err)
		}
	}
	var took [2]time.Duration
	b.ResetTimer()
	for b.Loop() {
		for i, a := range []*asker{with, without} {
			start := time.Now()
			a.again(b)
			took[i] += time.Since(start)
		}
	}
	b.ReportMetric(loaded.Seconds(), "s/load")
	b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N), "ns/with")
	b.ReportMetric(float64(took[1].Nanoseconds())/float64(b.N), "ns/without")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "ratio")
}
