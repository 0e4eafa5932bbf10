package stage

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// sampleEvery is the time between two samples of the timeline.
const sampleEvery = 200 * time.Millisecond

// sample takes the three counts of connections, over and over, until the spec ends, and attaches them to the report. A
// sample that cannot be had, as while a broker is down, is left out.
func (s *Stage) sample() {
	ctx, stop := context.WithCancel(context.Background())
	begin := time.Now()
	clients := report.Series{Name: "clients", Source: "their own records"}
	broker := report.Series{Name: "broker", Source: "its table"}
	kernel := report.Series{Name: "kernel"}
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			answers, err := s.admin.DescribeKernel(ctx, admin.KernelFilter{})
			if err != nil || len(answers) != 1 {
				continue
			}
			at := time.Since(begin)
			listed, up := int64(0), 0
			for i := range answers[0].Ports {
				if b := answers[0].Ports[i].Broker; b != nil {
					listed += b.Listed
				}
			}
			s.mu.Lock()
			fleets := s.fleets
			s.mu.Unlock()
			for _, f := range fleets {
				up += f.UpCount()
			}
			clients.Points = append(clients.Points, report.Point{At: at, Value: float64(up)})
			broker.Points = append(broker.Points, report.Point{At: at, Value: float64(listed)})
			if answers[0].Exactness != "unavailable" {
				kernel.Source = answers[0].Mode + ", " + answers[0].Exactness
				kernel.Points = append(kernel.Points, report.Point{At: at, Value: float64(answers[0].Group.Established)})
			}
		}
	})
	DeferCleanup(func() {
		stop()
		sampling.Wait()
		if len(broker.Points) > 1 {
			report.Attach(report.Timeline{Name: "Connections over time", Series: []report.Series{clients, broker, kernel}})
		}
	})
}
