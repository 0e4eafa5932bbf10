package fidelity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answered is what came of a request: its answer, or how the connection ended.
func (p *peer) answered(t *testing.T, user string, req kmsg.Request) any {
	t.Helper()
	resp, err := p.request(t, user, req)
	if err != nil {
		return err.Error()
	}
	return p.view(resp)
}

// oddRules are rules with something about them, by what that is.
func oddRules(t *testing.T) (names []string, rules []rule) {
	t.Helper()
	add := func(name string, change func(*rule)) {
		r := parseRule(t, "allow READ Topic odd", "User:odd")
		change(&r)
		names, rules = append(names, name), append(rules, r)
	}
	for code := kmsg.ACLResourceType(1); code <= 8; code++ {
		add(fmt.Sprintf("resource type %d", code), func(r *rule) { r.ResourceType = code })
		add(fmt.Sprintf("resource type %d kafka-cluster", code), func(r *rule) { r.ResourceType, r.ResourceName = code, "kafka-cluster" })
		add(fmt.Sprintf("resource type %d all", code), func(r *rule) { r.ResourceType, r.ResourceName = code, "*" })
		add(fmt.Sprintf("resource type %d prefixed", code), func(r *rule) { r.ResourceType, r.ResourcePatternType = code, 4 })
	}
	for _, code := range []kmsg.ACLResourceType{99, 127, -1, -128} {
		add(fmt.Sprintf("resource type %d", code), func(r *rule) { r.ResourceType = code })
	}
	for _, code := range []kmsg.ACLResourcePatternType{1, 2, 3, 4, 5, 99, -1} {
		add(fmt.Sprintf("pattern type %d", code), func(r *rule) { r.ResourcePatternType = code })
		add(fmt.Sprintf("pattern type %d of the cluster", code), func(r *rule) {
			r.ResourceType, r.ResourceName, r.ResourcePatternType = 4, "kafka-cluster", code
		})
	}
	for code := kmsg.ACLOperation(1); code <= 17; code++ {
		add(fmt.Sprintf("operation %d", code), func(r *rule) { r.Operation = code })
	}
	for _, code := range []kmsg.ACLOperation{99, -1} {
		add(fmt.Sprintf("operation %d", code), func(r *rule) { r.Operation = code })
	}
	for _, code := range []kmsg.ACLPermissionType{1, 2, 3, 4, 99, -1} {
		add(fmt.Sprintf("permission %d", code), func(r *rule) { r.PermissionType = code })
	}
	for name, value := range map[string]string{
		"empty": "", "blank": " ", "slash": "a/b", "invalid as a topic": "in valid", "dots": "..", "long": strings.Repeat("n", 300),
		"very long": strings.Repeat("n", 30_000), "unicode": "é", "control": "a\x00b", "newline": "a\nb", "star inside": "a*", "cluster's name": "kafka-cluster",
	} {
		add("name "+name, func(r *rule) { r.ResourceName = value })
		add("group "+name, func(r *rule) { r.ResourceType, r.ResourceName = 3, value })
		add("cluster "+name, func(r *rule) { r.ResourceType, r.ResourceName = 4, value })
		add("user "+name, func(r *rule) { r.ResourceType, r.ResourceName = 7, value })
		add("prefix "+name, func(r *rule) { r.ResourceName, r.ResourcePatternType = value, 4 })
	}
	for name, value := range map[string]string{
		"empty": "", "no colon": "alice", "colon alone": ":", "no name": "User:", "no type": ":alice", "other type": "Foo:alice", "lower case": "user:alice",
		"two colons": "User:a:b", "everybody": "User:*", "everybody of a group": "Group:*", "star": "*", "blank": " ", "blanks": " User : alice ", "long": "User:" + strings.Repeat("p", 30_000),
		"unicode": "User:é", "control": "User:a\x00b", "dn": "User:CN=a,OU=b", "newline": "User:a\nb", "comma": "User:a,b", "no colon, control": "a\tb", "percent": "a%sb",
	} {
		add("principal "+name, func(r *rule) { r.Principal = value })
	}
	for name, value := range map[string]string{
		"empty": "", "blank": " ", "range": "10.0.0.0/8", "bad range": "10.0.0.0/33", "slash": "/", "name": "example.com", "long": strings.Repeat("h", 30_000),
		"long range": strings.Repeat("h", 30_000) + "/8", "longest range": strings.Repeat("h", 32_767-2) + "/8", "long range, short text": strings.Repeat("h", 16_000) + "/8",
	} {
		add("host "+name, func(r *rule) { r.Host = value })
	}
	// More than one thing at once: which is told.
	worse := func(name string, changes ...func(*rule)) {
		add(name, func(r *rule) {
			for _, change := range changes {
				change(r)
			}
		})
	}
	badType := func(r *rule) { r.ResourceType = 99 }
	badPattern := func(r *rule) { r.ResourcePatternType = 99 }
	badOperation := func(r *rule) { r.Operation = 99 }
	badPermission := func(r *rule) { r.PermissionType = 99 }
	noName := func(r *rule) { r.ResourceName = "" }
	badPrincipal := func(r *rule) { r.Principal = "alice" }
	noHost := func(r *rule) { r.Host = "" }
	badHost := func(r *rule) { r.Host = "10.0.0.0/99" }
	cluster := func(r *rule) { r.ResourceType = 4 }
	worse("all wrong", badType, badPattern, badOperation, badPermission, noName, badPrincipal, noHost)
	worse("all wrong but the type", badPattern, badOperation, badPermission, badPrincipal, noHost)
	worse("operation, permission, principal, host", badOperation, badPermission, badPrincipal, badHost)
	worse("permission, principal, host", badPermission, badPrincipal, badHost)
	worse("principal and host", badPrincipal, badHost)
	worse("no name and principal", noName, badPrincipal)
	worse("cluster of another name and all else wrong", cluster, badPattern, badOperation, badPermission, badPrincipal, noHost)
	worse("cluster without a name", cluster, noName)
	worse("type and no name", badType, noName)
	return names, rules
}

