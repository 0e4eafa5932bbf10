package fidelity

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// theAuthority is the pair of the cases about rules: each begins and ends without any, so it is not for cases of other things.
var theAuthority kept

// authority is that pair. It has a listener V6 without a password on ::1, where there is ::1.
func authority(t *testing.T) *both {
	t.Helper()
	if theAuthority.properties == nil && hasIPv6() {
		theAuthority.properties = []string{
			"listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,V6://[::1]:0",
			"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,V6:PLAINTEXT",
		}
	}
	return theAuthority.get(t)
}

// rule is an ACL as it is sent.
type rule = kmsg.CreateACLsRequestCreation

// parseRule reads a rule such as "allow WRITE Topic one User:alice 10.0.0.0/8": a name that ends in ~ is a prefix, and the last
// two words may be left out: the principal given, and any host.
func parseRule(t *testing.T, text, principal string) rule {
	t.Helper()
	words := strings.Fields(text)
	if len(words) < 4 {
		t.Fatalf("rule %q", text)
	}
	r := kmsg.NewCreateACLsRequestCreation()
	r.PermissionType = map[string]kmsg.ACLPermissionType{"allow": kmsg.ACLPermissionTypeAllow, "deny": kmsg.ACLPermissionTypeDeny}[words[0]]
	if words[1] == "TWO_PHASE_COMMIT" {
		r.Operation = 15 // kmsg has no name for it
	} else if operation, err := kmsg.ParseACLOperation(words[1]); err == nil {
		r.Operation = operation
	} else {
		t.Fatalf("rule %q: %v", text, err)
	}
	r.ResourceType = map[string]kmsg.ACLResourceType{
		"Topic": kmsg.ACLResourceTypeTopic, "Group": kmsg.ACLResourceTypeGroup, "Cluster": kmsg.ACLResourceTypeCluster,
		"Txn": kmsg.ACLResourceTypeTransactionalId, "Token": kmsg.ACLResourceTypeDelegationToken, "User": kmsg.ACLResourceTypeUser,
	}[words[2]]
	r.ResourceName, r.ResourcePatternType = words[3], kmsg.ACLResourcePatternTypeLiteral
	if name, prefix := strings.CutSuffix(words[3], "~"); prefix {
		r.ResourceName, r.ResourcePatternType = name, kmsg.ACLResourcePatternTypePrefixed
	}
	r.Principal, r.Host = principal, "*"
	if len(words) > 4 {
		r.Principal = words[4]
	}
	if len(words) > 5 {
		r.Host = words[5]
	}
	if r.PermissionType == 0 || r.ResourceType == 0 {
		t.Fatalf("rule %q", text)
	}
	return r
}

// createRules asks for rules as root, in a request of a version.
func (p *peer) createRules(t *testing.T, version int16, rules ...rule) []kmsg.CreateACLsResponseResult {
	t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version, req.Creations = version, rules
	results := p.root(t, req).(*kmsg.CreateACLsResponse).Results
	if len(results) != len(rules) {
		t.Fatalf("%s: %d results for %d rules", p.name, len(results), len(rules))
	}
	return results
}

// putRules is createRules for rules that have to be taken; it returns when they are in force.
func (p *peer) putRules(t *testing.T, rules ...rule) {
	t.Helper()
	for chunk := range slices.Chunk(rules, 5000) {
		for i, result := range p.createRules(t, 3, chunk...) {
			if result.ErrorCode != 0 {
				t.Fatalf("%s: create %+v: error %d %s", p.name, chunk[i], result.ErrorCode, text(result.ErrorMessage))
			}
		}
	}
	p.settle(t)
}

// describeRules are the rules that a filter finds, each as a line, in order.
func (p *peer) describeRules(t *testing.T, change func(*kmsg.DescribeACLsRequest)) []string {
	t.Helper()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.Version, req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = 3, 1, 1, 1, 1
	change(req)
	resp := p.root(t, req).(*kmsg.DescribeACLsResponse)
	if resp.ErrorCode != 0 {
		return []string{fmt.Sprintf("error %d %s", resp.ErrorCode, text(resp.ErrorMessage))}
	}
	lines := []string{}
	for i := range resp.Resources {
		for _, a := range resp.Resources[i].ACLs {
			r := &resp.Resources[i]
			lines = append(lines, fmt.Sprintf("%v %v %q %v %q %q %v", a.PermissionType, r.ResourceType, r.ResourceName, r.ResourcePatternType,
				a.Principal, a.Host, a.Operation))
		}
	}
	slices.Sort(lines)
	return lines
}

// settlement numbers the marks of settle.
var settlement atomic.Int64

// settle waits until p's broker has all changes of rules that its controller has acknowledged: a rule made last is seen, and its
// end, too. Kafka's brokers learn of changes in order, a little after the controller answers.
func (p *peer) settle(t *testing.T) {
	t.Helper()
	mark := parseRule(t, "allow DESCRIBE Token settled", fmt.Sprintf("User:settled-%d", settlement.Add(1)))
	seen := func() int {
		return len(p.describeRules(t, func(req *kmsg.DescribeACLsRequest) { req.Principal = &mark.Principal }))
	}
	p.createRules(t, 3, mark)
	kit.Eventually(t, "a rule is in force", func() bool { return seen() == 1 })
	p.deleteRules(t, func(filter *kmsg.DeleteACLsRequestFilter) { filter.Principal = &mark.Principal })
	kit.Eventually(t, "a rule is in force no more", func() bool { return seen() == 0 })
}

// everyRule is a filter that finds all rules.
func everyRule() kmsg.DeleteACLsRequestFilter {
	filter := kmsg.NewDeleteACLsRequestFilter()
	filter.ResourceType, filter.ResourcePatternType, filter.Operation, filter.PermissionType = 1, 1, 1, 1
	return filter
}

// deleteRules removes what a filter finds: all rules, where it is not changed.
func (p *peer) deleteRules(t *testing.T, change func(*kmsg.DeleteACLsRequestFilter)) {
	t.Helper()
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Version = 3
	filter := everyRule()
	change(&filter)
	req.Filters = append(req.Filters, filter)
	if code := p.root(t, req).(*kmsg.DeleteACLsResponse).Results[0].ErrorCode; code != 0 {
		t.Fatalf("%s: delete rules: error %d", p.name, code)
	}
}

// clearRules removes all rules and waits until they are in force no more.
func (p *peer) clearRules(t *testing.T) {
	t.Helper()
	p.deleteRules(t, func(*kmsg.DeleteACLsRequestFilter) {})
	p.settle(t)
}
