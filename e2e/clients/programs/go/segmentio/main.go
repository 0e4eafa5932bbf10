// Segmentio is segmentio's kafka-go as a program of the tests of clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/brokerlab/brokerlab/e2e/clients/programs/go/internal/contract"
)

func main() {
	contract.Main(contract.Client{
		Name: "kafka-go", Version: contract.Dependency("github.com/segmentio/kafka-go"),
		Metadata: metadata, Admin: admin, Produce: produce, Transact: transact, Consume: consume,
		Open: open, Describe: describe,
	})
}

func mechanism(r contract.Request) (sasl.Mechanism, error) {
	if !r.Authenticated() {
		return nil, nil
	}
	switch r.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, r.User, r.Password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, r.User, r.Password)
	default:
		return plain.Mechanism{Username: r.User, Password: r.Password}, nil
	}
}

func transport(r contract.Request) (*kafka.Transport, error) {
	config, err := r.TLS()
	if err != nil {
		return nil, err
	}
	m, err := mechanism(r)
	if err != nil {
		return nil, err
	}
	return &kafka.Transport{ClientID: r.ClientID, TLS: config, SASL: m}, nil
}

func client(r contract.Request) (*kafka.Client, func(), error) {
	t, err := transport(r)
	if err != nil {
		return nil, nil, err
	}
	return &kafka.Client{Addr: kafka.TCP(r.Seeds()...), Transport: t}, t.CloseIdleConnections, nil
}

func metadata(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, end, err := client(r)
	if err != nil {
		return nil, err
	}
	defer end()
	m, err := c.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	return contract.Fields{"brokers": len(m.Brokers)}, nil
}

func admin(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, end, err := client(r)
	if err != nil {
		return nil, err
	}
	defer end()
	made, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: r.Topic, NumPartitions: 1, ReplicationFactor: 1}}})
	if err == nil {
		err = made.Errors[r.Topic]
	}
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	m, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{r.Topic}})
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	if len(m.Topics) != 1 || m.Topics[0].Error != nil || len(m.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("describe: %+v", m.Topics)
	}
	gone, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{r.Topic}})
	if err == nil {
		err = gone.Errors[r.Topic]
	}
	if err != nil {
		return nil, fmt.Errorf("delete: %w", err)
	}
	return nil, nil
}

func writer(r contract.Request) (*kafka.Writer, error) {
	t, err := transport(r)
	if err != nil {
		return nil, err
	}
	return &kafka.Writer{
		Addr: kafka.TCP(r.Seeds()...), Topic: r.Topic, RequiredAcks: kafka.RequireAll, Transport: t, BatchTimeout: 10 * time.Millisecond,
	}, nil
}

func produce(ctx context.Context, r contract.Request) (contract.Fields, error) {
	w, err := writer(r)
	if err != nil {
		return nil, err
	}
	defer contract.Close(w)
	messages := make([]kafka.Message, r.Count)
	for i := range messages {
		messages[i].Value = []byte(r.Value(i))
	}
	if err := w.WriteMessages(ctx, messages...); err != nil {
		return nil, err
	}
	return contract.Fields{"produced": r.Count, "idempotent": false}, nil
}

func transact(context.Context, contract.Request) (contract.Fields, error) {
	return nil, contract.UnsupportedError{Why: "its writer has no transactions"}
}

// reader makes a reader and its log, in which is why a call failed: calls wait until they succeed.
func reader(r contract.Request) (*kafka.Reader, *logger, error) {
	config, err := r.TLS()
	if err != nil {
		return nil, nil, err
	}
	m, err := mechanism(r)
	if err != nil {
		return nil, nil, err
	}
	last := &logger{}
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: r.Seeds(), GroupID: r.Group, Topic: r.Topic, StartOffset: kafka.FirstOffset, IsolationLevel: kafka.ReadCommitted,
		MaxWait: 500 * time.Millisecond, ErrorLogger: last,
		Dialer: &kafka.Dialer{ClientID: r.ClientID, Timeout: 10 * time.Second, DualStack: true, TLS: config, SASLMechanism: m},
	}), last, nil
}

func consume(ctx context.Context, r contract.Request) (contract.Fields, error) {
	c, last, err := reader(r)
	if err != nil {
		return nil, err
	}
	defer contract.Close(c)
	read, aborted := 0, 0
	for read < r.Count {
		m, err := c.ReadMessage(ctx)
		if err != nil {
			return nil, last.explain(err)
		}
		read++
		if strings.HasPrefix(string(m.Value), contract.Aborted) {
			aborted++
		}
	}
	return contract.Fields{"consumed": read, "aborted": aborted}, nil
}

// session is a writer and a reader in a group.
type session struct {
	w    *kafka.Writer
	r    *kafka.Reader
	last *logger
}

func open(_ context.Context, r contract.Request) (contract.Session, error) {
	w, err := writer(r)
	if err != nil {
		return nil, err
	}
	c, last, err := reader(r)
	if err != nil {
		return nil, err
	}
	return &session{w: w, r: c, last: last}, nil
}

func (s *session) Round(ctx context.Context, value string) error {
	if err := s.w.WriteMessages(ctx, kafka.Message{Value: []byte(value)}); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for {
		m, err := s.r.ReadMessage(ctx)
		if err != nil {
			return fmt.Errorf("consume: %w", s.last.explain(err))
		}
		if string(m.Value) == value {
			return nil
		}
	}
}

func (s *session) Close() {
	go func() { _, _ = s.w.Close(), s.r.Close() }()
}

func describe(err error) (string, *bool) {
	if all, ok := errors.AsType[kafka.WriteErrors](err); ok {
		for _, e := range all {
			if e != nil {
				err = e
			}
		}
	}
	if e, ok := errors.AsType[kafka.Error](err); ok {
		retriable := e.Temporary()
		return fmt.Sprintf("Error %d", int(e)), &retriable
	}
	return "", nil
}
