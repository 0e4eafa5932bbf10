package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteACLs removes the ACLs that filters match.
//
// Versions: 1-3.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: there is no authorizer yet, so it answers as a Kafka without one.
func deleteACLs(_ context.Context, _ *call, req *kmsg.DeleteACLsRequest) (*kmsg.DeleteACLsResponse, error) {
	resp := kmsg.NewPtrDeleteACLsResponse()
	for range req.Filters {
		r := kmsg.NewDeleteACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = kerr.SecurityDisabled.Code, nonEmpty(noAuthorizer)
		resp.Results = append(resp.Results, r)
	}
	return resp, nil
}
