package fidelity

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// The upgrade types of UpdateFeatures.
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// feature is an update of one feature as an UpdateFeatures carries it.
func feature(name string, level int16, kind int8) kmsg.UpdateFeaturesRequestFeatureUpdate {
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, kind
	u.AllowDowngrade = kind == safeDowngrade || kind == unsafeDowngrade
	return u
}

// updateFeatures is a request of a version; v0 knows neither upgrade types nor validation.
func updateFeatures(version int16, validate bool, updates ...kmsg.UpdateFeaturesRequestFeatureUpdate) *kmsg.UpdateFeaturesRequest {
	r := kmsg.NewPtrUpdateFeaturesRequest()
	r.Version, r.ValidateOnly, r.TimeoutMillis, r.FeatureUpdates = version, validate, 60_000, updates
	return r
}

// seenByRoot is the view of root's answer, or what came instead of one.
func (p *peer) seenByRoot(t *testing.T, req kmsg.Request) any {
	t.Helper()
	resp, err := p.request(t, "root", req)
	if err != nil {
		return err.Error()
	}
	return p.view(resp)
}

// features are those that ApiVersions tells of, by name, and whether they have an epoch.
func (p *peer) features(t *testing.T) any {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "fidelity", "1"
	resp, _ := p.root(t, req).(*kmsg.ApiVersionsResponse)
	return map[string]any{
		"supported": byName(p.view(resp.SupportedFeatures)), "finalized": byName(p.view(resp.FinalizedFeatures)),
		"has an epoch": resp.FinalizedFeaturesEpoch > 0,
	}
}

// byName makes a table of a view's list by the first of its Name, Feature and ResourceName fields that an element has.
func byName(list any) any {
	all, ok := list.([]any)
	if !ok {
		return list
	}
	table := map[string]any{}
	for _, one := range all {
		fields, _ := one.(map[string]any)
		key := "?"
		for _, name := range []string{"Name", "Feature", "ResourceName"} {
			if s, ok := fields[name].(string); ok {
				key = s
				break
			}
		}
		for ; table[key] != nil; key += " again" {
		}
		table[key] = one
	}
	return table
}

// finalized returns once p tells a level of a feature: Kafka's broker learns of it after its controller has answered.
func (p *peer) finalized(t *testing.T, name string, level int16) {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "fidelity", "1"
	kit.Eventually(t, fmt.Sprintf("%s has %s at %d", p.name, name, level), func() bool {
		resp, _ := p.root(t, req).(*kmsg.ApiVersionsResponse)
		return slices.ContainsFunc(resp.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
			return f.Name == name && f.MaxVersionLevel == level
		}) || level == 0 && !slices.ContainsFunc(resp.FinalizedFeatures, func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
			return f.Name == name
		})
	})
}

// validations compares what becomes of each level and each kind of update of a feature, without making one.
func (b *both) validations(t *testing.T, area string) {
	t.Helper()
	levels := []int16{-1, 0, 1, 2, 6, 7, 29, 30, 31, 32, 33, 34, 32767}
	for _, name := range []string{
		"metadata.version", "kraft.version", "group.version", "transaction.version", "share.version", "streams.version",
		"eligible.leader.replicas.version", "nosuch", "", "METADATA.VERSION",
	} {
		b.compare(t, area+"/"+name, func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			for _, level := range levels {
				for _, kind := range []int8{0, upgrade, safeDowngrade, unsafeDowngrade, 4} {
					version := 1 + (level^int16(kind))&1 // both are asked, in turns
					seen[fmt.Sprintf("%d type %d v%d", level, kind, version)] = p.seenByRoot(t, updateFeatures(version, true, feature(name, level, kind)))
				}
			}
			return seen
		})
	}
}

