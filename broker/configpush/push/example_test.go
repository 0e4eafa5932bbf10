package push_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/configpush/push"
)

// A producer that tells its broker, once and before its first request, what it is configured with.
func Example() {
	dir, err := os.MkdirTemp("", "push-example-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	addr, stop := exampleBroker(dir)
	defer stop()

	hook := push.New(push.Config{AllowedKeys: []string{"acks", "compression.type", "linger.ms", "sasl.jaas.config"}})
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.ClientID("orders"), kgo.AllowAutoTopicCreation(),
		kgo.ProducerLinger(20*time.Millisecond),
		kgo.WithHooks(hook),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: "orders", Value: []byte("first")}).FirstErr(); err != nil {
		panic(err)
	}

	result, _ := hook.Result()
	fmt.Println(result.Outcome, "with", result.Bytes, "bytes, after some time:", result.Took > 0)
	for _, e := range result.Entries {
		fmt.Printf("%s=%s default=%v\n", e.Key, e.Value, e.Default)
	}
	fmt.Println("withheld:", result.Withheld)
	// Output:
	// accepted with 40 bytes, after some time: true
	// acks=all default=true
	// compression.type=snappy default=true
	// linger.ms=20 default=false
	// withheld: [sasl.jaas.config]
}

// exampleBroker is a broker of the program's own that keeps what its clients push.
func exampleBroker(dir string) (addr string, stop func()) {
	config, err := broker.LoadConfig("", []string{
		"node.id=1", "listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + dir, "kernel.accounting=off",
		"client.config.policy.class.name=store",
	}, true)
	if err != nil {
		panic(err)
	}
	b, err := broker.New(config)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx) }()
	<-b.Ready()
	return b.Addr("PLAINTEXT").String(), func() {
		cancel()
		if err := <-served; err != nil {
			panic(err)
		}
	}
}
