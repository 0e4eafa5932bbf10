package acl

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A rule that is created", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("is taken, or refused with Kafka's words, one by one", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		refusals := map[string]string{
			"0010.0.0.0/8": "Could not parse [0010.0.0.0/8]", "10.0.0.0/33": "Value [33] not in range [0,32]", "10.0.0.0/-1": "Could not parse [10.0.0.0/-1]",
			"256.0.0.0/8": "Value [256] not in range [0,255]", "10.0.0.0/": "Could not parse [10.0.0.0/]", "/": "Could not parse [/]", "10.0.0.0/ 8": "Could not parse [10.0.0.0/ 8]",
			"10.0.0.0/8/8": "Could not parse [10.0.0.0/8/8]", "example.com/24": "Could not parse [example.com/24]", "10.0.0.0/255.0.0.0": "Could not parse [10.0.0.0/255.0.0.0]",
			"2001:db8::/129":        "Could not parse [2001:db8::/129] - prefix length must be between 0 and 128",
			"2001:db8::/":           "Could not parse [2001:db8::/] - invalid prefix length",
			"::ffff:192.168.1.0/24": "Could not parse [::ffff:192.168.1.0] - not an IPv6 address",
			"::ffff:c0a8:100/120":   "Could not parse [::ffff:c0a8:100] - not an IPv6 address",
			"g::/32":                "Could not parse [g::]", "[::1]:80/64": "Could not parse [[::1]:80]",
		}
		for host, reason := range refusals {
			Expect(s.Create(ctx, hosts(host)...)).To(Equal([]stage.Refusal{{Code: invalidRequest, Text: "Invalid CIDR notation '" + host + "': " + reason}}), "%q", host)
		}
		good := []string{"10.0.0.0/8", "10.0.0.5/8", "010.0.0.0/08", "2001:db8::/32", "2001:000000db8::/032", "::192.168.1.0/24", "::/0", "fe80::1%1/64", "[2001:db8::]/32", "2001:db8::/+64", "badhost", "10.0.0.1-10.0.0.9"}
		for i, r := range s.Create(ctx, hosts(good...)...) {
			Expect(r).To(Equal(stage.Refusal{}), good[i])
		}
		cluster := stage.Rule("allow alice DESCRIBE Cluster")
		cluster.Name = "cluster"
		Expect(s.Create(ctx, cluster)[0]).To(Equal(stage.Refusal{Code: invalidRequest, Text: "The only valid name for the CLUSTER resource is kafka-cluster"}))
		nobody := stage.Rule("allow alice READ Topic:orders")
		nobody.Principal = "alice"
		Expect(s.Create(ctx, nobody)[0].Code).To(BeEquivalentTo(invalidRequest))

		By("as many rules as there are spellings, each found by its own alone")
		for _, host := range good {
			Expect(find(ctx, s, host)).To(Equal([]string{host}))
		}
		for _, host := range []string{"10.0.0.1", "*", "10.0.0.0/08"} {
			Expect(find(ctx, s, host)).To(BeEmpty(), host)
		}
		s.Revoke(ctx, "allow alice READ Topic:orders from 10.0.0.0/8")
		Expect(find(ctx, s, "10.0.0.5/8")).To(HaveLen(1))
		Expect(s.Create(ctx, append(hosts("10.0.0.5/8"), hosts("10.0.0.5/8")...)...)).To(Equal([]stage.Refusal{{}, {}}), "a rule that is there already is a success")
		Expect(find(ctx, s, "10.0.0.5/8")).To(HaveLen(1))
	}, SpecTimeout(stage.Within(time.Minute)))
})

// find gives the hosts of the rules that DescribeAcls finds by a host.
func find(ctx SpecContext, s *stage.Stage, host string) []string {
	GinkgoHelper()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceType(acl.AnyResource), kmsg.ACLResourcePatternType(acl.AnyPattern)
	req.Operation, req.PermissionType, req.Host = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny, &host
	resp := s.Ask(ctx, req).(*kmsg.DescribeACLsResponse) //nolint:forcetypeassert // the answer to DescribeAcls
	Expect(resp.ErrorCode).To(BeZero())
	found := []string{}
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			found = append(found, a.Host)
		}
	}
	return found
}
