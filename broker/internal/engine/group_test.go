package engine

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAGroupThatIsNotThereHasNoOffsets(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 2)
	for version := int16(1); version <= 9; version++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version = version
		if version < 8 {
			topic := kmsg.NewOffsetFetchRequestTopic()
			topic.Topic, topic.Partitions = "t", []int32{0, 1}
			req.Group, req.Topics = "none", append(req.Topics, topic)
		} else {
			topic := kmsg.NewOffsetFetchRequestGroupTopic()
			topic.Topic, topic.Partitions = "t", []int32{0, 1}
			group := kmsg.NewOffsetFetchRequestGroup()
			group.Group, group.Topics = "none", append(group.Topics, topic)
			req.Groups = append(req.Groups, group)
		}
		resp := ask[*kmsg.OffsetFetchResponse](t, e, req)
		var offsets []int64
		code := resp.ErrorCode
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				offsets = append(offsets, p.Offset)
			}
		}
		for _, group := range resp.Groups {
			code = group.ErrorCode
			for _, topic := range group.Topics {
				for _, p := range topic.Partitions {
					offsets = append(offsets, p.Offset)
				}
			}
		}
		if code != 0 || len(offsets) != 2 || offsets[0] != -1 || offsets[1] != -1 {
			t.Errorf("OffsetFetch v%d of an unknown group = error %d, offsets %v; want -1 twice", version, code, offsets)
		}
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 5, "none"
	if resp := ask[*kmsg.OffsetFetchResponse](t, e, req); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("OffsetFetch of all of an unknown group = error %d, %v; want nothing", resp.ErrorCode, resp.Topics)
	}
}

func TestAMemberOfAGroupThatIsNotThereIsUnknown(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	want := kerr.UnknownMemberID.Code
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.Generation = 4, "none", "m", 1
	if got := ask[*kmsg.HeartbeatResponse](t, e, beat).ErrorCode; got != want {
		t.Errorf("Heartbeat = error %d, want %d", got, want)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 4, "none", "m", 1
	if got := ask[*kmsg.SyncGroupResponse](t, e, sync).ErrorCode; got != want {
		t.Errorf("SyncGroup = error %d, want %d", got, want)
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.MemberID = 2, "none", "m"
	if got := ask[*kmsg.LeaveGroupResponse](t, e, leave).ErrorCode; got != want {
		t.Errorf("LeaveGroup v2 = error %d, want %d", got, want)
	}
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = "m"
	leave.Version, leave.MemberID, leave.Members = 5, "", append(leave.Members, member)
	left := ask[*kmsg.LeaveGroupResponse](t, e, leave)
	if left.ErrorCode != 0 || len(left.Members) != 1 || left.Members[0].MemberID != "m" || left.Members[0].ErrorCode != want {
		t.Errorf("LeaveGroup v5 = %+v, want error %d for the member", left, want)
	}
}

func TestAGroupWithoutANameIsRefused(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	for _, join := range []*kmsg.JoinGroupRequest{joinGroup(""), joinGroup("", "range")} {
		if got := ask[*kmsg.JoinGroupResponse](t, e, join).ErrorCode; got != kerr.InvalidGroupID.Code {
			t.Errorf("joining a group without a name by %d protocols = error %d, want %d", len(join.Protocols), got, kerr.InvalidGroupID.Code)
		}
	}
}

func TestOffsetsWithTooMuchMetadataAreRefusedAlone(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 2)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, "g", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "t"
	for i, metadata := range []string{strings.Repeat("ü", 4096), strings.Repeat("x", 4097)} {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = int32(i), 7, &metadata
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	got := map[int32]int16{}
	for _, topic := range ask[*kmsg.OffsetCommitResponse](t, e, req).Topics {
		for _, p := range topic.Partitions {
			got[p.Partition] = p.ErrorCode
		}
	}
	if len(got) != 2 || got[0] != 0 || got[1] != kerr.OffsetMetadataTooLarge.Code {
		t.Errorf("OffsetCommit = %v, want error %d for partition 1 only", got, kerr.OffsetMetadataTooLarge.Code)
	}
}

func consumerHeartbeat(change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, "g", "m", 10_000
	req.SubscribedTopicNames = []string{"t"}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	change(req)
	return req
}

func TestMembersOfConsumerGroupsAreChecked(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	empty, open := "", "["
	for _, test := range []struct {
		name   string
		change func(*kmsg.ConsumerGroupHeartbeatRequest)
		want   *kerr.Error
	}{
		{"no member id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" }, kerr.InvalidRequest},
		{"no group id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" }, kerr.InvalidRequest},
		{"empty instance id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &empty }, kerr.InvalidRequest},
		{"empty rack id", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &empty }, kerr.InvalidRequest},
		{"epoch -3", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 }, kerr.InvalidRequest},
		{"no rebalance timeout", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, kerr.InvalidRequest},
		{"bad pattern", func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &open }, kerr.InvalidRegularExpression},
	} {
		resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, e, consumerHeartbeat(test.change))
		if resp.ErrorCode != test.want.Code || resp.ErrorMessage == nil || resp.HeartbeatIntervalMillis != 0 {
			t.Errorf("%s: error %d, message %v, interval %d; want %d, a message and 0",
				test.name, resp.ErrorCode, resp.ErrorMessage, resp.HeartbeatIntervalMillis, test.want.Code)
		}
	}
}

func TestAssignedTopicsAreDescribedByName(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	for range 2 { // the second tells which assignment the member has taken up
		if resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](t, e, consumerHeartbeat(func(*kmsg.ConsumerGroupHeartbeatRequest) {})); resp.ErrorCode != 0 {
			t.Fatalf("joining = error %d", resp.ErrorCode)
		}
	}
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{"g"}
	groups := ask[*kmsg.ConsumerGroupDescribeResponse](t, e, req).Groups
	if len(groups) != 1 || len(groups[0].Members) != 1 {
		t.Fatalf("ConsumerGroupDescribe = %+v, want one member", groups)
	}
	if got := groups[0].Members[0].TargetAssignment.TopicPartitions; len(got) != 1 || got[0].Topic != "t" {
		t.Errorf("target assignment = %+v, want topic t by name", got)
	}
}
