package quota

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What eight clients that connect again as soon as they are through, in a
// millisecond, see of a rate of ten a second: how many are admitted in each
// second. Kafka 4.4.0 was seen to do this: the burst that the first windows
// allow, a second for each connection until the burst leaves the windows, and
// then the next burst. (The third fell into its seconds as 8 and 92.)
func TestABurstGoesThroughAndThenOneASecond(t *testing.T) {
	for name, test := range map[string]struct {
		window Window
		want   []int
	}{
		"eleven samples": {Window{}, slices.Concat([]int{109}, slices.Repeat([]int{1}, 11), []int{100}, slices.Repeat([]int{1}, 10), []int{10, 91, 1, 1, 1})},
		"two samples":    {Window{Samples: 2}, []int{19, 1, 19, 1, 10, 10, 10, 10, 10, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(test.window, limited(func(c *Config) { c.CreationRate = 10 }))
				q.AddListener(external, false)
				if got := admitted(t, q, len(test.want)); !slices.Equal(got, test.want) {
					t.Errorf("admitted a second:\n got %v\nwant %v", got, test.want)
				}
			})
		})
	}
}

// admitted lets the clients come through one acceptor, which takes them one
// after the other, and counts those of each second.
func admitted(t *testing.T, q *Connections, seconds int) []int {
	t.Helper()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second-1)
	defer cancel()
	clients := make(chan int, 8) // connected, in the kernel's queue
	for i := range cap(clients) {
		clients <- i
	}
	counts := make([]int, seconds)
	for {
		client := <-clients
		<-time.After(time.Millisecond)
		slot, _, err := q.Acquire(ctx, external, own(external))
		if err != nil {
			return counts
		}
		counts[time.Since(start)/time.Second]++
		slot.Release()
		clients <- client
	}
}
