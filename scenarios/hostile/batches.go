package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sealed is a batch of records with its length and checksum right.
func sealed(attributes int16, count int32, records []byte) []byte {
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: count - 1,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: count, Records: records,
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	const checksummed = 21
	b.CRC = int32(crc32.Checksum(raw[checksummed:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// lyingBatch says that it is 2 GiB long and has 2^31-1 records.
func lyingBatch() []byte {
	b := sealed(0, 0x7fffffff, []byte{1, 2, 3, 4})
	binary.BigEndian.PutUint32(b[8:], 0x7fffffff)
	return b
}

// bomb is a batch of gzip that unfolds to a thousand times its size.
func bomb() []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	zeros := make([]byte, 64<<10)
	for range 160 {
		_, _ = w.Write(zeros) // into memory
	}
	_ = w.Close()
	const gzipCodec = 1
	return sealed(gzipCodec, 1, packed.Bytes())
}
