package api

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A client sends batches before it knows what became of those before. One that was given up must not be followed by those that were
// under way: the data plane would refuse them for the gap, which librdkafka takes for the end of its producer's epoch, and then it
// sends anew what may have been written. So they are given up, too, until the client has had time to hear of the first.

// gapsLast is how long that may take.
const gapsLast = 2 * time.Second

// gaps are the batches of a connection that were given up a moment ago.
type gaps struct {
	code  *kerr.Error
	until time.Time
	first map[gapKey]sequenced
}

// gapKey is what batches are numbered by.
type gapKey struct {
	producer  int64
	topic     string
	id        [16]byte
	partition int32
}

// sequenced is a batch by its number.
type sequenced struct {
	epoch    int16
	sequence int32
}

// giveUp answers a Produce with an error after which its batches are sent again.
func (q *call) giveUp(req *kmsg.ProduceRequest, code *kerr.Error) {
	s := q.session
	if s.gaps == nil {
		s.gaps = &gaps{first: map[gapKey]sequenced{}}
	}
	s.gaps.code, s.gaps.until = code, time.Now().Add(gapsLast)
	s.gaps.note(req)
	q.refuse(req, code, "")
}

// note remembers the first of each producer's batches.
func (g *gaps) note(req *kmsg.ProduceRequest) {
	eachNumbered(req, func(key gapKey, batch sequenced) {
		if known, ok := g.first[key]; !ok || known.epoch != batch.epoch || batch.sequence < known.sequence {
			g.first[key] = batch
		}
	})
}

// behindGap gives up a Produce which follows one that was. True: it has answered.
func (q *call) behindGap(req *kmsg.ProduceRequest) bool {
	g := q.session.gaps
	if g == nil {
		return false
	}
	if time.Now().After(g.until) {
		q.session.gaps = nil
		return false
	}
	behind := false
	eachNumbered(req, func(key gapKey, batch sequenced) {
		first, ok := g.first[key]
		if ok && first.epoch == batch.epoch && batch.sequence > first.sequence {
			behind = true
		} else {
			delete(g.first, key) // it comes again, or its producer has begun anew
		}
	})
	if behind {
		g.note(req) // and not for longer
		q.refuse(req, g.code, "")
	}
	return behind
}

// eachNumbered calls note for each batch of an idempotent producer.
func eachNumbered(req *kmsg.ProduceRequest, note func(gapKey, sequenced)) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if producer := producerOf(p.Records); producer >= 0 {
				note(gapKey{producer, t.Topic, t.TopicID, p.Partition}, numberOf(p.Records))
			}
		}
	}
}

// idempotent tells whether each batch of a request is known when it is sent again.
func idempotent(req *kmsg.ProduceRequest) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if producerOf(req.Topics[i].Partitions[j].Records) < 0 {
				return false
			}
		}
	}
	return true
}

// Where a batch names its producer.
const (
	producerAt = 43
	epochAt    = 51
	sequenceAt = 53
	numbersEnd = 57
)

// producerOf is the id of a batch's producer; -1 where it has none.
func producerOf(batch []byte) int64 {
	if len(batch) < numbersEnd {
		return -1
	}
	return int64(binary.BigEndian.Uint64(batch[producerAt:]))
}

// numberOf is the number of a batch that has a producer.
func numberOf(batch []byte) sequenced {
	return sequenced{int16(binary.BigEndian.Uint16(batch[epochAt:])), int32(binary.BigEndian.Uint32(batch[sequenceAt:]))}
}
