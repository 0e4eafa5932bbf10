package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// deleteRecords moves the start of partitions up.
//
// Versions: 0-2.
// Needs: DELETE on each TOPIC.
// Differs from Kafka: nothing known.
func deleteRecords() through[*kmsg.DeleteRecordsRequest, *kmsg.DeleteRecordsResponse] {
	return through[*kmsg.DeleteRecordsRequest, *kmsg.DeleteRecordsResponse]{
		rights: []right{{acl.Delete, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"},
		after: func(_ *call, _ *kmsg.DeleteRecordsRequest, resp *kmsg.DeleteRecordsResponse) {
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					if p := &resp.Topics[i].Partitions[j]; p.ErrorCode != 0 {
						p.LowWatermark = -1
					}
				}
			}
		},
	}
}
