package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// electLeaders elects leaders of partitions.
//
// Versions: 0-2.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: nothing known.
func electLeaders() through[*kmsg.ElectLeadersRequest, *kmsg.ElectLeadersResponse] {
	return through[*kmsg.ElectLeadersRequest, *kmsg.ElectLeadersResponse]{rights: []right{cluster(acl.Alter)}, topics: []string{"Topics.Topic"}}
}