// What a new cluster of 4.4 may go to.
func TestFeatureUpdatesAreJudgedAlike(t *testing.T) {
	b := shared(t)
	b.compare(t, "features/new cluster", func(t *testing.T, p *peer) any { return p.features(t) })
	b.validations(t, "features/validate")
	for name, req := range map[string]*kmsg.UpdateFeaturesRequest{
		"nothing":          updateFeatures(2, true),
		"nothing v1":       updateFeatures(1, true),
		"nothing v0":       updateFeatures(0, false),
		"twice the same":   updateFeatures(2, true, feature("metadata.version", 33, upgrade), feature("metadata.version", 33, upgrade)),
		"twice, one bad":   updateFeatures(2, true, feature("metadata.version", 33, upgrade), feature("metadata.version", 99, upgrade)),
		"good then bad":    updateFeatures(1, true, feature("metadata.version", 33, upgrade), feature("nosuch", 1, upgrade)),
		"bad then good":    updateFeatures(1, true, feature("nosuch", 1, upgrade), feature("metadata.version", 33, upgrade)),
		"twice, first bad": updateFeatures(2, true, feature("metadata.version", 99, upgrade), feature("metadata.version", 33, upgrade)),
		"two bad":          updateFeatures(1, true, feature("nosuch", 1, upgrade), feature("other", 1, upgrade)),
		"five bad":         updateFeatures(1, true, feature("a", 1, upgrade), feature("nosuch", 1, upgrade), feature("zz", 1, upgrade), feature("metadata", 1, upgrade), feature("group", 1, upgrade)),
		"two good v1":      updateFeatures(1, true, feature("share.version", 2, upgrade), feature("metadata.version", 33, upgrade)),
		"the same level 2": updateFeatures(1, true, feature("metadata.version", 33, safeDowngrade)),
		"the same level 3": updateFeatures(1, true, feature("metadata.version", 33, unsafeDowngrade)),
		"v0 present level": updateFeatures(0, false, feature("metadata.version", 33, safeDowngrade)),
		"v0 unknown":       updateFeatures(0, false, feature("nosuch", 1, upgrade)),
		"v0 too high":      updateFeatures(0, false, feature("metadata.version", 99, upgrade)),
		"v0 downgrade":     updateFeatures(0, false, feature("metadata.version", 31, safeDowngrade)),
	} {
		b.compare(t, "features/one request/"+name, func(t *testing.T, p *peer) any { return p.seenByRoot(t, req) })
	}
	b.compare(t, "features/denied", func(t *testing.T, p *peer) any {
		resp, err := p.request(t, "alice", updateFeatures(2, true, feature("metadata.version", 33, upgrade)))
		if err != nil {
			return err.Error()
		}
		return p.view(resp, "ErrorMessage") // Kafka's prints the request's internals
	})
}

