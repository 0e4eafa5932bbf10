package broker_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

// A string has 32767 bytes at most in every version: one rule or group with a longer name would spoil the lists of all for clients whose
// version writes lengths in 16 bits. Kafka 4.4.0 closes the connection, too.
func TestNamesThatOldVersionsCouldNotBeToldOfAreRefused(t *testing.T) {
	t.Parallel()
	addr := testAddr(t)
	root := login(t, addr, "root")
	const longest = 32767
	if said := root.create(creation(func(c *kmsg.CreateACLsRequestCreation) { c.ResourceName = strings.Repeat("n", longest) })); said[0] != `0 ""` {
		t.Errorf("a name of %d bytes: %s", longest, said[0])
	}
	rule := kmsg.NewPtrCreateACLsRequest()
	rule.Version = 3
	rule.Creations = append(rule.Creations, creation(func(c *kmsg.CreateACLsRequestCreation) { c.ResourceName = strings.Repeat("n", longest+1) }))
	host := kmsg.NewPtrDescribeACLsRequest()
	host.Version, host.ResourceType, host.ResourcePatternType, host.Operation, host.PermissionType = 3, 1, 1, 1, 1
	host.Host = new(strings.Repeat("h", longest+1))
	group := kmsg.NewPtrOffsetCommitRequest()
	group.Version, group.Group, group.Generation = 8, strings.Repeat("g", longest+1), -1
	for what, req := range map[string]kmsg.Request{"a rule's name": rule, "a filter's host": host, "a group's name": group} {
		r := login(t, addr, "root")
		r.request(req)
		r.closed(what)
	}
	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.Version, describe.ResourceType, describe.ResourcePatternType, describe.Operation, describe.PermissionType = 1, 1, 1, 1, 1
	for _, resource := range ask[*kmsg.DescribeACLsResponse](root, describe).Resources {
		if len(resource.ResourceName) > longest {
			t.Errorf("a name of %d bytes is there", len(resource.ResourceName))
		}
	}
}

// Each resource used to be compared with every other, before anything was asked of its sender's rights.
func TestAnAlterationOfVeryManyConfigsIsAnswered(t *testing.T) {
	t.Parallel()
	r := dial(t, start(t, plainConfig()).Addr("PLAINTEXT"))
	const many = 500_000
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, true
	for i := range many {
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = 99, strconv.Itoa(i) // no such type
		req.Resources = append(req.Resources, resource)
	}
	resp := ask[*kmsg.IncrementalAlterConfigsResponse](r, req)
	if len(resp.Resources) != many || resp.Resources[many-1].ErrorCode != 42 {
		t.Errorf("%d results, the last %+v; want %d, each 42", len(resp.Resources), resp.Resources[len(resp.Resources)-1], many)
	}
}

// A client that comes to a dual-stack socket over IPv4 is one of IPv4: ranges of IPv6 that hold its mapped address do not have it.
func TestMappedAddressesAreThoseOfIPv4(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, []string{
		"listeners=PLAINTEXT://[::]:0", "advertised.listeners=PLAINTEXT://localhost:9092", "authorizer.class.name=" + broker.StandardAuthorizer, "allow.everyone.if.no.acl.found=true",
	})
	port := b.Addr("PLAINTEXT").Port()
	four := dial(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	six := dial(t, netip.AddrPortFrom(netip.IPv6Loopback(), port))
	for i, c := range []struct {
		host      string
		four, six bool
	}{
		{"127.0.0.1", true, false},
		{"127.0.0.0/8", true, false},
		{"0.0.0.0/0", true, false},
		{"::/0", false, true},
		{"::ffff:127.0.0.1", false, false},
		{"0:0:0:0:0:ffff:7f00:1", false, false},
		{"::127.0.0.0/8", false, true}, // all of ::/8
		{"::1", false, false},
		{"0:0:0:0:0:0:0:1", false, true},
		{"0:0:0:0:0:0:0:1%1", false, false},
		{"::1/128", false, true},
		{"::1%1/128", false, true},
		{"[::1]/128", false, true},
		{"*", true, true},
		{"localhost", false, false},
		{"127.0.0.1 ", false, false},
		{"127.0.0.01", false, false},
		{"127.0.0.01/32", true, false},
	} {
		topic := fmt.Sprint("t", i)
		rule := creation(func(c2 *kmsg.CreateACLsRequestCreation) {
			c2.ResourceName, c2.Host, c2.Principal, c2.Operation = topic, c.host, "User:*", kmsg.ACLOperationDescribe
		})
		if said := four.create(rule); said[0] != `0 ""` {
			t.Fatalf("host %q: %s", c.host, said[0])
		}
		for _, family := range []struct {
			name string
			conn *raw
			want bool
		}{{"IPv4", four, c.four}, {"IPv6", six, c.six}} {
			code := ask[*kmsg.MetadataResponse](family.conn, metadataOf(topic)).Topics[0].ErrorCode
			if got := code != 29; got != family.want {
				t.Errorf("host %q lets %s in: %v, want %v", c.host, family.name, got, family.want)
			}
		}
	}
}

// What looks like somebody's name, or like everybody's, is nobody else's.
func TestOddUsersHaveNoRightsOfOthers(t *testing.T) {
	t.Parallel()
	addr := admintest.Real(t, []string{
		"listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_root=\"root\" \"user_*\"=\"*\" " +
			`"user_root "="root " user_Root="Root" "user_User:root"="User:root" "user_alice;User:root"="alice;User:root" "user_a:b"="a:b";`,
		"authorizer.class.name=" + broker.StandardAuthorizer, "super.users= User:root ;;User:x; Group:alice;Use:r:root",
	}).Addr("SASL_PLAINTEXT")
	rule := func(principal string) kmsg.CreateACLsRequestCreation {
		return creation(func(c *kmsg.CreateACLsRequestCreation) { c.Principal = principal })
	}
	for _, said := range login(t, addr, "root").create(rule("User:root"), rule("User:a"), rule("Group:*"), rule("user:*"), rule("User:**")) {
		if said != `0 ""` {
			t.Fatalf("a rule: %s", said)
		}
	}
	for _, user := range []string{"*", "root ", "Root", "User:root", "alice;User:root", "a:b"} {
		r := login(t, addr, user)
		if code := ask[*kmsg.MetadataResponse](r, metadataOf("h")).Topics[0].ErrorCode; code != 29 {
			t.Errorf("user %q describes a topic: %d, want 29", user, code)
		}
		if said := r.create(rule("User:" + user)); !strings.HasPrefix(said[0], "31 ") {
			t.Errorf("user %q changes rules: %s, want 31", user, said[0])
		}
	}
}
