package api

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeACLs lists ACLs.
//
// Versions: 1-3.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: nothing known.
func describeACLs(_ context.Context, q *call, req *kmsg.DescribeACLsRequest) (*kmsg.DescribeACLsResponse, error) {
	resp := kmsg.NewPtrDescribeACLsResponse()
	if q.server.o.Authorizer == nil {
		resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, nonEmpty("No Authorizer is configured on the broker")
		return resp, nil
	}
	f := acl.Filter{
		Type: acl.ResourceType(req.ResourceType), Name: req.ResourceName, Kind: acl.PatternType(req.ResourcePatternType),
		Principal: req.Principal, Host: req.Host, Operation: acl.Operation(req.Operation), Permission: acl.Permission(req.PermissionType),
	}
	if hasUnknown(int8(req.ResourceType), int8(req.ResourcePatternType), int8(req.Operation), int8(req.PermissionType)) {
		return nil, errUnreadable
	}
	if !q.may(acl.Describe, acl.Cluster, acl.ClusterName) {
		return nil, errNotOfCluster()
	}
	resp.ErrorMessage = new(string)
	resources := map[acl.Pattern]int{}
	for _, b := range q.server.o.Authorizer.Index.Select(f) {
		i, ok := resources[b.Pattern]
		if !ok {
			i = len(resp.Resources)
			resources[b.Pattern] = i
			r := kmsg.NewDescribeACLsResponseResource()
			r.ResourceType, r.ResourceName, r.ResourcePatternType = kmsg.ACLResourceType(b.Type), b.Name, kmsg.ACLResourcePatternType(b.Kind)
			resp.Resources = append(resp.Resources, r)
		}
		a := kmsg.NewDescribeACLsResponseResourceACL()
		a.Principal, a.Host, a.Operation, a.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		resp.Resources[i].ACLs = append(resp.Resources[i].ACLs, a)
	}
	return resp, nil
}

// errUnreadable is a request with a code 0, which Java cannot read: its connection is closed.
var errUnreadable = &unreadableError{}

type unreadableError struct{}

func (*unreadableError) Error() string { return "a code of an ACL is 0 (UNKNOWN)" }

func hasUnknown(codes ...int8) bool { return slices.Contains(codes, 0) }