// A cluster that came from 4.3: the gate of ranges of addresses is shut, is opened by an upgrade, and may not be shut again.
func TestAnUpgradeFromThreeOpensTheGateForRanges(t *testing.T) { //nolint:tparallel // its steps follow each other
	t.Parallel()
	b := pair(t, "metadata.version=4.3-IV0")
	acl := func(host string) *kmsg.CreateACLsRequest {
		r := kmsg.NewPtrCreateACLsRequest()
		r.Version = 3
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, "gate", kmsg.ACLResourcePatternTypeLiteral
		c.Principal, c.Host, c.Operation, c.PermissionType = "User:alice", host, kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
		r.Creations = append(r.Creations, c)
		return r
	}
	describe := func(host string) *kmsg.DescribeACLsRequest {
		r := kmsg.NewPtrDescribeACLsRequest()
		r.Version = 3
		r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = 1, 1, 1, 1
		if host != "" {
			r.Host = &host
		}
		return r
	}
	drop := func(host string) *kmsg.DeleteACLsRequest {
		r := kmsg.NewPtrDeleteACLsRequest()
		r.Version = 3
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType, f.Host = 1, 1, 1, 1, &host
		r.Filters = append(r.Filters, f)
		return r
	}
	step := func(name string, reqs ...kmsg.Request) {
		b.compare(t, "features/from 4.3/"+name, func(t *testing.T, p *peer) any {
			var seen []any
			for i, req := range reqs {
				if _, reads := req.(*kmsg.DescribeACLsRequest); reads && (i == 0 || reqs[i-1].Key() != req.Key()) {
					p.settle(t) // rules are the controller's, and only then a broker's
				}
				seen = append(seen, sortedIn(p.seenByRoot(t, req), "Resources", "ACLs", "MatchingACLs"))
			}
			return seen
		})
	}
	level := func(level int16) {
		for _, p := range b.peers() {
			p.finalized(t, "metadata.version", level)
		}
	}
	hosts := []kmsg.Request{
		acl("10.0.0.0/8"), acl("::/0"), acl("10.0.0.1"), acl("*"), acl("10.0.0.0/33"), acl("a/b"), acl("/"), acl("fe80::1%1/64"), acl("10.1.0.0/8"),
	}

	b.compare(t, "features/from 4.3/features before", func(t *testing.T, p *peer) any { return p.features(t) })
	step("ranges before", hosts...)
	step("rules before", describe(""), describe("10.0.0.0/8"), drop("10.0.0.0/8"))
	b.validations(t, "features/from 4.3/validate")
	step("a downgrade that loses something", updateFeatures(2, false, feature("metadata.version", 29, safeDowngrade)))
	step("unsafe", updateFeatures(1, false, feature("metadata.version", 29, unsafeDowngrade)))
	step("good and bad at once", updateFeatures(1, false, feature("metadata.version", 33, upgrade), feature("nosuch", 1, upgrade)))
	step("validated upgrade", updateFeatures(2, true, feature("metadata.version", 33, upgrade)))
	b.compare(t, "features/from 4.3/features after refusals", func(t *testing.T, p *peer) any { return p.features(t) })

	step("upgrade to 31", updateFeatures(0, false, feature("metadata.version", 31, upgrade)))
	level(31)
	step("ranges at 31", hosts...)
	step("safe downgrade to 30", updateFeatures(1, false, feature("metadata.version", 30, safeDowngrade)))
	level(30)
	step("upgrade to 32", updateFeatures(1, false, feature("metadata.version", 32, upgrade)))
	level(32)
	step("ranges at 32", hosts...)
	step("rules at 32", describe(""), describe("10.0.0.0/8"))
	b.compare(t, "features/from 4.3/features at 32", func(t *testing.T, p *peer) any { return p.features(t) })
	b.validations(t, "features/from 4.3/validate at 32")
	step("safe downgrade across ranges", updateFeatures(1, false, feature("metadata.version", 31, safeDowngrade)))
	step("unsafe downgrade across ranges", updateFeatures(2, false, feature("metadata.version", 31, unsafeDowngrade)))
	step("without ranges it is no better", drop("10.0.0.0/8"), drop("::/0"), drop("10.1.0.0/8"), updateFeatures(2, false, feature("metadata.version", 31, unsafeDowngrade)))
	step("upgrade to 33 and share.version", updateFeatures(1, false, feature("metadata.version", 33, upgrade), feature("share.version", 2, upgrade)))
	level(33)
	step("back to 32", updateFeatures(2, false, feature("metadata.version", 32, unsafeDowngrade)))
	step("others up and down",
		updateFeatures(1, false, feature("share.version", 1, safeDowngrade)), updateFeatures(1, false, feature("transaction.version", 1, safeDowngrade)),
		updateFeatures(1, false, feature("group.version", 0, safeDowngrade)), updateFeatures(1, false, feature("eligible.leader.replicas.version", 0, safeDowngrade)),
		updateFeatures(1, false, feature("streams.version", 0, safeDowngrade)), updateFeatures(1, false, feature("kraft.version", 1, upgrade)))
	for _, p := range b.peers() {
		p.finalized(t, "streams.version", 0)
		p.finalized(t, "kraft.version", 1)
	}
	b.compare(t, "features/from 4.3/features after", func(t *testing.T, p *peer) any { return p.features(t) })
	b.restart(t, "metadata.version=4.3-IV0")
	b.compare(t, "features/from 4.3/features after a restart", func(t *testing.T, p *peer) any { return p.features(t) })
	step("a range after a restart", acl("192.168.0.0/16"), describe("192.168.0.0/16"))
}
