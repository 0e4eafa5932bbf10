// Franz is franz-go's client as a program of the tests of clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/brokerlab/brokerlab/e2e/clients/programs/go/internal/contract"
)

func main() {
	contract.Main(contract.Client{
		Name: "franz-go", Version: contract.Dependency("github.com/twmb/franz-go"),
		Metadata: metadata, Admin: admin, Produce: produce, Transact: transact, Consume: consume,
		Open: open, Describe: describe,
	})
}

func connect(r contract.Request, more ...kgo.Opt) (*kgo.Client, error) {
	opts := append([]kgo.Opt{kgo.SeedBrokers(r.Seeds()...)}, more...)
	if r.ClientID != "" {
		opts = append(opts, kgo.ClientID(r.ClientID))
	}
	config, err := r.TLS()
	if err != nil {
		return nil, err
	}
	if config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if r.Authenticated() {
		switch r.Mechanism {
		case "SCRAM-SHA-256":
			opts = append(opts, kgo.SASL(scram.Auth{User: r.User, Pass: r.Password}.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			opts = append(opts, kgo.SASL(scram.Auth{User: r.User, Pass: r.Password}.AsSha512Mechanism()))
		default:
			opts = append(opts, kgo.SASL(plain.Auth{User: r.User, Pass: r.Password}.AsMechanism()))
		}
	}
	return kgo.NewClient(opts...)
}

func metadata(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, err := connect(r)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	m, err := kadm.NewClient(c).BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	return contract.Fields{"brokers": len(m.Brokers)}, nil
}

func admin(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, err := connect(r)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	a := kadm.NewClient(c)
	if _, err = a.CreateTopic(ctx, 1, 1, nil, r.Topic); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	topics, err := a.ListTopics(ctx, r.Topic)
	if err == nil {
		err = topics.Error()
	}
	if err == nil && len(topics[r.Topic].Partitions) != 1 {
		err = fmt.Errorf("%d partitions", len(topics[r.Topic].Partitions))
	}
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	if _, err := a.DeleteTopic(ctx, r.Topic); err != nil {
		return nil, fmt.Errorf("delete: %w", err)
	}
	return nil, nil
}

func records(r contract.Request, prefix string) []*kgo.Record {
	made := make([]*kgo.Record, r.Count)
	for i := range made {
		made[i] = &kgo.Record{Topic: r.Topic, Value: []byte(prefix + r.Value(i))}
	}
	return made
}

func produce(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, err := connect(r) // idempotent, and acknowledged by all, by default
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.ProduceSync(ctx, records(r, "")...).FirstErr(); err != nil {
		return nil, err
	}
	return contract.Fields{"produced": r.Count, "idempotent": true}, nil
}

func transact(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, err := connect(r, kgo.TransactionalID(r.TxID))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		prefix := ""
		if commit == kgo.TryAbort {
			prefix = contract.Aborted
		}
		if err := c.BeginTransaction(); err != nil {
			return nil, err
		}
		if err := c.ProduceSync(ctx, records(r, prefix)...).FirstErr(); err != nil {
			return nil, err
		}
		if err := c.EndTransaction(ctx, commit); err != nil {
			return nil, err
		}
	}
	return contract.Fields{"committed": r.Count, "aborted": r.Count}, nil
}

func consume(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, err := connect(r, kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	read, aborted := 0, 0
	for read < r.Count {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, err
		}
		for _, e := range fetches.Errors() {
			return nil, e.Err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			read++
			if strings.HasPrefix(string(rec.Value), contract.Aborted) {
				aborted++
			}
		})
	}
	if err := c.CommitUncommittedOffsets(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return contract.Fields{"consumed": read, "aborted": aborted}, nil
}

// session is one client that produces and consumes, as franz-go's may.
type session struct {
	c     *kgo.Client
	topic string
}

func open(_ context.Context, r contract.Request) (contract.Session, error) {
	c, err := connect(r, kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	return &session{c: c, topic: r.Topic}, nil
}

func (s *session) Round(ctx context.Context, value string) error {
	if err := s.c.ProduceSync(ctx, &kgo.Record{Topic: s.topic, Value: []byte(value)}).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for {
		fetches := s.c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("consume: %w", e.Err)
		}
		found := false
		fetches.EachRecord(func(rec *kgo.Record) { found = found || string(rec.Value) == value })
		if found {
			return nil
		}
	}
}

func (s *session) Close() {
	ended := make(chan struct{})
	go func() {
		s.c.Close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(2 * time.Second): // it waits to leave its group at a broker that may be gone
	}
}

func describe(err error) (string, *bool) {
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return e.Message, &e.Retriable
	}
	return "", nil
}
