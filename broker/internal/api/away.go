package api

import (
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/network"
)

// While the data plane is away, clients are told what Kafka tells them while a leader, a coordinator or a controller is: they wait
// a moment, look who it is now and ask again, and a producer sends the same batch again. A connection that closes instead says
// nothing of that, and some clients take one that closes at its first request for a wrong password and give up what waits. Where
// leaders and coordinators are is answered from what is known: each client knows what to do when it asks one that cannot serve it,
// and not each when there is none.

const (
	// mostIdle bounds how long a Fetch is held while there is nothing to fetch from: some clients ask again at once.
	mostIdle = 500 * time.Millisecond
	// mostHeld bounds how long a Produce waits for an engine to come back, heldMost the bytes of all that do, and heldParts the parts of
	// each, which take memory though they may have no bytes.
	mostHeld  = 15 * time.Second
	heldMost  = 64 << 20
	heldParts = 1000
	// tryAfter is the least time between two attempts: that an engine is gone is noticed a moment later than its links are.
	tryAfter = 50 * time.Millisecond
)

// away answers a request that did not reach the data plane, or whose answer did not come back. A request for which Kafka has no
// error that clients try again after ends its connection, and so does one whose answer has begun.
func (q *call) away(req kmsg.Request, err error) {
	sent := errors.Is(err, engine.ErrUnanswered)
	code := q.awayCode(req, sent)
	if code == nil || q.relayed != nil {
		q.drop(network.ReasonEngineUnavailable, err)
		return
	}
	q.server.o.Log.Debug("the engine is away", slog.String("connection", q.conn.ID()), slog.String("api", q.row.name),
		slog.String("answer", code.Message), slog.Any("error", err))
	switch r := req.(type) {
	case *kmsg.MetadataRequest:
		q.recallMetadata(r)
	case *kmsg.FindCoordinatorRequest:
		q.answer(q.recallCoordinators(r))
	case *kmsg.ProduceRequest:
		q.hold(r, sent, code)
	case *kmsg.FetchRequest:
		q.later(r.MaxWaitMillis, func() { q.partsAway(req, code) })
	case *kmsg.ShareFetchRequest:
		q.later(r.MaxWaitMillis, func() { q.sharesAway(req, code, r.GroupID, r.MemberID) })
	case *kmsg.ShareAcknowledgeRequest:
		q.sharesAway(req, code, r.GroupID, r.MemberID)
	default:
		q.refuse(req, code, "")
	}
}

// awayCode is what a request is answered while the data plane is away; nil where it has no such answer. sent tells that the data plane
// may have carried it out.
func (q *call) awayCode(req kmsg.Request, sent bool) *kerr.Error {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		switch {
		case r.Acks == 0:
			return nil
		case sent || !q.server.o.Engine.Kafka(): // ours has all its leaders in one process, and they stay who they are
			return kerr.RequestTimedOut
		}
		return kerr.NotLeaderForPartition
	case *kmsg.FetchRequest, *kmsg.ListOffsetsRequest, *kmsg.OffsetForLeaderEpochRequest, *kmsg.DeleteRecordsRequest, *kmsg.DescribeProducersRequest:
		return kerr.NotLeaderForPartition
	case *kmsg.ShareFetchRequest:
		return shareCode(r.ShareSessionEpoch)
	case *kmsg.ShareAcknowledgeRequest:
		return shareCode(r.ShareSessionEpoch)
	case *kmsg.MetadataRequest:
		return kerr.LeaderNotAvailable
	case *kmsg.FindCoordinatorRequest, *kmsg.ListGroupsRequest:
		return kerr.CoordinatorNotAvailable
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest, *kmsg.OffsetCommitRequest,
		*kmsg.DescribeGroupsRequest, *kmsg.DeleteGroupsRequest, *kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupDescribeRequest,
		*kmsg.ShareGroupHeartbeatRequest, *kmsg.ShareGroupDescribeRequest, *kmsg.DescribeShareGroupOffsetsRequest, *kmsg.AddPartitionsToTxnRequest,
		*kmsg.AddOffsetsToTxnRequest, *kmsg.EndTxnRequest, *kmsg.TxnOffsetCommitRequest, *kmsg.DescribeTransactionsRequest:
		return kerr.NotCoordinator
	case *kmsg.OffsetFetchRequest, *kmsg.ListTransactionsRequest: // librdkafka gives the partition up after the code above
		return kerr.CoordinatorLoadInProgress
	case *kmsg.InitProducerIDRequest:
		if r.TransactionalID == nil { // nobody coordinates it
			return kerr.CoordinatorLoadInProgress
		}
		return kerr.NotCoordinator
	case *kmsg.CreateTopicsRequest, *kmsg.DeleteTopicsRequest, *kmsg.CreatePartitionsRequest:
		return kerr.NotController
	}
	return nil
}

