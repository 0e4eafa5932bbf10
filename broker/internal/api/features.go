package api

import (
	"maps"
	"slices"

	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// eligibleLeaderReplicas is the feature that makes min.insync.replicas the cluster's alone (KIP-966).
const (
	eligibleLeaderReplicas = "eligible.leader.replicas.version"
	minInsyncReplicas      = "min.insync.replicas"
)

// supported are the features of this broker, and how high it goes.
func (s *Server) supported() []feature.Feature {
	all := feature.Supported()
	for i := range all {
		if all[i].Name == feature.MetadataVersion && s.o.SupportedLevel != 0 {
			all[i].Max = min(all[i].Max, s.o.SupportedLevel)
		}
	}
	return all
}

// Bootstrap are the first facts of a new cluster, as Kafka formats one: the levels of features, of which level is that of
// metadata.version, and with eligible leader replicas the number of replicas that a write needs, which is insync.
func Bootstrap(level int16, insync string) []metadata.Record {
	records := []metadata.Record{metadata.SetFeature{Name: feature.MetadataVersion, Level: level}}
	defaults := feature.Defaults(level)
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		records = append(records, metadata.SetFeature{Name: name, Level: defaults[name]})
	}
	if defaults[eligibleLeaderReplicas] > 0 {
		records = append(records, metadata.SetConfig{Resource: metadata.Resource{Type: metadata.ResourceBroker}, Name: minInsyncReplicas, Value: &insync})
	}
	return records
}
