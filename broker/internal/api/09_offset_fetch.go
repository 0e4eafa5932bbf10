package api

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// offsetFetch tells how far groups have read.
//
// Versions: 1-10.
// Needs: DESCRIBE on GROUP, then DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func offsetFetch() through[*kmsg.OffsetFetchRequest, *kmsg.OffsetFetchResponse] {
	return through[*kmsg.OffsetFetchRequest, *kmsg.OffsetFetchResponse]{
		topics: []string{"Topics.Topic", "Groups.Topics.Topic", "Groups.Topics.TopicID"},
		permit: func(q *call, req *kmsg.OffsetFetchRequest) bool {
			if req.Version < offsetFetchGroups {
				return q.permit(req, right{acl.Describe, acl.Group, "Group"}, right{acl.Describe, acl.Topic, "Topics"})
			}
			if !q.permit(req, right{acl.Describe, acl.Group, "Groups"}) {
				return false
			}
			for i := range req.Groups {
				q.permitGroup(&req.Groups[i])
			}
			return true
		},
		after: func(q *call, req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
			if q.server.o.Authorizer == nil {
				return
			}
			if req.Version < offsetFetchGroups && req.Topics == nil {
				resp.Topics = slices.DeleteFunc(resp.Topics, func(t kmsg.OffsetFetchResponseTopic) bool {
					return !q.mayQuietly(acl.Describe, acl.Topic, t.Topic)
				})
			}
			all := map[string]bool{} // groups whose every topic was asked for
			for _, g := range req.Groups {
				all[g.Group] = g.Topics == nil
			}
			for i := range resp.Groups {
				g := &resp.Groups[i]
				if all[g.Group] {
					g.Topics = slices.DeleteFunc(g.Topics, func(t kmsg.OffsetFetchResponseGroupTopic) bool {
						name, ok := q.nameOf(reflect.ValueOf(t), acl.Topic)
						return ok && !q.mayQuietly(acl.Describe, acl.Topic, name)
					})
				}
				g.Topics = append(g.Topics, q.refusedOffsets[g.Group]...)
			}
		},
	}
}

// offsetFetchGroups is the version from which a request names several groups.
const offsetFetchGroups = 8

// permitGroup takes the topics out of one group of the request that its sender may not describe.
func (q *call) permitGroup(g *kmsg.OffsetFetchRequestGroup) {
	if g.Topics == nil {
		return
	}
	kept := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(g.Topics)) // not nil: that would be all
	for _, t := range g.Topics {
		name, named := q.nameOf(reflect.ValueOf(t), acl.Topic)
		if !named || q.decide(acl.Describe, acl.Topic, name, max(len(t.Partitions), 1), true) {
			kept = append(kept, t)
			continue
		}
		refused := kmsg.NewOffsetFetchResponseGroupTopic()
		refused.Topic, refused.TopicID = t.Topic, t.TopicID
		for _, partition := range t.Partitions {
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode = partition, -1, -1, kerr.TopicAuthorizationFailed.Code
			p.Metadata = new(string)
			refused.Partitions = append(refused.Partitions, p)
		}
		if q.refusedOffsets == nil {
			q.refusedOffsets = map[string][]kmsg.OffsetFetchResponseGroupTopic{}
		}
		q.refusedOffsets[g.Group] = append(q.refusedOffsets[g.Group], refused)
	}
	g.Topics = kept
}
