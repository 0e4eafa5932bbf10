package audit

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/internal/testenv"
)

// world makes rules that meet often: few names, nested prefixes and ranges, hosts written in many ways.
type world struct{ *rand.Rand }

func pick[T any](w world, of ...T) T { return of[w.IntN(len(of))] }

func (w world) addr() netip.Addr {
	switch w.IntN(8) {
	case 0:
		return netip.MustParseAddr(fmt.Sprintf("fe80::%d%%%d", w.IntN(3), 1+w.IntN(3)))
	case 1:
		return netip.MustParseAddr(fmt.Sprintf("fe80::%d", w.IntN(3)))
	case 2, 3:
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", w.IntN(64)))
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(w.IntN(2)), byte(w.IntN(64))})
}

func (w world) host() string {
	a := w.addr()
	switch w.IntN(10) {
	case 0:
		if w.IntN(4) == 0 {
			return "*"
		}
		return pick(w, "badhost", "10.0.0.*", "bad/8", "::ffff:10.0.0.0/104", "2001:db8::1")
	case 1, 2, 3, 4, 5:
		return acl.HostText(a)
	}
	plain := a.WithZone("")
	return netip.PrefixFrom(plain, max(plain.BitLen()-w.IntN(8), 0)).String()
}

func (w world) rule() acl.Binding {
	return acl.Binding{
		Pattern:   acl.Pattern{Type: pick(w, acl.Topic, acl.Topic, acl.Group), Name: pick(w, "a", "ab", "abc", "b", "*"), Kind: pick(w, acl.Literal, acl.Prefixed)},
		Principal: pick(w, "User:a", "User:b", "User:*"), Host: w.host(),
		Operation: pick(w, acl.All, acl.Read, acl.Write, acl.Describe), Permission: pick(w, acl.Allow, acl.Allow, acl.Deny),
	}
}

func (w world) policy(n int) *Policy {
	p := &Policy{AllowEveryone: w.IntN(4) == 0}
	seen := map[acl.Binding]bool{}
	for range n {
		if b := w.rule(); !seen[b] {
			seen[b] = true
			p.Rules = append(p.Rules, b)
		}
	}
	if w.IntN(4) == 0 {
		p.SuperUsers = map[string]struct{}{pick(w, "User:a", "User:z"): {}}
	}
	return p
}

func (w world) query() acl.Query {
	q := acl.Query{
		Principal: pick(w, "User:a", "User:b", "User:c", "User:z"), Client: w.addr(), Type: pick(w, acl.Topic, acl.Group),
		Name: pick(w, "a", "ab", "abc", "abd", "b", "bb", "ax", "q"),
	}
	q.Operation = pick(w, acl.Operations(q.Type)...)
	return q
}

func inside(ranges []Range, a netip.Addr) bool { return within(ranges, a.WithZone("")) }

