package api

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func batches(sizes ...int) (all []byte) {
	for _, size := range sizes {
		b := make([]byte, size)
		binary.BigEndian.PutUint32(b[8:], uint32(size-12))
		all = append(all, b...)
	}
	return all
}

func TestAFetchThatThereIsNoRoomForGetsItsFirstBatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		room int64
		want [3]int
	}{
		{1000, [3]int{0, 300, 200}},
		{500, [3]int{0, 300, 200}},
		{499, [3]int{0, 300, 0}},
		{299, [3]int{0, 100, 0}},
		{-1, [3]int{0, 100, 0}},
	} {
		resp := kmsg.NewPtrFetchResponse()
		resp.Topics = []kmsg.FetchResponseTopic{
			{Partitions: []kmsg.FetchResponseTopicPartition{{}, {RecordBatches: batches(100, 200)}}},
			{Partitions: []kmsg.FetchResponseTopicPartition{{RecordBatches: batches(200)}}},
		}
		shorten(resp, c.room)
		got := [3]int{
			len(resp.Topics[0].Partitions[0].RecordBatches), len(resp.Topics[0].Partitions[1].RecordBatches),
			len(resp.Topics[1].Partitions[0].RecordBatches),
		}
		if got != c.want {
			t.Errorf("with room for %d bytes: records of %v bytes, want %v", c.room, got, c.want)
		}
	}
	for _, short := range [][]byte{nil, {1}, make([]byte, 11), batches(100)[:50]} {
		if got := firstBatch(short); len(got) > len(short) {
			t.Errorf("first batch of %d bytes has %d", len(short), len(got))
		}
	}
}
