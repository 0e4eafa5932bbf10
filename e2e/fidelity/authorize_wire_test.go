package fidelity

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// wireTopics and wireGroups are names that begin with each other.
var (
	wireTopics = []string{"w", "wa", "wab", "wabc", "wabx", "wb", "wba", "w.b", "w-1", "w-12", "W", "wA", "wabcdefghijklmnop"}
	wireGroups = []string{"w", "wa", "wab", "wabc", "*wa", "*", "w b", "é", "w.b", "W", "hardcode"}
)

// wireHost is the host of a rule that may hold for a client on the loopback interface.
func wireHost(r *rand.Rand) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	switch r.IntN(5) {
	case 0:
		return "*"
	case 1:
		return pick("127.0.0.1", "127.0.0.9", "127.9.0.1", "0:0:0:0:0:0:0:1", "::1", "localhost")
	case 2:
		return pick("::/0", "::1/128", "::/127", "::2/127", "[::1]/8", "0:0:0:0:0:0:0:1/128", "::%1/64", "0.0.0.0/0", "::127.0.0.0/104")
	default:
		return fmt.Sprintf("127.%d.0.%d/%d", 9*r.IntN(2), r.IntN(12), []int{0, 1, 7, 8, 9, 12, 13, 24, 28, 29, 30, 31, 32}[r.IntN(13)])
	}
}

// wireRule is a rule about one of these names, a prefix of one, all of them, or the cluster.
func wireRule(r *rand.Rand, principal string) rule {
	c := kmsg.NewCreateACLsRequestCreation()
	c.Principal, c.Host, c.ResourcePatternType, c.PermissionType = principal, wireHost(r), kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLPermissionTypeAllow
	switch r.IntN(5) {
	case 0:
		c.ResourceType, c.ResourceName = kmsg.ACLResourceTypeCluster, "kafka-cluster"
	case 1:
		c.ResourceType, c.ResourceName = kmsg.ACLResourceTypeGroup, wireGroups[r.IntN(len(wireGroups))]
	default:
		c.ResourceType, c.ResourceName = kmsg.ACLResourceTypeTopic, wireTopics[r.IntN(len(wireTopics))]
	}
	if c.ResourceType != kmsg.ACLResourceTypeCluster {
		switch r.IntN(4) {
		case 0:
			c.ResourceName = "*"
		case 1, 2:
			c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
		}
	}
	c.Operation = kmsg.ACLOperation(2 + r.IntN(11))
	if r.IntN(5) == 0 {
		c.PermissionType = kmsg.ACLPermissionTypeDeny
	}
	return c
}

// The bits of authorized operations are decisions, too: some hundred in an answer, from a real address.
func TestOperationsAreAuthorizedAlikeFromRealAddresses(t *testing.T) {
	authorizedAlike(t, authority(t), "authorize/operations", 430)
}

// Where everyone may do what no rule is about, one rule about it changes that, whoever it is for.
func TestWhatNoRuleIsAboutIsAllowedAlike(t *testing.T) {
	t.Parallel()
	authorizedAlike(t, pair(t, "allow.everyone.if.no.acl.found=true"), "authorize/everyone", 431)
}