// throwing tells whether Kafka's own classes refuse a rule: the whole request fails then.
func throwing(r *rule) bool {
	return r.ResourceType == 1 || r.ResourcePatternType == 1 || r.ResourcePatternType == 2 || r.Operation == 1 || r.PermissionType == 1
}

func TestRulesAreTakenAndRefusedAlike(t *testing.T) {
	b := authority(t)
	names, rules := oddRules(t)
	for version := int16(1); version <= 3; version++ {
		b.compare(t, fmt.Sprintf("acl/create/v%d/alone", version), func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			for i := range rules {
				if version == 3 || i%4 == int(version) {
					req := kmsg.NewPtrCreateACLsRequest()
					req.Version, req.Creations = version, []rule{rules[i]}
					seen[names[i]] = p.answered(t, "root", req)
				}
			}
			return seen
		})
		b.compare(t, fmt.Sprintf("acl/create/v%d/together", version), func(t *testing.T, p *peer) any {
			req := kmsg.NewPtrCreateACLsRequest()
			req.Version = version
			for i := range rules {
				if !throwing(&rules[i]) && len(rules[i].Host) < 16_000 {
					req.Creations = append(req.Creations, rules[i], rules[i])
				}
			}
			return p.answered(t, "root", req)
		})
		b.compare(t, fmt.Sprintf("acl/create/v%d/one-throws", version), func(t *testing.T, p *peer) any {
			req := kmsg.NewPtrCreateACLsRequest()
			throws := parseRule(t, "allow READ Topic thrown", "User:thrown")
			throws.Operation = 1
			req.Version, req.Creations = version, []rule{parseRule(t, "allow READ Topic thrown", "User:thrown"), throws, parseRule(t, "allow READ Topic thrown", "thrown")}
			return p.answered(t, "root", req)
		})
		b.compare(t, fmt.Sprintf("acl/create/v%d/unknown", version), func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			for name, change := range map[string]func(*rule){
				"type": func(r *rule) { r.ResourceType = 0 }, "pattern": func(r *rule) { r.ResourcePatternType = 0 },
				"operation": func(r *rule) { r.Operation = 0 }, "permission": func(r *rule) { r.PermissionType = 0 },
			} {
				bad := parseRule(t, "allow READ Topic zero", "User:zero")
				change(&bad)
				req := kmsg.NewPtrCreateACLsRequest()
				req.Version, req.Creations = version, []rule{parseRule(t, "allow READ Topic zero", "User:zero"), bad}
				seen[name] = p.answered(t, "root", req)
			}
			return seen
		})
		b.compare(t, fmt.Sprintf("acl/create/v%d/too-long", version), func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			long := strings.Repeat("l", 32_768)
			for name, change := range map[string]func(*rule){
				"name": func(r *rule) { r.ResourceName = long }, "principal": func(r *rule) { r.Principal = "User:" + long }, "host": func(r *rule) { r.Host = long },
			} {
				bad := parseRule(t, "allow READ Topic long", "User:long")
				change(&bad)
				req := kmsg.NewPtrCreateACLsRequest()
				req.Version, req.Creations = version, []rule{parseRule(t, "allow READ Topic long", "User:long"), bad}
				seen[name] = p.answered(t, "root", req)
			}
			return seen
		})
		b.compare(t, fmt.Sprintf("acl/create/v%d/none", version), func(t *testing.T, p *peer) any {
			req := kmsg.NewPtrCreateACLsRequest()
			req.Version = version
			return p.answered(t, "root", req)
		})
	}
	b.compare(t, "acl/create/listed", func(t *testing.T, p *peer) any {
		p.settle(t)
		listed := map[string]any{}
		for _, user := range []string{"odd", "long", "zero", "thrown"} {
			listed[user] = p.describeRules(t, func(req *kmsg.DescribeACLsRequest) { req.Principal = new("User:" + user) })
		}
		return listed
	})
	b.compare(t, "acl/create/too-many", func(t *testing.T, p *peer) any {
		many := make([]rule, 10_001)
		for i := range many {
			many[i] = parseRule(t, fmt.Sprintf("allow READ Topic many-%d", i), "User:many")
		}
		seen := map[string]int{}
		for _, result := range p.createRules(t, 3, many...) {
			seen[fmt.Sprint(result.ErrorCode, " ", text(result.ErrorMessage))]++
		}
		return seen
	})
	if err := b.each(func(p *peer) error { p.clearRules(t); return nil }); err != nil {
		t.Fatal(err)
	}
}

