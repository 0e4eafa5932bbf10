package acl

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"
)

// load is a set of rules and what is asked of it.
type load struct {
	name  string
	rules func(n int) []Binding
	query func(r *rand.Rand, n int) Query
}

func topicRule(name string, kind PatternType, user int, host string, op Operation, p Permission) Binding {
	return Binding{Pattern{Topic, name, kind}, fmt.Sprintf("User:u%d", user), host, op, p}
}

func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// loads are the shapes that rules of real clusters have, and one that is as bad as it gets.
func loads() []load {
	const nested = 25
	return []load{
		{
			// Half of what is asked is in no range.
			name: "ranges",
			rules: func(n int) []Binding {
				rules := make([]Binding, n)
				for i := range rules {
					rules[i] = topicRule("t", Literal, i%97, address(i*2).String()+"/32", Read, Allow)
				}
				return rules
			},
			query: func(r *rand.Rand, n int) Query {
				i := r.IntN(2 * n)
				return Query{fmt.Sprintf("User:u%d", i/2%97), address(i), Read, Topic, "t"}
			},
		}, {
			name: "topics",
			rules: func(n int) []Binding {
				rules := make([]Binding, n)
				for i := range rules {
					rules[i] = topicRule(fmt.Sprintf("topic-%d", i/10), Literal, i%10, AnyHost, Read, Allow)
				}
				return rules
			},
			query: func(r *rand.Rand, n int) Query {
				return Query{fmt.Sprintf("User:u%d", r.IntN(20)), address(1), Read, Topic, fmt.Sprintf("topic-%d", r.IntN(n/10))}
			},
		}, {
			// Literal and prefixed names, four prefixes deep, addresses and ranges of both families, a few denials for all.
			name: "mixed",
			rules: func(n int) []Binding {
				r := rand.New(rand.NewPCG(1, 1))
				rules := make([]Binding, n)
				for i := range rules {
					team := i % 1000
					host := fmt.Sprintf("10.%d.%d.0/24", team%256, r.IntN(256))
					switch r.IntN(4) {
					case 0:
						host = AnyHost
					case 1:
						host = fmt.Sprintf("2001:db8:%x:%x::/64", team, r.IntN(1<<16))
					}
					switch {
					case i < 20:
						rules[i] = Binding{Pattern{Topic, AnyName, Literal}, Everybody, fmt.Sprintf("192.168.%d.0/24", i), All, Deny}
					case i%5 == 0:
						name := fmt.Sprintf("team-%03d.app-%d.", team, r.IntN(50))
						rules[i] = topicRule(name[:r.IntN(4)*(len(name)-8)/3+8], Prefixed, r.IntN(5000), host, Write, Allow)
					default:
						name := fmt.Sprintf("team-%03d.app-%d.topic-%d", team, r.IntN(50), r.IntN(20))
						rules[i] = topicRule(name, Literal, r.IntN(5000), host, Read, Allow)
					}
				}
				return rules
			},
			query: func(r *rand.Rand, _ int) Query {
				team := r.IntN(1000)
				name := fmt.Sprintf("team-%03d.app-%d.topic-%d", team, r.IntN(50), r.IntN(20))
				client := netip.AddrFrom4([4]byte{10, byte(team), byte(r.IntN(256)), 7})
				return Query{fmt.Sprintf("User:u%d", r.IntN(5000)), client, Read, Topic, name}
			},
		}, {
			// Prefixes of every length, all for the one who asks, and nothing denies: every one of them is looked at.
			name: "nested",
			rules: func(n int) []Binding {
				rules := make([]Binding, n)
				for i := range rules {
					name := fmt.Sprintf("%025d", i/nested%4)[:1+i%nested]
					rules[i] = topicRule(name, Prefixed, 1, address(i/nested/4%(1<<16)<<8).String()+"/24", Write, Allow)
				}
				return rules
			},
			query: func(r *rand.Rand, n int) Query {
				client := address(r.IntN(max(1, n/nested/4))<<8 + 9)
				return Query{"User:u1", client, Read, Topic, fmt.Sprintf("%025d", r.IntN(4)) + "-tail"}
			},
		},
	}
}

const million = 1_000_000

