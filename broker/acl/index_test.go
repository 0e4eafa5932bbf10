package acl

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/internal/testenv"
)

// world makes rules and queries that meet often: few names, nested prefixes and ranges.
type world struct{ *rand.Rand }

func pick[T any](w world, of ...T) T { return of[w.IntN(len(of))] }

func (w world) name() string {
	return pick(w, "", "a", "b", "ab", "-") + pick(w, "", "a", "b", "ab", "-") + pick(w, "", "a", "-b") + pick(w, "a", "b", "*", "hardcode")
}

func (w world) principal() string {
	return pick(w, "User:a", "User:b", "User:A", "Group:a", "User:*", "Group:*", "User:CN=x,O=y")
}

func (w world) addr() netip.Addr {
	switch w.IntN(8) {
	case 0, 1, 2:
		return netip.AddrFrom4([4]byte{10, byte(w.IntN(2)), byte(w.IntN(2)), byte(w.IntN(256))})
	case 3:
		return netip.AddrFrom16(netip.AddrFrom4([4]byte{10, 0, 0, byte(w.IntN(8))}).As16()) // mapped
	case 4:
		return netip.MustParseAddr(fmt.Sprintf("fe80::%d%%%d", w.IntN(3), w.IntN(3)))
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::%x", w.IntN(2), w.IntN(64)))
}

func (w world) host() string {
	a := w.addr()
	switch w.IntN(8) {
	case 0:
		return "*"
	case 1:
		return HostText(a)
	case 2:
		return a.String() // often never matches
	case 3:
		return pick(w, "badhost", "10.0.0", "localhost", "")
	}
	a = a.Unmap().WithZone("")
	bits := w.IntN(a.BitLen() + 1)
	switch w.IntN(4) {
	case 0, 1:
		return netip.PrefixFrom(a, bits).String() // with host bits
	case 2:
		if a.Is6() {
			return fmt.Sprintf("[%s]/0%d", a.StringExpanded(), bits)
		}
		return fmt.Sprintf("%s/%02d", a, bits)
	}
	return netip.PrefixFrom(a, bits).Masked().String()
}

func (w world) binding() Binding {
	b := Binding{
		Pattern:    Pattern{pick(w, Topic, Topic, Group), w.name(), pick(w, Literal, Prefixed)},
		Principal:  w.principal(),
		Host:       w.host(),
		Operation:  pick(w, All, Read, Write, Create, Describe, DescribeConfigs, AlterConfigs, Alter),
		Permission: pick(w, Allow, Allow, Deny),
	}
	return b
}

func (w world) query() Query {
	return Query{
		Principal: w.principal(), Client: w.addr(), Type: pick(w, Topic, Topic, Group), Name: w.name(),
		Operation: pick(w, Read, Write, Create, Describe, DescribeConfigs, AlterConfigs),
	}
}

func TestDecisionsAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	const queries = 1000
	sets := uint64(100)
	if testenv.Race {
		sets = 10 // it is one goroutine's arithmetic, and make unit has it without the detector, too
	}
	for seed := range sets {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		x, ref := NewIndex(), &reference{rules: map[Binding]struct{}{}, ranges: map[string]netip.Prefix{}, allowEveryone: w.IntN(2) == 0}
		if w.IntN(3) == 0 {
			ref.superUsers = map[string]struct{}{w.principal(): {}}
		}
		a := &Authorizer{Index: x, SuperUsers: ref.superUsers, AllowEveryone: ref.allowEveryone}
		size := []int{1, 5, 40, 400, 3000}[seed%5]
		for range size {
			b := w.binding()
			x.Add(b)
			ref.rules[b] = struct{}{}
		}
		check := func(stage string) {
			for n := range queries / 2 {
				q := w.query()
				want := ref.authorize(q)
				if got := a.Authorize(q); got != want {
					t.Fatalf("seed %d %s: %+v: allowed is %v, reference says %v", seed, stage, q, got, want)
				}
				if got := a.Reason(q); got.Allowed != want {
					t.Fatalf("seed %d %s: %+v: reason %v, reference says %v", seed, stage, q, got, want)
				} else if got.Rule == MatchingRule && n%8 == 0 {
					if rule := ref.deciding(q); rule != got.Deciding.String() {
						t.Fatalf("seed %d %s: %+v: decided by %v, reference says %v", seed, stage, q, got.Deciding, rule)
					}
				}
			}
			for range 10 {
				q := w.query()
				want := ref.authorizeByType(q.Principal, q.Client, q.Operation, q.Type)
				if _, super := ref.superUsers[q.Principal]; super {
					want = true
				}
				if got := a.AuthorizeByType(q.Principal, q.Client, q.Operation, q.Type); got != want {
					t.Fatalf("seed %d %s: by type %+v: %v, reference says %v", seed, stage, q, got, want)
				}
			}
			if x.Len() != len(ref.rules) {
				t.Fatalf("seed %d %s: %d rules, want %d", seed, stage, x.Len(), len(ref.rules))
			}
		}
		check("after adding")
		for b := range ref.rules {
			if w.IntN(2) == 0 {
				continue
			}
			x.Remove(b)
			delete(ref.rules, b)
		}
		check("after removing")
		for b := range x.All() {
			if _, ok := ref.rules[b]; !ok {
				t.Fatalf("seed %d: %v is listed but was removed", seed, b)
			}
			x.Remove(b)
		}
		if x.Len() != 0 || len(x.principals) != 0 {
			t.Fatalf("seed %d: %d rules and %d principals left of nothing", seed, x.Len(), len(x.principals))
		}
	}
}

