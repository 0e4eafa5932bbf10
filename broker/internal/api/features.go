package api

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
		{name: "share.version", min: 0, max: 1},
		{name: "streams.version", min: 0, max: 1},
		{name: "transaction.version", min: 0, max: 2},
	}
}

// BootstrapFeatures are the levels of a new cluster, by feature; level is metadata.version's.
func BootstrapFeatures(level int16) map[string]int16 {
	return map[string]int16{
		metadataVersion:       level,
		"group.version":       1,
		"transaction.version": 2,
		"share.version":       1,
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
