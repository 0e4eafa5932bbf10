package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
	"unique"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
	"github.com/brokerlab/brokerlab/broker/internal/wire"
)

// A decoded request takes up to thirty times the bytes it arrived in: each element of a list is a
// struct. Large ones are decoded one at a time, and none but a Produce, whose bytes are records, may
// be larger than largestBody.
const (
	keyProduce  = 0
	lentFrom    = 64 << 10 // answers from this size on are written into memory that is used again
	largeBody   = 1 << 20
	largestBody = 16 << 20
)

// call is one request on its way to its answer. Exactly one of its ending methods ([call.answer],
// [call.refuse], [call.drop]) is called, on whatever goroutine has the answer; body is the
// network's memory and is not touched after that.
type call struct {
	server   *Server
	conn     *network.Conn
	session  *session
	row      *row
	header   wire.Header
	body     []byte
	received time.Time
	do       func(*call)

	closing    bool           // the answer is the connection's last
	closeAfter network.Reason // why, when closing
	delay      time.Duration  // how long the answer and the close are held, when closing

	ctx context.Context //nolint:containedctx // ends what its handler waits for: that of the server, or sooner, see [waiting]

	again    func() // makes the request once more; set when the data plane could not be reached
	answered func() // what is to be done when the data plane has answered, or will not; nil is nothing

	who     string          // the sender's principal, once it was needed
	refused []kmsg.Response // what parts of the request are answered that its sender has no right to

	refusedOffsets map[string][]kmsg.OffsetFetchResponseGroupTopic // by group
	aclChanges     uint64                                          // changes of ACLs before a Fetch was let through
	subscribed     *subscription                                   // what a heartbeat of a consumer group makes of its member's
	recalled       bool                                            // the heartbeat's member was looked up
	nextShares     *shareSession                                   // what a ShareFetch makes of its session

	relayed []byte // the answer to a Fetch that is sent on while it arrives

	silent bool // the client wants no answer
	size   int  // about how many bytes the answer will have; 0 where it is small
}

// work runs on a worker. A fault in a handler costs its connection, not the broker.
func (q *call) work() {
	defer q.survive()
	q.do(q)
}

