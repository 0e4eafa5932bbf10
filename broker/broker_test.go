package broker_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker"
)

// plainConfig is a broker in memory with one PLAINTEXT listener on a port of the kernel's choice.
func plainConfig() *broker.Config {
	return &broker.Config{
		NodeID:           1,
		Listeners:        []broker.ListenerConfig{{Name: "PLAINTEXT", Protocol: broker.Plaintext, Host: "127.0.0.1", Threads: 2}},
		NumIOThreads:     4,
		MaxRequestBytes:  100 << 20,
		IdleTimeout:      10 * time.Minute,
		FailedAuthDelay:  100 * time.Millisecond,
		AutoCreateTopics: true,
		NumPartitions:    1,
		APIsEnabled:      true,
		Properties:       map[string]string{"node.id": "1", "num.io.threads": "4"},
	}
}

// testLog writes a broker's log to the test's.
func testLog(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start serves cfg until the test ends, and waits until it is ready.
func start(t *testing.T, cfg *broker.Config, opts ...broker.Option) *broker.Broker {
	t.Helper()
	b, err := broker.New(cfg, append([]broker.Option{broker.WithLog(testLog(t))}, opts...)...)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { served <- b.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	<-b.Ready()
	return b
}

// limit is a context that ends with the test or after a time that only a hang can take.
func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// client is a franz-go client of the broker at seed.
func client(t *testing.T, seed netip.AddrPort, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seed.String())}, opts...)...)
	if err != nil {
		t.Fatalf("NewClient: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestARecordThatIsProducedIsConsumed(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	ctx := limit(t)
	c := client(t, b.Addr("PLAINTEXT"), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("greetings"), kgo.DefaultProduceTopic("greetings"))
	for i := range 10 {
		if err := c.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint("hello ", i))).FirstErr(); err != nil {
			t.Fatalf("produce: %v", err)
		}
	}
	var got []string
	for len(got) < 10 {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("poll: %v", err)
		}
		for r := range f.RecordsAll() {
			got = append(got, string(r.Value))
		}
	}
	for i, v := range got {
		if want := fmt.Sprint("hello ", i); v != want {
			t.Errorf("record %d = %q, want %q", i, v, want)
		}
	}
	topics, err := kadm.NewClient(c).ListTopics(ctx)
	if err != nil || !topics.Has("greetings") {
		t.Errorf("ListTopics = %v, %v, want greetings in it", topics.Names(), err)
	}
}
