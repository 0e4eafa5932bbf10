package api

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/inetaddress"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// describeClientQuotas lists client quotas by a filter on their entities.
//
// Versions: 0-1.
// Needs: DESCRIBE_CONFIGS on CLUSTER.
// Differs from Kafka: an address is found by each of its spellings, and by a name of it.
func describeClientQuotas(ctx context.Context, q *call, req *kmsg.DescribeClientQuotasRequest) (*kmsg.DescribeClientQuotasResponse, error) {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if refused, why := refuseQuotaFilter(req.Components); refused != nil {
		resp.ErrorCode, resp.ErrorMessage = refused.Code, &why
		return resp, nil //nolint:nilerr // it is in the answer
	}
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null is for an error
	resp.ErrorMessage = new(string)
	f := quotaFilter{components: req.Components, strict: req.Strict, names: make([]string, len(req.Components))}
	for i, c := range req.Components {
		if c.MatchType == kmsg.QuotasMatchTypeExact {
			f.names[i] = keptName(ctx, metadata.EntityType(c.EntityType), *c.Match)
		}
	}
	for _, quota := range q.server.o.Metadata.Image().Quotas() {
		if !f.matches(quota.Entity) {
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

// refuseQuotaFilter says in Kafka's words what is wrong with a filter (ClientQuotasImage.java).
func refuseQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) (refused *kerr.Error, why string) {
	seen := map[metadata.EntityType]bool{}
	for _, c := range components {
		kind := metadata.EntityType(c.EntityType)
		switch {
		case kind == "":
			return kerr.InvalidRequest, "Invalid empty entity type."
		case seen[kind]:
			return kerr.InvalidRequest, "Entity type " + c.EntityType + " cannot appear more than once in the filter."
		case kind != metadata.EntityUser && kind != metadata.EntityClientID && kind != metadata.EntityIP:
			return kerr.UnsupportedVersion, "Unsupported entity type " + c.EntityType
		case c.MatchType == kmsg.QuotasMatchTypeExact && c.Match == nil:
			return kerr.InvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null."
		case c.MatchType == kmsg.QuotasMatchTypeDefault && c.Match != nil:
			return kerr.InvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
		case c.MatchType == kmsg.QuotasMatchTypeAny && c.Match != nil:
			return kerr.InvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
		case c.MatchType > kmsg.QuotasMatchTypeAny || c.MatchType < kmsg.QuotasMatchTypeExact:
			return kerr.InvalidRequest, "Unknown match type " + strconv.Itoa(int(c.MatchType))
		}
		seen[kind] = true
	}
	if seen[metadata.EntityIP] && len(seen) > 1 {
		return kerr.InvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
	}
	return nil, ""
}

// keptName is a name as entities have it.
func keptName(ctx context.Context, kind metadata.EntityType, name string) string {
	if kind != metadata.EntityIP || name == "" {
		return name
	}
	addr, err := inetaddress.Resolve(ctx, name)
	if err != nil {
		return name // nobody's
	}
	return addr.String()
}

// quotaFilter is a filter that was checked.
type quotaFilter struct {
	components []kmsg.DescribeClientQuotasRequestComponent
	names      []string // of exact components, as entities have them
	strict     bool     // no part beside those named
}

// matches tells whether every component of the filter is met.
func (f *quotaFilter) matches(entity metadata.Entity) bool {
	if f.strict && len(entity) != len(f.components) {
		return false
	}
	for i, c := range f.components {
		at := slices.IndexFunc(entity, func(p metadata.EntityPart) bool { return string(p.Type) == c.EntityType })
		if at < 0 {
			return false
		}
		name := entity[at].Name
		if c.MatchType == kmsg.QuotasMatchTypeExact && (name == nil || *name != f.names[i]) || c.MatchType == kmsg.QuotasMatchTypeDefault && name != nil {
			return false
		}
	}
	return true
}
