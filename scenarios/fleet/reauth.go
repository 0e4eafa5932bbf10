package fleet

import (
	"errors"
	"math/rand/v2"
	"time"
)

// The part of a session's lifetime after which a client authenticates again, drawn anew each time: Java's numbers. It keeps clients that
// connected together from coming back together.
const (
	reauthFrom   = 0.85
	reauthSpread = 0.10
)

// planRenewal draws when to authenticate again, after authenticate. The caller owns the client.
func (c *client) planRenewal() {
	c.renew = time.Time{}
	if c.lifetime > 0 && !c.group.NoReauth {
		part := reauthFrom + reauthSpread*rand.Float64() //nolint:gosec // no secret
		c.renew = c.proved.Add(time.Duration(part * float64(c.lifetime)))
	}
}

// renewed authenticates again if it is time to, and tells whether the client is still up. A busy client asks it before each request, too:
// a fleet that is behind its schedule would else use a session that has ended. The caller owns the client.
func (c *client) renewed() bool {
	if c.over {
		return false
	}
	if c.renew.IsZero() || time.Now().Before(c.renew) {
		return true
	}
	c.enter(Reauthenticating)
	begin := time.Now()
	err := c.chooseMechanism()
	if err == nil {
		err = c.authenticate()
	}
	if errors.Is(err, errAbandoned) {
		return false // whoever interrupted it waits to close it
	}
	if err != nil {
		c.fail(err)
		return false
	}
	c.planRenewal()
	c.note(func(r *Record) {
		r.Phase = Held
		r.Reauths++
	})
	c.fleet.observe(ReauthLatency, time.Since(begin))
	c.sock.wake() // an end may have come with the answer
	return true
}

// reauthenticate is what the agenda has for a client whose session will end: one entry, whoever renews the session.
func (f *Fleet) reauthenticate(c *client) {
	if c.acquire(f.life) != nil {
		return
	}
	up := c.renewed()
	next := c.renew
	c.release()
	if up && !next.IsZero() {
		f.agenda.add(next, func() { f.reauthenticate(c) })
	}
}
