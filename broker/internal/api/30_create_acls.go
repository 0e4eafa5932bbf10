package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// noAuthorizer is what a change of ACLs is answered where nothing would obey it.
const noAuthorizer = "No Authorizer is configured."

// createACLs adds ACLs.
//
// Versions: 1-3.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: there is no authorizer yet, so it answers as a Kafka without one.
func createACLs(_ context.Context, _ *call, req *kmsg.CreateACLsRequest) (*kmsg.CreateACLsResponse, error) {
	resp := kmsg.NewPtrCreateACLsResponse()
	for range req.Creations {
		r := kmsg.NewCreateACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = kerr.SecurityDisabled.Code, nonEmpty(noAuthorizer)
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}
