package api

import (
	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// BootstrapFeatures are the levels of a new cluster, as Kafka formats one; level is that of
// metadata.version.
func BootstrapFeatures(level int16) []metadata.SetFeature {
	return []metadata.SetFeature{
		{Name: feature.MetadataVersion, Level: level},
		{Name: "group.version", Level: 1},
		{Name: "share.version", Level: 1},
		{Name: "transaction.version", Level: 2},
	}
}
