package api

import "github.com/twmb/franz-go/pkg/kmsg"

// electLeaders elects leaders of partitions.
//
// Versions: 0-2.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: nothing known.
func electLeaders() through[*kmsg.ElectLeadersRequest, *kmsg.ElectLeadersResponse] {
	return through[*kmsg.ElectLeadersRequest, *kmsg.ElectLeadersResponse]{topics: []string{"Topics.Topic"}}
}
