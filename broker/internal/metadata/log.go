package metadata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// topic is the log: one partition, never compacted, never shortened.
const topic = "__cluster_metadata"

// maxEntry bounds one change; a batch of changes may be twice as long.
const (
	maxEntry = 16 << 20
	maxBatch = 2 * maxEntry
)

// topicLog is the log in a Kafka of its own in this process: nobody else can reach it, since it listens on a pipe.
type topicLog struct {
	lock    *os.File // held while the folder is in use; nil in memory
	cluster *kfake.Cluster
	client  *kgo.Client
}

func openLog(dir string, log *slog.Logger) (*topicLog, error) {
	l := new(topicLog)
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.SyncWrites(),
		kfake.WithLogger(kfakeLogger{log}),
	}
	if dir != "" {
		if err := l.lockDir(dir); err != nil {
			return nil, err
		}
		opts = append(opts, kfake.DataDir(dir))
	}
	pipe := newPipeListener()
	opts = append(opts, kfake.ListenFn(func(string, string) (net.Listener, error) { return pipe, nil }))
	var err error
	if l.cluster, err = kfake.NewCluster(opts...); err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata log: %w", err), l.close())
	}
	if l.cluster.TopicInfo(topic) == nil {
		err = l.cluster.CreateTopic(topic, 1, map[string]string{
			"cleanup.policy":    "delete",
			"retention.ms":      "-1",
			"retention.bytes":   "-1",
			"max.message.bytes": strconv.Itoa(maxBatch + 1<<10),
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create topic %s: %w", topic, err), l.close())
		}
	}
	l.client, err = kgo.NewClient(
		kgo.SeedBrokers(l.cluster.ListenAddrs()...),
		kgo.Dialer(pipe.DialContext),
		kgo.ClientID("metadata"),
		// Sequence numbers in the entries make a retried one harmless; the in-process Kafka would forget a producer's own
		// after a crash.
		kgo.DisableIdempotentWrite(),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(maxGroup),
		kgo.MaxBufferedBytes(2*maxBatch),
		kgo.ProducerBatchMaxBytes(maxBatch),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordRetries(5),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}),
		kgo.FetchMaxBytes(maxBatch),
		kgo.FetchMaxPartitionBytes(maxBatch),
		kgo.MaxConcurrentFetches(1),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open metadata log: %w", err), l.close())
	}
	return l, nil
}

// lockDir makes dir and keeps every other process out of it until this one ends, however it ends.
func (l *topicLog) lockDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil { // the log holds SCRAM keys
		return fmt.Errorf("make metadata folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock metadata folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return errors.Join(fmt.Errorf("lock metadata folder %s: %w", dir, err), f.Close())
	}
	l.lock = f
	return nil
}

// end returns the offset after the last entry.
func (l *topicLog) end(ctx context.Context) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp = -1 // latest
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.client)
	if err != nil {
		return 0, fmt.Errorf("find the end of the metadata log: %w", err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("find the end of the metadata log: no answer for its partition")
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, fmt.Errorf("find the end of the metadata log: error code %d", p.ErrorCode)
	}
	return p.Offset, nil
}

// append makes values the next entries, all in one batch, and returns when they are durable.
func (l *topicLog) append(ctx context.Context, values [][]byte) error {
	var refused error // one for all: it was one batch. Written by kgo, which calls one promise at a time.
	for _, v := range values {
		l.client.Produce(ctx, &kgo.Record{Topic: topic, Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				refused = err
			}
		})
	}
	if err := l.client.Flush(ctx); err != nil {
		return fmt.Errorf("write metadata log: %w", err)
	}
	if refused != nil {
		return fmt.Errorf("write metadata log: %w", refused)
	}
	return nil
}

// poll waits for entries beyond those that it has returned before.
func (l *topicLog) poll(ctx context.Context) ([]*kgo.Record, error) {
	fetches := l.client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return nil, fmt.Errorf("read metadata log: %w", err)
	}
	return fetches.Records(), nil
}

func (l *topicLog) close() error {
	if l.client != nil {
		l.client.Close()
	}
	if l.cluster != nil {
		l.cluster.Close()
	}
	if l.lock == nil {
		return nil
	}
	// Closing alone would leave the lock to a child process that is between fork and exec just now.
	return errors.Join(unix.Flock(int(l.lock.Fd()), unix.LOCK_UN), l.lock.Close())
}

// kfakeLogger passes on what the in-process Kafka complains of.
type kfakeLogger struct{ log *slog.Logger }

func (k kfakeLogger) Logf(level kfake.LogLevel, format string, args ...any) {
	if level == kfake.LogLevelError || level == kfake.LogLevelWarn {
		k.log.Warn("metadata log", slog.String("detail", fmt.Sprintf(format, args...)))
	}
}

// pipeListener is a listener that only this process can dial.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// DialContext connects to the listener, whatever the address.
func (p *pipeListener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept returns the next dialled connection.
func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and DialContext; it may be called more than once, but not at the same time.
func (p *pipeListener) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

// Addr is a name only: nothing listens there.
func (*pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
