package fidelity

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// hall is the listeners of a pair for cases about limits. PLAINTEXT is the one between brokers, and the desk's.
func hall(more ...string) []string {
	listeners, protocols := []string{"PLAINTEXT://127.0.0.1:0"}, []string{"PLAINTEXT:PLAINTEXT", "NEW:PLAINTEXT"}
	for _, l := range []string{
		"EXT", "TWO", "THREE", "ZERO", "R1", "R2", "R3", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "V6://[::1]", "ANY://[::]",
	} {
		name, host, found := strings.Cut(l, "://")
		if !found {
			host = "127.0.0.1"
		}
		protocol := name
		if !strings.HasPrefix(name, "S") {
			protocol = "PLAINTEXT"
		}
		listeners, protocols = append(listeners, name+"://"+host+":0"), append(protocols, name+":"+protocol)
	}
	return append([]string{
		"listeners=" + strings.Join(listeners, ","), "listener.security.protocol.map=" + strings.Join(protocols, ","),
		"inter.broker.listener.name=PLAINTEXT", "advertised.listeners=PLAINTEXT://127.0.0.1:9", "authorizer.class.name=", "super.users=", "num.network.threads=1",
	}, more...)
}

// TestLimits is about connections that are too many or come too fast: who waits, who is ended, and how. Its pairs are at
// work side by side; the cases of one come one after another, as most limits are of a whole broker.
func TestLimits(t *testing.T) {
	t.Parallel()
	needKafka(t)
	var all sync.WaitGroup
	for name, group := range map[string]struct {
		properties []string
		cases      []limitCase
	}{
		"places": {
			hall(measured(t), "listener.name.zero.max.connections=0", "listener.name.three.max.connections=3"),
			slices.Concat(slotCases(), addressCases(), unfinishedCases(), metricCases()),
		},
		"rates": {ratesOf(), rateCases()},
		"life":  {lifeOf(), lifeCases()},
	} {
		all.Go(func() {
			t.Run(name, func(t *testing.T) { runLimits(t, pair(t, group.properties...), group.cases) })
		})
	}
	all.Wait()
}