func TestDecisionsGoOnDuringABulkLoad(t *testing.T) {
	t.Parallel()
	x := NewIndex()
	a := &Authorizer{Index: x}
	always := Binding{Pattern{Topic, "t", Literal}, "User:a", "10.0.0.0/8", Read, Allow}
	x.Add(always)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if !a.Authorize(Query{"User:a", netip.MustParseAddr("10.1.2.3"), Read, Topic, "t"}) {
					t.Error("a rule was not seen while others changed")
					return
				}
			}
		})
	}
	w := world{rand.New(rand.NewPCG(1, 2))}
	var rules []Binding
	for range 5000 {
		if b := w.binding(); b.Permission == Allow {
			rules = append(rules, b)
		}
	}
	x.Add(rules...)
	x.Remove(rules...)
	close(stop)
	wg.Wait()
	if x.Len() != 1 {
		t.Errorf("%d rules left, want 1", x.Len())
	}
}

func TestTwoSpellingsOfARangeAreTwoRules(t *testing.T) {
	t.Parallel()
	for _, ranges := range []int{0, 20} { // few hosts and many are kept differently
		x := NewIndex()
		a := &Authorizer{Index: x}
		rule := func(host string) Binding {
			return Binding{Pattern{Topic, "t", Literal}, "User:a", host, Read, Allow}
		}
		for i := range ranges {
			x.Add(rule(fmt.Sprintf("172.16.%d.0/24", i)))
		}
		q := Query{"User:a", netip.MustParseAddr("10.0.0.9"), Read, Topic, "t"}
		x.Add(rule("10.0.0.0/8"), rule("10.0.0.5/8"), rule("010.0.0.0/08"), rule("10.0.0.9"))
		for _, host := range []string{"10.0.0.5/8", "10.0.0.0/8", "10.0.0.9"} {
			x.Remove(rule(host))
			if !a.Authorize(q) {
				t.Errorf("%d more ranges: after removing %s the others allow nothing", ranges, host)
			}
		}
		x.Remove(rule("010.0.0.0/08"))
		if a.Authorize(q) {
			t.Errorf("%d more ranges: all spellings are removed, and still allowed", ranges)
		}
	}
}

