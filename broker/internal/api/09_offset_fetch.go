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
			// The data plane answers a group that is named twice once, as it is named first.
			seen := map[string]bool{}
			req.Groups = slices.DeleteFunc(req.Groups, func(g kmsg.OffsetFetchRequestGroup) bool {
				again := seen[g.Group]
				seen[g.Group] = true
				return again
			})
			if !q.permit(req, right{acl.Describe, acl.Group, "Groups"}) {
				return false
			}
			for i := range req.Groups {
				q.permitGroup(&req.Groups[i])
			}
			return true
		},
		after: func(q *call, req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
			q.completeOffsets(resp)
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
					g.Topics = slices.DeleteFunc(g.Topics, func(t kmsg.OffsetFetchResponseGroupTopic) bool { return q.withholds(&t) })
				}
				g.Topics = append(g.Topics, q.refusedOffsets[g.Group]...)
			}
		},
	}
}

// withholds tells whether a topic is left out of all that a group has, because the reader may not describe it or nothing is known to
// ask for.
func (q *call) withholds(t *kmsg.OffsetFetchResponseGroupTopic) bool {
	name, known := q.nameOf(reflect.ValueOf(*t), acl.Topic)
	if !known {
		return q.server.o.Engine.Remote()
	}
	return !q.mayQuietly(acl.Describe, acl.Topic, name)
}

// completeOffsets has no metadata that are null, and says of ids that there is no such topic.
func (q *call) completeOffsets(resp *kmsg.OffsetFetchResponse) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			complete(&resp.Topics[i].Partitions[j].Metadata)
		}
	}
	for i := range resp.Groups {
		for j := range resp.Groups[i].Topics {
			q.completeOffsetsOf(&resp.Groups[i].Topics[j])
		}
	}
}

func (q *call) completeOffsetsOf(t *kmsg.OffsetFetchResponseGroupTopic) {
	const idsFrom = 10
	known := true
	if q.header.Version >= idsFrom {
		_, known = q.server.o.Engine.TopicName(t.TopicID)
	}
	for i := range t.Partitions {
		complete(&t.Partitions[i].Metadata)
		if !known {
			t.Partitions[i].ErrorCode = kerr.UnknownTopicID.Code
		}
	}
}

// complete makes a text that is null an empty one.
func complete(text **string) {
	if *text == nil {
		*text = new(string)
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
		code := kerr.TopicAuthorizationFailed.Code
		switch {
		case !named && q.server.o.Engine.Remote() && q.server.o.Authorizer != nil:
			code = kerr.UnknownTopicID.Code
		case !named, q.decide(acl.Describe, acl.Topic, name, max(len(t.Partitions), 1), true):
			kept = append(kept, t)
			continue
		}
		refused := kmsg.NewOffsetFetchResponseGroupTopic()
		refused.Topic, refused.TopicID = t.Topic, t.TopicID
		for _, partition := range t.Partitions {
			p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.ErrorCode = partition, -1, -1, code
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