// BenchmarkAuthorize decides among a million rules: cold over 32,768 questions, hot over 1,000; linear is how long it takes to
// look at every rule instead.
func BenchmarkAuthorize(b *testing.B) {
	for _, l := range loads() {
		rules := l.rules(million)
		a := &Authorizer{Index: NewIndex()}
		a.Index.Add(rules...)
		queries := questions(l, million)
		var each float64
		for _, size := range []int{len(queries), 1000} {
			temperature := "hot"
			if size == len(queries) {
				temperature = "cold"
			}
			b.Run(l.name+"/"+temperature, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					a.Authorize(queries[i%size])
				}
				each = float64(b.Elapsed().Nanoseconds()) / float64(b.N)
				if temperature == "cold" {
					b.ReportMetric(scan(rules, queries[:20])/each, "x-linear")
				}
			})
		}
		b.Run(l.name+"/reason", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				a.Reason(queries[i%len(queries)])
			}
		})
	}
}

func questions(l load, n int) []Query {
	r := rand.New(rand.NewPCG(7, 7))
	queries := make([]Query, 1<<15)
	for i := range queries {
		queries[i] = l.query(r, n)
	}
	return queries
}

// scan decides by looking at every rule, whose hosts have been read before, and returns the nanoseconds of one decision.
func scan(rules []Binding, queries []Query) float64 {
	hosts := make([]host, len(rules))
	for i, b := range rules {
		hosts[i] = readHost(b.Host)
	}
	began := time.Now()
	for _, q := range queries {
		allows, denies, client := allowedBy(q.Operation), deniedBy(q.Operation), plain(q.Client)
		denied := false
		for i := range rules {
			b := &rules[i]
			if b.Type != q.Type || !b.Covers(q.Name) || (b.Principal != q.Principal && b.Principal != Everybody) {
				continue
			}
			if hosts[i].kind != anyHost && !hosts[i].prefix.Contains(client) {
				continue
			}
			m := b.Permission.mask(b.Operation)
			denied = denied || m.deny&denies != 0 || m.allow&allows == 0
		}
		runtime.KeepAlive(denied)
	}
	return float64(time.Since(began).Nanoseconds()) / float64(len(queries))
}

// BenchmarkIndex builds an index of a million rules.
func BenchmarkIndex(b *testing.B) {
	for _, l := range loads() {
		b.Run(l.name, func(b *testing.B) {
			rules := l.rules(million)
			for b.Loop() {
				before := heap()
				began := time.Now()
				x := NewIndex()
				x.Add(rules...)
				b.ReportMetric(time.Since(began).Seconds(), "s/build")
				b.ReportMetric(float64(heap()-before)/float64(x.Len()), "B/rule")
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkChange adds a rule to a million ranges on one resource and takes it away; wide is 0.0.0.0/0 and what is next to it.
func BenchmarkChange(b *testing.B) {
	x := NewIndex()
	rules := make([]Binding, million)
	for i := range rules {
		rules[i] = topicRule("t", Literal, 1, address(i*2).String()+"/32", Read, Allow)
	}
	x.Add(rules...)
	for name, hosts := range map[string][]string{
		"wide":   {"0.0.0.0/0", "0.0.0.0/1", "8.0.0.0/6", "10.0.0.0/8", "10.0.0.0/9", "10.4.0.0/16"},
		"narrow": {"10.0.0.1/32", "10.7.7.0/24", "10.9.8.0/28", "11.0.0.0/8", "2001:db8::/32"},
	} {
		change := make([]Binding, len(hosts))
		for i, h := range hosts {
			change[i] = topicRule("t", Literal, 1, h, Read, Deny)
		}
		b.Run(name, func(b *testing.B) {
			var adding, removing, slowest time.Duration
			n := 0
			for b.Loop() {
				for _, rule := range change {
					began := time.Now()
					x.Add(rule)
					took := time.Since(began)
					adding, slowest = adding+took, max(slowest, took)
					n++
				}
				began := time.Now()
				for _, rule := range slices.Backward(change) {
					x.Remove(rule)
				}
				removing += time.Since(began)
			}
			b.ReportMetric(float64(adding.Nanoseconds())/float64(n), "ns/add")
			b.ReportMetric(float64(slowest.Microseconds()), "max-us/add")
			b.ReportMetric(float64(removing.Nanoseconds())/float64(n), "ns/remove")
		})
	}
}