func TestAWideRangeOverManyIsAddedAndRemoved(t *testing.T) {
	t.Parallel()
	x := NewIndex()
	a := &Authorizer{Index: x}
	rule := func(host string, p Permission) Binding {
		return Binding{Pattern{Topic, "t", Literal}, "User:a", host, Read, p}
	}
	for i := range 1000 {
		x.Add(rule(fmt.Sprintf("10.0.%d.%d/32", i/256, i%256), Allow))
	}
	inside := Query{"User:a", netip.MustParseAddr("10.0.1.7"), Read, Topic, "t"}
	wide := []Binding{rule("0.0.0.0/0", Deny), rule("10.0.0.0/8", Deny), rule("10.0.0.0/16", Deny)}
	x.Add(wide...)
	for i, b := range wide {
		if a.Authorize(inside) {
			t.Errorf("allowed although %d wide denials are left", len(wide)-i)
		}
		x.Remove(b)
	}
	if !a.Authorize(inside) {
		t.Error("denied although the denials are gone")
	}
	// Wide first, narrow below it, wide away: the narrow ones must not keep what they were handed down.
	x = NewIndex()
	a.Index = x
	x.Add(wide...)
	for i := range 1000 {
		x.Add(rule(fmt.Sprintf("10.0.%d.%d/32", i/256, i%256), Allow))
	}
	slices.Reverse(wide)
	x.Remove(wide...)
	if !a.Authorize(inside) {
		t.Error("a narrow range keeps the denial of a wide one that is gone")
	}
}

func TestADecisionDoesNotAllocate(t *testing.T) {
	w := world{rand.New(rand.NewPCG(3, 4))}
	x := NewIndex()
	for range 2000 {
		x.Add(w.binding())
	}
	a := &Authorizer{Index: x, SuperUsers: map[string]struct{}{"User:root": {}}}
	queries := make([]Query, 64)
	for i := range queries {
		queries[i] = w.query()
	}
	if n := testing.AllocsPerRun(100, func() {
		for _, q := range queries {
			a.Authorize(q)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestADecisionIsFarFasterThanLookingAtEveryRule(t *testing.T) {
	if testenv.Race {
		t.Skip("it measures, which the race detector is in the way of")
	}
	// A tenth of a million, since it is to be quick: the goal is a thousand for a million.
	const n, ratio = 100_000, 100
	for _, l := range loads()[:3] {
		rules := l.rules(n)
		a := &Authorizer{Index: NewIndex()}
		a.Index.Add(rules...)
		queries := questions(l, n)
		began := time.Now()
		for _, q := range queries {
			a.Authorize(q)
		}
		each := float64(time.Since(began).Nanoseconds()) / float64(len(queries))
		if linear := scan(rules, queries[:20]); linear < ratio*each {
			t.Errorf("%s: %.0f ns a decision, %.0f ns by looking at each of %d rules: not %d times as fast", l.name, each, linear, n, ratio)
		}
	}
}

// To add a rule costs the same whatever its range covers, and so it does where wide ranges came first.
func TestAWideRangeCostsNoMoreThanANarrowOne(t *testing.T) {
	if testenv.Race {
		t.Skip("it measures, which the race detector is in the way of")
	}
	const n, times = 100_000, 50
	x := NewIndex()
	for i := range n {
		x.Add(topicRule("t", Literal, 1, address(i*2).String()+"/32", Read, Allow))
	}
	cost := func(hosts ...string) float64 {
		began := time.Now()
		for range times {
			for _, h := range hosts {
				x.Add(topicRule("t", Literal, 1, h, Read, Deny))
			}
			for _, h := range slices.Backward(hosts) {
				x.Remove(topicRule("t", Literal, 1, h, Read, Deny))
			}
		}
		return float64(time.Since(began).Nanoseconds()) / float64(times*len(hosts))
	}
	narrow := cost("10.0.0.1/32", "10.0.1.1/32", "10.0.2.1/32")
	// What would be handed down to all of them costs many thousand times as much.
	if wide := cost("10.0.0.0/9", "10.0.0.0/8", "0.0.0.0/0"); wide > 50*narrow {
		t.Errorf("%.0f ns to add and remove a wide range, %.0f ns for a narrow one", wide, narrow)
	}
}