func TestDiffFindsEveryDecisionThatChanges(t *testing.T) {
	t.Parallel()
	worlds := uint64(40)
	if testenv.Race {
		worlds = 4 // it is one goroutine's arithmetic, and make unit has it without the detector, too
	}
	for seed := range worlds {
		w := world{rand.New(rand.NewPCG(seed, 2))}
		a, b := w.policy(1+w.IntN(30)), w.policy(1+w.IntN(30))
		if seed%3 == 0 { // a planted change
			b = &Policy{Rules: append(slices.Clone(a.Rules), w.rule()), SuperUsers: a.SuperUsers, AllowEveryone: a.AllowEveryone}
		}
		changes, err := Diff(a, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		before, after, both := a.Authorizer(), b.Authorizer(), newBook(a, b)
		for _, c := range changes {
			if c.Resource.Name == AtLeastOne {
				was, is := before.AuthorizeByType(c.Principal, c.Witness, acl.Write, acl.Topic), after.AuthorizeByType(c.Principal, c.Witness, acl.Write, acl.Topic)
				if was == is || is != (len(c.Allowed) == 1) {
					t.Fatalf("seed %d: %+v: it was %t and is %t", seed, c, was, is)
				}
				continue
			}
			for _, op := range append(slices.Clone(c.Allowed), c.Denied...) {
				q := acl.Query{Principal: c.Principal, Client: c.Witness, Operation: op, Type: c.Resource.Type, Name: c.Resource.Name}
				if was, is := before.Authorize(q), after.Authorize(q); was == is || is != slices.Contains(c.Allowed, op) {
					t.Fatalf("seed %d: %+v: %+v was %t and is %t", seed, c, q, was, is)
				}
			}
		}
		for range 1000 {
			q := w.query()
			was, is := before.AuthorizeByType(q.Principal, q.Client, acl.Write, acl.Topic), after.AuthorizeByType(q.Principal, q.Client, acl.Write, acl.Topic)
			if was != is && !slices.ContainsFunc(changes, func(c Change) bool {
				return c.Resource.Name == AtLeastOne && (c.Principal == q.Principal || c.Principal == SomebodyElse) && inside(c.Ranges, q.Client) && is == (len(c.Allowed) == 1)
			}) {
				t.Fatalf("seed %d: whether %s may write to a topic from %s changes, which is in none of %d changes\na: %v\nb: %v", seed, q.Principal, q.Client, len(changes), a.Rules, b.Rules)
			}
			if before.Authorize(q) == after.Authorize(q) {
				continue
			}
			if !slices.ContainsFunc(changes, func(c Change) bool { return tells(c, q, both) }) {
				t.Fatalf("seed %d: the decision about %+v changes, which is in none of %d changes\na: %v\nb: %v", seed, q, len(changes), a.Rules, b.Rules)
			}
		}
	}
}

// With allow.everyone.if.no.acl.found a topic that no rule is about may be written to, but is not one that Kafka finds.
func TestDiffTellsOfIdempotentProducersWhoseTopicsStayTheSame(t *testing.T) {
	t.Parallel()
	rule := func(topic, principal string, permission acl.Permission) acl.Binding {
		return acl.Binding{
			Pattern: acl.Pattern{Type: acl.Topic, Name: topic, Kind: acl.Literal}, Principal: principal, Host: "*", Operation: acl.All, Permission: permission,
		}
	}
	a := &Policy{Rules: []acl.Binding{rule("hardcode", "User:b", acl.Deny), rule("orders", acl.Everybody, acl.Allow)}, AllowEveryone: true}
	b := &Policy{Rules: a.Rules[:1], AllowEveryone: true}
	changes, err := Diff(a, b, nil)
	if err != nil || len(changes) == 0 {
		t.Fatalf("Diff = %+v, %v, want a change", changes, err)
	}
	for _, c := range changes {
		if c.Resource.Name != AtLeastOne || !slices.Equal(c.Denied, []acl.Operation{acl.Write}) || len(c.Ranges) != 2 {
			t.Errorf("Diff has %+v, want only that nobody finds a topic to write to any more, from everywhere", c)
		}
	}
}

// tells whether a change is about a query.
func tells(c Change, q acl.Query, b *book) bool {
	ops := append(slices.Clone(c.Allowed), c.Denied...)
	if c.Resource.Name == AtLeastOne || c.Resource.Type != q.Type || !slices.Contains(ops, q.Operation) || !inside(c.Ranges, q.Client) {
		return false
	}
	who := c.Principal == q.Principal || c.Principal == SomebodyElse
	name := c.Resource.Name == q.Name
	if c.Resource.Others != "" && slices.Equal(b.covering(q.Type, q.Name), b.covering(q.Type, c.Resource.Name)) {
		name = true
	}
	return who && name
}

func TestTheSameRulesAndFoldedOnesDiffInNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := world{rand.New(rand.NewPCG(seed, 3))}
		p := w.policy(1 + w.IntN(60))
		folded, proof, err := Fold(p.Rules, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(folded) > len(p.Rules) || proof.Groups == 0 || proof.Addresses < 2*proof.Groups {
			t.Fatalf("seed %d: Fold of %d rules = %d rules, %+v", seed, len(p.Rules), len(folded), proof)
		}
		for _, rules := range [][]acl.Binding{p.Rules, folded} {
			changes, err := Diff(p, &Policy{rules, p.SuperUsers, p.AllowEveryone}, nil)
			if err != nil || len(changes) > 0 {
				t.Fatalf("seed %d: Diff = %+v, %v, want none\n%v\n%v", seed, changes, err, p.Rules, folded)
			}
		}
	}
}

