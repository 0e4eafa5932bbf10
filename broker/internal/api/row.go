package api

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// row is how one API is served.
type row struct {
	key, min, max int16
	name          string // Kafka's name of the API
	flexible      int16  // the first version with header v2
	hidden        bool   // not advertised, though it is answered
	ours          bool   // answered here; otherwise by the data plane, as far as that has it
	passing       bool   // answered here, with what the data plane says to the same request
	decode        func() kmsg.Request
	run           func(q *call, req kmsg.Request)
	// topics are the paths of the request's fields that name a topic, by name or id, such as
	// Topics.Topic. What its sender may not see is refused or hidden by them, the same way for every
	// API.
	topics []string
	// rights are what a request needs before it is run, in Kafka's order.
	rights []right
}

// needing adds to a row the rights that its requests need.
func needing(r row, rights ...right) row {
	r.rights = rights
	return r
}

func (r *row) serves(version int16) bool { return r.min <= version && version <= r.max }

// message is a pointer to T that is a request.
type message[T any] interface {
	*T
	kmsg.Request
}

// serve is the row of an API that is answered here, by a function from request to response. An
// error that is a *kerr.Error is answered in the request's own shape; any other is -1 and logged.
func serve[T any, Q message[T], P kmsg.Response](key kmsg.Key, lowest, highest int16, handler func(context.Context, *call, Q) (P, error)) row {
	r := base[T, Q](key.Int16(), lowest, highest)
	r.ours = true
	r.run = func(q *call, req kmsg.Request) {
		resp, err := handler(q.ctx, q, req.(Q))
		if err != nil {
			q.fail(req, err)
			return
		}
		q.answer(resp)
	}
	return r
}

// through is what the front door does to a request for the data plane and to its answer.
type through[Q kmsg.Request, P kmsg.Response] struct {
	// before may change the request.
	before func(*call, Q)
	// after completes the answer. It runs on a goroutine of the data plane and does not wait.
	after func(*call, Q, P)
	// topics are the fields that name a topic, see row.
	topics []string
	// rights are what a request needs, see row.
	rights []right
	// permit sees to rights that are more than that, and to what Kafka refuses before it asks for them. False: it has answered.
	permit func(*call, Q) bool
}

// forward is the row of an API that the data plane answers. No worker is held while it does.
func forward[T any, Q message[T], P kmsg.Response](key kmsg.Key, lowest, highest int16, t through[Q, P]) row {
	r := base[T, Q](key.Int16(), lowest, highest)
	r.run = func(q *call, req kmsg.Request) {
		typed := req.(Q)
		if t.permit != nil && !t.permit(q, typed) {
			return
		}
		if t.before != nil {
			t.before(q, typed)
		}
		q.ask(req, func(resp kmsg.Response) {
			if t.after != nil {
				t.after(q, typed, resp.(P))
			}
			q.answer(resp)
		})
	}
	r.topics, r.rights = t.topics, t.rights
	return r
}

// wait is the row of an API that is answered here but not at once: the handler sees to the answer.
func wait[T any, Q message[T]](key kmsg.Key, lowest, highest int16, topics []string, handler func(*call, Q)) row {
	r := base[T, Q](key.Int16(), lowest, highest)
	r.ours, r.topics = true, topics
	r.run = func(q *call, req kmsg.Request) { handler(q, req.(Q)) }
	return r
}

// passing marks the row of an API whose handler asks the data plane the same, so that it is served in no version which that lacks.
func passing(r row) row {
	r.passing = true
	return r
}

// changePatience is how long a change may wait for the metadata log: Kafka's brokers wait as long for their controller.
const changePatience = 30 * time.Second

// waiting marks the row of an API whose handler waits for the metadata log or the data plane. Either may not answer for long: so it
// holds no worker meanwhile, and gives up when its client would.
func waiting(r row) row {
	run := r.run
	r.run = func(q *call, req kmsg.Request) {
		q.aside(func() {
			ctx, cancel := context.WithTimeout(q.server.ctx, changePatience)
			defer cancel()
			q.ctx = ctx
			run(q, req)
		})
	}
	return r
}

// aside goes on with a call on a goroutine of its own, where it may wait, or here, on a worker, where there are too many. It may be
// called from a worker only.
func (q *call) aside(next func()) {
	q.do = func(*call) { next() }
	if !q.server.pool.apart(q, len(q.body)) {
		next()
	}
}

// ask hands req to the data plane and runs then with its answer, on another goroutine.
func (q *call) ask(req kmsg.Request, then func(kmsg.Response)) {
	answered := q.answered
	if answered == nil {
		answered = func() {}
	}
	if !q.hide(req) {
		answered()
		return // it has answered
	}
	client := q.engineClient()
	if client == nil {
		answered()
		return // the connection is gone
	}
	client.Relay(req, q.relay(), func(resp kmsg.Response, err error) {
		defer q.survive()
		answered()
		switch {
		case err != nil:
			q.again = func() { q.ask(req, then) }
			q.fail(req, err)
		case q.relayed != nil:
			q.endRelay(resp)
		default:
			then(resp)
		}
	})
}

func base[T any, Q message[T]](key, lowest, highest int16) row {
	return row{
		key: key, min: lowest, max: highest,
		name:     kafkaName(kmsg.NameForKey(key)),
		flexible: firstFlexible(Q(new(T)), highest),
		decode:   func() kmsg.Request { return Q(new(T)) },
	}
}

// kafkaName is Kafka's spelling of a name of kmsg's (ApiKeys): operators look for it in logs and metrics.
func kafkaName(name string) string {
	if name == "AlterPartitionAssignments" {
		return "AlterPartitionReassignments"
	}
	return strings.NewReplacer("ACLs", "Acls", "SASL", "Sasl", "SCRAM", "Scram", "ProducerID", "ProducerId").Replace(name)
}

// firstFlexible finds the first version of req with header v2.
func firstFlexible(req kmsg.Request, highest int16) int16 {
	for v := range highest + 1 {
		req.SetVersion(v)
		if req.IsFlexible() {
			return v
		}
	}
	return math.MaxInt16
}
