package stage

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// sampleEvery is the time between two samples of the timeline.
const sampleEvery = 200 * time.Millisecond

// timeline is the three counts of connections over a spec's time. Owned by the sampling goroutine until that has ended.
type timeline struct {
	begin                   time.Time
	clients, broker, kernel report.Series
}

// sample takes the three counts, over and over, until the spec ends, and attaches them to the report. A sample that
// cannot be had, as while a broker is down, is left out.
func (s *Stage) sample() {
	ctx, stop := context.WithCancel(context.Background())
	t := &timeline{
		begin:   time.Now(),
		clients: report.Series{Name: "clients", Source: "their own records"},
		broker:  report.Series{Name: "broker", Source: "its table"},
		kernel:  report.Series{Name: "kernel"},
	}
	every := sampleEvery
	if s.outside != nil {
		t.broker.Source, every = "its process's files", 3*sampleEvery // which take longer to read
	}
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.take(ctx, s)
			}
		}
	})
	DeferCleanup(func() {
		stop()
		sampling.Wait()
		if len(t.broker.Points) > 1 {
			report.Attach(report.Timeline{Name: "Connections over time", Series: []report.Series{t.clients, t.broker, t.kernel}})
		}
	})
}

func (t *timeline) take(ctx context.Context, s *Stage) {
	listed, established, answered := int64(0), int64(0), false
	counts := true
	for _, b := range s.brokers {
		if b.frozen.Load() {
			continue
		}
		k, err := b.TryKernel(ctx)
		if err != nil {
			continue
		}
		answered = true
		for i := range k.Ports {
			if b := k.Ports[i].Broker; b != nil {
				listed += b.Listed
			}
		}
		established += k.Group.Established
		if counts = counts && k.Exactness != "unavailable"; counts {
			t.kernel.Source = k.Mode + ", " + k.Exactness
		}
	}
	if !answered {
		return
	}
	at := time.Since(t.begin)
	point := func(v int64) report.Point { return report.Point{At: at, Value: float64(v)} }
	t.clients.Points = append(t.clients.Points, point(s.up()))
	t.broker.Points = append(t.broker.Points, point(listed))
	if counts {
		t.kernel.Points = append(t.kernel.Points, point(established))
	}
}

// up is how many clients of all fleets are up.
func (s *Stage) up() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.fleets {
		n += f.UpCount()
	}
	return int64(n)
}
