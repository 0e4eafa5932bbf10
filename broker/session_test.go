package broker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/brokerlab/brokerlab/broker"
)

// saying is a log whose lines can be waited for.
type saying struct {
	mu   sync.Mutex
	said strings.Builder
}

func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.Write(p)
}

func (s *saying) has(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.said.String(), part)
}

func TestASessionThatKafkaMayOutlastIsSaidAtTheStart(t *testing.T) {
	const warning = "the session is no longer than Apache Kafka may take"
	for session, warned := range map[string]bool{"9000": true, "30000": false} {
		t.Run(session, func(t *testing.T) {
			kafka, err := kfake.NewCluster(kfake.NumBrokers(1)) // does not say that it is an engine of ours
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(kafka.Close)
			cfg, err := broker.LoadConfig("", []string{
				"node.id=0", "listeners=PLAINTEXT://127.0.0.1:0", "kernel.accounting=off",
				"engine.bootstrap.servers=" + kafka.ListenAddrs()[0], "broker.session.timeout.ms=" + session,
			}, true)
			if err != nil {
				t.Fatal(err)
			}
			var log saying
			b, err := broker.New(cfg, broker.WithLog(slog.New(slog.NewTextHandler(&log, nil))))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- b.Serve(ctx) }()
			until(t, "the engine is reached and the metadata is asked for", func() bool {
				return log.has("reached the engine") && (log.has(warning) || log.has("metadata"))
			})
			if got := log.has(warning); got != warned {
				t.Errorf("warned = %t with a session of %s, want %t", got, session, warned)
			}
			cancel()
			if err := <-served; err != nil {
				t.Log(err) // whether it has joined by then does not matter
			}
		})
	}
}
