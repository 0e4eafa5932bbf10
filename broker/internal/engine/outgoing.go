package engine

import (
	"encoding/binary"
	"net"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/wire"
)

// apartFrom is the size from which records are not copied on their way, but sent from where they are.
const apartFrom = 8 << 10

// outgoing is a request as it is sent: all but its large records, and those, which belong to the request's maker.
type outgoing struct {
	text  []byte // of a pool; with the length prefix of the whole
	apart []span
	size  int
}

// span is records that belong into a text at a place.
type span struct {
	at      int
	records []byte
}

// newOutgoing encodes a request, into memory of pool.
func newOutgoing(pool *wire.Buffers, clientID string, req kmsg.Request) outgoing {
	const others, perPartition = 1 << 10, 64
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok || produce.Version < 3 || produce.Version > firstProduceByID {
		text := appendRequest(pool.Get(others), 0, clientID, req)
		return outgoing{text: text, size: len(text)}
	}
	size := others
	for i := range produce.Topics {
		size += perPartition + len(produce.Topics[i].Topic)
		for j := range produce.Topics[i].Partitions {
			size += perPartition
			if n := len(produce.Topics[i].Partitions[j].Records); n < apartFrom {
				size += n
			}
		}
	}
	split := &splitProduce{ProduceRequest: produce}
	o := outgoing{text: appendRequest(pool.Get(size), 0, clientID, split), apart: split.apart}
	o.size = len(o.text)
	for _, s := range o.apart {
		o.size += len(s.records)
	}
	binary.BigEndian.PutUint32(o.text, uint32(o.size-sizePrefix))
	return o
}

const sizePrefix = 4

// write sends it, and needs pool where it has to be in one piece: TLS would make records of the pieces.
func (o *outgoing) write(conn net.Conn, pool *wire.Buffers) error {
	pieces := o.pieces()
	if _, plain := conn.(*net.TCPConn); plain || len(pieces) == 1 {
		_, err := pieces.WriteTo(conn)
		return err
	}
	whole := pool.Get(o.size)
	for _, piece := range pieces {
		whole = append(whole, piece...)
	}
	_, err := conn.Write(whole)
	pool.Put(whole)
	return err
}

// pieces are all its bytes, in order.
func (o *outgoing) pieces() net.Buffers {
	pieces := make(net.Buffers, 0, 2*len(o.apart)+1)
	at := 0
	for _, s := range o.apart {
		pieces = append(pieces, o.text[at:s.at], s.records)
		at = s.at
	}
	return append(pieces, o.text[at:])
}

// splitProduce is a Produce that leaves its large records out of what it appends, and notes where they belong.
type splitProduce struct {
	*kmsg.ProduceRequest

	apart []span
}

// AppendTo appends the request, of version 3 to 13, as kmsg does but for those records.
func (s *splitProduce) AppendTo(dst []byte) []byte {
	flexible := s.IsFlexible()
	text, blob, count := kbin.AppendNullableString, kbin.AppendNullableBytes, kbin.AppendArrayLen
	if flexible {
		text, blob, count = kbin.AppendCompactNullableString, kbin.AppendCompactNullableBytes, kbin.AppendCompactArrayLen
	}
	dst = text(dst, s.TransactionID)
	dst = kbin.AppendInt16(dst, s.Acks)
	dst = kbin.AppendInt32(dst, s.TimeoutMillis)
	dst = count(dst, len(s.Topics))
	for i := range s.Topics {
		t := &s.Topics[i]
		if s.Version < firstProduceByID {
			dst = text(dst, &t.Topic)
		} else {
			dst = append(dst, t.TopicID[:]...)
		}
		dst = count(dst, len(t.Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			dst = kbin.AppendInt32(dst, p.Partition)
			if len(p.Records) < apartFrom {
				dst = blob(dst, p.Records)
			} else {
				dst = count(dst, len(p.Records)) // bytes have their length as arrays do
				s.apart = append(s.apart, span{at: len(dst), records: p.Records})
			}
			dst = appendTags(dst, &p.UnknownTags, flexible)
		}
		dst = appendTags(dst, &t.UnknownTags, flexible)
	}
	return appendTags(dst, &s.UnknownTags, flexible)
}

func appendTags(dst []byte, tags *kmsg.Tags, flexible bool) []byte {
	if !flexible {
		return dst
	}
	return tags.AppendEach(kbin.AppendUvarint(dst, uint32(tags.Len())))
}
