package fidelity

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

// hall is the listeners of a pair for cases about limits. PLAINTEXT is the one between brokers, and the desk's.
func hall(more ...string) []string {
	listeners, protocols := []string{"PLAINTEXT://127.0.0.1:0"}, []string{"PLAINTEXT:PLAINTEXT"}
	for _, l := range []string{
		"EXT", "TWO", "THREE", "ZERO", "R1", "R2", "R3", "R4",
		"SSL SSL", "SASL_PLAINTEXT SASL_PLAINTEXT", "SASL_SSL SASL_SSL", "V6 PLAINTEXT [::1]", "ANY PLAINTEXT [::]",
	} {
		f := append(strings.Fields(l), "PLAINTEXT", "127.0.0.1")
		name, protocol, host := f[0], f[1], "127.0.0.1"
		if len(f) == 5 {
			host = f[2]
		}
		listeners, protocols = append(listeners, name+"://"+host+":0"), append(protocols, name+":"+protocol)
	}
	return append([]string{
		"listeners=" + strings.Join(listeners, ","), "listener.security.protocol.map=" + strings.Join(protocols, ","),
		"inter.broker.listener.name=PLAINTEXT", "authorizer.class.name=", "super.users=", "num.network.threads=1",
	}, more...)
}

// TestLimits is about connections that are too many or come too fast: who waits, who is ended, and how. Its pairs are at
// work side by side; the cases of one come one after another, as most limits are of a whole broker.
func TestLimits(t *testing.T) {
	needKafka(t)
	var all sync.WaitGroup
	for name, group := range map[string]struct {
		properties []string
		cases      []limitCase
	}{
		"slots":     {hall("listener.name.zero.max.connections=0", "listener.name.three.max.connections=3"), slotCases()},
		"addresses": {hall(), slices.Concat(addressCases(), unfinishedCases())},
	} {
		all.Go(func() {
			t.Run(name, func(t *testing.T) { runLimits(t, pair(t, group.properties...), group.cases) })
		})
	}
	all.Wait()
}
