package api

import (
	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// eligibleLeaderReplicas is the feature that makes min.insync.replicas the cluster's alone (KIP-966).
const (
	eligibleLeaderReplicas = "eligible.leader.replicas.version"
	minInsyncReplicas      = "min.insync.replicas"
)

// Bootstrap are the first facts of a new cluster, as Kafka formats one: the levels of features, of which level is that of
// metadata.version, and with eligible leader replicas the number of replicas that a write needs, which is insync.
func Bootstrap(level int16, insync string) []metadata.Record {
	const since = 26 // 4.1-IV0
	records := []metadata.Record{
		metadata.SetFeature{Name: feature.MetadataVersion, Level: level},
		metadata.SetFeature{Name: "group.version", Level: 1},
		metadata.SetFeature{Name: "share.version", Level: 1},
		metadata.SetFeature{Name: "transaction.version", Level: 2},
	}
	if level >= since {
		records = append(records, metadata.SetFeature{Name: eligibleLeaderReplicas, Level: 1},
			metadata.SetConfig{Resource: metadata.Resource{Type: metadata.ResourceBroker}, Name: minInsyncReplicas, Value: &insync})
	}
	return records
}
