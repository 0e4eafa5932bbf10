package metadata

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// kafka reads and writes topics of one partition. Each request is made once and its outcome is the caller's to judge: kgo's
// own producer and consumer would go on in the background, and hide that the far end is gone. Safe for concurrent use.
type kafka struct {
	client *kgo.Client

	mu      sync.Mutex // guards what follows
	cluster string     // whose id the first answer had; another's is not answered to
	leaders map[string]leader
}

// leader is where a topic's partition is.
type leader struct {
	node int32
	id   [16]byte // of the topic
}

// How long one request may take.
const (
	produceTimeout = 10 * time.Second // for the far end, to have what it writes on all replicas
	overhead       = 5 * time.Second  // for the way there and back
	inProcess      = time.Minute      // the same where there is no way, but perhaps a process that was stopped or a busy machine
)

func newKafka(overhead time.Duration, opts ...kgo.Opt) (*kafka, error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.Produce.Int16(), 13) // these name topics by id, so that another cluster's is never meant
	versions.SetMaxKeyVersion(kmsg.Fetch.Int16(), 13)
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ClientID("brokerlab-metadata"),
		kgo.DialTimeout(overhead),
	}, append(opts,
		kgo.RequestTimeoutOverhead(overhead),
		kgo.RequestRetries(1), // whoever asks tries again
		kgo.RetryTimeout(overhead),
		kgo.MaxVersions(versions),
		kgo.RequiredAcks(kgo.AllISRAcks()), // kgo writes it into raw requests, too
		kgo.DisableIdempotentWrite(),       // sequence numbers in the entries make a repeated one harmless
	)...)...)
	if err != nil {
		return nil, fmt.Errorf("make client of metadata log: %w", err)
	}
	return &kafka{client: client, leaders: map[string]leader{}}, nil
}

// leader finds the leader of a topic. A topic that is not the one it was is a [final] error: what is in it has another
// history.
func (k *kafka) leader(ctx context.Context, topic string) (leader, error) {
	k.mu.Lock()
	known, ok := k.leaders[topic]
	k.mu.Unlock()
	if ok && known.node >= 0 {
		return known, nil
	}
	t, err := k.describe(ctx, topic)
	if ok && errors.Is(err, kerr.UnknownTopicOrPartition) {
		return leader{}, k.gone(topic, err)
	}
	if err != nil {
		return leader{}, err
	}
	if len(t.Partitions) != 1 {
		return leader{}, final{fmt.Errorf("topic %s has %d partitions, and the metadata needs 1", topic, len(t.Partitions))}
	}
	if ok && known.id != t.TopicID {
		return leader{}, final{fmt.Errorf("topic %s was deleted and made anew while it was in use", topic)}
	}
	p := t.Partitions[0]
	if p.ErrorCode != 0 || p.Leader < 0 {
		return leader{}, fmt.Errorf("find leader of topic %s: %w", topic, errors.Join(kerr.ErrorForCode(p.ErrorCode), kerr.LeaderNotAvailable))
	}
	found := leader{node: p.Leader, id: t.TopicID}
	k.mu.Lock()
	k.leaders[topic] = found
	k.mu.Unlock()
	return found, nil
}

// follow makes k take for the log only what other does.
func (k *kafka) follow(other *kafka) {
	other.mu.Lock()
	cluster, leaders := other.cluster, maps.Clone(other.leaders)
	other.mu.Unlock()
	k.mu.Lock()
	k.cluster, k.leaders = cluster, leaders
	k.mu.Unlock()
	for topic := range leaders {
		k.forget(topic)
	}
}

// forget makes the next request look for the topic's leader again.
func (k *kafka) forget(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l, ok := k.leaders[topic]; ok {
		l.node = -1
		k.leaders[topic] = l
	}
}

// renounce makes the next request take the topic as it is, whichever it was.
func (k *kafka) renounce(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leaders, topic)
}

// describe asks for the metadata of a topic.
func (k *kafka) describe(ctx context.Context, topic string) (*kmsg.MetadataResponseTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, k.client)
	if err != nil {
		return nil, fmt.Errorf("find topic %s: %w", topic, err)
	}
	if err := k.recognize(resp); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 {
		return nil, fmt.Errorf("find topic %s: %d topics answered", topic, len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("find topic %s: %w", topic, err)
	}
	return &resp.Topics[0], nil
}

// recognize refuses what another cluster says than the one that has answered first: the log is not there.
func (k *kafka) recognize(resp *kmsg.MetadataResponse) error {
	if resp.ClusterID == nil || *resp.ClusterID == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cluster == "" {
		k.cluster = *resp.ClusterID
	}
	if *resp.ClusterID == k.cluster {
		return nil
	}
	return &absentError{text: fmt.Sprintf("the metadata log is in cluster %s, and another cluster is at its address, %s: "+
		"was that started with another data directory, or without one? Put the data back, or start the brokers anew", k.cluster, *resp.ClusterID)}
}

// gone is the error of a topic that was there and is not any more.
func (k *kafka) gone(topic string, err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &absentError{text: fmt.Sprintf("topic %s of the metadata log is gone from cluster %s: was that started with an empty data directory, "+
		"or the topic deleted? Put the data back, or start the brokers anew", topic, k.cluster), err: err}
}

// absentError is a far end that answers, and does not have the log: it is as good as out of reach.
type absentError struct {
	text string
	err  error // what the far end said, if that is an error
}

func (e *absentError) Error() string { return e.text }
func (e *absentError) Unwrap() error { return e.err }

// toLeader sends a request to the leader of a topic, as the caller has just found it. Whatever goes wrong, the next request asks who that is.
func (k *kafka) toLeader(ctx context.Context, topic string, to leader, req kmsg.Request) (kmsg.Response, error) {
	resp, err := k.client.Broker(int(to.node)).Request(ctx, req)
	if err != nil {
		k.forget(topic)
	}
	return resp, err
}

