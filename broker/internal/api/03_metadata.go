package api

import (
	"cmp"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// describeMetadata tells where topics, brokers and the controller are. Topics that are missing and
// may be created are created first.
//
// Versions: 0-13.
// Needs: DESCRIBE on each TOPIC; to create a missing one, CREATE on CLUSTER or TOPIC.
// Differs from Kafka: a topic that is created by the request is in its answer already; Kafka's first
// answer is UNKNOWN_TOPIC_OR_PARTITION.
func describeMetadata(q *call, req *kmsg.MetadataRequest) {
	version := req.Version
	if err := resolveTopics(req); err != nil {
		for i := range req.Topics {
			complete(&req.Topics[i].Topic)
		}
		q.refuse(req, err, "")
		return
	}
	if version > 0 && req.Topics != nil && len(req.Topics) == 0 { // brokers alone, who are known here, whether the data plane answers or not
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version = version
		q.completeMetadata(req, resp)
		return
	}
	ask := *req
	ask.AllowAutoTopicCreation = false // the data plane keeps such a topic only until a crash
	if version < 4 {
		ask.Version = 4 // the first that can say so
		if version == 0 && len(req.Topics) == 0 {
			ask.Topics = nil // all topics, as later versions spell it
		}
	}
	create := q.server.o.AutoCreateTopics && (req.AllowAutoTopicCreation || version < 4)
	q.ask(&ask, func(answer kmsg.Response) {
		resp := answer.(*kmsg.MetadataResponse)
		q.hideTopics(req, resp, create)
		missing := q.missingTopics(resp)
		if !create || len(missing) == 0 {
			q.completeMetadata(req, resp)
			return
		}
		q.then(func() {
			q.aside(func() {
				q.createMissing(missing)
				q.ask(&ask, func(answer kmsg.Response) {
					resp := answer.(*kmsg.MetadataResponse)
					q.hideTopics(req, resp, create)
					q.completeMetadata(req, resp)
				})
			})
		})
	})
}

// resolveTopics leaves the names out of a request that has ids, as Kafka does, or says what is wrong with its topics.
func resolveTopics(req *kmsg.MetadataRequest) *kerr.Error {
	const carriesIDs, idsFrom = 10, 12
	var none [16]byte
	ids, nameless := 0, 0
	for i := range req.Topics {
		t := &req.Topics[i]
		if t.TopicID != none {
			ids++
		} else if t.Topic == nil {
			nameless++
		}
		if t.Topic == nil && req.Version >= carriesIDs && req.Version < idsFrom || t.TopicID != none && req.Version < idsFrom {
			return kerr.InvalidRequest
		}
	}
	switch {
	case ids > 0:
		req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID == none })
		for i := range req.Topics {
			req.Topics[i].Topic = nil
		}
	case nameless > 0:
		return kerr.UnknownServerError
	}
	return nil
}

// hideTopics leaves out of an answer, or refuses in it, what its reader may not describe. It comes before anything is said of
// whether a topic exists.
func (q *call) hideTopics(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, create bool) {
	if q.server.o.Authorizer == nil {
		return
	}
	all := req.Topics == nil || req.Version == 0 && len(req.Topics) == 0
	byID := slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic == nil })
	seen := resp.Topics[:0]
	for _, t := range resp.Topics {
		switch {
		case t.Topic == nil: // an id that does not exist
		case all:
			if !q.mayQuietly(acl.Describe, acl.Topic, *t.Topic) {
				continue
			}
		case !q.may(acl.Describe, acl.Topic, *t.Topic):
			refused := kmsg.NewMetadataResponseTopic()
			refused.ErrorCode = kerr.TopicAuthorizationFailed.Code
			if byID {
				refused.TopicID = t.TopicID
			} else {
				refused.Topic = t.Topic
			}
			t = refused
		case create && (t.ErrorCode == kerr.UnknownTopicOrPartition.Code || t.ErrorCode == kerr.InvalidTopicException.Code):
			if !q.mayQuietly(acl.Create, acl.Cluster, acl.ClusterName) && !q.may(acl.Create, acl.Topic, *t.Topic) {
				t.ErrorCode = kerr.TopicAuthorizationFailed.Code
			}
		}
		seen = append(seen, t)
	}
	resp.Topics = seen
}

// completeMetadata is what the front door knows better than the data plane: brokers and rights.
func (q *call) completeMetadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	const listenerNotFoundFrom = 6
	o, known := &q.server.o, q.faces()
	resp.Brokers = []kmsg.MetadataResponseBroker{}
	for _, one := range known.live() {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack = one.id, one.at.Host, one.at.Port, one.rack
		resp.Brokers = append(resp.Brokers, broker)
	}
	resp.ClusterID, resp.ControllerID = &o.ClusterID, known.controller()
	resp.AuthorizedOperations = q.clusterOperations(req.IncludeClusterAuthorizedOperations)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic != nil && t.ErrorCode == kerr.UnknownTopicOrPartition.Code && engine.CheckTopicName(*t.Topic) != "" {
			t.ErrorCode = kerr.InvalidTopicException.Code
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.Leader, p.ErrorCode = known.leader(p.Leader, p.ErrorCode, req.Version >= listenerNotFoundFrom)
			p.OfflineReplicas = known.offline(p.Replicas, p.OfflineReplicas)
		}
		t.AuthorizedOperations = notAsked
		if t.Topic != nil && (t.ErrorCode == 0 || t.ErrorCode == kerr.UnknownTopicOrPartition.Code) {
			t.AuthorizedOperations = q.operations(req.IncludeTopicAuthorizedOperations, acl.Topic, *t.Topic)
		}
	}
	q.answer(resp)
}

// missingTopics lists the names that were asked for, do not exist and could.
func (q *call) missingTopics(resp *kmsg.MetadataResponse) []string {
	var missing []string
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic != nil && t.ErrorCode == kerr.UnknownTopicOrPartition.Code && engine.CheckTopicName(*t.Topic) == "" && !q.server.hidden(*t.Topic) {
			missing = append(missing, *t.Topic)
		}
	}
	return missing
}

// createMissing creates topics as auto.create.topics.enable asks for. One that fails stays missing
// in the answer; the log says why.
func (q *call) createMissing(names []string) {
	o := &q.server.o
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	create.TimeoutMillis = 30_000
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, max(o.NumPartitions, 1), cmp.Or(o.Replication, 1)
		create.Topics = append(create.Topics, t)
	}
	answer, err := o.Engine.Request(q.server.ctx, create)
	if err != nil {
		o.Log.Warn("auto-creation of topics failed", slog.Any("topics", names), slog.Any("error", err))
		return
	}
	for _, t := range answer.(*kmsg.CreateTopicsResponse).Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); t.ErrorCode {
		case 0:
			o.Log.Info("created topic", slog.String("topic", t.Topic), slog.Int("partitions", int(max(o.NumPartitions, 1))), slog.String("connection", q.conn.ID()))
		case kerr.TopicAlreadyExists.Code:
		default:
			o.Log.Warn("auto-creation of topic failed", slog.String("topic", t.Topic), slog.Any("error", err))
		}
	}
}

// then goes on with a call on a goroutine that may wait: the data plane's own must not.
func (q *call) then(next func()) {
	q.do = func(*call) { next() }
	q.server.pool.submit(q)
}
