package broker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/brokerlab/brokerlab/broker"
)

// A listing is no snapshot, but what was open all the time is in it, once.
func TestListingDuringChurnMissesNobodyWhoStays(t *testing.T) {
	t.Parallel()
	b := start(t, fourProtocols(t, newPKI(t)))
	me := dial(t, b.Addr("PLAINTEXT_V4"))
	stay := []*raw{me}
	for range 40 {
		stay = append(stay, dial(t, b.Addr("PLAINTEXT_V6")))
	}
	eventually(t, "those who stay are listed", func() bool { return len(list(me, nil, nil, nil).Connections) == len(stay) })
	ctx, stop := context.WithCancel(t.Context())
	var churn sync.WaitGroup
	for _, listener := range []string{"PLAINTEXT_V4", "SASL_PLAINTEXT_V4", "SSL_V4", "SSL_V6"} {
		churn.Go(func() {
			for ctx.Err() == nil {
				r := dial(t, b.Addr(listener)) //nolint:contextcheck // the test's own is what it needs
				if listener == "SASL_PLAINTEXT_V4" {
					ask[*kmsg.SASLHandshakeResponse](r, handshake("PLAIN"))
				}
				r.close()
			}
		})
	}
	for range 60 {
		rows := list(me, nil, nil, nil).Connections
		seen := map[string]int{}
		for i := range rows {
			seen[rows[i].ConnectionID]++
		}
		for _, r := range stay {
			row := find(rows, r)
			if row == nil || seen[row.ConnectionID] != 1 {
				t.Fatalf("a connection that stays is missing or listed twice: %v", row)
			}
		}
	}
	stop()
	churn.Wait()
	eventually(t, "only those who stay are left", func() bool { return len(list(me, nil, nil, nil).Connections) == len(stay) })
}

func TestAnIdleConnectionExpiresAndItsRowVanishes(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.IdleTimeout = 300 * time.Millisecond
	b := start(t, cfg)
	silent := dial(t, b.Addr("PLAINTEXT"))
	me := dial(t, b.Addr("PLAINTEXT"))
	eventually(t, "the silent connection is gone from the list", func() bool {
		rows := list(me, nil, nil, nil).Connections
		return find(rows, silent) == nil && find(rows, me) != nil
	})
	silent.closed("an idle connection")
}

// It runs before the tests that run in parallel, so that the goroutines are its own.
func TestShutdownLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	cfg := fourProtocols(t, newPKI(t))
	cfg.LogDirs, cfg.MetricsListener = []string{t.TempDir()}, "127.0.0.1:0"
	b, err := broker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(context.WithoutCancel(t.Context())) }()
	<-b.Ready()
	r := dial(t, b.Addr("PLAINTEXT_V4"))
	ask[*kmsg.MetadataResponse](r, autoCreate("t"))
	dial(t, b.Addr("SSL_V4")) // in its handshake
	if err := b.Shutdown(limit(t)); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