// survive is deferred wherever a call's code runs on a goroutine of somebody else.
func (q *call) survive() {
	if p := recover(); p != nil {
		q.server.o.Log.Error("request handler panicked", slog.String("connection", q.conn.ID()), slog.Int("key", int(q.header.Key)),
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		q.conn.Close(network.ReasonMalformedRequest)
	}
}

// serve decodes the request and runs its row.
func (q *call) serve() {
	q.noteClientID()
	if q.header.Key == keyAPIVersions && !q.row.serves(q.header.Version) {
		q.unsupportedAPIVersions()
		return
	}
	if q.row.key != keyProduce && len(q.body) > largeBody {
		if len(q.body) > largestBody {
			q.drop(network.ReasonOversizeFrame, fmt.Errorf("%s of %d bytes", q.row.name, len(q.body)))
			return
		}
		q.server.large.Lock()
		defer q.server.large.Unlock()
	}
	req, err := q.decode()
	if err != nil {
		q.drop(network.ReasonMalformedRequest, err)
		return
	}
	q.acquaint(req, func() {
		if q.permit(req, q.row.rights...) {
			q.row.run(q, req)
		}
	})
}

// errRefusedSilently is why a connection ends whose client wants no answer and has no right to what it asked for.
var errRefusedSilently = errors.New("a request without acknowledgement was refused")

// answer sends resp, with what parts of the request were refused.
func (q *call) answer(resp kmsg.Response) {
	resp = merge(resp, q.refused)
	resp.SetVersion(q.header.Version)
	q.server.metrics.answered(q.row, q.header.Version, resp, time.Since(q.received))
	switch {
	case q.silent && len(q.refused) > 0:
		q.drop(network.ReasonAcksZeroFailed, errRefusedSilently)
		return
	case q.silent:
		q.conn.NoReply()
		return
	}
	flexible := resp.IsFlexible() && q.header.Key != keyAPIVersions
	if q.size >= lentFrom && !q.closing {
		frame := wire.AppendResponse(q.server.frames.Get(q.size), q.header.CorrelationID, flexible, resp)
		q.conn.ReplyFrom(frame, func() { q.server.frames.Put(frame) })
		return
	}
	q.send(wire.AppendResponse(make([]byte, 0, max(q.size, 128)), q.header.CorrelationID, flexible, resp))
}

func (q *call) send(frame []byte) {
	if q.closing {
		q.conn.ReplyThenClose(frame, q.delay, q.closeAfter)
		return
	}
	q.conn.Reply(frame)
}

// refuse answers req with one error, in the shape of its own API.
func (q *call) refuse(req kmsg.Request, err *kerr.Error, message string) {
	q.answer(errorResponse(req, err.Code, message))
}

// fail answers req after an error that its handler did not expect.
func (q *call) fail(req kmsg.Request, err error) {
	var (
		known          *kerr.Error
		refused        *engine.RefusedError
		unacknowledged *engine.AcksError
	)
	switch {
	case errors.Is(err, engine.ErrClosed):
		q.drop(network.ReasonShutdown, err)
		return
	case errors.Is(err, engine.ErrUnavailable):
		q.away(req, err)
		return
	case err == errUnreadable: //nolint:errorlint // handlers return it as it is
		q.drop(network.ReasonMalformedRequest, err)
		return
	case errors.As(err, &unacknowledged):
		q.drop(network.ReasonAcksZeroFailed, err)
		return
	case errors.As(err, &refused):
		q.server.o.Log.Debug("request refused", slog.String("connection", q.conn.ID()), slog.Any("error", err))
		q.answer(errorResponse(req, refused.Code, refused.Why))
		return
	case errors.As(err, &known):
		q.refuse(req, known, "")
		return
	case errors.Is(err, context.DeadlineExceeded):
		q.server.o.Log.Warn("the metadata log did not answer in time", slog.String("connection", q.conn.ID()), slog.String("api", q.row.name))
		q.refuse(req, kerr.RequestTimedOut, kerr.RequestTimedOut.Description)
		return
	}
	q.server.o.Log.Error("request failed", slog.String("connection", q.conn.ID()), slog.String("api", q.row.name),
		slog.Int("version", int(q.header.Version)), slog.Any("error", err))
	q.refuse(req, kerr.UnknownServerError, "")
}

// drop closes the connection without an answer.
func (q *call) drop(reason network.Reason, err error) {
	q.server.o.Log.Debug("closing connection", slog.String("connection", q.conn.ID()), slog.String("reason", reason.String()), slog.Any("error", err))
	if q.closing {
		q.conn.ReplyThenClose(nil, q.delay, q.closeAfter)
		return
	}
	q.conn.Close(reason)
}

// noteClientID keeps the client id that the connection used last.
func (q *call) noteClientID() {
	id := q.conn.Identity()
	if q.header.ClientID == nil || id == nil || id.ClientID == *q.header.ClientID {
		return
	}
	next := *id
	next.ClientID = intern(*q.header.ClientID)
	q.conn.SetIdentity(&next)
}

// admit asks the SASL session about a request that is not decoded yet. False: it was answered or
// closed.
func (q *call) admit(served bool) bool {
	v := q.session.sasl.Admit(q.header.Key, q.header.Version, served, q.received)
	if v.Reason == sasl.AuthenticationFailed {
		q.countRefusal()
	}
	switch v.Action {
	case sasl.Serve:
		if !served {
			q.server.unsupported(q.conn, q.header)
			return false
		}
	case sasl.Authenticate:
		q.do = (*call).authenticate
	case sasl.RefuseState:
		message := v.Message
		if v.Close {
			q.closeWith(v.Reason, v.Delay)
		}
		q.do = func(q *call) { q.refuseState(message) }
	case sasl.CloseSilently:
		q.server.o.Log.Debug("closing connection during SASL authentication", slog.String("connection", q.conn.ID()),
			slog.Int("key", int(q.header.Key)), slog.Int("version", int(q.header.Version)))
		if v.Delay {
			q.conn.ReplyThenClose(nil, q.server.o.FailedAuthDelay, reasonOf(v.Reason))
		} else {
			q.conn.Close(reasonOf(v.Reason))
		}
		return false
	}
	return true
}

// closeWith makes the answer the connection's last.
func (q *call) closeWith(reason sasl.Reason, delay bool) {
	q.closing, q.closeAfter = true, reasonOf(reason)
	q.session.closing.Store(true)
	if delay {
		q.delay = q.server.o.FailedAuthDelay
	}
}

// refuseState answers 34 in the request's own shape; a Produce that wants no answer gets none.
func (q *call) refuseState(message string) {
	if q.header.Key == keyAPIVersions && !q.row.serves(q.header.Version) {
		q.header.Version = 0
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = kerr.IllegalSaslState.Code
		q.answer(resp)
		return
	}
	req, err := q.decode()
	if err != nil {
		q.drop(network.ReasonMalformedRequest, err)
		return
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		if q.closing {
			q.conn.ReplyThenClose(nil, q.delay, q.closeAfter)
		} else {
			q.conn.NoReply()
		}
		return
	}
	if q.header.Key == kmsg.FindCoordinator.Int16() { // whose answers have the text of their code
		message = kerr.IllegalSaslState.Description
	}
	q.refuse(req, kerr.IllegalSaslState, message)
}

func reasonOf(r sasl.Reason) network.Reason {
	switch r {
	case sasl.AuthenticationFailed:
		return network.ReasonAuthenticationFailed
	case sasl.SessionExpired:
		return network.ReasonSessionExpired
	case sasl.Malformed, sasl.NoReason:
	}
	return network.ReasonMalformedRequest
}

// intern makes equal strings share their bytes: thousands of connections have the same few names.
func intern(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}
