package api

import (
	"fmt"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// feature is one that this broker can work with, and the levels it knows. Level 0 is "not enabled".
type feature struct {
	name     string
	min, max int16
}

// metadataVersion is the name of the feature that all others hang on.
const metadataVersion = "metadata.version"

// The levels of metadata.version that Kafka 4.4 works with: 3.3-IV3 to 4.4-IV2.
const (
	minMetadataVersion = 7
	maxMetadataVersion = 33
)

// supportedFeatures lists what ApiVersions names, in order of name. The data plane decides the
// levels of all but metadata.version.
func supportedFeatures() []feature {
	return []feature{
		{name: "eligible.leader.replicas.version", min: 0, max: 1},
		{name: "group.version", min: 0, max: 1},
		{name: "kraft.version", min: 0, max: 1},
		{name: metadataVersion, min: minMetadataVersion, max: maxMetadataVersion},
		{name: "share.version", min: 0, max: 2},
		{name: "streams.version", min: 0, max: 1},
		{name: "transaction.version", min: 0, max: 2},
	}
}

// BootstrapFeatures are the levels of a new cluster, as Kafka formats one; level is that of
// metadata.version.
func BootstrapFeatures(level int16) []metadata.SetFeature {
	return []metadata.SetFeature{
		{Name: metadataVersion, Level: level},
		{Name: "group.version", Level: 1},
		{Name: "share.version", Level: 1},
		{Name: "transaction.version", Level: 2},
	}
}

func supportedFeature(name string) (feature, bool) {
	for _, f := range supportedFeatures() {
		if f.name == name {
			return f, true
		}
	}
	return feature{}, false
}

// changedMetadata tells whether a level of metadata.version brought records that older levels cannot
// read, so that going back below it would lose something.
func changedMetadata(level int16) bool {
	switch level {
	case 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33:
		return true
	}
	return false
}

// ParseMetadataVersion reads the name of a level, such as 4.4-IV1, or of a release, which is its last
// level; empty is Kafka 4.4's.
func ParseMetadataVersion(name string) (int16, error) {
	if name == "" {
		return maxMetadataVersion, nil
	}
	level := int16(minMetadataVersion)
	found := int16(0)
	for _, release := range []struct {
		name   string
		levels int
		first  int
	}{
		{"3.3", 1, 3},
		{"3.4", 1, 0},
		{"3.5", 3, 0},
		{"3.6", 3, 0},
		{"3.7", 5, 0},
		{"3.8", 1, 0},
		{"3.9", 1, 0},
		{"4.0", 4, 0},
		{"4.1", 2, 0},
		{"4.2", 2, 0},
		{"4.3", 1, 0},
		{"4.4", 3, 0},
	} {
		for i := range release.levels {
			if name == release.name || name == fmt.Sprintf("%s-IV%d", release.name, release.first+i) {
				found = level
			}
			level++
		}
	}
	if found == 0 {
		return 0, fmt.Errorf("unknown metadata.version '%s'", name)
	}
	return found, nil
}
