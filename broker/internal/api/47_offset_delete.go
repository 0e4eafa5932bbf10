package api

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// offsetDelete forgets a group's offsets of topics.
//
// Versions: 0.
// Needs: DELETE on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func offsetDelete() through[*kmsg.OffsetDeleteRequest, *kmsg.OffsetDeleteResponse] {
	return through[*kmsg.OffsetDeleteRequest, *kmsg.OffsetDeleteResponse]{
		rights: []right{{acl.Delete, acl.Group, "Group"}}, topics: []string{"Topics.Topic"},
		permit: func(q *call, req *kmsg.OffsetDeleteRequest) bool {
			// The group is asked about even where no topic is left: that it is not there is all that is told then.
			topics := right{acl.Read, acl.Topic, "Topics"}
			if parted := q.part(req, topics, reflect.ValueOf(req).Elem().FieldByName(topics.field)); parted != nil {
				q.refused = append(q.refused, refusedParts(parted, kerr.TopicAuthorizationFailed.Code, ""))
			}
			return true
		},
		after: func(q *call, _ *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse) {
			if resp.ErrorCode != 0 {
				q.refused = nil
			}
		},
	}
}
