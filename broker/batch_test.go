package broker_test

import (
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// batch is a record batch of one record.
func batch(value string) []byte { return numbered(value, -1, -1, -1) }

// numbered is one of an idempotent producer.
func numbered(value string, producer int64, epoch int16, sequence int32) []byte {
	record := kmsg.NewRecord()
	record.Value = []byte(value)
	body := record.AppendTo(nil)
	record.Length = int32(len(body) - 1)
	body = record.AppendTo(nil)
	b := kmsg.NewRecordBatch()
	b.PartitionLeaderEpoch, b.Magic, b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, 2, producer, epoch, sequence
	b.NumRecords, b.Records = 1, body
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	whole := b.AppendTo(nil)
	b.CRC = int32(crc32.Checksum(whole[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}
