package reproduce

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/magiconair/properties"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// example is the source that examples/acls has.
func example(t *testing.T) Source {
	t.Helper()
	rules, err := ReadRules("../../examples/acls/acls.txt")
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}).LoadFile("../../examples/acls/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	return Source{Name: "reproduced", Rules: rules, Properties: p.Map()}
}

func planOf(t *testing.T, s Source) *Setup {
	t.Helper()
	setup, err := Plan(s)
	if err != nil {
		t.Fatal(err)
	}
	return setup
}

func parsed(t *testing.T, text []byte) *topology.Lab {
	t.Helper()
	lab, err := topology.Parse("lab.yaml", text)
	if err != nil {
		t.Fatalf("the lab file cannot be used: %v\n%s", err, text)
	}
	return lab
}

func TestTheSameSourceGivesTheSameLabFileAndOneThatCanBeUsed(t *testing.T) {
	first := planOf(t, example(t)).YAML()
	for range 20 {
		if again := planOf(t, example(t)).YAML(); !bytes.Equal(first, again) {
			t.Fatalf("a second plan differs:\n%s\n%s", first, again)
		}
	}
	lab := parsed(t, first)
	book, err := Open(lab)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(book.Rules), len(example(t).Rules); got != want {
		t.Errorf("rules = %d, want %d", got, want)
	}
	for i := range book.Rows {
		if _, err := book.login(lab.Users, book.Rows[i].Principal, book.Rows[i].Listener); err != nil {
			t.Errorf("row %d: %v", i, err)
		}
		for _, c := range book.Rows[i].Cells {
			allowed, e := book.explain(book.Rows[i].Principal, book.Rows[i].From, book.Rows[i].Type, book.Rows[i].Name, c.Operation)
			if allowed != c.Allow || c.Rule > 0 && !book.decides(c.Rule, e) {
				t.Errorf("%s on %s: expected %v by %d, the rules say %v by %s", book.Rows[i].Principal, book.Rows[i].Name, c.Allow, c.Rule, allowed, e)
			}
		}
	}
}

func TestEveryClassOfAddressesHasAnExampleInASubnet(t *testing.T) {
	for _, hosts := range [][]string{
		{},
		{"*"},
		{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3", "192.168.0.7", "192.168.0.9"},
		{"0.0.0.0/0", "::/0"},
		{"0.0.0.0/1", "128.0.0.0/1"},
		{"127.0.0.1", "127.0.0.0/8", "0:0:0:0:0:0:0:1", "::1", "fe80::/10"},
		{"198.18.0.0/15", "fd00::/8", "203.0.113.0/24", "2001:db8::/32"},
		{"10.0.0.0/31", "10.0.0.2/31", "10.0.0.0/30"},
		{"255.255.255.255", "224.0.0.1", "1.2.3.4/0"},
		{"2001:db8::1/128", "2001:db8::/127", "2001:db8:0:0:0:0:0:9"},
		{"::/1", "8000::/1"},
		{"bad/path", "example.com", "10.0.0.1-10.0.0.9", "::ffff:10.0.0.5"},
	} {
		l := survey(hosts)
		for i, a := range l.plots {
			for _, b := range l.plots[:i] {
				if a.prefix.Overlaps(b.prefix) {
					t.Errorf("%v: subnets %s and %s overlap", hosts, a.prefix, b.prefix)
				}
			}
			for _, node := range l.nodes {
				if a.prefix.Contains(node) {
					t.Errorf("%v: the broker's %s is in subnet %s", hosts, node, a.prefix)
				}
			}
		}
		seen := map[string]bool{}
		signature := func(a netip.Addr) string {
			var b strings.Builder
			for _, h := range hosts {
				if acl.Matches(h, a) {
					b.WriteString("1")
				} else {
					b.WriteString("0")
				}
			}
			return b.String()
		}
		for _, c := range l.classes {
			if !slices.ContainsFunc(l.plots, func(p plot) bool { return p.prefix.Contains(c.example) }) {
				t.Errorf("%v: %s is in no subnet", hosts, c.example)
			}
			seen[signature(c.example)] = true
		}
		// Whatever address a client could have is like one of the examples.
		for _, p := range append(slices.Collect(maps.Keys(prefixSet(hosts))), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("2a00::/16")) {
			for _, a := range []netip.Addr{p.Masked().Addr(), lastOf(p.Masked()), p.Masked().Addr().Prev(), lastOf(p.Masked()).Next()} {
				if !a.IsValid() || overlapsAny(netip.PrefixFrom(a, a.BitLen()), reserved(a.Is6())) {
					continue
				}
				if !seen[signature(a)] {
					t.Errorf("%v: no example is like %s", hosts, a)
				}
			}
		}
	}
}

func prefixSet(hosts []string) map[netip.Prefix]bool {
	set := map[netip.Prefix]bool{}
	for _, h := range hosts {
		if p, _ := rangeOf(h); p.IsValid() {
			set[p] = true
		}
	}
	return set
}

func TestCertificatesAreFoundForWhatMappingRulesMake(t *testing.T) {
	for _, test := range []struct{ rules, name, want string }{
		{"DEFAULT", "CN=alice,OU=billing", "CN=alice,OU=billing"},
		{"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "alice", "CN=alice,OU=ServiceUsers"},
		{"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L", "alice@admin", "CN=alice,OU=admin,O=x,L=x,ST=x,C=x"},
		{"RULE:^CN=([^,]+).*$/$1/,DEFAULT", "alice", "CN=alice"},
		{"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", "alice", "CN=alice"},
		{"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,DEFAULT", "a@b", ""},
	} {
		m, err := newMapping(test.rules)
		if err != nil {
			t.Errorf("%s: %v", test.rules, err)
			continue
		}
		got, err := m.certificateFor(test.name)
		if test.want == "" {
			if err == nil {
				t.Errorf("certificateFor(%q) with %s = %s, want none", test.name, test.rules, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("certificateFor(%q) with %s: %v", test.name, test.rules, err)
			continue
		}
		if mapped, err := m.rules.Map(got); err != nil || mapped != test.name {
			t.Errorf("certificateFor(%q) with %s = %s, which is mapped to %q, %v", test.name, test.rules, got, mapped, err)
		}
	}
}