// filtered are the rules that filters choose among.
func filtered(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for _, text := range []string{
		"allow READ Topic one User:a 10.0.0.0/8", "allow READ Topic one User:a *", "deny READ Topic one User:a *", "allow WRITE Topic one User:b 10.0.0.1",
		"allow ALL Topic one User:* *", "allow READ Topic one~ User:a *", "allow READ Topic o~ User:a 10.0.0.0/8", "deny ALL Topic o~ User:* *",
		"allow READ Topic * User:a *", "allow READ Topic *~ User:a *", "allow READ Topic two User:a 2001:db8::/32", "allow READ Topic two User:b 2001:db8:0::/32",
		"allow READ Group one User:a *", "allow READ Group o~ User:b *", "allow READ Group * User:c *", "allow ALL Group *a User:c *",
		"allow ALTER Cluster kafka-cluster User:a *", "deny ALTER Cluster kafka-cluster User:b 10.0.0.0/8", "allow CREATE Cluster kafka-cluster~ User:a *",
		"allow WRITE Txn one User:a *", "allow WRITE Txn o~ User:a *", "allow DESCRIBE Token one User:a *", "allow CREATE_TOKENS User User:a User:b *",
		"allow DESCRIBE_TOKENS User User:~ User:a *", "allow TWO_PHASE_COMMIT Txn * Group:g *", "allow IDEMPOTENT_WRITE Cluster kafka-cluster User:a 0.0.0.0/0",
	} {
		rules = append(rules, parseRule(t, text, ""))
	}
	return rules
}

