package engine

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// goodBatch is a batch of n records that are not compressed.
func goodBatch(n int32) []byte { return makeBatch(n, -1, -1, -1) }

func makeBatch(n int32, pid int64, epoch int16, sequence int32) []byte {
	var records []byte
	for i := range n {
		r := kmsg.NewRecord()
		r.OffsetDelta = i
		r.Key, r.Value = []byte("key"), []byte("value")
		r.Headers = []kmsg.Header{{Key: "h", Value: []byte("v")}}
		body := r.AppendTo(nil)[1:] // without the length, which is one byte while it is 0
		r.Length = int32(len(body))
		records = r.AppendTo(records)
	}
	b := kmsg.NewRecordBatch()
	b.Magic, b.PartitionLeaderEpoch = 2, -1
	b.LastOffsetDelta, b.NumRecords = n-1, n
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = pid, epoch, sequence
	b.Records = records
	b.Length = int32(batchHeader - batchLengthField + len(records))
	return seal(b.AppendTo(nil))
}

// seal makes the checksum right.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[batchCRCAt:], crc32.Checksum(b[batchAttributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestBatchesAreJudgedAsKafkaDoes(t *testing.T) {
	t.Parallel()
	change := func(at int, b ...byte) func([]byte) []byte {
		return func(batch []byte) []byte {
			copy(batch[at:], b)
			return seal(batch)
		}
	}
	tests := map[string]struct {
		change  func([]byte) []byte
		version int16
		want    *kerr.Error
	}{
		"a good batch passes":               {want: nil},
		"no batch":                          {change: func([]byte) []byte { return nil }, want: kerr.InvalidRecord},
		"cut off in the header":             {change: func(b []byte) []byte { return b[:10] }, want: kerr.CorruptMessage},
		"cut off in the records":            {change: func(b []byte) []byte { return b[:len(b)-1] }, want: kerr.CorruptMessage},
		"two batches":                       {change: func(b []byte) []byte { return append(b, b...) }, want: kerr.InvalidRecord},
		"an old message format":             {change: change(batchMagicAt, 1), want: kerr.InvalidRecord},
		"a wrong checksum":                  {change: func(b []byte) []byte { b[batchCRCAt] ^= 1; return b }, want: kerr.CorruptMessage},
		"an unknown codec":                  {change: change(batchAttributesAt, 0, 5), want: kerr.CorruptMessage},
		"zstd before version 7":             {change: change(batchAttributesAt, 0, 4), version: 6, want: kerr.UnsupportedCompressionType},
		"zstd that is not zstd":             {change: change(batchAttributesAt, 0, 4), version: 7, want: kerr.InvalidRecord},
		"a control batch":                   {change: change(batchAttributesAt, 0, 0x20), want: kerr.InvalidRecord},
		"no record":                         {change: change(batchCountAt, 0, 0, 0, 0), want: kerr.InvalidRecord},
		"a negative count":                  {change: change(batchCountAt, 0xff, 0xff, 0xff, 0xfe), want: kerr.InvalidRecord},
		"a last offset that does not match": {change: change(batchLastDeltaAt, 0, 0, 0, 9), want: kerr.InvalidRecord},
		"more records counted than there are": {change: func(b []byte) []byte {
			return change(batchLastDeltaAt, 0, 0, 0, 3)(change(batchCountAt, 0, 0, 0, 4)(b))
		}, want: kerr.InvalidRecord},
		"a base offset":                    {change: change(7, 1), want: kerr.InvalidRecord},
		"a negative sequence":              {change: change(batchPIDAt, 0, 0, 0, 0, 0, 0, 0, 1), want: kerr.InvalidRecord},
		"a transaction without a producer": {change: change(batchAttributesAt, 0, 0x10), want: kerr.InvalidRecord},
		"a record with a wrong length":     {change: change(batchHeader, 0x7e), want: kerr.InvalidRecord},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := goodBatch(3)
			if test.change != nil {
				b = test.change(b)
			}
			version := test.version
			if version == 0 {
				version = 9
			}
			got := new(batches).check(b, version, new(int64(maxInflatedRequest)))
			if got.err != test.want {
				t.Errorf("check() = %v %q, want %v", got.err, got.why, test.want)
			}
		})
	}
}

