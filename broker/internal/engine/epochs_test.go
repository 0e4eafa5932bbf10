package engine

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAnEpochThatNothingFollowedEndsWithTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *Engine {
		e, err := Open(t.Context(), Options{NodeID: 1, ClusterID: "c", Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	createTopic(t, e, "t", 1)
	ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, goodBatch(3)))
	for range 3 { // each start is an epoch
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = open()
	}
	defer func() { _ = e.Close() }()
	end := func(epoch int32) (int32, int64) {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.Version, req.ReplicaID = 4, -1
		req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1, LeaderEpoch: epoch}}}}
		p := ask[*kmsg.OffsetForLeaderEpochResponse](t, e, req).Topics[0].Partitions[0]
		return p.LeaderEpoch, p.EndOffset
	}
	latest := kmsg.NewPtrListOffsetsRequest()
	latest.Version, latest.ReplicaID = 6, -1
	latest.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: -1, Timestamp: -1}}}}
	now := ask[*kmsg.ListOffsetsResponse](t, e, latest).Topics[0].Partitions[0].LeaderEpoch
	if now < 2 {
		t.Fatalf("the present epoch is %d, want one for each start", now)
	}
	for epoch := range now + 1 {
		if of, offset := end(epoch); offset != 3 || of < 0 || of > epoch {
			t.Errorf("end of epoch %d = %d, of epoch %d; want 3, of that epoch or one before", epoch, offset, of)
		}
	}
	for _, unknown := range []int32{now + 1, -1} {
		if _, offset := end(unknown); offset != -1 && unknown > 0 {
			t.Errorf("end of epoch %d = %d, want none", unknown, offset)
		}
	}
}
