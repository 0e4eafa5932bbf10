package engine

import (
	"net/netip"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The round trip of a request through guard, lease, link and data plane, without a network.
func BenchmarkDo(b *testing.B) {
	e := openEngine(b, Options{NodeID: 1})
	createTopic(b, e, "t", 1)
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID = 4, "g", "m"
	batch := makeBatch(100, -1, -1, -1)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version, metadata.Topics = 12, []kmsg.MetadataRequestTopic{{Topic: new("t")}}
	for name, req := range map[string]kmsg.Request{
		"heartbeat": beat,
		"metadata":  metadata,
		"produce":   produce(11, "t", 0, batch),
		"fetch":     fetch("t", 0),
	} {
		b.Run(name, func(b *testing.B) {
			c := e.Client(netip.AddrPort{}, "bench")
			defer c.Close()
			got := make(chan error, 1)
			b.ReportAllocs()
			for b.Loop() {
				c.Do(req, func(_ kmsg.Response, err error) { got <- err })
				if err := <-got; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The part of a Produce that runs on the caller's goroutine.
func BenchmarkGuardProduce(b *testing.B) {
	records := makeBatch(1000, -1, -1, -1)[batchHeader:]
	var judge batches
	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b.Run(name, func(b *testing.B) {
			batch := makeBatch(1000, -1, -1, -1)
			if codec != codecNone {
				batch = pack(b, codec, records, 1000)
			}
			b.SetBytes(int64(len(records)))
			b.ReportAllocs()
			for b.Loop() {
				if v := judge.check(batch, 9, new(int64(maxInflatedRequest))); v.err != nil {
					b.Fatal(v.why)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		e, err := Open(b.Context(), Options{NodeID: 1, Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