func FuzzCheckBatchAcceptsOnlyWhatKmsgReads(f *testing.F) {
	for n := range int32(4) {
		f.Add(goodBatch(n + 1))
	}
	var judge batches
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > batchHeader {
			b = seal(b)
		}
		if judge.check(b, 9, new(int64(maxInflatedRequest))).err != nil {
			return
		}
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(b); err != nil {
			t.Fatalf("an accepted batch can't be read: %v", err)
		}
		if batch.Attributes&attrCodec != 0 {
			return
		}
		rest := batch.Records
		for i := range batch.NumRecords {
			r := kmsg.NewRecord()
			if err := r.ReadFrom(rest); err != nil {
				t.Fatalf("record %d of an accepted batch can't be read: %v", i, err)
			}
			rest = rest[min(len(rest), varintLen(r.Length)+int(r.Length)):]
		}
	})
}

func varintLen(v int32) int { return len(binary.AppendVarint(nil, int64(v))) }

// pack compresses the records of a batch of n as kgo does.
func pack(tb testing.TB, codec int, records []byte, n int32) []byte {
	tb.Helper()
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	c, err := kgo.DefaultCompressor(codecs[codec])
	if err != nil {
		tb.Fatal(err)
	}
	var dst bytes.Buffer
	packed, got := c.Compress(&dst, records)
	if int(got) != codec {
		tb.Fatalf("Compress used codec %d, want %d", got, codec)
	}
	b := kmsg.NewRecordBatch()
	b.Magic, b.PartitionLeaderEpoch, b.Attributes = 2, -1, int16(codec)
	b.LastOffsetDelta, b.NumRecords = n-1, n
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.Records = packed
	b.Length = int32(batchHeader - batchLengthField + len(packed))
	return seal(b.AppendTo(nil))
}

func TestCompressedBatchesAreUnpackedToBeJudged(t *testing.T) {
	t.Parallel()
	records := goodBatch(500)[batchHeader:]
	var judge batches
	for codec := codecGzip; codec <= codecZstd; codec++ {
		if v := judge.check(pack(t, codec, records, 500), 9, new(int64(maxInflatedRequest))); v.err != nil {
			t.Errorf("codec %d: a good batch = %v %q", codec, v.err, v.why)
		}
		for _, n := range []int32{499, 501, 1 << 30} {
			if v := judge.check(pack(t, codec, records, n), 9, new(int64(maxInflatedRequest))); v.err != kerr.InvalidRecord {
				t.Errorf("codec %d: %d records said to be 500 = %v, want %v", codec, n, v.err, kerr.InvalidRecord)
			}
		}
		cut := pack(t, codec, records, 500)
		cut = cut[:len(cut)-9]
		binary.BigEndian.PutUint32(cut[batchLengthAt:], uint32(len(cut)-batchLengthField))
		if v := judge.check(seal(cut), 9, new(int64(maxInflatedRequest))); v.err == nil {
			t.Errorf("codec %d: a batch that is cut off was accepted", codec)
		}
	}
}

// Java reads no LZ4 frames whose blocks depend on each other: what a producer writes so, nobody could consume.
func TestLinkedBlocksOfLZ4AreRefusedAsByKafka(t *testing.T) {
	t.Parallel()
	linked := pack(t, codecLz4, goodBatch(500)[batchHeader:], 500)
	linked[batchHeader+4] &^= 1 << 5
	var judge batches
	if v := judge.check(seal(linked), 9, new(int64(maxInflatedRequest))); v.err != kerr.UnknownServerError {
		t.Errorf("a batch with linked blocks = %v %q, want %v", v.err, v.why, kerr.UnknownServerError)
	}
}

func TestABatchThatUnpacksToTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	r := kmsg.NewRecord()
	r.Value = make([]byte, size)
	r.Length = int32(len(r.AppendTo(nil)[1:]))
	records := r.AppendTo(nil)
	var judge batches
	for codec := codecGzip; codec <= codecZstd; codec++ {
		b := pack(t, codec, records, 1)
		budget := int64(2*size + size/2)
		for i, want := range []*kerr.Error{nil, nil, kerr.MessageTooLarge, kerr.MessageTooLarge} {
			if v := judge.check(b, 9, &budget); v.err != want {
				t.Errorf("codec %d: batch %d of %d bytes that unpack to %d = %v, want %v", codec, i, len(b), len(records), v.err, want)
			}
		}
	}
}
