package api

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// describeClientQuotas lists client quotas by a filter on their entities.
//
// Versions: 0-1.
// Needs: DESCRIBE_CONFIGS on CLUSTER.
// Differs from Kafka: nothing known.
func describeClientQuotas(_ context.Context, q *call, req *kmsg.DescribeClientQuotasRequest) (*kmsg.DescribeClientQuotasResponse, error) {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if why := refuseQuotaFilter(req); why != "" {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, &why
		return resp, nil
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null is for an error
	resp.ErrorMessage = new(string)
	for _, quota := range q.server.o.Metadata.Image().Quotas() {
		if !matchQuota(req, quota.Entity) {
			continue
		}
		e := kmsg.NewDescribeClientQuotasResponseEntry()
		for _, part := range quota.Entity {
			p := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			p.Type, p.Name = string(part.Type), part.Name
			e.Entity = append(e.Entity, p)
		}
		for _, key := range slices.Sorted(maps.Keys(quota.Values)) {
			v := kmsg.NewDescribeClientQuotasResponseEntryValue()
			v.Key, v.Value = key, quota.Values[key]
			e.Values = append(e.Values, v)
		}
		resp.Entries = append(resp.Entries, e)
	}
	return resp, nil
}

func refuseQuotaFilter(req *kmsg.DescribeClientQuotasRequest) string {
	seen := map[string]bool{}
	for _, c := range req.Components {
		switch {
		case c.EntityType == "":
			return "Unexpected empty filter component entity type"
		case seen[c.EntityType]:
			return "Duplicate " + c.EntityType + " filter component entity type"
		case c.MatchType == kmsg.QuotasMatchTypeExact && c.Match == nil:
			return "Request specifies MATCH_TYPE_EXACT, but no match value"
		case c.MatchType == kmsg.QuotasMatchTypeDefault && c.Match != nil:
			return "Request specifies MATCH_TYPE_DEFAULT, but also specifies a match value."
		case c.MatchType > kmsg.QuotasMatchTypeAny || c.MatchType < kmsg.QuotasMatchTypeExact:
			return "Unknown match type"
		case !slices.Contains([]metadata.EntityType{metadata.EntityUser, metadata.EntityClientID, metadata.EntityIP}, metadata.EntityType(c.EntityType)):
			return "Unhandled client quota entity type: " + c.EntityType
		}
		seen[c.EntityType] = true
	}
	return ""
}

// matchQuota tells whether every component of the filter is met; a strict filter wants no other part.
func matchQuota(req *kmsg.DescribeClientQuotasRequest, entity metadata.Entity) bool {
	if req.Strict && len(entity) != len(req.Components) {
		return false
	}
	for _, c := range req.Components {
		i := slices.IndexFunc(entity, func(p metadata.EntityPart) bool { return string(p.Type) == c.EntityType })
		if i < 0 {
			return false
		}
		name := entity[i].Name
		switch c.MatchType {
		case kmsg.QuotasMatchTypeExact:
			if name == nil || *name != *c.Match {
				return false
			}
		case kmsg.QuotasMatchTypeDefault:
			if name != nil {
				return false
			}
		case kmsg.QuotasMatchTypeAny:
		}
	}
	return true
}