// produce appends values to a topic in one batch and returns the first one's offset when they are durable. After most errors
// they may be there.
func (k *kafka) produce(ctx context.Context, topic string, values [][]byte, timeout time.Duration) (int64, error) {
	to, err := k.leader(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("write topic %s: %w", topic, err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(timeout.Milliseconds())
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch(values)
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, to.id, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := k.toLeader(ctx, topic, to, req)
	if err != nil {
		return 0, fmt.Errorf("write topic %s: %w", topic, err)
	}
	resp, ok := answer.(*kmsg.ProduceResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("write topic %s: no answer for its partition", topic)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		k.forget(topic)
		return 0, fmt.Errorf("write topic %s: %w", topic, err)
	}
	return resp.Topics[0].Partitions[0].BaseOffset, nil
}

// batch is values as one record batch, stamped with the time of now, which nobody looks at.
func batch(values [][]byte) []byte {
	size := 0
	for _, v := range values {
		size += len(v) + 4*binary.MaxVarintLen32
	}
	records := make([]byte, 0, size)
	var head []byte
	for i, v := range values {
		head = append(head[:0], 0)                      // attributes
		head = binary.AppendVarint(head, 0)             // timestamp delta
		head = binary.AppendVarint(head, int64(i))      // offset delta
		head = binary.AppendVarint(head, -1)            // no key
		head = binary.AppendVarint(head, int64(len(v))) // and its value
		records = binary.AppendVarint(records, int64(len(head)+len(v)+1))
		records = append(records, head...)
		records = append(records, v...)
		records = binary.AppendVarint(records, 0) // headers
	}
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		Magic:                2,
		LastOffsetDelta:      int32(len(values) - 1),
		FirstTimestamp:       now,
		MaxTimestamp:         now,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		FirstSequence:        -1,
		NumRecords:           int32(len(values)),
		Records:              records,
	}
	const lengthAt, crcAt = 8, 17 // where they are in a batch; each is about what follows it
	raw := b.AppendTo(make([]byte, 0, len(records)+64))
	binary.BigEndian.PutUint32(raw[lengthAt:], uint32(len(raw)-lengthAt-4))
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[crcAt+4:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// fetch reads a topic from an offset on, and waits up to wait for something to be there. end is the offset after the last
// record that all replicas have.
func (k *kafka) fetch(ctx context.Context, topic string, from int64, wait time.Duration) (records []*kgo.Record, end int64, err error) {
	to, err := k.leader(ctx, topic)
	if err != nil {
		return nil, 0, fmt.Errorf("read topic %s: %w", topic, err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch = -1, -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, maxBatch
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = from, maxBatch
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic, to.id, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := k.toLeader(ctx, topic, to, req)
	if err != nil {
		return nil, 0, fmt.Errorf("read topic %s: %w", topic, err)
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if ok && resp.ErrorCode != 0 {
		k.forget(topic)
		return nil, 0, fmt.Errorf("read topic %s: %w", topic, kerr.ErrorForCode(resp.ErrorCode))
	}
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, 0, fmt.Errorf("read topic %s: no answer for its partition", topic)
	}
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: topic, Offset: from},
		&resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		k.forget(topic)
		return nil, 0, fmt.Errorf("read topic %s at %d: %w", topic, from, got.Err)
	}
	return got.Records, got.HighWatermark, nil
}

// What offset looks for.
const (
	atStart = -2
	atEnd   = -1
)

// offset is the first offset of a topic (atStart), or the one after its last record (atEnd).
func (k *kafka) offset(ctx context.Context, topic string, which int64) (int64, error) {
	to, err := k.leader(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("find the ends of topic %s: %w", topic, err)
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = which
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := k.toLeader(ctx, topic, to, req)
	if err != nil {
		return 0, fmt.Errorf("find the ends of topic %s: %w", topic, err)
	}
	resp, ok := answer.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("find the ends of topic %s: no answer for its partition", topic)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		k.forget(topic)
		return 0, fmt.Errorf("find the ends of topic %s: %w", topic, err)
	}
	return resp.Topics[0].Partitions[0].Offset, nil
}

// deleteBefore takes all records before an offset from a topic; they may be gone already.
func (k *kafka) deleteBefore(ctx context.Context, topic string, offset int64) error {
	to, err := k.leader(ctx, topic)
	if err != nil {
		return fmt.Errorf("shorten topic %s: %w", topic, err)
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = int32(produceTimeout.Milliseconds())
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = offset
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := k.toLeader(ctx, topic, to, req)
	if err != nil {
		return fmt.Errorf("shorten topic %s: %w", topic, err)
	}
	resp, ok := answer.(*kmsg.DeleteRecordsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return fmt.Errorf("shorten topic %s: no answer for its partition", topic)
	}
	err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	if err != nil && !errors.Is(err, kerr.OffsetOutOfRange) {
		k.forget(topic)
		return fmt.Errorf("shorten topic %s: %w", topic, err)
	}
	return nil
}

// unanswered tells whether nothing is known of what a request has led to: no refusal came, nor a verdict of the log itself.
func unanswered(err error) bool {
	return !errors.As(err, new(final)) && !errors.As(err, new(*kerr.Error))
}

// final is an error that no other try will cure.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// temporary tells whether the same request may succeed later: anything but a refusal that says it won't, or what the log
// itself says.
func temporary(err error) bool {
	var refusal *kerr.Error
	switch {
	case errors.As(err, new(final)):
		return false
	case errors.Is(err, kerr.InvalidReplicationFactor): // a broker of those that were counted has just gone
		return true
	}
	return !errors.As(err, &refusal) || refusal.Retriable
}
