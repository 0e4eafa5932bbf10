package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Options are what workers and coordinators have in common.
type Options struct {
	// Topic is where they meet. Beside it there is a topic of this name and "-reports". Who comes first makes both.
	Topic string
	// Client are the seed brokers of the topic's cluster, how to authenticate there, and how to encrypt.
	Client []kgo.Opt
	// Name says who this is to people, such as host/pid.
	Name string
	// Say is told what goes on, a line each; nil: nobody is. It may be called by several goroutines.
	Say func(string)
}

// Partitions is how many shares a run has at most: how many partitions the topic gets if it is not there yet.
const Partitions = 12

// The bounds of consumer groups: how soon a worker that has died is missed (session), and how long one that lives may take to
// notice that others come and go.
const (
	session   = 10 * time.Second
	beat      = 2 * time.Second
	rebalance = 20 * time.Second
	look      = time.Second // between two looks at a group
)

// The names of what belongs to a topic.
func (o *Options) reports() string      { return o.Topic + "-reports" }
func (o *Options) workers() string      { return o.Topic + "-workers" }
func (o *Options) coordinators() string { return o.Topic + "-coordinator" }

func (o *Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

// meeting is a place at the topic: a client that reads one of its topics from now on and writes, and a member of one of its groups.
type meeting struct {
	Options

	cl      *kgo.Client
	adm     *kadm.Client
	member  *kgo.Client
	topicID kadm.TopicID

	mu    sync.Mutex // guards owned
	owned map[int32]bool
}

// meet makes the topics unless they are there, reads topic from its end on, and joins group, which has the partitions of topic.
func meet(ctx context.Context, o Options, group, topic string) (_ *meeting, err error) {
	m := &meeting{Options: o, owned: map[int32]bool{}}
	defer func() { //nolint:contextcheck // it bounds itself
		if err != nil {
			m.close()
		}
	}()
	cl, err := kgo.NewClient(append(slices.Clone(o.Client),
		kgo.ClientID(o.Name), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(look/4))...) // else what it knew of a topic before it was made is true to it for five seconds
	if err != nil {
		return nil, err
	}
	m.cl, m.adm = cl, kadm.NewClient(cl)
	err = m.makeTopics(ctx)
	if err != nil {
		return nil, err
	}
	ends, err := m.adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the end of topic %s: %w", topic, err)
	}
	from := map[string]map[int32]kgo.Offset{topic: {}}
	ends.Each(func(l kadm.ListedOffset) { from[topic][l.Partition] = kgo.NewOffset().At(l.Offset) })
	cl.AddConsumePartitions(from)
	m.member, err = kgo.NewClient(append(slices.Clone(o.Client),
		kgo.ClientID(o.Name), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.SessionTimeout(session), kgo.HeartbeatInterval(beat), kgo.RebalanceTimeout(rebalance),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { m.own(got, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.own(gone, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { m.own(gone, false) }))...)
	if err != nil {
		return nil, err
	}
	m.member.PauseFetchTopics(topic) // it is in the group for the assignment; records are read by cl
	return m, nil
}

// Waiting are the names of the workers that wait at the topic now, sorted; none where there is no such topic.
func Waiting(ctx context.Context, o Options) ([]string, error) {
	cl, err := kgo.NewClient(append(slices.Clone(o.Client), kgo.ClientID(o.Name))...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	m := meeting{Options: o, cl: cl, adm: kadm.NewClient(cl)}
	g, err := m.group(ctx, o.workers())
	if err != nil {
		return nil, err
	}
	names := make([]string, len(g.Members))
	for i := range g.Members {
		names[i] = g.Members[i].ClientID
	}
	slices.Sort(names)
	return names, nil
}

func (m *meeting) makeTopics(ctx context.Context) error {
	const hour = "3600000"
	for topic, partitions := range map[string]int32{m.Topic: Partitions, m.reports(): 1} {
		known, err := m.adm.ListTopics(ctx, topic)
		if err == nil && known.Has(topic) && known[topic].Err == nil {
			continue
		}
		_, err = m.adm.CreateTopic(ctx, partitions, -1, map[string]*string{"retention.ms": new(hour)}, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("make topic %s: %w", topic, err)
		}
	}
	return await(ctx, func() error {
		known, err := m.adm.ListTopics(ctx, m.Topic, m.reports())
		if err == nil {
			err = known.Error()
		}
		m.topicID = known[m.Topic].ID
		return err
	})
}

// errRemade is a topic that is another one of the same name: nothing is heard in it, nor is there a group's partition of the old.
var errRemade = errors.New("it was made anew")

// stands tells whether the topic is still there, and is the one that it was.
func (m *meeting) stands(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, session)
	defer cancel()
	known, err := m.adm.ListTopics(ctx, m.Topic)
	switch {
	case err != nil:
		return err
	case errors.Is(known[m.Topic].Err, kerr.UnknownTopicOrPartition), known[m.Topic].Err == nil && known[m.Topic].ID != m.topicID:
		return errRemade
	}
	return known[m.Topic].Err
}

// await tries until try has no error, or ctx ends.
func await(ctx context.Context, try func() error) error {
	tick := time.NewTicker(look / 4)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

func (m *meeting) own(partitions map[string][]int32, now bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, all := range partitions {
		for _, p := range all {
			if now {
				m.owned[p] = true
			} else {
				delete(m.owned, p)
			}
		}
	}
}

func (m *meeting) owns(partition int32) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned[partition]
}

// id is the member id, which is another after the group has missed this member; "" while it has none.
func (m *meeting) id() string {
	id, _ := m.member.GroupMetadata()
	return id
}

// send writes records in order, and returns when the cluster has them.
func (m *meeting) send(ctx context.Context, records ...*kgo.Record) error {
	return m.cl.ProduceSync(ctx, records...).FirstErr()
}

// group describes one of the topic's groups; one that is not there has no members.
func (m *meeting) group(ctx context.Context, name string) (kadm.DescribedGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, session)
	defer cancel()
	all, err := m.adm.DescribeGroups(ctx, name)
	if err == nil {
		err = all.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return kadm.DescribedGroup{Group: name}, nil
	}
	if err != nil {
		return kadm.DescribedGroup{}, fmt.Errorf("describe group %s: %w", name, err)
	}
	return all[name], nil
}

// partitionsOf are the partitions of topic that a member of a group is assigned.
func partitionsOf(member *kadm.DescribedGroupMember, topic string) []int32 {
	if a, ok := member.Assigned.AsConsumer(); ok {
		for _, t := range a.Topics {
			if t.Topic == topic {
				return t.Partitions
			}
		}
	}
	return nil
}

// close leaves the group and the topic.
func (m *meeting) close() {
	if m.member != nil {
		ctx, cancel := context.WithTimeout(context.Background(), session)
		defer cancel()
		_ = m.member.LeaveGroupContext(ctx) // else the group misses it after its session
		m.member.Close()
	}
	if m.cl != nil {
		m.cl.Close()
	}
}
