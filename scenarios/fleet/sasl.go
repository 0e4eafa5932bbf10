package fleet

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
)

// chooseMechanism sends SaslHandshake.
func (c *client) chooseMechanism() error {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, c.group.mechanism()
	resp, err := c.roundTrip(req)
	if err != nil {
		return err
	}
	answer := resp.(*kmsg.SASLHandshakeResponse) //nolint:forcetypeassert // roundTrip made it
	switch err := kerr.ErrorForCode(answer.ErrorCode); {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return &saslError{answer.ErrorCode, fmt.Sprintf("the broker offers %v", answer.SupportedMechanisms)}
	default:
		return &saslError{answer.ErrorCode, err.Error()}
	}
}

// authenticate sends the credentials, after chooseMechanism.
func (c *client) authenticate() error {
	c.lifetime = 0
	if c.group.mechanism() == Plain {
		_, err := c.token([]byte("\x00" + c.group.Username + "\x00" + c.group.Password))
		return err
	}
	conversation := c.group.scram.NewConversation()
	challenge := ""
	for !conversation.Done() {
		answer, err := conversation.Step(challenge)
		if err != nil {
			return &badAnswerError{fmt.Sprintf("%s: %v", c.group.mechanism(), err)}
		}
		if conversation.Done() {
			break
		}
		token, err := c.token([]byte(answer))
		if err != nil {
			return err
		}
		challenge = string(token)
	}
	if !conversation.Valid() {
		return &badAnswerError{c.group.mechanism() + ": the broker did not prove that it knows the password"}
	}
	return nil
}

func (c *client) token(token []byte) ([]byte, error) {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = 2, token
	c.proved = time.Now() // before the broker begins to count, however late its answer is
	resp, err := c.roundTrip(req)
	if err != nil {
		return nil, err
	}
	answer := resp.(*kmsg.SASLAuthenticateResponse) //nolint:forcetypeassert // roundTrip made it
	if answer.ErrorCode != 0 {
		text := ""
		if answer.ErrorMessage != nil {
			text = *answer.ErrorMessage
		}
		return nil, &saslError{answer.ErrorCode, text}
	}
	if ms := answer.SessionLifetimeMillis; ms > 0 {
		c.lifetime = time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	}
	return answer.SASLAuthBytes, nil
}

// scramClient makes the group's SCRAM client; it caches the salted password, which is the expensive part.
func scramClient(g *Group) (*scram.Client, error) {
	hash := scram.SHA256
	switch g.mechanism() {
	case Plain:
		return nil, nil //nolint:nilnil // no SCRAM, no client
	case ScramSHA512:
		hash = scram.SHA512
	}
	c, err := hash.NewClient(g.Username, g.Password, "")
	if err != nil {
		return nil, fmt.Errorf("group %q: prepare the credentials of %q: %w", g.Name, g.Username, err)
	}
	return c, nil
}
