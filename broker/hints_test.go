package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLeadersAreHintedAtOnlyInVersionsThatHaveThat(t *testing.T) {
	t.Parallel()
	all, _ := threeFaces(t)
	const partitions = 60 // by chance broker 1 leads all of them, once in 10²⁸ times
	if _, err := kadm.NewClient(client(t, all[0].Addr("PLAINTEXT"))).CreateTopic(limit(t), partitions, 1, nil, "spread"); err != nil {
		t.Fatal(err)
	}
	r := dial(t, all[0].Addr("PLAINTEXT"))
	described := topicsOf(r, "spread").Topics[0]
	for _, p := range described.Partitions {
		if p.Leader == 1 {
			continue
		}
		for _, version := range []int16{12, 16} {
			fetch := kmsg.NewPtrFetchRequest()
			fetch.Version, fetch.SessionEpoch = version, -1
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = "spread", described.TopicID
			partition := kmsg.NewFetchRequestTopicPartition()
			partition.Partition, partition.PartitionMaxBytes = p.Partition, 1<<20
			topic.Partitions = append(topic.Partitions, partition)
			fetch.Topics = append(fetch.Topics, topic)
			resp := ask[*kmsg.FetchResponse](r, fetch)
			got := resp.Topics[0].Partitions[0]
			hinted(t, "Fetch", version, version >= 16, got.ErrorCode, got.CurrentLeader.LeaderID, len(resp.Brokers))
		}
		for _, version := range []int16{9, 10} {
			produce := kmsg.NewPtrProduceRequest()
			produce.Version, produce.Acks, produce.TimeoutMillis = version, -1, 1000
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic = "spread"
			partition := kmsg.NewProduceRequestTopicPartition()
			partition.Partition, partition.Records = p.Partition, batch("hello")
			topic.Partitions = append(topic.Partitions, partition)
			produce.Topics = append(produce.Topics, topic)
			resp := ask[*kmsg.ProduceResponse](r, produce)
			got := resp.Topics[0].Partitions[0]
			hinted(t, "Produce", version, version >= 10, got.ErrorCode, got.CurrentLeader.LeaderID, len(resp.Brokers))
		}
		return
	}
	t.Error("broker 1 leads all partitions: nothing was tried")
}

// hinted holds the answer of one who does not lead a partition to whether it tells who does.
func hinted(t *testing.T, what string, version int16, want bool, code int16, leader int32, brokers int) {
	t.Helper()
	if code != kerr.NotLeaderForPartition.Code || (leader > 1) != want || (brokers == 1) != want || !want && brokers != 0 {
		t.Errorf("%s, version %d, of a partition that another leads = %v, leader %d, %d addresses, want NOT_LEADER_OR_FOLLOWER with a hint: %v",
			what, version, kerr.ErrorForCode(code), leader, brokers, want)
	}
}
