package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Churn is a coming and going of clients.
type Churn struct {
	// Plan says who comes; the counts of its groups are their shares, and Rate is how many come a second.
	Plan
	// Hold is the mean time for which a client stays, once it is up; each stays between none and twice of it.
	Hold time.Duration
	// How are the ways in which clients leave, drawn evenly; empty: FIN.
	How []How
	// Seed makes the draws repeatable.
	Seed uint64
}

// Churn opens and closes clients until ctx ends; then it returns, with nil, when none is opening any more. Clients that are up
// then stay until their time is over or the fleet is closed.
func (f *Fleet) Churn(ctx context.Context, churn Churn) error {
	if churn.Rate <= 0 {
		return errors.New("a churn needs a rate")
	}
	if err := errors.Join(churn.Validate(), check(&churn.Plan)); err != nil {
		return err
	}
	groups, err := makeReady(&churn.Plan)
	if err != nil {
		return err
	}
	if len(churn.How) == 0 {
		churn.How = []How{FIN}
	}
	turn := interleave(groups)
	if len(turn) == 0 {
		return errors.New("a churn needs clients")
	}
	draw := rand.New(rand.NewPCG(churn.Seed, 1)) //nolint:gosec // repeatable on purpose
	limit := rate.NewLimiter(rate.Limit(churn.Rate), 1)
	slots := make(chan struct{}, churn.parallel())
	var opening sync.WaitGroup
	defer opening.Wait()
	for i := 0; ; i++ {
		if limit.Wait(ctx) != nil {
			return nil // the end of ctx is the end of the churn
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		next := turn[i%len(turn)]
		c, err := f.newClient(next.group, i)
		if err != nil {
			return fmt.Errorf("churn: %w", err)
		}
		stay, how := time.Duration(draw.Float64()*2*float64(churn.Hold)), churn.How[draw.IntN(len(churn.How))]
		opening.Go(func() {
			defer func() { <-slots }()
			f.launch(f.life, c)
			f.agenda.add(time.Now().Add(stay), func() {
				_, _ = c.close(how) // the record says how it ended
			})
		})
	}
}
