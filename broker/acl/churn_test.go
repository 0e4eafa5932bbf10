package acl

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// A change of other rules opens no window, however it moves ranges between tables: what stands denies and allows at every instant.
func TestWhatStandsHoldsWhileOtherRulesComeAndGo(t *testing.T) {
	t.Parallel()
	x := NewIndex()
	rule := func(host string, p Permission) Binding {
		return Binding{Pattern: Pattern{Type: Topic, Name: "t", Kind: Literal}, Principal: "User:a", Host: host, Operation: Read, Permission: p}
	}
	x.Add(rule("10.0.0.0/8", Allow), rule("10.1.0.0/16", Deny))
	a := &Authorizer{Index: x}
	query := func(address netip.Addr) Query {
		return Query{Principal: "User:a", Client: address, Operation: Read, Type: Topic, Name: "t"}
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	for seed := range uint64(3) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for !done.Load() {
				low := [2]byte{byte(random.Uint32()), byte(random.Uint32())}
				if denied := netip.AddrFrom4([4]byte{10, 1, low[0], low[1]}); a.Authorize(query(denied)) {
					t.Errorf("%s is allowed", denied)
					return
				}
				if allowed := netip.AddrFrom4([4]byte{10, 2 + byte(random.Uint32N(250)), low[0], low[1]}); !a.Authorize(query(allowed)) {
					t.Errorf("%s is denied", allowed)
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(7, 7))
	var there []Binding
	for range 6000 {
		host := fmt.Sprintf("10.%d.%d.%d/%d", random.Uint32N(4), random.Uint32N(256), random.Uint32N(256), []int{1, 4, 7, 8, 9, 12, 16, 20, 24, 32}[random.Uint32N(10)])
		b := rule(host, Allow)
		if random.Uint32N(3) == 0 { // a denial within what is denied
			b = rule(fmt.Sprintf("10.1.%d.%d/%d", random.Uint32N(256), random.Uint32N(256), 16+random.Uint32N(17)), Deny)
		}
		if random.Uint32N(3) == 0 {
			b.Operation = All
		}
		x.Add(b)
		there = append(there, b)
		if len(there) > 400 || random.Uint32N(3) == 0 {
			i := random.IntN(len(there))
			if b := there[i]; b != rule("10.0.0.0/8", Allow) && b != rule("10.1.0.0/16", Deny) {
				x.Remove(b)
			}
			there = append(there[:i], there[i+1:]...)
		}
	}
	done.Store(true)
	readers.Wait()
}
