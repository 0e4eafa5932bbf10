package metadata

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkReplay opens a log of a million records: 100 entries of 10,000 SCRAM users each.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	s := open(b, Options{Dir: dir})
	began := time.Now()
	const entries, each = 100, 10_000
	for n := range entries {
		records := make([]Record, each)
		for i := range records {
			r := alice()
			r.User = fmt.Sprint("user-", n*each+i)
			records[i] = r
		}
		if err := s.Append(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "write-ms")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(b.Context(), Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if n := s.Image().scram.len; n != entries*each {
			b.Fatalf("replayed %d users, want %d", n, entries*each)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
