// Sarama is IBM's sarama as a program of the tests of clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"github.com/brokerlab/brokerlab/e2e/clients/programs/go/internal/contract"
)

func main() {
	contract.Main(contract.Client{
		Name: "sarama", Version: contract.Dependency("github.com/IBM/sarama"),
		Metadata: metadata, Admin: admin, Produce: produce, Transact: transact, Consume: consume,
		Open: open, Describe: describe,
	})
}

func configure(r contract.Request) (*sarama.Config, error) {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	if r.ClientID != "" {
		c.ClientID = r.ClientID
	}
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Consumer.Return.Errors = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.IsolationLevel = sarama.ReadCommitted
	config, err := r.TLS()
	if err != nil {
		return nil, err
	}
	if config != nil {
		c.Net.TLS.Enable, c.Net.TLS.Config = true, config
	}
	if r.Authenticated() {
		c.Net.SASL.Enable, c.Net.SASL.User, c.Net.SASL.Password = true, r.User, r.Password
		c.Net.SASL.Mechanism = sarama.SASLMechanism(r.Mechanism)
		switch r.Mechanism {
		case "SCRAM-SHA-256":
			c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA256} }
		case "SCRAM-SHA-512":
			c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: scram.SHA512} }
		}
	}
	return c, nil
}

// conversation is what sarama wants somebody else to know about SCRAM.
type conversation struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err != nil {
		return err
	}
	c.ClientConversation = client.NewConversation()
	return nil
}

