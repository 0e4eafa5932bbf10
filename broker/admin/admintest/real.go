package admintest

import (
	"context"
	"testing"

	"github.com/brokerlab/brokerlab/broker"
)

// Real is a real broker in memory, of node id 1, with the given properties; nobody counts its sockets unless an option
// says so. It is ready when Real returns, and shut down with its test.
func Real(tb testing.TB, properties []string, options ...broker.Option) *broker.Broker {
	tb.Helper()
	cfg, err := broker.LoadConfig("", append([]string{"node.id=1", "kernel.accounting=off"}, properties...), true)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := broker.New(cfg, options...)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			tb.Errorf("Serve() = %v", err)
		}
	})
	<-b.Ready()
	return b
}
