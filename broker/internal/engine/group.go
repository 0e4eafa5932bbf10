package engine

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxOffsetMetadata is how many characters a committed offset may carry: Kafka's default of offset.metadata.max.bytes.
const maxOffsetMetadata = 4096

// admitJoinGroup keeps out what makes the data plane count protocols wrongly, which it does not survive: none at all,
// as Kafka refuses too, and one that is named twice.
func admitJoinGroup(_ *Engine, req *kmsg.JoinGroupRequest) (passage, error) {
	if req.Group != "" && (req.ProtocolType == "" || len(req.Protocols) == 0) {
		resp, _ := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		resp.Generation = -1
		resp.MemberID = req.MemberID
		return passage{answer: resp}, nil
	}
	out := *req
	out.Protocols = distinct(req.Protocols, func(p *kmsg.JoinGroupRequestProtocol) string { return p.Name })
	return passage{req: &out}, nil
}

// A member of a group that is not there is told that it is unknown, and joins again. The data plane says that the group
// is unknown, which Java's consumer does not survive.

func admitHeartbeat(_ *Engine, req *kmsg.HeartbeatRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.HeartbeatResponse)
		r.ErrorCode = unknownMember(r.ErrorCode)
		return r, nil
	}}, nil
}

func admitSyncGroup(_ *Engine, req *kmsg.SyncGroupRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.SyncGroupResponse)
		r.ErrorCode = unknownMember(r.ErrorCode)
		return r, nil
	}}, nil
}

// admitLeaveGroup tells each member of the newer form for itself.
func admitLeaveGroup(_ *Engine, req *kmsg.LeaveGroupRequest) (passage, error) {
	const membersFrom = 3
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.LeaveGroupResponse)
		if r.ErrorCode != kerr.GroupIDNotFound.Code {
			return r, nil
		}
		if req.Version < membersFrom {
			r.ErrorCode = kerr.UnknownMemberID.Code
			return r, nil
		}
		r.ErrorCode, r.Members = 0, nil
		for _, m := range req.Members {
			gone := kmsg.NewLeaveGroupResponseMember()
			gone.MemberID, gone.InstanceID, gone.ErrorCode = m.MemberID, m.InstanceID, kerr.UnknownMemberID.Code
			r.Members = append(r.Members, gone)
		}
		return r, nil
	}}, nil
}

func unknownMember(code int16) int16 {
	if code == kerr.GroupIDNotFound.Code {
		return kerr.UnknownMemberID.Code
	}
	return code
}

// admitOffsetFetch answers a group that is not there with no offsets, as Kafka does: a consumer that assigns itself its
// partitions asks before it has ever committed.
func admitOffsetFetch(e *Engine, req *kmsg.OffsetFetchRequest) (passage, error) {
	const groupsFrom, idsFrom = 8, 10
	out := *req
	out.Groups = distinct(req.Groups, func(g *kmsg.OffsetFetchRequestGroup) string { return g.Group })
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.OffsetFetchResponse)
		if req.Version < groupsFrom {
			// An answer of v1 has no place for the group's error.
			if r.ErrorCode == kerr.GroupIDNotFound.Code || r.ErrorCode == 0 && len(r.Topics) == 0 {
				r.ErrorCode, r.Topics = 0, nothingCommittedBefore(req.Topics)
			}
			return r, nil
		}
		for i := range min(len(r.Groups), len(out.Groups)) {
			if g := &r.Groups[i]; g.ErrorCode == kerr.GroupIDNotFound.Code {
				g.ErrorCode, g.Topics = 0, e.nothingCommitted(out.Groups[i].Topics, req.Version >= idsFrom)
			}
		}
		return r, nil
	}}, nil
}

func (e *Engine) nothingCommitted(asked []kmsg.OffsetFetchRequestGroupTopic, byID bool) (topics []kmsg.OffsetFetchResponseGroupTopic) {
	for _, t := range asked {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		code := int16(0)
		if _, known := e.topics.name(t.TopicID); byID && !known {
			code = kerr.UnknownTopicID.Code
		}
		for _, p := range t.Partitions {
			one := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			one.Partition, one.Offset, one.LeaderEpoch, one.Metadata, one.ErrorCode = p, -1, -1, new(""), code
			topic.Partitions = append(topic.Partitions, one)
		}
		topics = append(topics, topic)
	}
	return topics
}

// nothingCommittedBefore is the same in the form before version 8.
func nothingCommittedBefore(asked []kmsg.OffsetFetchRequestTopic) (topics []kmsg.OffsetFetchResponseTopic) {
	for _, t := range asked {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			one := kmsg.NewOffsetFetchResponseTopicPartition()
			one.Partition, one.Offset, one.LeaderEpoch, one.Metadata = p, -1, -1, new("")
			topic.Partitions = append(topic.Partitions, one)
		}
		topics = append(topics, topic)
	}
	return topics
}

func tooLong(metadata *string) bool {
	return metadata != nil && utf8.RuneCountInString(*metadata) > maxOffsetMetadata
}

