package acl

import (
	"strconv"
	"testing"
)

// BenchmarkDecision decides among a hundred, ten thousand and a million ranges on one topic, as Kafka's own authorizer is asked
// by e2e/java: docs/benchmarks.md has both side by side.
func BenchmarkDecision(b *testing.B) {
	ranges := loads()[0]
	for _, n := range []int{100, 10_000, million} {
		a := &Authorizer{Index: NewIndex()}
		a.Index.Add(ranges.rules(n)...)
		queries := questions(ranges, n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				a.Authorize(queries[i%len(queries)])
			}
		})
	}
}
