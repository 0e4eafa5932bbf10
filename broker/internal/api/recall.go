package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// What a member of a group subscribes to by a regular expression is known here alone: a data plane somewhere else has the topics in
// its place. After a restart, or when the group has come from another coordinator, it is not known here either, and the member,
// which says it only once, would be given those topics for ever, whatever topics or rights there are later. So a member that is
// heard of for the first time in the middle of its life is looked up, and one with an expression is made to join anew.

// recall sees to a member that was not heard of yet. False: it sees to the answer.
func (q *call) recall(req *kmsg.ConsumerGroupHeartbeatRequest) bool {
	s := q.server
	joins := req.MemberEpoch <= 0 || req.SubscribedTopicRegex != nil
	if q.recalled || joins || !s.o.Engine.Remote() || s.members.host(req.Group, req.MemberID) != "" {
		return true
	}
	q.recalled = true
	client := q.engineClient()
	if client == nil {
		return false // the connection is gone
	}
	ask := kmsg.NewPtrConsumerGroupDescribeRequest()
	ask.Version, ask.Groups = 1, []string{req.Group}
	client.Do(ask, func(resp kmsg.Response, err error) {
		defer q.survive()
		switch {
		case errors.Is(err, engine.ErrUnavailable), errors.Is(err, engine.ErrClosed):
			q.fail(req, err)
		case err == nil && hasExpression(resp, req.MemberID):
			q.refuse(req, kerr.FencedMemberEpoch, "")
		default:
			q.then(func() { q.row.run(q, req) })
		}
	})
	return false
}

// hasExpression tells whether a member of the described group subscribes by a regular expression. Kafka says so; a data plane of
// ours has just no names of such a member.
func hasExpression(described kmsg.Response, member string) bool {
	resp, _ := described.(*kmsg.ConsumerGroupDescribeResponse)
	for i := range resp.Groups {
		for j := range resp.Groups[i].Members {
			if m := &resp.Groups[i].Members[j]; m.MemberID == member {
				return m.SubscribedTopicRegex != nil && *m.SubscribedTopicRegex != "" || len(m.SubscribedTopics) == 0
			}
		}
	}
	return false
}
