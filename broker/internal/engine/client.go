package engine

import (
	"context"
	"errors"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errBusy refuses a second request of a [Client] before the first was answered.
var errBusy = errors.New("a client has one request in flight at a time")

// Client is the engine as one front-door connection sees it. While no request is in flight it costs nothing but
// itself. Its methods are safe for concurrent use, but it takes one request at a time.
type Client struct {
	engine *Engine
	node   int32 // of a data plane that serves several brokers
	leases *leases
	from   lessee
	lease  lease               // guarded by leases.mu
	shares map[string]struct{} // open share sessions; touched by the request in flight alone
}

// SetClientID changes the client id of the requests that follow. Not to be called while one is in flight.
func (c *Client) SetClientID(id string) { c.from.clientID = id }

// Do hands req over and returns at once. done is called exactly once, on another goroutine, which it must not hold up;
// the next Do may come from within it. req is not changed, but must not be changed before done was called either: the
// data plane may keep parts of it.
//
// The records of a Fetch answer are the caller's only until done returns. Errors: [*RefusedError] when the guard
// refused the request, [*AcksError] when a Produce with acks=0 failed, [ErrClosed] after Close, [ErrUnavailable] when a
// data plane somewhere else could not be reached or did not answer in time; any other means that the data plane gave the request up. After each of these the front
// door answers in the request's own shape or closes the connection. A Produce with acks=0 that succeeded is answered
// as one with acks=1 is; nothing of it goes to the client.
func (c *Client) Do(req kmsg.Request, done func(kmsg.Response, error)) { c.Relay(req, nil, done) }

// Relay is Do for a Fetch whose answer to may take while it arrives. Where to.Begin did, what done gets has no records, and the whole
// frame may be read once it gets that; after an error the answer goes no further.
func (c *Client) Relay(req kmsg.Request, to Relay, done func(kmsg.Response, error)) {
	e := c.engine
	pass, err := e.admit(req)
	switch {
	case err != nil:
		go done(nil, err)
		return
	case pass.answer != nil:
		go done(finishAcks(req, pass.answer))
		return
	}
	before := e.plane.unsaved()
	if pass.controller && e.separateController {
		sendOver(func() (link, error) { return e.plane.open(true) }, c.from, pass.req, func(resp kmsg.Response, err error) {
			if err == nil {
				resp, err = pass.finish(resp)
			}
			if err == nil {
				err = e.checkKept(req, before)
			}
			done(resp, err)
		})
		return
	}
	l, err := c.leases.take(c)
	if err != nil {
		go done(nil, err)
		return
	}
	pass.relay = to
	c.forward(l, req, pass, func(resp kmsg.Response, err error) {
		if err == nil {
			err = e.checkKept(req, before)
		}
		if err != nil {
			resp = nil
		}
		done(resp, err)
	})
}

// checkKept refuses an answer that a kill would make untrue: something could not be written since before. It may have
// been another's; on a full disk that is no matter.
func (e *Engine) checkKept(req kmsg.Request, before uint64) error {
	if e.rules[req.Key()].kept && e.plane.unsaved() != before {
		return refuse(req, kerr.KafkaStorageError, "the disk did not take it")
	}
	return nil
}

// forward sends what the guard let pass, over the link that the client leases until the last answer.
func (c *Client) forward(l link, req kmsg.Request, pass passage, done func(kmsg.Response, error)) {
	send := l.send
	if pass.about != "" && len(c.engine.hosted) > 1 {
		send = func(from lessee, req kmsg.Request, answer func(kmsg.Response, error)) {
			sendOver(c.engine.coordinator(pass.about), from, req, answer)
		}
	}
	from := c.from
	from.relay = pass.relay
	send(from, pass.req, func(resp kmsg.Response, err error) {
		if err == nil && pass.then != nil {
			next, nextErr := pass.then(resp)
			if nextErr == nil && next.answer == nil {
				c.forward(l, req, next, done)
				return
			}
			resp, err, pass = next.answer, nextErr, passage{}
		}
		if err == nil {
			c.noteShares(pass.req, resp)
		}
		c.leases.answered(c, err != nil, len(c.shares))
		if err == nil {
			resp, err = pass.finish(resp)
		}
		if err != nil {
			done(nil, err)
			return
		}
		done(finishAcks(req, resp))
	})
}

// Close says that the client is gone: its link is closed and what is in flight cancelled, with [ErrClosed] to its done; a Produce
// may be answered first. A second call does nothing.
func (c *Client) Close() { c.leases.drop(c) }

// noteShares follows which share sessions are open on the client's link.
func (c *Client) noteShares(req kmsg.Request, resp kmsg.Response) {
	var (
		group, member *string
		epoch         int32
		code          int16
	)
	switch req := req.(type) {
	case *kmsg.ShareFetchRequest:
		group, member, epoch = req.GroupID, req.MemberID, req.ShareSessionEpoch
		code = resp.(*kmsg.ShareFetchResponse).ErrorCode
	case *kmsg.ShareAcknowledgeRequest:
		group, member, epoch = req.GroupID, req.MemberID, req.ShareSessionEpoch
		code = resp.(*kmsg.ShareAcknowledgeResponse).ErrorCode
	default:
		return
	}
	if group == nil || member == nil {
		return
	}
	const finalEpoch = -1
	key := *group + "\x00" + *member
	switch {
	case code == 0 && epoch == finalEpoch, code == codeShareSessionNotFound:
		delete(c.shares, key)
	case code == 0:
		if c.shares == nil {
			c.shares = map[string]struct{}{}
		}
		c.shares[key] = struct{}{}
	}
}

// finishAcks turns a failed partition of a Produce with acks=0 into an error, which is all that its client will notice.
func finishAcks(req kmsg.Request, resp kmsg.Response) (kmsg.Response, error) {
	produce, ok := req.(*kmsg.ProduceRequest)
	if !ok || produce.Acks != 0 {
		return resp, nil
	}
	answer, ok := resp.(*kmsg.ProduceResponse)
	if !ok {
		return resp, nil
	}
	for i := range answer.Topics {
		t := &answer.Topics[i]
		for j := range t.Partitions {
			if p := &t.Partitions[j]; p.ErrorCode != 0 {
				return nil, &AcksError{Topic: t.Topic, Partition: p.Partition, Code: p.ErrorCode}
			}
		}
	}
	return resp, nil
}

// Request makes one of the broker's own requests and waits for its answer. When ctx ends the request is cancelled.
func (e *Engine) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	type outcome struct {
		resp kmsg.Response
		err  error
	}
	c := e.Client(netip.AddrPort{}, "")
	c.from.passing = false
	got := make(chan outcome, 1)
	c.Do(req, func(resp kmsg.Response, err error) { got <- outcome{resp, err} })
	defer c.Close()
	select {
	case o := <-got:
		return o.resp, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
