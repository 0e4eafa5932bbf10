package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

// allACLs lists the rules that a filter on a topic's name selects, every one where it is empty.
func (r *raw) allACLs(topic string) []string {
	r.t.Helper()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.Version, req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = 3, 1, 1, 1, 1
	if topic != "" {
		req.ResourceName = &topic
	}
	var all []string
	resp := ask[*kmsg.DescribeACLsResponse](r, req)
	if resp.ErrorCode != 0 {
		r.t.Fatalf("DescribeAcls: %d", resp.ErrorCode)
	}
	for _, resource := range resp.Resources {
		for _, a := range resource.ACLs {
			all = append(all, resource.ResourceName+" "+a.Principal+" "+a.Host)
		}
	}
	return all
}

// many are rules for n hosts of a topic.
func many(topic string, n int) []kmsg.CreateACLsRequestCreation {
	creations := make([]kmsg.CreateACLsRequestCreation, n)
	for i := range creations {
		creations[i] = creation(func(c *kmsg.CreateACLsRequestCreation) {
			c.ResourceName, c.Host = topic, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
		})
	}
	return creations
}

// What Kafka 4.4.0 says: one rule too many, and none is made; rules that are refused or there already do not count.
func TestARequestMakesAtMostTenThousandRules(t *testing.T) {
	t.Parallel()
	root := login(t, testAddr(t), "root")
	const most = 10_000
	distinct := func(said []string) []string {
		slices.Sort(said)
		return slices.Compact(said)
	}
	expect := func(what string, said []string, want ...string) {
		t.Helper()
		if got := distinct(said); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expect("one too many", root.create(many("most", most+1)...), `44 "Unable to perform excessively large batch operation."`)
	if got := len(root.allACLs("most")); got != 0 {
		t.Errorf("%d rules are there, want none", got)
	}
	refused := creation(func(c *kmsg.CreateACLsRequestCreation) { c.Host = "bad/path" })
	bad := `42 "Invalid CIDR notation 'bad/path': Could not parse [bad/path]"`
	excess := append([]kmsg.CreateACLsRequestCreation{refused}, many("most", most+1)...)
	expect("one too many, and one refused", root.create(excess...), `44 "Unable to perform excessively large batch operation."`)
	full := append([]kmsg.CreateACLsRequestCreation{refused}, many("most", most)...)
	full = append(full, full[1]) // the same rule twice
	expect("just as many, one refused and one twice", root.create(full...), `0 ""`, bad)
	if got := len(root.allACLs("most")); got != most {
		t.Errorf("%d rules are there, want %d", got, most)
	}
	expect("again, and one more", root.create(many("most", most+1)...), `0 ""`)
	if got := len(root.allACLs("most")); got != most+1 {
		t.Errorf("%d rules are there, want %d", got, most+1)
	}

	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Version = 3
	every := kmsg.NewDeleteACLsRequestFilter()
	every.ResourceType, every.ResourcePatternType, every.Operation, every.PermissionType = 1, 1, 1, 1
	every.ResourceName = new("most")
	remove.Filters = append(remove.Filters, every)
	resp := ask[*kmsg.DeleteACLsResponse](root, remove)
	if r := resp.Results[0]; r.ErrorCode != 42 || *r.ErrorMessage != "Cannot remove more than 10000 acls in a single delete operation." || len(r.MatchingACLs) != 0 {
		t.Errorf("remove one too many: %d %q, %d rules", r.ErrorCode, *r.ErrorMessage, len(r.MatchingACLs))
	}
	one := every
	one.Host = new("10.0.0.0/24")
	remove.Filters = []kmsg.DeleteACLsRequestFilter{one}
	ask[*kmsg.DeleteACLsResponse](root, remove)
	remove.Filters = []kmsg.DeleteACLsRequestFilter{every, every}
	resp = ask[*kmsg.DeleteACLsResponse](root, remove)
	for _, r := range resp.Results {
		if r.ErrorCode != 0 || len(r.MatchingACLs) != most {
			t.Errorf("remove as many as may be: %d, %d rules, want %d", r.ErrorCode, len(r.MatchingACLs), most)
		}
	}
	if got := len(root.allACLs("most")); got != 0 {
		t.Errorf("%d rules are left", got)
	}
}

// On a level before 4.4-IV1 a slash is refused whatever it means, also that of a rule which is there already.
func TestRangesAreRefusedBeforeTheirLevel(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, authorizedConfig("metadata.version=4.3"))
	root := login(t, b.Addr("SASL_PLAINTEXT"), "root")
	host := func(host string) kmsg.CreateACLsRequestCreation {
		return creation(func(c *kmsg.CreateACLsRequestCreation) { c.Host = host })
	}
	const gated = `35 "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."`
	ask := []kmsg.CreateACLsRequestCreation{host("10.0.0.0/8"), host("bad/path"), host("/"), host("10.0.0.1"), host("badhost"), host("*"), host("")}
	want := []string{gated, gated, gated, `0 ""`, `0 ""`, `0 ""`, `42 "Host pattern cannot be null or empty"`}
	if got := root.create(ask...); !slices.Equal(got, want) {
		t.Errorf("at 4.3: %q, want %q", got, want)
	}
	root.level(t, 32)
	want = []string{`0 ""`, `42 "Invalid CIDR notation 'bad/path': Could not parse [bad/path]"`, `42 "Invalid CIDR notation '/': Could not parse [/]"`, `0 ""`, `0 ""`, `0 ""`, want[6]}
	if got := root.create(ask...); !slices.Equal(got, want) {
		t.Errorf("at 4.4-IV1, without a restart: %q, want %q", got, want)
	}
}

// level raises metadata.version.
func (r *raw) level(t *testing.T, to int16) {
	t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version = 2
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = "metadata.version", to, 1
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	if resp := ask[*kmsg.UpdateFeaturesResponse](r, req); resp.ErrorCode != 0 {
		t.Fatalf("metadata.version %d: %d %s", to, resp.ErrorCode, *resp.ErrorMessage)
	}
}

// An administrator whose rule is for a range is one from there only, also for the requests that change rules.
func TestWhoMayChangeRulesFromWhere(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "authorizer.class.name=" + broker.StandardAuthorizer, "allow.everyone.if.no.acl.found=true",
	})
	g := &guarded{t: t, addr: b.Addr("PLAINTEXT"), admin: client(t, b.Addr("PLAINTEXT"))}
	admin := creation(func(c *kmsg.CreateACLsRequestCreation) {
		c.ResourceType, c.ResourceName, c.Principal = kmsg.ACLResourceTypeCluster, "kafka-cluster", "User:ANONYMOUS"
		c.Host, c.Operation = "127.0.0.0/31", kmsg.ACLOperationAlter
	})
	if said := dial(t, g.addr).create(admin); said[0] != `0 ""` {
		t.Fatalf("the first rule: %s", said[0])
	}
	if said := dial(t, g.addr).create(many("most", 1)...); said[0] != `0 ""` {
		t.Errorf("from the range: %s", said[0])
	}
	if said := g.guest().create(many("most", 2)...); !strings.HasPrefix(said[0], "31 ") || !strings.HasPrefix(said[1], "31 ") {
		t.Errorf("from outside: %q, want 31 for each", said)
	}
}
