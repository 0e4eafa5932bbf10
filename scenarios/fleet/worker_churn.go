package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Churn lets clients come and go in all workers, as [Fleet.Churn] does, churns[i] in worker i, and returns when it has lasted so long
// and none is opening any more.
func (w *Workers) Churn(churns []Churn, lasting time.Duration) error {
	if len(churns) != len(w.workers) {
		return fmt.Errorf("%d churns for %d fleet workers", len(churns), len(w.workers))
	}
	_, err := w.each(func(i int) command { return command{Op: "churn", Churn: &churns[i], Lasting: lasting} })
	return err
}

// churn obeys a command of [Workers.Churn].
func (s *server) churn(cmd *order) error {
	if cmd.Churn == nil {
		return errors.New("no churn to begin")
	}
	if err := s.find(&cmd.Churn.Plan); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(cmd.ctx, cmd.Lasting)
	defer stop()
	return s.fleet.Churn(ctx, *cmd.Churn)
}

// find makes the sources of a plan's groups from their descriptions.
func (s *server) find(plan *Plan) error {
	for i := range plan.Groups {
		g := &plan.Groups[i]
		if g.From == nil {
			continue
		}
		source, err := s.resolve(*g.From)
		if err != nil {
			return fmt.Errorf("group %q: %w", g.Name, err)
		}
		g.Source = source
	}
	return nil
}
