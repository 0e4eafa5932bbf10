package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// Kafka's numbers of the SCRAM mechanisms.
const (
	scramSHA256 = 1
	scramSHA512 = 2
)

// scramMechanism is the name of a number; "" for one that Kafka does not have.
func scramMechanism(number int8) string {
	switch number {
	case scramSHA256:
		return metadata.ScramSHA256
	case scramSHA512:
		return metadata.ScramSHA512
	}
	return ""
}

// describeUserSCRAMCredentials tells which users have SCRAM credentials, never the credentials.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: nothing known.
func describeUserSCRAMCredentials(_ context.Context, q *call, req *kmsg.DescribeUserSCRAMCredentialsRequest) (*kmsg.DescribeUserSCRAMCredentialsResponse, error) {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.ErrorMessage = new(string)
	image := q.server.o.Metadata.Image()
	asked := map[string]int{}
	users := make([]string, 0, len(req.Users))
	for _, u := range req.Users {
		if asked[u.Name] == 0 {
			users = append(users, u.Name)
		}
		asked[u.Name]++
	}
	if len(req.Users) == 0 {
		users = image.Users()
	}
	for _, user := range users {
		r := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		r.User, r.ErrorMessage = user, new(string) // no problem is no text, not null
		credentials := image.UserScram(user)
		switch {
		case asked[user] > 1:
			r.ErrorCode = kerr.DuplicateResource.Code
			r.ErrorMessage = nonEmpty("Cannot describe SCRAM credentials for the same user twice in a single request: " + user)
		case len(credentials) == 0:
			r.ErrorCode = kerr.ResourceNotFound.Code
			r.ErrorMessage = nonEmpty("Attempt to describe a user credential that does not exist: " + user)
		default:
			for _, c := range credentials {
				info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
				info.Iterations, info.Mechanism = c.Iterations, scramSHA256
				if c.Mechanism == metadata.ScramSHA512 {
					info.Mechanism = scramSHA512
				}
				r.CredentialInfos = append(r.CredentialInfos, info)
			}
		}
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}
