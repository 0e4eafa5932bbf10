package api

import (
	"context"
	"log/slog"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// noAuthorizer is what a change of ACLs is answered where nothing would obey it.
const noAuthorizer = "No Authorizer is configured."

// mostACLs is how many ACLs one request may add or remove (QuorumController.MAX_RECORDS_PER_USER_OP).
const mostACLs = 10_000

// mostText is how long a text in a message may be: before flexible versions its length has 16 bits.
const mostText = math.MaxInt16

// createACLs adds ACLs, each by itself: one that is refused keeps none of the others back.
//
// Versions: 1-3.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: ANY and MATCH are refused entry by entry, where Kafka fails the whole request with
// UNKNOWN_SERVER_ERROR.
func createACLs(ctx context.Context, q *call, req *kmsg.CreateACLsRequest) (*kmsg.CreateACLsResponse, error) {
	if q.server.o.Authorizer == nil {
		return createResults(req, func(r *kmsg.CreateACLsResponseResult, _ int) {
			r.ErrorCode, r.ErrorMessage = kerr.SecurityDisabled.Code, nonEmpty(noAuthorizer)
		}), nil
	}
	rules := make([]acl.Binding, len(req.Creations))
	for i := range req.Creations {
		c := &req.Creations[i]
		if hasUnknown(int8(c.ResourceType), int8(c.ResourcePatternType), int8(c.Operation), int8(c.PermissionType)) {
			return nil, errUnreadable
		}
		rules[i] = acl.Binding{
			Pattern:   acl.Pattern{Type: acl.ResourceType(c.ResourceType), Name: c.ResourceName, Kind: acl.PatternType(c.ResourcePatternType)},
			Principal: c.Principal, Host: c.Host, Operation: acl.Operation(c.Operation), Permission: acl.Permission(c.PermissionType),
		}
	}
	if !q.may(acl.Alter, acl.Cluster, acl.ClusterName) {
		return nil, errNotOfCluster()
	}
	refused := make([]*acl.Refusal, len(rules))
	added := 0
	err := q.server.o.Metadata.Update(ctx, func(image *metadata.Image) ([]metadata.Record, error) {
		var records []metadata.Record
		fresh := map[acl.Binding]bool{}
		level := image.Feature(feature.MetadataVersion)
		for i, rule := range rules {
			if refused[i] = acl.Validate(rule, level); refused[i] != nil || fresh[rule] || q.server.o.Authorizer.Index.Has(rule) {
				continue
			}
			fresh[rule] = true
			records = append(records, metadata.AddACL{Binding: rule})
		}
		if added = len(records); added > mostACLs {
			return nil, kerr.PolicyViolation
		}
		return records, nil
	})
	if err == kerr.PolicyViolation { //nolint:errorlint // it comes from above
		return createResults(req, func(r *kmsg.CreateACLsResponseResult, _ int) {
			r.ErrorCode, r.ErrorMessage = kerr.PolicyViolation.Code, nonEmpty("Unable to perform excessively large batch operation.")
		}), nil
	}
	if err != nil {
		return nil, err
	}
	if added > 0 {
		q.server.o.Log.Info("created ACLs", slog.Int("acls", added), slog.String("principal", q.sender()))
	}
	if slices.ContainsFunc(refused, untellable) {
		return createResults(req, func(r *kmsg.CreateACLsResponseResult, _ int) { r.ErrorCode = kerr.UnknownServerError.Code }), nil
	}
	return createResults(req, func(r *kmsg.CreateACLsResponseResult, i int) {
		r.ErrorMessage = new(string)
		if why := refused[i]; why != nil {
			r.ErrorCode, r.ErrorMessage = why.Code, &why.Message
		}
	}), nil
}

// untellable is a refusal whose text is too long for a message: Kafka's broker cannot read its controller's answer then.
func untellable(r *acl.Refusal) bool { return r != nil && len(r.Message) > mostText }

func createResults(req *kmsg.CreateACLsRequest, fill func(r *kmsg.CreateACLsResponseResult, i int)) *kmsg.CreateACLsResponse {
	resp := kmsg.NewPtrCreateACLsResponse()
	for i := range req.Creations {
		r := kmsg.NewCreateACLsResponseResult()
		fill(&r, i)
		resp.Results = append(resp.Results, r)
	}
	return resp
}