// while runs f and gives up, not it, when ctx has ended: sarama's calls take no context.
func while(ctx context.Context, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func metadata(_ context.Context, r contract.Request) (contract.Fields, error) {
	config, err := configure(r)
	if err != nil {
		return nil, err
	}
	c, err := sarama.NewClient(r.Seeds(), config)
	if err != nil {
		return nil, err
	}
	defer contract.Close(c)
	return contract.Fields{"brokers": len(c.Brokers())}, nil
}

func admin(_ context.Context, r contract.Request) (contract.Fields, error) {
	config, err := configure(r)
	if err != nil {
		return nil, err
	}
	a, err := sarama.NewClusterAdmin(r.Seeds(), config)
	if err != nil {
		return nil, err
	}
	defer contract.Close(a)
	if err = a.CreateTopic(r.Topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	topics, err := a.DescribeTopics([]string{r.Topic})
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	if len(topics) != 1 || topics[0].Err != sarama.ErrNoError || len(topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("describe: %d topics, %v", len(topics), topics)
	}
	if err := a.DeleteTopic(r.Topic); err != nil {
		return nil, fmt.Errorf("delete: %w", err)
	}
	return nil, nil
}

func records(r contract.Request, prefix string) []*sarama.ProducerMessage {
	made := make([]*sarama.ProducerMessage, r.Count)
	for i := range made {
		made[i] = &sarama.ProducerMessage{Topic: r.Topic, Value: sarama.StringEncoder(prefix + r.Value(i))}
	}
	return made
}

// send sends records. What sarama says of several is only how many failed; the first of them says why.
func send(p sarama.SyncProducer, records []*sarama.ProducerMessage) error {
	err := p.SendMessages(records)
	if all, ok := errors.AsType[sarama.ProducerErrors](err); ok && len(all) > 0 {
		return all[0].Err
	}
	return err
}

func produce(_ context.Context, r contract.Request) (contract.Fields, error) {
	config, err := configure(r)
	if err != nil {
		return nil, err
	}
	p, err := sarama.NewSyncProducer(r.Seeds(), config)
	if err != nil {
		return nil, err
	}
	defer contract.Close(p)
	if err := send(p, records(r, "")); err != nil {
		return nil, err
	}
	return contract.Fields{"produced": r.Count, "idempotent": true}, nil
}

func transact(_ context.Context, r contract.Request) (contract.Fields, error) {
	config, err := configure(r)
	if err != nil {
		return nil, err
	}
	config.Producer.Transaction.ID = r.TxID
	p, err := sarama.NewSyncProducer(r.Seeds(), config)
	if err != nil {
		return nil, err
	}
	defer contract.Close(p)
	for prefix, end := range map[string]func() error{"": p.CommitTxn, contract.Aborted: p.AbortTxn} {
		if err := p.BeginTxn(); err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
		if err := send(p, records(r, prefix)); err != nil {
			return nil, fmt.Errorf("send: %w", err)
		}
		if err := end(); err != nil {
			return nil, fmt.Errorf("end: %w", err)
		}
	}
	return contract.Fields{"committed": r.Count, "aborted": r.Count}, nil
}

// handler gives the values that a group's member reads to a channel.
type handler struct {
	values chan string
	joined chan struct{}
	once   sync.Once
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error {
	h.once.Do(func() { close(h.joined) })
	return nil
}

func (*handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			select {
			case h.values <- string(m.Value):
				s.MarkMessage(m, "")
			case <-s.Context().Done():
				return nil
			}
		case <-s.Context().Done():
			return nil
		}
	}
}

// member reads a topic as a member of a group until ctx ends, and tells errors to a channel.
func member(ctx context.Context, g sarama.ConsumerGroup, topic string, h *handler) <-chan error {
	failed := make(chan error, 100)
	tell := func(err error) {
		if err == nil || errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return
		}
		select {
		case failed <- err:
		default: // nobody has asked for a while
		}
	}
	go func() {
		for err := range g.Errors() {
			tell(err)
		}
	}()
	go func() {
		for ctx.Err() == nil {
			err := g.Consume(ctx, []string{topic}, h)
			tell(err)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	}()
	return failed
}

func consume(ctx context.Context, r contract.Request) (contract.Fields, error) {
	config, err := configure(r)
	if err != nil {
		return nil, err
	}
	g, err := sarama.NewConsumerGroup(r.Seeds(), r.Group, config)
	if err != nil {
		return nil, err
	}
	defer contract.Close(g)
	h := &handler{values: make(chan string), joined: make(chan struct{})}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := member(inner, g, r.Topic, h)
	read, aborted := 0, 0
	for read < r.Count {
		select {
		case v := <-h.values:
			read++
			if strings.HasPrefix(v, contract.Aborted) {
				aborted++
			}
		case err := <-failed:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return contract.Fields{"consumed": read, "aborted": aborted}, nil
}

// session is a producer and a member of a group.
type session struct {
	topic  string
	p      sarama.SyncProducer
	g      sarama.ConsumerGroup
	h      *handler
	failed <-chan error
	cancel context.CancelFunc
}

func open(ctx context.Context, r contract.Request) (contract.Session, error) {
	config, err := configure(r)
	if err != nil {
		return nil, err
	}
	s := &session{topic: r.Topic, h: &handler{values: make(chan string, 10_000), joined: make(chan struct{})}}
	err = while(ctx, func() error {
		p, err := sarama.NewSyncProducer(r.Seeds(), config) //nolint:govet // shadow: the error of this function alone
		if err != nil {
			return fmt.Errorf("producer: %w", err)
		}
		g, err := sarama.NewConsumerGroup(r.Seeds(), r.Group, config)
		if err != nil {
			_ = p.Close()
			return fmt.Errorf("consumer: %w", err)
		}
		s.p, s.g = p, g
		return nil
	})
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(context.Background())
	s.cancel, s.failed = cancel, member(inner, s.g, r.Topic, s.h) //nolint:contextcheck // it outlives the round that opened it
	return s, nil
}

func (s *session) Round(ctx context.Context, value string) error {
	err := while(ctx, func() error {
		_, _, err := s.p.SendMessage(&sarama.ProducerMessage{Topic: s.topic, Value: sarama.StringEncoder(value)})
		return err
	})
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	for {
		select {
		case v := <-s.h.values:
			if v == value {
				return nil
			}
		case err := <-s.failed:
			return fmt.Errorf("consume: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("consume: %w", ctx.Err())
		}
	}
}

func (s *session) Close() {
	s.cancel()
	go func() { _, _ = s.g.Close(), s.p.Close() }()
}

func describe(err error) (string, *bool) {
	if e, ok := errors.AsType[sarama.KError](err); ok {
		return fmt.Sprintf("KError %d", int16(e)), nil
	}
	return "", nil
}
