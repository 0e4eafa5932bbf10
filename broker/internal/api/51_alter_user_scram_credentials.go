package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// alterUserSCRAMCredentials makes and removes SCRAM users. Each user's change stands alone.
//
// Versions: 0.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: a salted password that is empty is 93, where Kafka fails with -1.
func alterUserSCRAMCredentials(ctx context.Context, q *call, req *kmsg.AlterUserSCRAMCredentialsRequest) (*kmsg.AlterUserSCRAMCredentialsResponse, error) {
	changes := scramChanges{req: req}
	if err := q.server.o.Metadata.Update(ctx, changes.admit); err != nil {
		return nil, err
	}
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	for _, user := range changes.users {
		r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
		r.User = user
		if refused := changes.refused[user]; refused != nil {
			r.ErrorCode, r.ErrorMessage = refused.err.Code, nonEmpty(refused.message)
		} else {
			q.server.o.Log.Info("altered SCRAM credential", slog.String("user", user), slog.String("principal", principal(q.conn.Identity())))
		}
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}

// refusal is an error code with Kafka's words for it.
type refusal struct {
	err     *kerr.Error
	message string
}

// scramChanges admits one request's changes against an image.
type scramChanges struct {
	req     *kmsg.AlterUserSCRAMCredentialsRequest
	users   []string // in the order they are first named
	refused map[string]*refusal
}

func (c *scramChanges) admit(image *metadata.Image) ([]metadata.Record, error) {
	c.users, c.refused = nil, map[string]*refusal{}
	records := map[string]metadata.Record{}
	change := func(user string, why *refusal, record metadata.Record) {
		if former, again := c.refused[user]; again && former != nil {
			return // the first refusal stands
		} else if again {
			why = &refusal{kerr.DuplicateResource, "A user credential cannot be altered twice in the same request"}
		} else {
			c.users = append(c.users, user)
		}
		c.refused[user] = why
		records[user] = record
	}
	supported := image.Feature(feature.MetadataVersion) >= feature.SCRAM
	for _, d := range c.req.Deletions {
		mechanism := scramMechanism(d.Mechanism)
		why := refuseScram(supported, d.Name, mechanism)
		if _, exists := image.Scram(d.Name, mechanism); why == nil && !exists {
			why = &refusal{kerr.ResourceNotFound, "Attempt to delete a user credential that does not exist"}
		}
		change(d.Name, why, metadata.RemoveScram{User: d.Name, Mechanism: mechanism})
	}
	for i := range c.req.Upsertions {
		u := &c.req.Upsertions[i]
		mechanism := scramMechanism(u.Mechanism)
		why := refuseScram(supported, u.Name, mechanism)
		switch {
		case why != nil:
		case u.Iterations < metadata.MinScramIterations:
			why = &refusal{kerr.UnacceptableCredential, "Too few iterations"}
		case u.Iterations > metadata.MaxScramIterations:
			why = &refusal{kerr.UnacceptableCredential, "Too many iterations"}
		case len(u.SaltedPassword) == 0:
			why = &refusal{kerr.UnacceptableCredential, "Salted password must not be empty"}
		}
		change(u.Name, why, metadata.SetScram{User: u.Name, ScramCredential: scramCredential(u)})
	}
	var admitted []metadata.Record
	for _, user := range c.users {
		if c.refused[user] == nil {
			admitted = append(admitted, records[user])
		}
	}
	return admitted, nil
}

func refuseScram(supported bool, user, mechanism string) *refusal {
	switch {
	case !supported:
		return &refusal{kerr.UnsupportedVersion, "The current metadata.version does not support SCRAM"}
	case user == "":
		return &refusal{kerr.UnacceptableCredential, "Username must not be empty"}
	case mechanism == "":
		return &refusal{kerr.UnsupportedSaslMechanism, "Unknown SCRAM mechanism"}
	}
	return nil
}

// scramCredential makes of a salted password what a broker keeps: enough to check a client, not to
// be one (RFC 5802).
func scramCredential(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) metadata.ScramCredential {
	digest := sha256.New
	if u.Mechanism == scramSHA512 {
		digest = sha512.New
	}
	clientKey := keyed(digest, u.SaltedPassword, "Client Key")
	stored := digest()
	stored.Write(clientKey)
	return metadata.ScramCredential{
		Mechanism: scramMechanism(u.Mechanism), Salt: append([]byte(nil), u.Salt...), Iterations: u.Iterations,
		StoredKey: stored.Sum(nil), ServerKey: keyed(digest, u.SaltedPassword, "Server Key"),
	}
}

func keyed(digest func() hash.Hash, key []byte, text string) []byte {
	h := hmac.New(digest, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
