package api

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Kafka sends records from its files; here they wait in memory, more than once while they are on their
// way. A Fetch gets at least one batch, so that every client gets on.
const (
	// unsentMost is how much answers may hold that clients do not take before a Fetch gets no more.
	unsentMost = 128 << 20
	// fetchMost is the most that one Fetch gets.
	fetchMost = 8 << 20
	// fetchesMost is shared by all Fetches that are waited for.
	fetchesMost = 128 << 20
	// fetchLeast is what a Fetch may get however many there are.
	fetchLeast = 64 << 10
)

// fetch reads batches of records from partitions; it waits for some up to the client's MaxWaitMillis.
//
// Versions: 4-18.
// Needs: READ on each TOPIC; CLUSTER_ACTION on CLUSTER for a follower.
// Differs from Kafka: there are no fetch sessions. An incremental Fetch names no topic, so a change of
// rights would not act on it; the session id is always 0 and clients send full requests. A Fetch gets
// 8 MB at most, less while there are many, and one batch while clients leave very much unread.
func fetch() through[*kmsg.FetchRequest, *kmsg.FetchResponse] {
	return through[*kmsg.FetchRequest, *kmsg.FetchResponse]{
		topics: []string{"Topics.Topic", "Topics.TopicID", "ForgottenTopics.Topic", "ForgottenTopics.TopicID"},
		permit: func(q *call, req *kmsg.FetchRequest) bool {
			q.noteRules()
			if req.ReplicaID < 0 && req.ReplicaState.ID < 0 {
				return q.permit(req, right{acl.Read, acl.Topic, "Topics"})
			}
			if !q.may(acl.ClusterAction, acl.Cluster, acl.ClusterName) {
				q.refused = append(q.refused, refusedParts(req, kerr.TopicAuthorizationFailed.Code, ""))
				q.answer(emptyResponse(req))
				return false
			}
			return true
		},
		before: func(q *call, req *kmsg.FetchRequest) {
			q.answered = func() { q.server.fetches.Add(-1) }
			share := fetchesMost / q.server.fetches.Add(1)
			req.MaxBytes = min(req.MaxBytes, int32(min(max(share, fetchLeast), fetchMost)))
			if q.server.o.Unsent() >= unsentMost {
				req.MaxBytes = 1
			}
		},
		after: func(q *call, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
			resp.SessionID = 0
			q.withdraw(resp)
			q.size = shorten(resp, unsentMost-q.server.o.Unsent())
			leaders := q.hints(req.Version >= 16)
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					p := &resp.Topics[i].Partitions[j]
					leaders.leader(&p.CurrentLeader.LeaderID, &p.CurrentLeader.LeaderEpoch)
					if p.PreferredReadReplica >= 0 && !leaders.faces.leads(p.PreferredReadReplica) {
						p.PreferredReadReplica = noNode
					}
				}
			}
			resp.Brokers = endpoints[kmsg.FetchResponseBroker](leaders)
		},
	}
}

// noteRules remembers what the rules were when a request was let through that may wait.
func (q *call) noteRules() {
	if a := q.server.o.Authorizer; a != nil {
		q.aclChanges = a.Index.Changes()
	}
}

// rulesChanged tells whether what was allowed then may not be any more.
func (q *call) rulesChanged() bool {
	a := q.server.o.Authorizer
	return a != nil && a.Index.Changes() != q.aclChanges
}

// withdraw takes out of an answer what its reader was let read when the request came, and is not any more.
func (q *call) withdraw(resp *kmsg.FetchResponse) {
	if !q.rulesChanged() {
		return
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := t.Topic
		if name == "" {
			name, _ = q.server.o.Engine.TopicName(t.TopicID)
		}
		code := kerr.TopicAuthorizationFailed.Code
		switch {
		case name == "":
			code = kerr.UnknownTopicID.Code // gone meanwhile, and with it what could be asked for
		case q.may(acl.Read, acl.Topic, name):
			continue
		}
		for j := range t.Partitions {
			refused := kmsg.NewFetchResponseTopicPartition()
			refused.Partition, refused.ErrorCode = t.Partitions[j].Partition, code
			refused.HighWatermark, refused.LastStableOffset, refused.LogStartOffset = -1, -1, -1
			refused.RecordBatches = []byte{}
			t.Partitions[j] = refused
		}
	}
}

// shorten takes records out of an answer that is larger than there is room for: many were on their way
// when there still was. The first batch stays. It returns about how large the answer is then.
func shorten(resp *kmsg.FetchResponse, room int64) (size int) {
	const perPartition = 100
	first := true
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			room -= int64(len(p.RecordBatches))
			switch {
			case len(p.RecordBatches) == 0 || room >= 0:
			case first:
				p.RecordBatches = firstBatch(p.RecordBatches)
			default:
				p.RecordBatches = []byte{}
			}
			first = first && len(p.RecordBatches) == 0
			size += perPartition + len(p.RecordBatches)
		}
	}
	return size
}

// firstBatch is a copy of the first of some batches: a part would keep the memory of all.
func firstBatch(batches []byte) []byte {
	const sizeAt, sizeEnd = 8, 12
	if len(batches) < sizeEnd {
		return batches
	}
	size := sizeEnd + int64(binary.BigEndian.Uint32(batches[sizeAt:]))
	return append([]byte(nil), batches[:min(size, int64(len(batches)))]...)
}
