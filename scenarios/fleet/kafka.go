package fleet

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswer bounds what a client believes of a response's length.
const maxAnswer = 64 << 20

// roundTrip sends req in the version it has set and reads its answer. The caller owns the client and set a deadline.
func (c *client) roundTrip(req kmsg.Request) (kmsg.Response, error) {
	c.correlation++
	if _, err := c.stream().Write(c.group.format.AppendRequest(nil, req, c.correlation)); err != nil {
		return nil, err
	}
	frame, err := readFrame(c.stream())
	if err != nil {
		return nil, err
	}
	if len(frame) < 4 {
		return nil, &badAnswerError{fmt.Sprintf("an answer of %d bytes", len(frame))}
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != c.correlation {
		return nil, &badAnswerError{fmt.Sprintf("correlation id %d answers %d", got, c.correlation)}
	}
	body := frame[4:]
	resp := req.ResponseKind()
	if hello, ok := resp.(*kmsg.ApiVersionsResponse); ok {
		// An answer to an unknown version is a v0, and so is nothing else that begins with this code.
		if len(body) >= 2 && binary.BigEndian.Uint16(body) == 35 {
			hello.SetVersion(0)
		}
	} else if resp.IsFlexible() {
		if body, err = skipTags(body); err != nil {
			return nil, err
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, &badAnswerError{fmt.Sprintf("answer to key %d: %v", req.Key(), err)}
	}
	return resp, nil
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxAnswer {
		return nil, &badAnswerError{fmt.Sprintf("an answer that claims %d bytes", n)}
	}
	// A claim is believed as far as its bytes arrive.
	const atOnce = 64 << 10
	frame := make([]byte, 0, min(n, atOnce))
	for uint32(len(frame)) < n {
		have := len(frame)
		more := min(int(n)-have, max(atOnce, have))
		frame = slices.Grow(frame, more)[:have+more]
		if _, err := io.ReadFull(r, frame[have:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

// skipTags drops the tagged fields of a response header.
func skipTags(b []byte) ([]byte, error) {
	bad := &badAnswerError{"a response header that ends in its tags"}
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, bad
	}
	b = b[n:]
	for range count {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, bad
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, bad
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// hello sends ApiVersions and returns its error code.
func (c *client) hello() (int16, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version = c.group.HelloVersion
	if req.Version == 0 {
		req.Version = 3
	}
	req.ClientSoftwareName, req.ClientSoftwareVersion = c.group.Software, c.group.SoftwareVersion
	resp, err := c.roundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.ApiVersionsResponse).ErrorCode, nil //nolint:forcetypeassert // roundTrip made it
}

// request is what the client's behaviour sends next, and a function that finds the first error code in its answer.
func (c *client) request() (kmsg.Request, func(kmsg.Response) int16) {
	if c.group.behaviour() == Produce {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = 9, 1, int32(c.fleet.timeout.Milliseconds())
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = c.group.Topic
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Records = oneRecord(time.Now(), fmt.Appendf(nil, "%s-%d", c.group.Name, c.index))
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		return req, produceCode
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
	if c.group.Topic != "" {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &c.group.Topic
		req.Topics = append(req.Topics, topic)
	}
	return req, metadataCode
}

func produceCode(resp kmsg.Response) int16 {
	for _, t := range resp.(*kmsg.ProduceResponse).Topics { //nolint:forcetypeassert // the answer to a Produce
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return p.ErrorCode
			}
		}
	}
	return 0
}

func metadataCode(resp kmsg.Response) int16 {
	for _, t := range resp.(*kmsg.MetadataResponse).Topics { //nolint:forcetypeassert // the answer to a Metadata
		if t.ErrorCode != 0 {
			return t.ErrorCode
		}
	}
	return 0
}

// oneRecord is a batch of one uncompressed record.
func oneRecord(now time.Time, value []byte) []byte {
	r := kmsg.NewRecord()
	r.Value = value
	r.Length = int32(len(r.AppendTo(nil)) - 1) // a zero length takes one byte
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch, batch.Magic = -1, 2
	batch.FirstTimestamp, batch.MaxTimestamp = now.UnixMilli(), now.UnixMilli()
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = -1, -1, -1
	batch.NumRecords, batch.Records = 1, r.AppendTo(nil)
	raw := batch.AppendTo(nil)
	const lengthAt, crcAt = 8, 17
	binary.BigEndian.PutUint32(raw[lengthAt:], uint32(len(raw)-lengthAt-4))
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[crcAt+4:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// ClientHello is the first flight that crypto/tls would send with config.
func ClientHello(config *tls.Config) ([]byte, error) {
	var c captured
	err := tls.Client(&c, config).Handshake() //nolint:noctx // it ends at the first read, nothing is on the wire
	if errors.Is(err, errCaptured) {
		return c.flight.Bytes(), nil
	}
	return nil, err
}

var errCaptured = errors.New("the ClientHello is captured")

// captured keeps what is written to it and ends at the first read.
type captured struct{ flight bytes.Buffer }

var _ net.Conn = (*captured)(nil)

func (c *captured) Write(b []byte) (int, error)    { return c.flight.Write(b) }
func (*captured) Read([]byte) (int, error)         { return 0, errCaptured }
func (*captured) Close() error                     { return nil }
func (*captured) LocalAddr() net.Addr              { return nil }
func (*captured) RemoteAddr() net.Addr             { return nil }
func (*captured) SetDeadline(time.Time) error      { return nil }
func (*captured) SetReadDeadline(time.Time) error  { return nil }
func (*captured) SetWriteDeadline(time.Time) error { return nil }