// admitOffsetCommit refuses offsets with too much metadata, which the data plane would keep; the others pass. A commit of
// nothing makes no group.
func admitOffsetCommit(_ *Engine, req *kmsg.OffsetCommitRequest) (passage, error) {
	if len(req.Topics) == 0 {
		return passage{answer: req.ResponseKind()}, nil
	}
	out := *req
	out.Topics = make([]kmsg.OffsetCommitRequestTopic, 0, len(req.Topics))
	var refused []kmsg.OffsetCommitResponseTopic
	for _, t := range req.Topics {
		good := t
		good.Partitions = make([]kmsg.OffsetCommitRequestTopicPartition, 0, len(t.Partitions))
		bad := kmsg.NewOffsetCommitResponseTopic()
		bad.Topic, bad.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			if !tooLong(p.Metadata) {
				good.Partitions = append(good.Partitions, p)
				continue
			}
			one := kmsg.NewOffsetCommitResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, kerr.OffsetMetadataTooLarge.Code
			bad.Partitions = append(bad.Partitions, one)
		}
		if len(bad.Partitions) == 0 || len(good.Partitions) > 0 {
			out.Topics = append(out.Topics, good)
		}
		if len(bad.Partitions) > 0 {
			refused = append(refused, bad)
		}
	}
	if len(refused) == 0 {
		return passage{req: req}, nil
	}
	if len(out.Topics) == 0 {
		resp, _ := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		resp.Topics = refused
		return passage{answer: resp}, nil
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.OffsetCommitResponse)
		r.Topics = append(r.Topics, refused...)
		return r, nil
	}}, nil
}

// admitOffsetDelete tells of partitions that are not there, of which the data plane would say that they are done.
func admitOffsetDelete(e *Engine, req *kmsg.OffsetDeleteRequest) (passage, error) {
	out := *req
	out.Topics = make([]kmsg.OffsetDeleteRequestTopic, 0, len(req.Topics))
	var missing []kmsg.OffsetDeleteResponseTopic
	for _, t := range req.Topics {
		there := kmsg.OffsetDeleteRequestTopic{Topic: t.Topic}
		no := kmsg.NewOffsetDeleteResponseTopic()
		no.Topic = t.Topic
		size := int32(e.topics.size(t.Topic))
		for _, p := range t.Partitions {
			if p.Partition >= 0 && p.Partition < size {
				there.Partitions = append(there.Partitions, p)
				continue
			}
			one := kmsg.NewOffsetDeleteResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, kerr.UnknownTopicOrPartition.Code
			no.Partitions = append(no.Partitions, one)
		}
		if len(there.Partitions) > 0 {
			out.Topics = append(out.Topics, there)
		}
		if len(no.Partitions) > 0 {
			missing = append(missing, no)
		}
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.OffsetDeleteResponse)
		for _, t := range missing {
			if r.ErrorCode != 0 {
				break
			}
			i := slices.IndexFunc(r.Topics, func(there kmsg.OffsetDeleteResponseTopic) bool { return there.Topic == t.Topic })
			if i < 0 {
				r.Topics = append(r.Topics, t)
				continue
			}
			r.Topics[i].Partitions = append(r.Topics[i].Partitions, t.Partitions...)
		}
		return r, nil
	}}, nil
}

// admitConsumerGroupHeartbeat checks what the data plane takes on trust, in Kafka's words.
func admitConsumerGroupHeartbeat(_ *Engine, req *kmsg.ConsumerGroupHeartbeatRequest) (passage, error) {
	if v := checkMember(req); v != (verdict{}) {
		resp, _ := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
		resp.ErrorCode, resp.ErrorMessage = v.err.Code, &v.why
		return passage{answer: resp}, nil
	}
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if r.ErrorCode != 0 {
			r.HeartbeatIntervalMillis = 0
		}
		return r, nil
	}}, nil
}

func checkMember(req *kmsg.ConsumerGroupHeartbeatRequest) verdict {
	const (
		joining     = 0
		leaving     = -1
		leavingKept = -2 // a static member that comes back
	)
	empty := func(s *string) bool { return s != nil && *s == "" }
	invalid := func(why string) verdict { return verdict{kerr.InvalidRequest, why} }
	switch {
	case req.MemberID == "" && (req.Version > 0 || req.MemberEpoch != joining):
		return invalid("MemberId can't be empty.")
	case req.Group == "":
		return invalid("GroupId can't be empty.")
	case empty(req.InstanceID):
		return invalid("InstanceId can't be empty.")
	case empty(req.RackID):
		return invalid("RackId can't be empty.")
	case req.MemberEpoch < leavingKept:
		return invalid("MemberEpoch is invalid.")
	case req.MemberEpoch == leavingKept && req.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case req.MemberEpoch == joining && req.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case req.MemberEpoch == joining && (req.Topics == nil || len(req.Topics) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	}
	if r := req.SubscribedTopicRegex; r != nil && *r != "" && req.MemberEpoch > leaving {
		var bad *syntax.Error
		if _, err := regexp.Compile(*r); errors.As(err, &bad) {
			return verdict{kerr.InvalidRegularExpression, "SubscribedTopicRegex `" + *r + "` is not a valid regular expression: " + bad.Code.String() + "."}
		}
	}
	return verdict{}
}
