package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

// saslHandshake chooses the mechanism of an authentication.
//
// Versions: 0-1.
// Needs: nothing.
// Differs from Kafka: nothing known. What arrives here is out of place: a connection that is to
// authenticate is answered by its session, before the table.
func saslHandshake(_ context.Context, _ *call, _ *kmsg.SASLHandshakeRequest) (*kmsg.SASLHandshakeResponse, error) {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode = kerr.IllegalSaslState.Code
	return resp, nil
}

// handshake is a SaslHandshake that the session has let through.
func (q *call) handshake(req *kmsg.SASLHandshakeRequest) {
	r := q.session.sasl.Handshake(req.Version, req.Mechanism, time.Now())
	if r.Reason == sasl.AuthenticationFailed {
		q.countRefusal()
	}
	if r.Close {
		q.closeWith(r.Reason, r.Delay)
	}
	if r.NoAnswer {
		q.hangUp()
		return
	}
	if r.Code == 0 {
		q.session.reauthenticating.Store(q.conn.Identity().Type != "")
		q.conn.SetAuthenticated(false) // tokens of a re-authentication are as short as the first ones
	}
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode, resp.SupportedMechanisms = r.Code, r.Mechanisms
	q.answer(resp)
}
