package api

import (
	"crypto/rand"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// createTopics makes topics.
//
// Versions: 2-7.
// Needs: CREATE on CLUSTER for all, else CREATE on each TOPIC.
// Differs from Kafka: without an engine by address there is one broker: a replication factor above 1 is refused. Names of
// brokerlab's own topics are refused as invalid.
func createTopics() through[*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsResponse] {
	return through[*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsResponse]{
		topics: []string{"Topics.Topic"},
		permit: func(q *call, req *kmsg.CreateTopicsRequest) bool {
			if !q.uniqueTopics(req) {
				return false
			}
			return q.mayQuietly(acl.Create, acl.Cluster, acl.ClusterName) || q.permit(req, right{acl.Create, acl.Topic, "Topics"})
		},
		after: func(q *call, req *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse) {
			const configsFrom = 5
			given := map[string][]kmsg.CreateTopicsRequestTopicConfig{}
			for i := range req.Topics {
				given[req.Topics[i].Topic] = req.Topics[i].Configs
			}
			configs := q.server.topicConfigs()
			for i := range resp.Topics {
				t := &resp.Topics[i]
				t.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // Java's admin client does not take null
				if t.ErrorCode == 0 && t.TopicID == [16]byte{} {     // of one that was only validated: nobody will know it again
					_, _ = rand.Read(t.TopicID[:]) // never fails
				}
				switch {
				case t.ErrorCode != 0 || req.Version < configsFrom:
				case !q.mayQuietly(acl.DescribeConfigs, acl.Topic, t.Topic):
					t.ConfigErrorCode, t.NumPartitions, t.ReplicationFactor = kerr.TopicAuthorizationFailed.Code, -1, -1
				default:
					t.Configs = configs.ofNew(given[t.Topic])
				}
			}
		},
	}
}

// uniqueTopics takes the names out of a request that it has twice, that of Kafka's log and those that are hidden, and tells whether
// any is left. Kafka refuses them whoever asks.
func (q *call) uniqueTopics(req *kmsg.CreateTopicsRequest) bool {
	count := map[string]int{}
	for i := range req.Topics {
		count[req.Topics[i].Topic]++
	}
	refused := kmsg.NewPtrCreateTopicsResponse()
	asked := len(req.Topics)
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.CreateTopicsRequestTopic) bool {
		why, code := "", kerr.InvalidRequest.Code
		switch {
		case count[t.Topic] == 0: // and was answered
			return true
		case count[t.Topic] > 1:
			why = "Duplicate topic name."
		case t.Topic == engine.ClusterMetadata:
			why = "Creation of internal topic " + engine.ClusterMetadata + " is prohibited."
		case q.server.hidden(t.Topic):
			why, code = "Creation of internal topic "+t.Topic+" is prohibited.", kerr.InvalidTopicException.Code
		default:
			return false
		}
		r := kmsg.NewCreateTopicsResponseTopic()
		r.Topic, r.ErrorCode, r.ErrorMessage = t.Topic, code, &why
		r.NumPartitions, r.ReplicationFactor, r.Configs = -1, -1, []kmsg.CreateTopicsResponseTopicConfig{}
		refused.Topics = append(refused.Topics, r)
		count[t.Topic] = 0
		return true
	})
	if len(refused.Topics) > 0 {
		q.refused = append(q.refused, refused)
	}
	if asked > 0 && len(req.Topics) == 0 {
		q.answer(emptyResponse(req))
		return false
	}
	return true
}

// ofNew lists the configs of a topic that was made with those given.
func (r resourceConfigs) ofNew(given []kmsg.CreateTopicsRequestTopicConfig) []kmsg.CreateTopicsResponseTopicConfig {
	described := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(given))
	for _, g := range given {
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.Source = g.Name, g.Value, r.own
		described = append(described, c)
	}
	var out []kmsg.CreateTopicsResponseTopicConfig
	for _, c := range r.describe(described, nil, false, false) {
		one := kmsg.NewCreateTopicsResponseTopicConfig()
		one.Name, one.Value, one.Source = c.Name, c.Value, int8(c.Source)
		out = append(out, one)
	}
	return out
}
