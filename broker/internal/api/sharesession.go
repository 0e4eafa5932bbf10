package api

import (
	"maps"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// finalShareEpoch ends a share session.
const finalShareEpoch = -1

// shareSession is what one member of a share group reads through a connection. A ShareFetch names only what it adds, so that the
// others have to be asked for here: Kafka authorizes all of them each time. A topic that its reader may not read is taken out of
// the data plane's session, which would go on to acquire its records, and comes back once it may be read. Touched by the
// connection's request in flight alone.
type shareSession struct {
	partitions map[[16]byte]map[int32]struct{}
	withheld   map[[16]byte]struct{} // not in the data plane's session
}

// with is the session as a request changes it.
func (s *shareSession) with(req *kmsg.ShareFetchRequest) *shareSession {
	next := &shareSession{partitions: map[[16]byte]map[int32]struct{}{}, withheld: map[[16]byte]struct{}{}}
	if s != nil {
		maps.Copy(next.withheld, s.withheld)
		for id, partitions := range s.partitions {
			next.partitions[id] = maps.Clone(partitions)
		}
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		if next.partitions[t.TopicID] == nil {
			next.partitions[t.TopicID] = map[int32]struct{}{}
		}
		for j := range t.Partitions {
			next.partitions[t.TopicID][t.Partitions[j].Partition] = struct{}{}
		}
	}
	for _, t := range req.ForgottenTopicsData {
		for _, p := range t.Partitions {
			delete(next.partitions[t.TopicID], p)
		}
		if len(next.partitions[t.TopicID]) == 0 {
			delete(next.partitions, t.TopicID)
			delete(next.withheld, t.TopicID)
		}
	}
	return next
}

// shareKey names a member's session.
func shareKey(group, member *string) string {
	key := *group
	if member != nil {
		key += "\x00" + *member
	}
	return key
}

// permitShares authorizes all that a share session reads, and changes the request so that the data plane serves that and nothing
// else. False: it has answered.
func (q *call) permitShares(req *kmsg.ShareFetchRequest) bool {
	if req.GroupID == nil {
		q.refuse(req, kerr.InvalidRequest, "")
		return false
	}
	if q.server.o.Authorizer == nil {
		return true
	}
	q.noteRules()
	now := q.session.shares[shareKey(req.GroupID, req.MemberID)]
	if now == nil && req.ShareSessionEpoch != 0 {
		q.refuse(req, kerr.ShareSessionNotFound, "") // another connection's is not this one's to go on with
		return false
	}
	if req.ShareSessionEpoch == 0 {
		now = nil
	}
	next := now.with(req)
	named := sharedIDs(req)
	q.partShares(req)
	still := sharedIDs(req)
	refused := kmsg.NewPtrShareFetchResponse()
	for id, partitions := range next.partitions {
		name, known := q.server.o.Engine.TopicName(id)
		allowed := still[id] || !known && !q.server.o.Engine.Remote() || known && !named[id] && q.decide(acl.Read, acl.Topic, name, len(partitions), true)
		_, withheld := next.withheld[id]
		switch {
		case !allowed:
			next.withheld[id] = struct{}{}
			gone := kmsg.NewShareFetchRequestForgottenTopicsData()
			gone.TopicID, gone.Partitions = id, slices.Sorted(maps.Keys(partitions))
			if req.ShareSessionEpoch > 0 {
				req.ForgottenTopicsData = append(req.ForgottenTopicsData, gone)
			}
			if !named[id] {
				refused.Topics = append(refused.Topics, refusedShare(id, gone.Partitions, withheldFor(known)))
			}
		case withheld:
			delete(next.withheld, id)
			req.Topics = append(req.Topics, askedShare(id, partitions))
		}
	}
	if len(refused.Topics) > 0 {
		q.refused = append(q.refused, refused)
	}
	q.nextShares = next
	return true
}

// sharedIDs are the topics that a request names.
func sharedIDs(req *kmsg.ShareFetchRequest) map[[16]byte]bool {
	ids := make(map[[16]byte]bool, len(req.Topics))
	for i := range req.Topics {
		ids[req.Topics[i].TopicID] = true
	}
	return ids
}

// withheldFor is why a topic is withheld: its reader may not read it, or it is not known.
func withheldFor(known bool) int16 {
	if known {
		return kerr.TopicAuthorizationFailed.Code
	}
	return kerr.UnknownTopicID.Code
}

// partShares takes the topics out of a request that its sender may not read. What is left goes to the data plane even if it is
// nothing: the session's epoch goes on.
func (q *call) partShares(req kmsg.Request) {
	q.partStrangers(req)
	topics := right{acl.Read, acl.Topic, "Topics"}
	if parted := q.part(req, topics, reflect.ValueOf(req).Elem().FieldByName(topics.field)); parted != nil {
		q.refused = append(q.refused, refusedParts(parted, kerr.TopicAuthorizationFailed.Code, ""))
	}
}

func askedShare(id [16]byte, partitions map[int32]struct{}) kmsg.ShareFetchRequestTopic {
	t := kmsg.NewShareFetchRequestTopic()
	t.TopicID = id
	for _, partition := range slices.Sorted(maps.Keys(partitions)) {
		p := kmsg.NewShareFetchRequestTopicPartition()
		p.Partition = partition
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

func refusedShare(id [16]byte, partitions []int32, code int16) kmsg.ShareFetchResponseTopic {
	t := kmsg.NewShareFetchResponseTopic()
	t.TopicID = id
	for _, partition := range partitions {
		t.Partitions = append(t.Partitions, refusedSharePartition(partition, code))
	}
	return t
}

func refusedSharePartition(partition int32, code int16) kmsg.ShareFetchResponseTopicPartition {
	p := kmsg.NewShareFetchResponseTopicPartition()
	p.Partition, p.ErrorCode, p.Records = partition, code, []byte{}
	return p
}

// settleShares keeps a session as the data plane has it now, and takes out of an answer what its reader was let read when the
// request came, and is not any more.
func (q *call) settleShares(req *kmsg.ShareFetchRequest, resp *kmsg.ShareFetchResponse) {
	if q.server.o.Authorizer == nil {
		return
	}
	if resp.ErrorCode != 0 {
		q.refused, q.nextShares = nil, nil
	}
	q.keepShares(shareKey(req.GroupID, req.MemberID), req.ShareSessionEpoch, q.nextShares)
	if !q.rulesChanged() {
		return
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name, known := q.server.o.Engine.TopicName(t.TopicID)
		if known && q.decide(acl.Read, acl.Topic, name, max(len(t.Partitions), 1), true) {
			continue
		}
		for j := range t.Partitions {
			p := refusedSharePartition(t.Partitions[j].Partition, withheldFor(known))
			p.AcknowledgeErrorCode, p.AcknowledgeErrorMessage = t.Partitions[j].AcknowledgeErrorCode, t.Partitions[j].AcknowledgeErrorMessage
			t.Partitions[j] = p
		}
	}
}

// keepShares replaces what is known of a session; nil, or the final epoch, ends it.
func (q *call) keepShares(key string, epoch int32, s *shareSession) {
	switch {
	case s == nil || epoch == finalShareEpoch:
		delete(q.session.shares, key)
	case q.session.shares == nil:
		q.session.shares = map[string]*shareSession{key: s}
	default:
		q.session.shares[key] = s
	}
}
