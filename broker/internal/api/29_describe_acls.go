package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeACLs lists ACLs.
//
// Versions: 1-3.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: there is no authorizer yet, so it answers as a Kafka without one.
func describeACLs(_ context.Context, _ *call, _ *kmsg.DescribeACLsRequest) (*kmsg.DescribeACLsResponse, error) {
	resp := kmsg.NewPtrDescribeACLsResponse()
	resp.ErrorCode = kerr.SecurityDisabled.Code
	resp.ErrorMessage = nonEmpty("No Authorizer is configured on the broker")
	return resp, nil
}