func TestFoldIsUndoneByExpand(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := world{rand.New(rand.NewPCG(seed, 4))}
		p := &Policy{}
		for range 1 + w.IntN(60) {
			b := w.rule()
			b.Host = acl.HostText(w.addr())
			p.Rules = append(p.Rules, b)
		}
		folded, _, err := Fold(p.Rules, nil)
		if err != nil {
			t.Fatal(err)
		}
		expanded, _, err := Expand(folded, 1000, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[acl.Binding]bool{}, map[acl.Binding]bool{}
		for _, b := range p.Rules {
			want[b] = true
		}
		for _, b := range expanded {
			got[b] = true
		}
		for b := range want {
			if !got[b] {
				t.Fatalf("seed %d: %v is lost", seed, b)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d rules expanded, want %d", seed, len(got), len(want))
		}
	}
}

func TestExpandRefusesWhatWouldBeTooManyOrDifferent(t *testing.T) {
	t.Parallel()
	rule := acl.Binding{Pattern: acl.Pattern{Type: acl.Topic, Name: "t", Kind: acl.Literal}, Principal: "User:a", Operation: acl.Read, Permission: acl.Allow}
	for host, want := range map[string]string{
		"10.0.0.0/8":         "16777216 addresses of 10.0.0.0/8",
		"::/0":               "clients have with a zone",
		"fe80::1/128":        "clients have with a zone",
		"10.0.0.0/33":        "is no range",
		"2001:db8::/32":      "more than 1000 rules",
		"10.0.0.0/22":        "1024 addresses",
		"::ffff:1.2.3.4/128": "not an IPv6 address",
	} {
		rule.Host = host
		_, _, err := Expand([]acl.Binding{rule}, 1000, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Expand(%s) = %v, want %q", host, err, want)
		}
	}
}

func TestFiftyHostsFoldToTheFewestRangesThatAreExactlyThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ hosts, want string }{
		{"10.0.0.0 10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.0/30"},
		{"10.0.0.1 10.0.0.2 10.0.0.3", "10.0.0.1 10.0.0.2/31"},
		{"10.0.0.5", "10.0.0.5"},
		{"10.0.0.5/32", "10.0.0.5/32"},
		{"10.0.0.5/24 10.0.1.0/24", "10.0.0.0/23"},
		{"10.0.0.5 10.0.0.0/24", "10.0.0.0/24"},
		{"2001:db8:0:0:0:0:0:0 2001:db8:0:0:0:0:0:1", "2001:db8::/127"},
		{"2001:db8::1", "2001:db8::1"}, // matches nobody, and stays
		{"fe80:0:0:0:0:0:0:0%1 fe80:0:0:0:0:0:0:1%1", "fe80:0:0:0:0:0:0:0%1 fe80:0:0:0:0:0:0:1%1"},
		{"fe80:0:0:0:0:0:0:0%1 fe80::/64", "fe80::/64"},
		{"* 10.0.0.1 10.0.0.0/8", "*"},
		{"0.0.0.0/1 128.0.0.0/1", "0.0.0.0/0"},
		{"255.255.255.255 255.255.255.254", "255.255.255.254/31"},
	} {
		if got := strings.Join(fold(strings.Fields(test.hosts)), " "); got != test.want {
			t.Errorf("fold(%s) = %s, want %s", test.hosts, got, test.want)
		}
	}
}

func TestCellsOfAMatrixAgreeWithTheAuthorizer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		w := world{rand.New(rand.NewPCG(seed, 5))}
		p := w.policy(1 + w.IntN(40))
		a := p.Authorizer()
		for range 20 {
			q := w.query()
			cells, err := Matrix(p, Want{Principal: q.Principal, Type: q.Type, Name: q.Name})
			if err != nil {
				t.Fatal(err)
			}
			if q.Client.Zone() != "" {
				continue // ranges have no zones; a cell of its own has
			}
			var got bool
			for _, c := range cells {
				got = got || inside(c.Ranges, q.Client) && c.Witness.Zone() == "" && slices.Contains(c.Allowed, q.Operation)
			}
			if want := a.Authorize(q); got != want && !hasZones(q.Client) {
				t.Fatalf("seed %d: the matrix says %t of %+v, the authorizer %t\n%v\n%+v", seed, got, q, want, p.Rules, cells)
			}
		}
	}
}

func TestLintSaysWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"2001:db8::1":            "host-spelling: 2001:db8::1/128 or 2001:db8:0:0:0:0:0:1",
		"2001:DB8:0:0:0:0:0:1":   "host-spelling: 2001:db8::1/128 or 2001:db8:0:0:0:0:0:1",
		"::ffff:10.0.0.5":        "host-spelling: 10.0.0.5",
		"10.0.0.05":              "host-spelling: 10.0.0.5",
		" 10.0.0.1":              "host-spelling: 10.0.0.1",
		"[2001:db8::1]":          "host-spelling: 2001:db8::1/128 or 2001:db8:0:0:0:0:0:1",
		"fe80::1%eth0":           "host-spelling: fe80::1/128 or fe80:0:0:0:0:0:0:1",
		"fe80:0:0:0:0:0:0:1%4":   "host-zone: fe80::1/128, whatever the zone",
		"10.0.0.*":               "host-pattern: 10.0.0.0/24",
		"10.0.*.*":               "host-pattern: 10.0.0.0/16",
		"10.0.0.":                "host-pattern: 10.0.0.0/24",
		"10.*.0.1":               "host-pattern: ",
		"10.0.0.1-10.0.0.100":    "host-range: 10.0.0.1/32, 10.0.0.2/31, 10.0.0.4/30, 10.0.0.8/29, 10.0.0.16/28, 10.0.0.32/27, 10.0.0.64/27, 10.0.0.96/30, and 1 more",
		"app.example.com":        "host-name: the addresses of that host",
		"localhost":              "host-name: the addresses of that host",
		"10.0.0.0/255.255.255.0": "range-unparsed: 10.0.0.0/24",
		"10.0.0.0/33":            "range-unparsed: ",
		" 10.0.0.0/8":            "range-unparsed: 10.0.0.0/8",
		"::ffff:192.168.1.0/120": "range-mapped: 192.168.1.0/24",
		"::192.168.1.0/120":      "range-v4-compat: 192.168.1.0/24",
		"::192.168.1.0/24":       "range-v4-compat: 192.168.1.0/24",
		"10.0.0.5/24":            "range-host-bits: 10.0.0.0/24",
		"2001:db8::5/64":         "range-host-bits: 2001:db8::/64",
		"10.0.0.5":               "",
		"2001:db8:0:0:0:0:0:1":   "",
		"10.0.0.0/24":            "",
		"2001:db8::/64":          "",
		"010.0.0.0/08":           "",
		"*":                      "",
	} {
		b := acl.Binding{Pattern: acl.Pattern{Type: acl.Topic, Name: "t", Kind: acl.Literal}, Principal: "User:a", Host: host, Operation: acl.Read, Permission: acl.Allow}
		var got []string
		for _, f := range Lint([]acl.Binding{b}, false, nil) {
			got = append(got, string(f.Code)+": "+f.Instead)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("Lint(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestLintFindsRulesWithoutEffect(t *testing.T) {
	t.Parallel()
	rule := func(text string) acl.Binding {
		f := strings.Fields(text) // permission principal operation kind name host
		b := acl.Binding{Pattern: acl.Pattern{Type: acl.Topic, Name: f[4]}, Principal: f[1], Host: f[5]}
		b.Permission, _ = acl.ParsePermission(f[0])
		b.Operation, _ = acl.ParseOperation(f[2])
		b.Kind, _ = acl.ParsePatternType(f[3])
		return b
	}
	for _, test := range []struct{ rules, want string }{
		{"allow User:a read literal t 10.0.0.0/24; deny User:a all literal t 10.0.0.0/8", "0 hidden"},
		{"allow User:a read literal t 10.0.0.0/24; deny User:a read literal t 10.0.0.0/8", ""}, // DESCRIBE is left
		{"allow User:a read literal t 10.0.0.0/24; deny User:a read literal t *; deny User:a describe literal t *", "0 hidden"},
		{"allow User:a read literal t 10.0.0.0/24; deny User:* all prefixed t *", "0 hidden"},
		{"allow User:a read literal t 10.0.0.0/24; deny User:b all prefixed t *", ""},
		{"allow User:a read literal t 10.0.0.0/24; deny User:a all literal t 2001:db8::/32", ""},
		{"allow User:a read literal t 10.0.0.0/24; deny User:a all literal * 0.0.0.0/0", "0 hidden"},
		{"allow User:a read prefixed t 10.0.0.0/24; deny User:a all literal t *", ""},
		{"allow User:* read literal t 10.0.0.0/24; deny User:a all literal t *", ""},
		{"allow User:a read literal t 10.0.0.5; allow User:a read literal t 10.0.0.0/24", "0 no-effect"},
		{"allow User:a describe literal t 10.0.0.0/24; allow User:a all literal t 10.0.0.0/24", "0 no-effect"},
		{"allow User:a describe literal t 10.0.0.0/24; allow User:a read literal t 10.0.0.0/24", "0 no-effect"},
		{"allow User:a read literal t 10.0.0.0/24; allow User:a describe literal t 10.0.0.0/8", ""},
		{"allow User:a read literal t 10.0.0.0/24; allow User:a read literal t 10.0.0.0/024", "1 range-unparsed"},
		{"allow User:a read literal t 10.0.0.0/24; allow User:a read literal t 10.0.0.9/24", "1 range-host-bits; 1 duplicate"},
		{"allow User:a read literal t 10.0.0.9; allow User:a read literal t 10.0.0.9/32", "1 duplicate"},
		{"allow User:a read literal t *; allow User:a read literal t *", "1 duplicate"},
		{"deny User:a read literal t 10.0.0.9; deny User:* all literal t *", "0 no-effect"},
		{"allow User:a read literal t fe80::1/128; allow User:a read literal t fe80:0:0:0:0:0:0:1", "1 no-effect"},
		{"allow User:a read literal t 10.0.0.0; allow User:a read literal t 10.0.0.1", "0 foldable"},
		{"allow User:a read literal t 10.0.0.0; allow User:a read literal t 10.0.0.5", ""},
		{"allow User:a ClusterAction literal t *", "0 operation"},
		{"allow User:a read literal orders-* *", "0 name-pattern"},
		{"allow user:a read literal t *", "0 principal"},
		{"allow Group:a read literal t *", "0 principal"},
		{"allow User:a* read literal t *", "0 principal"},
	} {
		var rules []acl.Binding
		for text := range strings.SplitSeq(test.rules, ";") {
			rules = append(rules, rule(text))
		}
		var got []string
		for _, f := range Lint(rules, false, nil) {
			got = append(got, fmt.Sprintf("%d %s", f.Rule, f.Code))
		}
		if strings.Join(got, "; ") != test.want {
			t.Errorf("Lint(%s) = %q, want %q", test.rules, got, test.want)
		}
	}
}

// A rule that lint calls without effect can go, and no decision changes.
func TestWhatLintCallsWithoutEffectHasNone(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(80) {
		w := world{rand.New(rand.NewPCG(seed, 6))}
		p := w.policy(1 + w.IntN(40))
		p.AllowEveryone = false // there, that a rule exists is an effect
		for _, f := range Lint(p.Rules, true, nil) {
			if f.Code != Hidden && f.Code != NoEffect && f.Code != Duplicate {
				continue
			}
			found++
			without := &Policy{Rules: slices.Delete(slices.Clone(p.Rules), f.Rule, f.Rule+1), SuperUsers: p.SuperUsers}
			changes, err := Diff(p, without, nil)
			if err != nil || len(changes) > 0 {
				t.Fatalf("seed %d: without %v, which has no effect (%s %s), changes = %+v, %v", seed, p.Rules[f.Rule], f.Code, f.Text, changes, err)
			}
		}
	}
	if found == 0 {
		t.Error("nothing was found without effect")
	}
}

func TestAHundredThousandRulesTakeSeconds(t *testing.T) {
	if testing.Short() || testenv.Race {
		t.Skip("100,000 rules take seconds, and with the race detector a minute")
	}
	var rules []acl.Binding
	for i := range 100_000 {
		rules = append(rules, acl.Binding{
			Pattern:   acl.Pattern{Type: acl.Topic, Name: fmt.Sprintf("topic-%d", i/50), Kind: acl.Literal},
			Principal: fmt.Sprintf("User:u%d", i/100), Host: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), Operation: acl.Read, Permission: acl.Allow,
		})
	}
	for name, do := range map[string]func() error{
		"lint": func() error { Lint(rules, true, nil); return nil },
		"fold": func() error { _, _, err := Fold(rules, nil); return err },
		"diff": func() error { _, err := Diff(&Policy{}, &Policy{Rules: rules}, nil); return err },
	} {
		start := time.Now()
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, time.Since(start))
	}
}
