package engine

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keylessBatch is a good batch of one record without a key.
func keylessBatch() []byte {
	r := kmsg.NewRecord()
	r.Value = []byte("value")
	body := r.AppendTo(nil)[1:]
	r.Length = int32(len(body))
	b := kmsg.NewRecordBatch()
	b.Magic, b.PartitionLeaderEpoch, b.NumRecords = 2, -1, 1
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.Records = r.AppendTo(nil)
	b.Length = int32(batchHeader - batchLengthField + len(b.Records))
	return seal(b.AppendTo(nil))
}

func TestCompactedTopicsTakeNoRecordWithoutAKey(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	write := func(batch []byte) int16 {
		resp := ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, batch))
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	policy := func(value string) {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "cleanup.policy", Value: &value}},
		}}
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](t, e, req).Resources[0]; got.ErrorCode != 0 {
			t.Fatalf("IncrementalAlterConfigs = error %d", got.ErrorCode)
		}
	}
	if got := write(keylessBatch()); got != 0 {
		t.Errorf("without a key, not compacted: error %d, want none", got)
	}
	for _, value := range []string{"compact", "compact,delete"} {
		policy(value)
		if got := write(keylessBatch()); got != kerr.InvalidRecord.Code {
			t.Errorf("without a key, %s: error %d, want %d", value, got, kerr.InvalidRecord.Code)
		}
		if got := write(goodBatch(3)); got != 0 {
			t.Errorf("with keys, %s: error %d, want none", value, got)
		}
	}
	policy("delete")
	if got := write(keylessBatch()); got != 0 {
		t.Errorf("without a key, no longer compacted: error %d, want none", got)
	}
	for codec := codecGzip; codec <= codecZstd; codec++ {
		judge := new(batches)
		if judge.keyed(pack(t, codec, keylessBatch()[batchHeader:], 1)) || !judge.keyed(pack(t, codec, goodBatch(2)[batchHeader:], 2)) {
			t.Errorf("keys are not seen in a batch packed with codec %d", codec)
		}
	}
}
