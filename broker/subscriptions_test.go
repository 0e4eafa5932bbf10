package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

// regexMember is a member of a consumer group that subscribes by a regular expression.
type regexMember struct {
	*raw
	ids   map[string][16]byte
	epoch int32
}

// beat sends a heartbeat, of all that the member has to say where regex is not empty. It returns the names of the topics that the member is
// given, and false where the answer has no assignment.
func (m *regexMember) beat(regex string) ([]string, bool) {
	m.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "regular", "member", m.epoch
	if regex != "" {
		req.RebalanceTimeoutMillis, req.SubscribedTopicRegex, req.Topics = 10_000, &regex, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](m.raw, req)
	if resp.ErrorCode != 0 {
		m.t.Fatalf("heartbeat: %d", resp.ErrorCode)
	}
	m.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return nil, false
	}
	var names []string
	for _, topic := range resp.Assignment.Topics {
		for name, id := range m.ids {
			if id == topic.TopicID {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, true
}

// Kafka's coordinator leaves out of a regular expression what its member may not describe: the ids of an assignment would tell of it.
func TestARegularExpressionGivesOnlyTopicsThatItsMemberMayDescribe(t *testing.T) {
	t.Parallel()
	addr := authorizedBroker(t)
	root := &authority{login(t, addr, "root"), map[string][16]byte{}}
	root.make("one", "two")
	root.rules(rules(t, "allow READ Group *; allow DESCRIBE Topic one"))
	m := &regexMember{login(t, addr, "alice"), root.ids, 0}
	expect := func(when string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: given %v, want %v", when, got, want)
		}
	}
	joined, _ := m.beat("one|two|thr.*")
	expect("on joining", joined, "one")
	if again, told := m.beat(""); told {
		t.Errorf("a heartbeat without news is answered %v", again)
	}
	root.rules(rules(t, "allow READ Group *; allow READ Topic *"))
	allowed, _ := m.beat("")
	expect("once all is allowed", allowed, "one", "two")
	root.make("three")
	more, _ := m.beat("")
	expect("once there is another topic", more, "one", "three", "two")
	root.rules(rules(t, "allow READ Group *; allow READ Topic *; deny DESCRIBE Topic two"))
	fewer, _ := m.beat("")
	expect("once one is denied", fewer, "one", "three")
	root.rules(rules(t, "allow READ Group *"))
	none, told := m.beat("")
	expect("once nothing is allowed", none)
	if !told {
		t.Error("nothing tells the member that it has no topics any more")
	}
}

// A broker that was restarted does not know what the members of groups subscribe to, and the data plane has names in its place.
func TestARegularExpressionGivesNewTopicsAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	var r *raw
	var stop func()
	start := func() {
		var b *broker.Broker
		b, stop = startStoppable(t, faceOf(t, 1, bootstrap, metadata))
		r = dial(t, b.Addr("PLAINTEXT"))
	}
	makeTopic := func(name string) {
		made := ask[*kmsg.CreateTopicsResponse](r, &kmsg.CreateTopicsRequest{
			Version: 7, TimeoutMillis: 30_000, Topics: []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}},
		}).Topics[0]
		if made.ErrorCode != 0 {
			t.Fatalf("CreateTopics(%s) = %+v", name, made)
		}
	}
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	joinAnew := func() {
		beat.MemberEpoch, beat.SubscribedTopicRegex, beat.RebalanceTimeoutMillis = 0, new("seen.*"), 60_000
		beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	given := func(n int) func() bool { // n topics in the end
		return func() bool {
			resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](r, beat)
			if resp.ErrorCode == kerr.FencedMemberEpoch.Code {
				joinAnew()
				return false
			}
			if resp.ErrorCode != 0 {
				t.Fatalf("ConsumerGroupHeartbeat = %+v", resp)
			}
			beat.MemberEpoch, beat.SubscribedTopicRegex, beat.RebalanceTimeoutMillis, beat.Topics = resp.MemberEpoch, nil, -1, nil
			if resp.Assignment == nil {
				return false
			}
			for _, topic := range resp.Assignment.Topics {
				beat.Topics = append(beat.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic.TopicID, Partitions: topic.Partitions})
			}
			return len(resp.Assignment.Topics) == n
		}
	}
	start()
	makeTopic("seen-1")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version = 4
	for i := range 50 {
		find.CoordinatorKeys = append(find.CoordinatorKeys, fmt.Sprint("group-", i))
	}
	for _, at := range ask[*kmsg.FindCoordinatorResponse](r, find).Coordinators {
		if at.ErrorCode == 0 { // the others' nodes have no face
			beat.Group = at.Key
		}
	}
	beat.Version, beat.MemberID = 1, "AAAAAAAAAAAAAAAAAAAAAQ"
	joinAnew()
	until(t, "the member to have its topic", given(1))
	stop()
	start()
	makeTopic("seen-2")
	until(t, "the member to have the topic that was made after the restart", given(2))
}

// A page's cursor names the topic that the next begins with, which must be one that its reader may describe.
func TestThePagesOfTopicsTellOfNoTopicThatIsDenied(t *testing.T) {
	t.Parallel()
	addr := authorizedBroker(t)
	root := &authority{login(t, addr, "root"), map[string][16]byte{}}
	root.make("a-secret", "b-open", "c-secret", "d-open", "e-secret", "f-open", "g-secret")
	root.rules(rules(t, "allow DESCRIBE Topic b-open; allow DESCRIBE Topic d-open; allow DESCRIBE Topic f-open"))
	alice := login(t, addr, "alice")
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 1
	var got []string
	for range 10 {
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](alice, req)
		for i := range resp.Topics {
			got = append(got, *resp.Topics[i].Topic)
		}
		if resp.NextCursor == nil {
			break
		}
		if strings.HasSuffix(resp.NextCursor.Topic, "secret") {
			t.Errorf("the cursor tells of %s", resp.NextCursor.Topic)
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &cursor
	}
	if want := []string{"b-open", "d-open", "f-open"}; !slices.Equal(got, want) {
		t.Errorf("the pages have %v, want %v", got, want)
	}
}
