package api

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// deleteACLs removes the ACLs that filters select. One that two filters select is told by both.
//
// Versions: 1-3.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: nothing known.
func deleteACLs(ctx context.Context, q *call, req *kmsg.DeleteACLsRequest) (*kmsg.DeleteACLsResponse, error) {
	results := make([]kmsg.DeleteACLsResponseResult, len(req.Filters))
	answer := func() *kmsg.DeleteACLsResponse {
		resp := kmsg.NewPtrDeleteACLsResponse()
		resp.Results = results
		return resp
	}
	refuseAll := func(err *kerr.Error, message string) (*kmsg.DeleteACLsResponse, error) {
		for i := range results {
			results[i] = kmsg.NewDeleteACLsResponseResult()
			results[i].ErrorCode, results[i].ErrorMessage = err.Code, &message
		}
		return answer(), nil
	}
	if q.server.o.Authorizer == nil {
		return refuseAll(kerr.SecurityDisabled, noAuthorizer)
	}
	for i := range req.Filters {
		f := &req.Filters[i]
		if hasUnknown(int8(f.ResourceType), int8(f.ResourcePatternType), int8(f.Operation), int8(f.PermissionType)) {
			return nil, errUnreadable
		}
	}
	if !q.may(acl.Alter, acl.Cluster, acl.ClusterName) {
		return nil, errNotOfCluster()
	}
	gone := map[acl.Binding]bool{}
	err := q.server.o.Metadata.Update(ctx, func(*metadata.Image) ([]metadata.Record, error) {
		clear(gone)
		var records []metadata.Record
		for i := range req.Filters {
			results[i] = q.selected(&req.Filters[i], func(rule acl.Binding) {
				if !gone[rule] {
					gone[rule] = true
					records = append(records, metadata.RemoveACL{Binding: rule})
				}
			})
		}
		if len(records) > mostACLs {
			return nil, kerr.PolicyViolation
		}
		return records, nil
	})
	if err == kerr.PolicyViolation { //nolint:errorlint // it comes from above
		return refuseAll(kerr.InvalidRequest, "Cannot remove more than 10000 acls in a single delete operation.")
	}
	if err != nil {
		return nil, err
	}
	if len(gone) > 0 {
		q.server.o.Log.Info("deleted ACLs", slog.Int("acls", len(gone)), slog.String("principal", q.sender()))
	}
	return answer(), nil
}

// selected is one filter's result, with the rules that it selects; remove is called for each.
func (q *call) selected(f *kmsg.DeleteACLsRequestFilter, remove func(acl.Binding)) kmsg.DeleteACLsResponseResult {
	r := kmsg.NewDeleteACLsResponseResult()
	filter := acl.Filter{
		Type: acl.ResourceType(f.ResourceType), Name: f.ResourceName, Kind: acl.PatternType(f.ResourcePatternType),
		Principal: f.Principal, Host: f.Host, Operation: acl.Operation(f.Operation), Permission: acl.Permission(f.PermissionType),
	}
	const unassigned = "UNKNOWN"
	switch unassigned {
	case filter.Type.String(), filter.Kind.String():
		r.ErrorCode, r.ErrorMessage = kerr.InvalidRequest.Code, nonEmpty("Unknown patternFilter.")
		return r
	case filter.Operation.String(), filter.Permission.String():
		r.ErrorCode, r.ErrorMessage = kerr.InvalidRequest.Code, nonEmpty("Unknown entryFilter.")
		return r
	}
	for _, b := range q.server.o.Authorizer.Index.Select(filter) {
		m := kmsg.NewDeleteACLsResponseResultMatchingACL()
		m.ResourceType, m.ResourceName, m.ResourcePatternType = kmsg.ACLResourceType(b.Type), b.Name, kmsg.ACLResourcePatternType(b.Kind)
		m.Principal, m.Host, m.Operation, m.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		r.MatchingACLs = append(r.MatchingACLs, m)
		remove(b)
	}
	return r
}
