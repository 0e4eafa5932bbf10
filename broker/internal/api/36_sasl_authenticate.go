package api

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

// saslAuthenticate carries one token of an authentication.
//
// Versions: 0-2.
// Needs: nothing.
// Differs from Kafka: nothing known. What arrives here is out of place: a connection that is to
// authenticate is answered by its session, before the table.
func saslAuthenticate(_ context.Context, _ *call, _ *kmsg.SASLAuthenticateRequest) (*kmsg.SASLAuthenticateResponse, error) {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.ErrorCode = kerr.IllegalSaslState.Code
	resp.ErrorMessage = nonEmpty("SaslAuthenticate request received after successful authentication")
	return resp, nil
}

// authenticate decodes what the session has let through and passes it on.
func (q *call) authenticate() {
	q.noteClientID()
	if q.header.Key == keyAPIVersions && !q.row.serves(q.header.Version) {
		q.unsupportedAPIVersions()
		return
	}
	req, err := q.decode()
	if err != nil {
		q.drop(network.ReasonMalformedRequest, err)
		return
	}
	switch req := req.(type) {
	case *kmsg.ApiVersionsRequest:
		apiVersions(q, req)
	case *kmsg.SASLHandshakeRequest:
		q.handshake(req)
	case *kmsg.SASLAuthenticateRequest:
		r := q.session.sasl.Token(req.Version, req.SASLAuthBytes, time.Now())
		if q.settle(r) {
			resp := kmsg.NewPtrSASLAuthenticateResponse()
			resp.ErrorCode, resp.SASLAuthBytes, resp.SessionLifetimeMillis = r.Code, r.Token, r.LifetimeMs
			resp.ErrorMessage = nonEmpty(r.Message)
			if r.Code == 0 {
				resp.ErrorMessage = &r.Message // Kafka answers an empty text
			}
			q.answer(resp)
		}
	default:
		q.drop(network.ReasonMalformedRequest, fmt.Errorf("%s during authentication", q.row.name))
	}
}

// rawToken is a token without a request around it, as clients send after a SaslHandshake v0. A
// failure cannot be told but by closing.
func (q *call) rawToken() {
	r := q.session.sasl.Token(-1, q.body, time.Now())
	if !q.settle(r) {
		return
	}
	if r.Code != 0 {
		q.hangUp()
		return
	}
	q.send(append(binary.BigEndian.AppendUint32(nil, uint32(len(r.Token))), r.Token...))
}

// settle does what a token has led to. False: there is nothing to answer any more.
func (q *call) settle(r sasl.TokenResult) bool {
	if r.Close {
		q.closeWith(r.Reason, r.Delay)
	}
	if r.Principal != nil {
		id := *q.conn.Identity()
		id.Type, id.Name, id.Mechanism = r.Principal.Type, intern(r.Principal.Name), intern(r.Principal.Mechanism)
		id.AuthenticatedAt = time.Now()
		q.conn.SetIdentity(&id)
		q.session.reauthenticating.Store(false)
		q.conn.SetAuthenticated(true)
		q.server.metrics.authenticated(q.conn.Listener().Name, r.Reauthenticated)
	}
	if r.Code != 0 || r.NoAnswer {
		q.countRefusal()
		q.server.o.Log.Info("failed authentication", slog.String("connection", q.conn.ID()), slog.String("listener", q.conn.Listener().Name),
			slog.String("host", network.JavaAddr(q.conn.Remote().Addr())), slog.String("message", r.Message), slog.Any("error", r.Err))
	}
	if r.NoAnswer {
		q.hangUp()
		return false
	}
	return true
}

// countRefusal counts an authentication that has failed.
func (q *call) countRefusal() {
	q.server.metrics.refusedAuthentication(q.conn.Listener().Name, q.conn.Identity().Type != "")
}

// hangUp closes the connection without an answer, after the delay if there is one.
func (q *call) hangUp() {
	if !q.closing {
		q.closing, q.closeAfter = true, network.ReasonAuthenticationFailed
	}
	q.conn.ReplyThenClose(nil, q.delay, q.closeAfter)
}
