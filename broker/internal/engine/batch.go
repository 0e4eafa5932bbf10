package engine

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Layout of a record batch (magic 2), in bytes from its start.
const (
	batchLengthAt      = 8
	batchLeaderEpochAt = 12
	batchMagicAt       = 16
	batchCRCAt         = 17
	batchAttributesAt  = 21
	batchLastDeltaAt   = 23
	batchPIDAt         = 43
	batchEpochAt       = 51
	batchSequenceAt    = 53
	batchCountAt       = 57
	batchHeader        = 61
	batchLengthField   = 12 // the bytes up to and with the length, which it does not count
)

const (
	attrCodec       = 0x07
	attrTransaction = 0x10
	attrControl     = 0x20
)

// verdict is why a batch is refused, as Kafka words it. The zero verdict is for a good batch.
type verdict struct {
	err *kerr.Error
	why string
}

// batches judges record batches. The zero value is ready; safe for concurrent use.
type batches struct {
	inflaters inflaters
}

// check judges the records of one partition of a Produce request, as Kafka's ProduceRequest and LogValidator do.
// budget is how many bytes the request may still become by unpacking.
func (j *batches) check(b []byte, version int16, budget *int64) verdict {
	if v := checkBatchFrame(b); v.err != nil {
		return v
	}
	attributes := binary.BigEndian.Uint16(b[batchAttributesAt:])
	if crc32.Checksum(b[batchAttributesAt:], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[batchCRCAt:]) {
		return verdict{kerr.CorruptMessage, "Record is corrupt: the checksum does not match."}
	}
	count := int32(binary.BigEndian.Uint32(b[batchCountAt:]))
	last := int32(binary.BigEndian.Uint32(b[batchLastDeltaAt:]))
	pid := int64(binary.BigEndian.Uint64(b[batchPIDAt:]))
	epoch := int16(binary.BigEndian.Uint16(b[batchEpochAt:]))
	sequence := int32(binary.BigEndian.Uint32(b[batchSequenceAt:]))
	codec := attributes & attrCodec
	switch {
	case codec > codecZstd:
		return verdict{kerr.CorruptMessage, "Unknown compression type."}
	case codec == codecZstd && version < 7:
		return verdict{kerr.UnsupportedCompressionType, "Produce requests with this version may not use zstd."}
	case attributes&attrControl != 0:
		return verdict{kerr.InvalidRecord, "Clients are not allowed to write control records."}
	case count <= 0:
		return verdict{kerr.InvalidRecord, "Invalid reported count for record batch."}
	case int64(last) != int64(count)-1:
		return verdict{kerr.InvalidRecord, "Inconsistent batch offset range."}
	case binary.BigEndian.Uint64(b) != 0:
		return verdict{kerr.InvalidRecord, "The base offset of a produced batch should be 0."}
	case pid >= 0 && (sequence < 0 || epoch < 0):
		return verdict{kerr.InvalidRecord, "Invalid sequence number or epoch in a record batch with a producer id."}
	case pid < 0 && attributes&attrTransaction != 0:
		return verdict{kerr.InvalidRecord, "A transactional record batch has no producer id."}
	}
	if codec != codecNone {
		return j.inflaters.check(b[batchHeader:], codec, count, budget, checkRecord)
	}
	if !walkRecords(b[batchHeader:], count, checkRecord) {
		return verdict{kerr.InvalidRecord, "The records do not match the batch that holds them."}
	}
	return verdict{}
}

// checkBatchFrame judges lengths and magic: whether b is one batch.
func checkBatchFrame(b []byte) verdict {
	if len(b) == 0 {
		return verdict{kerr.InvalidRecord, "Produce requests must have exactly one record batch per partition."}
	}
	if len(b) <= batchMagicAt {
		return verdict{kerr.CorruptMessage, "Record batch is cut off."}
	}
	if b[batchMagicAt] != 2 {
		return verdict{kerr.InvalidRecord, "Produce requests are only allowed to contain record batches with magic version 2."}
	}
	size := int64(int32(binary.BigEndian.Uint32(b[batchLengthAt:]))) + batchLengthField
	switch {
	case size < batchHeader, size > int64(len(b)):
		return verdict{kerr.CorruptMessage, "Record batch length is wrong."}
	case size < int64(len(b)):
		return verdict{kerr.InvalidRecord, "Produce requests must have exactly one record batch per partition."}
	}
	return verdict{}
}

// recordRule judges one record without its length; offset is which of its batch it is.
type recordRule func(record []byte, offset int32) bool

// keyed tells whether all records of a good batch have keys.
func (j *batches) keyed(b []byte) bool {
	codec := binary.BigEndian.Uint16(b[batchAttributesAt:]) & attrCodec
	count := int32(binary.BigEndian.Uint32(b[batchCountAt:]))
	if codec == codecNone {
		return walkRecords(b[batchHeader:], count, hasKey)
	}
	budget := int64(maxInflatedRequest)
	return j.inflaters.check(b[batchHeader:], codec, count, &budget, hasKey).err == nil
}

func hasKey(record []byte, _ int32) bool {
	r := varints{b: record[1:]}
	r.next() // timestamp delta
	r.next() // offset delta
	return r.next() >= 0
}

// walkRecords tells whether b is count records with the offsets 0, 1, 2 …
func walkRecords(b []byte, count int32, good recordRule) bool {
	for i := range count {
		length, n := binary.Varint(b)
		if n <= 0 || length < 0 || length > int64(len(b)-n) {
			return false
		}
		if !good(b[n:n+int(length)], i) {
			return false
		}
		b = b[n+int(length):]
	}
	return len(b) == 0
}

// checkRecord tells whether b is one whole record with this offset delta.
func checkRecord(b []byte, offset int32) bool {
	if len(b) == 0 {
		return false
	}
	r := varints{b: b[1:]} // attributes are not used
	r.next()               // timestamp delta
	if r.next() != int64(offset) {
		return false
	}
	r.skip(r.next()) // key, null when negative
	r.skip(r.next()) // value
	headers := r.next()
	if headers < 0 || headers > int64(len(r.b)) {
		return false
	}
	for range headers {
		length := r.next()
		if length < 0 {
			return false
		}
		r.skip(length)
		r.skip(r.next())
		if r.bad {
			return false
		}
	}
	return !r.bad && len(r.b) == 0
}

// varints reads the fields of a record; bad stays set after the first failure.
type varints struct {
	b   []byte
	bad bool
}

func (r *varints) next() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		r.b = nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *varints) skip(n int64) {
	switch {
	case n <= 0: // null or empty
	case n > int64(len(r.b)):
		r.bad = true
		r.b = nil
	default:
		r.b = r.b[n:]
	}
}