// madeUpFilter is a filter that may find some of these rules.
func madeUpFilter(r *rand.Rand, rules []rule) kmsg.DeleteACLsRequestFilter {
	f := everyRule()
	like := rules[r.IntN(len(rules))]
	if r.IntN(2) == 0 {
		f.ResourceType = like.ResourceType
	}
	switch r.IntN(4) {
	case 0, 1:
		f.ResourceName = new(like.ResourceName)
	case 2:
		f.ResourceName = new([]string{"one", "ones", "o", "*", "*a", "", "kafka-cluster", "kafka", "User:a", "nosuch"}[r.IntN(10)])
	}
	f.ResourcePatternType = kmsg.ACLResourcePatternType(1 + r.IntN(4))
	if r.IntN(3) == 0 {
		f.Principal = new([]string{like.Principal, "User:*", "", "*", "User:nosuch", "nosuch", "user:a"}[r.IntN(7)])
	}
	if r.IntN(3) == 0 {
		f.Host = new([]string{like.Host, "*", "", "10.0.0.1", "10.0.0.0/8", "10.1.0.0/8", "bad/path"}[r.IntN(7)])
	}
	if r.IntN(3) == 0 {
		f.Operation = []kmsg.ACLOperation{like.Operation, 2, 3, 8, 15}[r.IntN(5)]
	}
	if r.IntN(3) == 0 {
		f.PermissionType = kmsg.ACLPermissionType(1 + r.IntN(3))
	}
	return f
}

func TestFiltersFindAlike(t *testing.T) {
	b := authority(t)
	rules := filtered(t)
	for _, p := range b.peers() {
		p.putRules(t, rules...)
	}
	r := rand.New(rand.NewPCG(140, 290))
	filters := make([]kmsg.DeleteACLsRequestFilter, 600)
	for i := range filters {
		filters[i] = madeUpFilter(r, rules)
	}
	describe := func(version int16, f *kmsg.DeleteACLsRequestFilter) *kmsg.DescribeACLsRequest {
		req := kmsg.NewPtrDescribeACLsRequest()
		req.Version, req.ResourceType, req.ResourceName, req.ResourcePatternType = version, f.ResourceType, f.ResourceName, f.ResourcePatternType
		req.Principal, req.Host, req.Operation, req.PermissionType = f.Principal, f.Host, f.Operation, f.PermissionType
		return req
	}
	b.compare(t, "acl/describe/found", func(t *testing.T, p *peer) any {
		seen := map[string]any{}
		for i := range filters {
			seen[fmt.Sprintf("%d: %s", i, jsonOf(filters[i]))] = sortedIn(p.answered(t, "root", describe(int16(1+i%3), &filters[i])), "Resources", "ACLs")
		}
		return seen
	})
	// Codes that mean nothing, in each place.
	odd := func(code int8) []kmsg.DeleteACLsRequestFilter {
		all := make([]kmsg.DeleteACLsRequestFilter, 4)
		for i := range all {
			all[i] = everyRule()
		}
		all[0].ResourceType, all[1].ResourcePatternType = kmsg.ACLResourceType(code), kmsg.ACLResourcePatternType(code)
		all[2].Operation, all[3].PermissionType = kmsg.ACLOperation(code), kmsg.ACLPermissionType(code)
		return all
	}
	for _, version := range []int16{1, 2, 3} {
		b.compare(t, fmt.Sprintf("acl/describe/v%d/odd", version), func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			for _, code := range []int8{0, 5, 8, 16, 99, -1, -128} {
				for i, f := range odd(code) {
					seen[fmt.Sprintf("field %d is %d", i, code)] = sortedIn(p.answered(t, "root", describe(version, &f)), "Resources", "ACLs")
				}
			}
			return seen
		})
		b.compare(t, fmt.Sprintf("acl/delete/v%d/odd", version), func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			for _, code := range []int8{0, 99, -1} {
				for i, f := range odd(code) {
					f.Principal = new("User:nobody") // finds nothing, whatever it is taken for
					nothing := everyRule()
					nothing.ResourceName = new("nosuch")
					req := kmsg.NewPtrDeleteACLsRequest()
					req.Version, req.Filters = version, []kmsg.DeleteACLsRequestFilter{f, nothing}
					seen[fmt.Sprintf("field %d is %d", i, code)] = p.answered(t, "root", req)
				}
			}
			none := kmsg.NewPtrDeleteACLsRequest()
			none.Version = version
			seen["none"] = p.answered(t, "root", none)
			return seen
		})
	}
	b.compare(t, "acl/delete/found", func(t *testing.T, p *peer) any {
		seen := map[string]any{}
		for round := range 80 {
			req := kmsg.NewPtrDeleteACLsRequest()
			req.Version = int16(1 + round%3)
			for i := range 1 + round%4 {
				req.Filters = append(req.Filters, filters[(round*7+i*13)%len(filters)])
			}
			seen[fmt.Sprintf("%d: %s", round, jsonOf(req.Filters))] = sortedIn(p.answered(t, "root", req), "MatchingACLs")
			p.createRules(t, 3, rules...)
		}
		p.settle(t)
		seen["left"] = p.describeRules(t, func(*kmsg.DescribeACLsRequest) {})
		return seen
	})
	if err := b.each(func(p *peer) error { p.clearRules(t); return nil }); err != nil {
		t.Fatal(err)
	}
}

