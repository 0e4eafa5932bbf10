package engine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Compression codecs of record batches.
const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLz4
	codecZstd
)

const (
	// maxInflated is how large a batch may become when it is unpacked. The data plane unpacks a whole batch in memory
	// to look for a timestamp or to compact; MESSAGE_TOO_LARGE makes producers split the batch.
	maxInflated = 128 << 20
	// maxInflatedRequest is the same for all batches of one request, for the sake of the processor.
	maxInflatedRequest = 4 * maxInflated
)

// errInflated says that a batch becomes larger than it may.
var errInflated = errors.New("the batch is too large when it is unpacked")

// inflaters unpack record batches to check them, keeping decoders for reuse. The zero value is ready.
type inflaters struct {
	gzip, snappy, lz4, zstd, buffers sync.Pool
}

// check judges packed records: whether they are what their batch says and no larger than budget, which it uses up.
func (p *inflaters) check(packed []byte, codec uint16, count int32, budget *int64, good recordRule) verdict {
	if codec == codecLz4 && linkedBlocks(packed) {
		return verdict{kerr.UnknownServerError, "Dependent block stream is unsupported."}
	}
	src, done, err := p.open(packed, codec)
	if err == nil {
		defer done()
		err = p.walk(src, count, budget, good)
	}
	switch {
	case err == nil:
		return verdict{}
	case errors.Is(err, errInflated), errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return verdict{kerr.MessageTooLarge, "The record batch is too large when it is unpacked."}
	default:
		return verdict{kerr.InvalidRecord, "The records do not match the batch that holds them."}
	}
}

// linkedBlocks tells whether an LZ4 frame says that its blocks depend on each other. Java's consumers read no such frames, so Kafka
// takes none.
func linkedBlocks(frame []byte) bool {
	const flags, independent = 4, 1 << 5 // after the magic number
	return len(frame) > flags && frame[flags]&independent == 0
}

// open returns what packed unpacks to; done gives the decoder back.
func (p *inflaters) open(packed []byte, codec uint16) (src io.Reader, done func(), err error) {
	in := bytes.NewReader(packed)
	switch codec {
	case codecGzip:
		z, ok := p.gzip.Get().(*gzip.Reader)
		if !ok {
			z = new(gzip.Reader)
		}
		if err = z.Reset(in); err != nil {
			p.gzip.Put(z)
			return nil, nil, err
		}
		return z, func() { p.gzip.Put(z) }, nil
	case codecSnappy:
		z, ok := p.snappy.Get().(*snappyReader)
		if !ok {
			z = new(snappyReader)
		}
		z.reset(packed)
		return z, func() {
			z.reset(nil)
			p.snappy.Put(z)
		}, nil
	case codecLz4:
		z, ok := p.lz4.Get().(*lz4.Reader)
		if !ok {
			z = lz4.NewReader(nil)
		}
		z.Reset(in)
		return z, func() { p.lz4.Put(z) }, nil
	case codecZstd:
		z, ok := p.zstd.Get().(*zstd.Decoder)
		if !ok {
			// One decoder works in the caller's goroutine, so that one that the pool drops leaves nothing behind.
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxInflated))
			if err != nil {
				return nil, nil, err
			}
		}
		err = z.Reset(in)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { p.zstd.Put(z) }, nil
	default:
		return nil, nil, errors.New("unknown codec")
	}
}

// walk reads count records and then the end from src.
func (p *inflaters) walk(src io.Reader, count int32, budget *int64, good recordRule) error {
	allowed := min(*budget, maxInflated) + 1
	limit := &io.LimitedReader{R: src, N: allowed}
	defer func() { *budget = max(0, *budget-(allowed-limit.N)) }()
	r, ok := p.buffers.Get().(*bufio.Reader)
	if !ok {
		r = bufio.NewReaderSize(nil, 16<<10)
	}
	r.Reset(limit)
	defer func() {
		r.Reset(nil)
		p.buffers.Put(r)
	}()
	err := walkFrom(r, limit, count, good)
	if err != nil && limit.N <= 0 {
		return errInflated
	}
	return err
}

func walkFrom(r *bufio.Reader, limit *io.LimitedReader, count int32, good recordRule) error {
	bad := errors.New("the records do not match their batch")
	var record []byte
	for i := range count {
		length, err := binary.ReadVarint(r)
		if err != nil {
			return err
		}
		switch {
		case length < 0 || length > math.MaxInt32:
			return bad
		case length > limit.N+int64(r.Buffered()):
			return errInflated
		}
		if record, err = readGrowing(r, record[:0], int(length)); err != nil {
			return err
		}
		if !good(record, i) {
			return bad
		}
	}
	switch _, err := r.ReadByte(); {
	case err == nil:
		return bad
	case limit.N <= 0:
		return errInflated
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// readGrowing reads n bytes into buf without believing n before that much was there.
func readGrowing(r io.Reader, buf []byte, n int) ([]byte, error) {
	const step = 64 << 10
	for len(buf) < n {
		more := min(n-len(buf), step)
		at := len(buf)
		buf = append(buf, make([]byte, more)...)
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// xerialHeader starts what Java's snappy stream writes: a magic and two versions, then blocks with their lengths.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = len(xerialMagic) + 8
)

// snappyReader unpacks the two forms of snappy that Kafka has: one block, and xerial's blocks with lengths.
type snappyReader struct {
	packed []byte
	xerial bool
	block  []byte // what is unpacked
	unread []byte
}

// reset starts on packed. A large block is not kept.
func (s *snappyReader) reset(packed []byte) {
	const kept = 1 << 20
	s.packed, s.unread = packed, nil
	s.xerial = len(packed) >= xerialHeader && string(packed[:len(xerialMagic)]) == xerialMagic
	if s.xerial {
		s.packed = packed[xerialHeader:]
	}
	if cap(s.block) > kept {
		s.block = nil
	}
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		if len(s.packed) == 0 {
			return 0, io.EOF
		}
		block := s.packed
		s.packed = nil
		if s.xerial {
			const prefix = 4
			if len(block) < prefix {
				return 0, io.ErrUnexpectedEOF
			}
			n := int64(binary.BigEndian.Uint32(block))
			if n > int64(len(block)-prefix) {
				return 0, io.ErrUnexpectedEOF
			}
			block, s.packed = block[prefix:prefix+n], block[prefix+n:]
		}
		size, err := snappy.DecodedLen(block)
		if err != nil {
			return 0, err
		}
		if size > maxInflated {
			return 0, errInflated
		}
		const mostTimes = 32 // snappy's copies make 64 bytes of 3 at best
		if size > (len(block)+1)*mostTimes {
			return 0, errors.New("a snappy block can't become as large as it says")
		}
		if s.block, err = snappy.Decode(s.block[:cap(s.block)], block); err != nil {
			return 0, err
		}
		s.unread = s.block
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}
