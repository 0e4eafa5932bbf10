package broker_test

import (
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// One worker serves everybody: whoever waits for records or for a group does not hold it.
func TestALongPollHoldsNoWorker(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.NumIOThreads = 1
	b := start(t, cfg)
	me := dial(t, b.Addr("PLAINTEXT"))
	ask[*kmsg.MetadataResponse](me, autoCreate("quiet"))
	for range 10 {
		fetch := kmsg.NewPtrFetchRequest()
		fetch.Version, fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 12, 60_000, 1, 1<<20
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1 << 20
		fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "quiet", Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		dial(t, b.Addr("PLAINTEXT")).request(fetch)
	}
	eventually(t, "all eleven are connected", func() bool { return len(list(me, nil, nil, nil).Connections) == 11 })
	for range 20 {
		if resp := ask[*kmsg.MetadataResponse](me, autoCreate("quiet")); len(resp.Brokers) != 1 {
			t.Fatalf("Metadata = %+v", resp)
		}
	}
}

func TestATopicThatManyAskForIsMadeOnce(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.NumPartitions = 2
	b := start(t, cfg)
	var clients sync.WaitGroup
	ids := make([][16]byte, 16)
	for i := range ids {
		r := dial(t, b.Addr("PLAINTEXT"))
		clients.Go(func() {
			req := autoCreate("wanted")
			req.Version = 12
			resp := ask[*kmsg.MetadataResponse](r, req)
			if len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0 && len(resp.Topics[0].Partitions) == 2 {
				ids[i] = resp.Topics[0].TopicID
			}
		})
	}
	clients.Wait()
	for i, id := range ids {
		if id == [16]byte{} || id != ids[0] {
			t.Errorf("client %d was told topic id %x, the first %x", i, id, ids[0])
		}
	}
}