// shareCode is that of a request in a share session: the first begins one.
func shareCode(epoch int32) *kerr.Error {
	if epoch != 0 {
		return kerr.ShareSessionNotFound
	}
	return kerr.NotLeaderForPartition
}

// recallMetadata answers with what is known of topics.
func (q *call) recallMetadata(req *kmsg.MetadataRequest) {
	resp, err := q.server.o.Engine.Recall(req)
	if err != nil {
		q.fail(req, err)
		return
	}
	q.hideTopics(req, resp, false)
	q.completeMetadata(req, resp)
}

// recallCoordinators names the coordinators as far as they are known.
func (q *call) recallCoordinators(req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < coordinatorListFrom {
		resp.NodeID = q.server.o.Engine.RecallCoordinator(req.CoordinatorType, req.CoordinatorKey)
	}
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID = key, q.server.o.Engine.RecallCoordinator(req.CoordinatorType, key)
		resp.Coordinators = append(resp.Coordinators, c)
	}
	q.placeCoordinators(resp)
	return resp
}

// hold makes a Produce again when an engine of ours is back, for half of the time at most that its client waits: so who tries again a
// few times only outlives a restart, and the order of what a connection sends is kept. A batch that may be written is sent again where
// it is known then, by its producer and sequence. Before Kafka nobody waits: there the next to be asked may be another.
func (q *call) hold(req *kmsg.ProduceRequest, sent bool, code *kerr.Error) {
	left := time.Until(q.received.Add(min(time.Duration(req.TimeoutMillis)*time.Millisecond/2, mostHeld)))
	again, held, size := q.again, &q.server.held, int64(len(q.body))
	if again == nil || left <= tryAfter || q.server.o.Engine.Kafka() || sent && !idempotent(req) || produceParts(req) > heldParts {
		q.giveUp(req, code)
		return
	}
	if held.Add(size) > heldMost {
		held.Add(-size)
		q.giveUp(req, code)
		return
	}
	time.AfterFunc(tryAfter, func() {
		q.server.o.Engine.WhenBack(left-tryAfter, func() {
			defer q.survive()
			held.Add(-size)
			if q.server.o.Engine.Available() != nil {
				q.giveUp(req, code)
				return
			}
			again()
		})
	})
}

// produceParts counts the topics and partitions of a request.
func produceParts(req *kmsg.ProduceRequest) int {
	n := len(req.Topics)
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	return n
}

// later runs next once the engine is back, or a client has waited for what does not come.
func (q *call) later(maxWaitMillis int32, next func()) {
	wait := min(max(time.Duration(maxWaitMillis)*time.Millisecond, 0), mostIdle)
	q.server.o.Engine.WhenBack(wait, func() {
		defer q.survive()
		next()
	})
}

// partsAway answers each partition, where an error of the whole would be one of its session.
func (q *call) partsAway(req kmsg.Request, code *kerr.Error) {
	q.refused = append(q.refused, refusedParts(req, code.Code, ""))
	q.answer(emptyResponse(req))
}

// sharesAway answers a member of a share group, whose session has ended with the data plane.
func (q *call) sharesAway(req kmsg.Request, code *kerr.Error, group, member *string) {
	if code != kerr.ShareSessionNotFound {
		q.partsAway(req, code)
		return
	}
	q.refused = nil
	if group != nil {
		q.keepShares(shareKey(group, member), finalShareEpoch, nil)
	}
	q.refuse(req, code, "")
}