// authorizedAlike compares what users may do by rules that are drawn.
func authorizedAlike(t *testing.T, b *both, name string, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1276))
	const first, users = 900, 30
	rules := []rule{parseRule(t, "allow DESCRIBE Topic w~", "User:*"), parseRule(t, "allow DESCRIBE Group *", "User:*")}
	who := []string{"ANONYMOUS"}
	for i := range users {
		who = append(who, fmt.Sprintf("u%d", first+i))
	}
	for _, user := range who {
		for range []int{1, 4, 15, 50}[r.IntN(4)] {
			rules = append(rules, wireRule(r, "User:"+user))
		}
	}
	for range 6 {
		rules = append(rules, wireRule(r, "User:*"))
	}
	if err := b.each(func(p *peer) error {
		p.putRules(t, rules...)
		p.makeTopics(t, 2, wireTopics...)
		p.coordinators(t)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b.compare(t, name, func(t *testing.T, p *peer) any {
		seen := map[string]any{}
		for i, user := range who {
			for _, from := range []string{"127.0.0.1", "127.0.0.9", "127.9.0.1", "::1"} {
				listener := "SASL_PLAINTEXT"
				switch {
				case from == "::1" && user == "ANONYMOUS" && p.ports["V6"] != 0:
					listener = "V6"
				case from == "::1":
					continue
				case user == "ANONYMOUS":
					listener = "PLAINTEXT"
				}
				c := p.dial(t, listener, how{from: from, user: user})
				seen[user+" from "+from] = operations(t, c, i)
				c.close()
			}
		}
		return seen
	})
	if err := b.each(func(p *peer) error { p.clearRules(t); return nil }); err != nil {
		t.Fatal(err)
	}
}

// operations asks what a connection may do to each topic, group and the cluster, in a version that its number chooses.
func operations(t *testing.T, c *conn, number int) map[string]any {
	t.Helper()
	seen := map[string]any{}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version, metadata.IncludeTopicAuthorizedOperations, metadata.IncludeClusterAuthorizedOperations = int16(8+number%6), true, true
	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.ResponsePartitionLimit = 1000
	for _, name := range append([]string{"nosuch"}, wireTopics...) {
		one, other := kmsg.NewMetadataRequestTopic(), kmsg.NewDescribeTopicPartitionsRequestTopic()
		one.Topic, other.Topic = &name, name
		metadata.Topics, describe.Topics = append(metadata.Topics, one), append(describe.Topics, other)
	}
	seen["metadata"] = sortedAll(c.peer.view(c.ask(t, metadata)))
	seen["partitions"] = sortedAll(c.peer.view(c.ask(t, describe)))
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version, groups.Groups, groups.IncludeAuthorizedOperations = int16(3+number%3), wireGroups, true
	seen["groups"] = sortedAll(c.peer.view(c.ask(t, groups)))
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.Version, cluster.IncludeClusterAuthorizedOperations = int16(number%3), true
	seen["cluster"] = c.peer.view(c.ask(t, cluster))
	return seen
}

// An idempotent producer needs WRITE on some topic: Kafka's authorizeByResourceType.
func TestProducersAreAuthorizedByAnyTopicAlike(t *testing.T) {
	b := authority(t)
	r := rand.New(rand.NewPCG(679, 1276))
	const users = 400
	var rules []rule
	for i := range users {
		principal := fmt.Sprintf("User:u%d", i)
		for range 1 + r.IntN(5) {
			one := wireRule(r, principal)
			one.ResourceType, one.Operation = kmsg.ACLResourceTypeTopic, []kmsg.ACLOperation{2, 3, 4, 4, 4}[r.IntN(5)]
			if one.ResourceName == "kafka-cluster" {
				one.ResourceName = []string{"hardcode", "hard", "w"}[r.IntN(3)]
			}
			if one.PermissionType = kmsg.ACLPermissionTypeAllow; r.IntN(2) == 0 {
				one.PermissionType = kmsg.ACLPermissionTypeDeny
			}
			rules = append(rules, one)
		}
	}
	if err := b.each(func(p *peer) error {
		p.putRules(t, rules...)
		kit.Eventually(t, "there are ids for producers", func() bool { return producerID(t, p.dial(t, "SASL_PLAINTEXT", how{}), 5).ErrorCode == 0 })
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b.compare(t, "authorize/any-topic", func(t *testing.T, p *peer) any {
		seen := map[string]any{}
		for i := range users {
			user := fmt.Sprintf("u%d", i)
			for _, from := range []string{"127.0.0.1", "127.9.0.1"} {
				c := p.dial(t, "SASL_PLAINTEXT", how{from: from, user: user})
				seen[user+" from "+from] = p.view(producerID(t, c, int16(i%6)), "ProducerID")
				c.close()
			}
		}
		return seen
	})
	if err := b.each(func(p *peer) error { p.clearRules(t); return nil }); err != nil {
		t.Fatal(err)
	}
}

// producerID asks for an idempotent producer's id.
func producerID(t *testing.T, c *conn, version int16) *kmsg.InitProducerIDResponse {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = version, 60_000, -1, -1
	return c.ask(t, req).(*kmsg.InitProducerIDResponse)
}

// hasIPv6 tells whether the machine has ::1.
func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	return err == nil && l.Close() == nil
}
