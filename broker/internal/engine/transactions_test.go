package engine

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func initProducer(t *testing.T, e *Engine, id string) (producer int64, epoch int16) {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &id, 60_000
	resp := ask[*kmsg.InitProducerIDResponse](t, e, req)
	if resp.ErrorCode != 0 {
		t.Fatalf("InitProducerId(%s) = error %d", id, resp.ErrorCode)
	}
	return resp.ProducerID, resp.ProducerEpoch
}

func TestPendingOffsetsOfANewGroupAreUnstable(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	producer, epoch := initProducer(t, e, "mine")
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = 3, "mine", producer, epoch, "new"
	if got := ask[*kmsg.AddOffsetsToTxnResponse](t, e, add).ErrorCode; got != 0 {
		t.Fatalf("AddOffsetsToTxn = error %d", got)
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.Version, commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group, commit.Generation = 3, "mine", producer, epoch, "new", -1
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = "t"
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = 7
	topic.Partitions = append(topic.Partitions, partition)
	commit.Topics = append(commit.Topics, topic)
	if got := ask[*kmsg.TxnOffsetCommitResponse](t, e, commit).Topics; len(got) != 1 || got[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("TxnOffsetCommit = %+v", got)
	}
	offset := func() (int64, int16) {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group, req.RequireStable = 7, "new", true
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		resp := ask[*kmsg.OffsetFetchResponse](t, e, req)
		if resp.ErrorCode != 0 || len(resp.Topics) != 1 {
			t.Fatalf("OffsetFetch = %+v", resp)
		}
		return resp.Topics[0].Partitions[0].Offset, resp.Topics[0].Partitions[0].ErrorCode
	}
	if at, code := offset(); code != kerr.UnstableOffsetCommit.Code {
		t.Errorf("pending offset = %d, error %d, want error %d", at, code, kerr.UnstableOffsetCommit.Code)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = 3, "mine", producer, epoch, true
	if got := ask[*kmsg.EndTxnResponse](t, e, end).ErrorCode; got != 0 {
		t.Fatalf("EndTxn = error %d", got)
	}
	if at, code := offset(); at != 7 || code != 0 {
		t.Errorf("committed offset = %d, error %d, want 7", at, code)
	}
}

func TestATransactionBelongsToItsTransactionalID(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	mine, epoch := initProducer(t, e, "mine")
	initProducer(t, e, "other")
	for _, test := range []struct {
		id       string
		producer int64
		want     int16
	}{
		{"other", mine, kerr.InvalidProducerIDMapping.Code},
		{"none", mine, kerr.InvalidProducerIDMapping.Code},
		{"mine", mine + 1, kerr.InvalidProducerIDMapping.Code},
		{"", mine, kerr.InvalidRequest.Code},
		{"mine", mine, 0},
	} {
		add := kmsg.NewPtrAddPartitionsToTxnRequest()
		add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch = 3, test.id, test.producer, epoch
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = "t", []int32{0}
		add.Topics = append(add.Topics, topic)
		added := ask[*kmsg.AddPartitionsToTxnResponse](t, e, add)
		if len(added.Topics) != 1 || len(added.Topics[0].Partitions) != 1 || added.Topics[0].Partitions[0].ErrorCode != test.want {
			t.Errorf("AddPartitionsToTxn(%q, own id %v) = %+v, want error %d", test.id, test.producer == mine, added.Topics, test.want)
		}
		offsets := kmsg.NewPtrAddOffsetsToTxnRequest()
		offsets.Version, offsets.TransactionalID, offsets.ProducerID, offsets.ProducerEpoch, offsets.Group = 3, test.id, test.producer, epoch, "g"
		if got := ask[*kmsg.AddOffsetsToTxnResponse](t, e, offsets).ErrorCode; got != test.want {
			t.Errorf("AddOffsetsToTxn(%q, own id %v) = error %d, want %d", test.id, test.producer == mine, got, test.want)
		}
		end := kmsg.NewPtrEndTxnRequest()
		end.Version, end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = 3, test.id, test.producer, epoch, true
		if got := ask[*kmsg.EndTxnResponse](t, e, end).ErrorCode; got != test.want {
			t.Errorf("EndTxn(%q, own id %v) = error %d, want %d", test.id, test.producer == mine, got, test.want)
		}
	}
}
