package api

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// relay sends the answer to a Fetch on while it arrives, where nothing has to be taken out of it or put into it.
type relay struct{ *call }

var _ engine.Relay = relay{}

// relay is who takes the answer of q while it arrives; nil for another API than Fetch.
func (q *call) relay() engine.Relay {
	if q.row.key != kmsg.Fetch.Int16() {
		return nil
	}
	return relay{q}
}

// Begin takes the answer, unless a part of it is refused, may have to be since the rules changed while the client waited, or there is no
// room for it.
func (r relay) Begin(frame []byte, sent func()) bool {
	q := r.call
	defer q.survive()
	if q.closing || len(q.refused) > 0 || q.rulesChanged() || q.server.o.Unsent()+int64(len(frame)) > unsentMost {
		return false
	}
	binary.BigEndian.PutUint32(frame[engine.CorrelationAt:], uint32(q.header.CorrelationID))
	q.relayed = frame
	q.conn.ReplyInParts(frame, sent)
	return true
}

func (r relay) More(n int) {
	defer r.survive()
	r.conn.ReplyMore(n)
}

func (r relay) Splices() bool { return !r.conn.Listener().Protocol.TLS() }

func (r relay) Splice(pipe, n int, until time.Time) int {
	defer r.survive()
	return r.conn.ReplySplice(pipe, n, until)
}

func (r relay) Leads(node int32) bool {
	defer r.survive()
	return r.faces().leads(node)
}

// endRelay sends the last bytes of an answer, whose errors resp has.
func (q *call) endRelay(resp kmsg.Response) {
	q.server.metrics.answered(q.row, q.header.Version, resp, time.Since(q.received))
	q.conn.ReplyMore(len(q.relayed))
}
