package metadata

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// rangeRule lets User:a read topic t from a host.
func rangeRule(host string) acl.Binding {
	return acl.Binding{
		Pattern:   acl.Pattern{Type: acl.Topic, Name: "t", Kind: acl.Literal},
		Principal: "User:a", Host: host, Operation: acl.Read, Permission: acl.Allow,
	}
}

func level(n int16) Record { return SetFeature{Name: MetadataVersion, Level: n} }

func TestRangesNeedTheLevelThatTheLogHasReached(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes [][]Record
		want    error
	}{
		"too low":              {[][]Record{{level(31)}, {AddACL{Binding: rangeRule("10.0.0.0/8")}}}, ErrUnsupported},
		"too low, no range":    {[][]Record{{level(31)}, {AddACL{Binding: rangeRule("bad/path")}}}, ErrUnsupported},
		"raised before":        {[][]Record{{level(31)}, {level(32)}, {AddACL{Binding: rangeRule("10.0.0.0/8")}}}, nil},
		"raised in the change": {[][]Record{{level(31)}, {level(32), AddACL{Binding: rangeRule("10.0.0.0/8")}}}, nil},
		"raised after":         {[][]Record{{level(31)}, {AddACL{Binding: rangeRule("10.0.0.0/8")}, level(32)}}, ErrUnsupported},
		"not a range":          {[][]Record{{level(33)}, {AddACL{Binding: rangeRule("bad/path")}}}, ErrInvalid},
		"made before the gate": {[][]Record{{level(30)}, {AddACL{Binding: rangeRule("bad/path"), Ungated: true}}}, nil},
		"address":              {[][]Record{{level(7)}, {AddACL{Binding: rangeRule("10.0.0.1")}}}, nil},
		"gone already":         {[][]Record{{level(33)}, {RemoveACL{Binding: rangeRule("*")}}}, ErrNotFound},
		"gone in the change": {[][]Record{
			{level(33), AddACL{Binding: rangeRule("*")}},
			{RemoveACL{Binding: rangeRule("*")}, RemoveACL{Binding: rangeRule("*")}},
		}, ErrNotFound},
		"twice": {[][]Record{{level(33)}, {AddACL{Binding: rangeRule("*")}, AddACL{Binding: rangeRule("*")}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, rejected := applied(t, c.changes...)
			if got := errorOf(rejected); !errors.Is(got, c.want) {
				t.Errorf("verdict = %v, want %v", got, c.want)
			}
		})
	}
}

func errorOf(r *RejectedError) error {
	if r == nil {
		return nil
	}
	return r
}

func TestRulesOfARefusedChangeAreNeverSeen(t *testing.T) {
	t.Parallel()
	s := open(t, Options{NodeID: 1})
	if err := s.Append(t.Context(), AddACL{Binding: rangeRule("*")}); err != nil {
		t.Fatal(err)
	}
	err := s.Append(t.Context(),
		AddACL{Binding: rangeRule("10.0.0.0/8")}, RemoveACL{Binding: rangeRule("*")}, RemoveACL{Binding: rangeRule("10.9.9.9")})
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("Append() = %v, want %v", err, ErrNotFound)
	}
	if x := s.ACLs(); x.Len() != 1 || !x.Has(rangeRule("*")) {
		t.Errorf("%d rules after a refused change, want the one from before", x.Len())
	}
}

func TestRulesAreThereAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, NodeID: 1})
	const many = 10_000
	add := make([]Record, many)
	for i := range add {
		add[i] = AddACL{Binding: rangeRule(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))}
	}
	if err := s.Append(t.Context(), add...); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), RemoveACL{Binding: rangeRule("10.0.7.0/24")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	x := open(t, Options{Dir: dir, NodeID: 1}).ACLs()
	if x.Len() != many-1 || x.Has(rangeRule("10.0.7.0/24")) || !x.Has(rangeRule("10.0.8.0/24")) {
		t.Errorf("%d rules after a restart, want %d", x.Len(), many-1)
	}
}

// BenchmarkCreateRules makes 10,000 rules durable: in one change, and one after the other.
func BenchmarkCreateRules(b *testing.B) {
	const many = 10_000
	for _, size := range []int{many, 100, 1} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				s := open(b, Options{Dir: b.TempDir(), NodeID: 1})
				b.StartTimer()
				for from := 0; from < many; from += size {
					add := make([]Record, size)
					for i := range add {
						add[i] = AddACL{Binding: rangeRule(fmt.Sprintf("10.%d.%d.0/24", (from+i)/256, (from+i)%256))}
					}
					if err := s.Append(b.Context(), add...); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/10000-rules")
		})
	}
}

// BenchmarkLoadRules opens a log of a million rules.
func BenchmarkLoadRules(b *testing.B) {
	const many, size = 1_000_000, 10_000
	dir := b.TempDir()
	s, err := Open(b.Context(), Options{Dir: dir, NodeID: 1})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < many; from += size {
		add := make([]Record, size)
		for i := range add {
			n := from + i
			rule := rangeRule(fmt.Sprintf("10.%d.%d.%d/32", n>>16&255, n>>8&255, n&255))
			rule.Name = fmt.Sprintf("topic-%d", n%1000)
			rule.Principal = fmt.Sprintf("User:u%d", n%97)
			add[i] = AddACL{Binding: rule}
		}
		if err := s.Append(b.Context(), add...); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		before := heap()
		began := time.Now()
		s, err := Open(b.Context(), Options{Dir: dir, NodeID: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/load")
		b.ReportMetric(float64(heap()-before)/many, "B/rule")
		if s.ACLs().Len() != many {
			b.Fatalf("%d rules", s.ACLs().Len())
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
