package metadata

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// privateTopic is the log where it is this broker's alone.
const privateTopic = "__cluster_metadata"

// maxEntry bounds one change; a batch of changes may be twice as long.
const (
	maxEntry = 16 << 20
	maxBatch = 2 * maxEntry
)

// topicLog is the log in a topic of one partition.
type topicLog struct {
	kafka *kafka
	topic string

	remote *Remote // nil for a private log, which has what follows instead

	lock    *os.File // held while the folder is in use; nil in memory
	cluster *kfake.Cluster
}

func (l *topicLog) snapshots() string  { return l.topic + "_snapshots" }
func (l *topicLog) heartbeats() string { return l.topic + "_heartbeats" }

// openPrivate opens the log in a Kafka of its own in this process: nobody else can reach it, since it listens on a pipe.
func openPrivate(dir string, log *slog.Logger) (*topicLog, error) {
	l := &topicLog{topic: privateTopic}
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
	for _, topic := range []string{l.topic, l.snapshots()} {
		if l.cluster.TopicInfo(topic) != nil {
			continue
		}
		if err = l.cluster.CreateTopic(topic, 1, logSettings()); err != nil {
			return nil, errors.Join(fmt.Errorf("create topic %s: %w", topic, err), l.close())
		}
	}
	l.kafka, err = newKafka(inProcess, kgo.SeedBrokers(l.cluster.ListenAddrs()...), kgo.Dialer(pipe.DialContext))
	if err != nil {
		return nil, errors.Join(err, l.close())
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
	return l.kafka.offset(ctx, l.topic, atEnd)
}

// append makes values the next entries, all in one batch, and returns when they are durable.
func (l *topicLog) append(ctx context.Context, values [][]byte) error {
	_, err := l.kafka.produce(ctx, l.topic, values, produceTimeout)
	return err
}

// poll waits a while for entries from an offset on. end is the offset after the last.
func (l *topicLog) poll(ctx context.Context, from int64) (records []*kgo.Record, end int64, err error) {
	return l.kafka.fetch(ctx, l.topic, from, pollWait)
}

// pollWait is how long a log that grows no more is silent: who hears nothing for longer has lost it.
const pollWait = 500 * time.Millisecond

func (l *topicLog) close() error {
	if l.kafka != nil {
		l.kafka.client.Close()
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