// Who may ask, and what others are told.
func TestWhoMayNotKeepRulesIsToldAlike(t *testing.T) {
	b := authority(t)
	rights := map[string][]string{
		"u0": {}, "u1": {"allow DESCRIBE Cluster kafka-cluster"}, "u2": {"allow ALTER Cluster kafka-cluster"},
		"u3": {"allow ALL Cluster kafka-cluster", "deny ALTER Cluster kafka-cluster"}, "u4": {"allow ALL Cluster kafka-cluster", "deny DESCRIBE Cluster kafka-cluster"},
		"u5": {"allow ALTER Cluster kafka-cluster User:u5 127.0.0.0/8"}, "u6": {"allow ALTER Cluster kafka-cluster User:u6 10.0.0.0/8"},
		"u9": {"allow ALL Cluster kafka-cluster", "deny ALL Cluster kafka-cluster User:u9 127.0.0.1"},
	}
	for _, p := range b.peers() {
		var rules []rule
		for _, user := range ordered(rights) {
			for _, text := range rights[user] {
				rules = append(rules, parseRule(t, text, "User:"+user))
			}
		}
		p.putRules(t, rules...)
	}
	for version := int16(1); version <= 3; version++ {
		b.compare(t, fmt.Sprintf("acl/rights/v%d", version), func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			for _, user := range ordered(rights) {
				create := kmsg.NewPtrCreateACLsRequest()
				create.Version, create.Creations = version, []rule{parseRule(t, "allow READ Topic by-"+user, "User:x"), parseRule(t, "allow READ Topic by", "x")}
				seen[user+" creates"] = p.answered(t, user, create)
				nothing := kmsg.NewPtrCreateACLsRequest()
				nothing.Version = version
				seen[user+" creates nothing"] = p.answered(t, user, nothing)
				remove := kmsg.NewPtrDeleteACLsRequest()
				filter := everyRule()
				filter.Principal = new("User:x")
				unknown := filter
				unknown.Operation = 99
				remove.Version, remove.Filters = version, []kmsg.DeleteACLsRequestFilter{filter, unknown}
				seen[user+" deletes"] = p.answered(t, user, remove)
				describe := kmsg.NewPtrDescribeACLsRequest()
				describe.Version, describe.ResourceType, describe.ResourcePatternType, describe.Operation, describe.PermissionType = version, 4, 1, 1, 1
				p.settle(t)
				seen[user+" describes"] = sortedIn(p.answered(t, user, describe), "Resources", "ACLs")
			}
			return seen
		})
	}
	if err := b.each(func(p *peer) error { p.clearRules(t); return nil }); err != nil {
		t.Fatal(err)
	}
}
