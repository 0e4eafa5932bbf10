package metadata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Remote says where a log is that several brokers share: in a cluster that speaks Kafka's protocol.
type Remote struct {
	// Servers are some of the cluster's addresses, host:port.
	Servers []string
	// Topic holds the log. Two more are beside it, with _snapshots and _heartbeats after its name. What is missing is made.
	Topic string
	// Client is how to reach them: TLS, SASL, a dialer.
	Client []kgo.Opt
}

func (r *Remote) connect() (*kafka, error) {
	return newKafka(overhead, append([]kgo.Opt{kgo.SeedBrokers(r.Servers...)}, r.Client...)...)
}

// openRemote connects to a log that several brokers share, and makes its topics if nobody has yet. It tries until ctx ends.
func openRemote(ctx context.Context, r *Remote, log *slog.Logger) (*topicLog, error) {
	k, err := r.connect()
	if err != nil {
		return nil, err
	}
	l := &topicLog{kafka: k, topic: r.Topic, remote: r}
	err = l.untilReached(ctx, log, func(ctx context.Context) error { return l.makeTopics(ctx, log) })
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// untilReached does what a far end that is not there yet, or not any more, keeps from being done. The error is the last one.
func (l *topicLog) untilReached(ctx context.Context, log *slog.Logger, do func(context.Context) error) error {
	var why error // of the tries that had all the time they wanted
	told := time.Now().Add(time.Second)
	for {
		err := do(ctx)
		if err == nil || !temporary(err) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("metadata log at %s: %w", strings.Join(l.remote.Servers, ","), cmp.Or(why, err))
		}
		why = err
		if time.Now().After(told) { // a topic that has just been made needs a moment
			told = told.Add(time.Minute)
			log.Warn("metadata log cannot be reached yet", slog.String("servers", strings.Join(l.remote.Servers, ",")), slog.Any("error", err))
		}
		pause(ctx, retryPause)
	}
}

// retryPause is between two tries.
const retryPause = 250 * time.Millisecond

// pause waits, or less when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// logSettings are those of the log and of its snapshots: it is shortened by us alone, behind a snapshot.
func logSettings() map[string]string {
	return map[string]string{
		"cleanup.policy":    "delete",
		"retention.ms":      "-1",
		"retention.bytes":   "-1",
		"max.message.bytes": strconv.Itoa(maxBatch + 1<<10),
		"segment.bytes":     strconv.Itoa(2 * maxBatch), // what is shortened is given back in whole segments
	}
}

// heartbeatSettings: old ones are of no use.
func heartbeatSettings() map[string]string {
	return map[string]string{
		"cleanup.policy": "delete",
		"retention.ms":   strconv.FormatInt((10 * time.Minute).Milliseconds(), 10),
		"segment.bytes":  strconv.Itoa(1 << 20),
	}
}

// makeTopics makes those topics that are missing, on as many replicas as there are brokers now, up to three. Another broker
// may do the same at the same time.
func (l *topicLog) makeTopics(ctx context.Context, log *slog.Logger) error {
	for _, t := range []struct {
		name     string
		settings map[string]string
	}{
		{l.topic, logSettings()},
		{l.snapshots(), logSettings()},
		{l.heartbeats(), heartbeatSettings()},
	} {
		err := l.makeTopic(ctx, log, t.name, t.settings)
		if err != nil {
			return err
		}
		if _, err := l.kafka.leader(ctx, t.name); err != nil {
			return err
		}
	}
	return nil
}

func (l *topicLog) makeTopic(ctx context.Context, log *slog.Logger, name string, settings map[string]string) error {
	_, err := l.kafka.describe(ctx, name)
	if err == nil && name == l.heartbeats() {
		return nil // may lose what it likes
	}
	if err == nil {
		return l.checkTopic(ctx, name, settings)
	}
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return err
	}
	brokers := kmsg.NewPtrMetadataRequest()
	brokers.Topics = []kmsg.MetadataRequestTopic{} // none: brokers only
	meta, err := brokers.RequestWith(ctx, l.kafka.client)
	if err != nil {
		return fmt.Errorf("find the brokers of the metadata log: %w", err)
	}
	replicas := min(len(meta.Brokers), 3)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, int16(replicas)
	set := func(k, v string) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	for k, v := range settings {
		set(k, v)
	}
	set("min.insync.replicas", strconv.Itoa(max(replicas-1, 1)))
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(produceTimeout.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, l.kafka.client)
	if err != nil {
		return fmt.Errorf("make topic %s: %w", name, err)
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("make topic %s: %d topics answered", name, len(resp.Topics))
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); {
	case err == nil:
		log.Info("made topic of the metadata log", slog.String("topic", name), slog.Int("replicas", replicas))
	case errors.Is(err, kerr.TopicAlreadyExists): // another broker was first
	default:
		if m := resp.Topics[0].ErrorMessage; m != nil {
			return fmt.Errorf("make topic %s: %w: %s", name, err, *m)
		}
		return fmt.Errorf("make topic %s: %w", name, err)
	}
	return nil
}

// checkTopic refuses a topic that was made by somebody else so that it loses records.
func (l *topicLog) checkTopic(ctx context.Context, name string, settings map[string]string) error {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
	r.ConfigNames = []string{"cleanup.policy", "retention.ms", "retention.bytes"}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(ctx, l.kafka.client)
	if err != nil {
		return fmt.Errorf("check topic %s: %w", name, err)
	}
	if len(resp.Resources) != 1 {
		return fmt.Errorf("check topic %s: %d topics answered", name, len(resp.Resources))
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		return fmt.Errorf("check topic %s: %w", name, err)
	}
	for _, c := range resp.Resources[0].Configs {
		if want, ok := settings[c.Name]; ok && c.Value != nil && *c.Value != want {
			return final{fmt.Errorf("topic %s has %s=%s, and the metadata needs %s", name, c.Name, *c.Value, want)}
		}
	}
	return nil
}
