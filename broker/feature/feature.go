// Package feature knows the features of a Kafka 4.4 cluster, their levels, and what it takes to go from one to another. It is
// pure: the finalized levels themselves are metadata.
package feature

import (
	"fmt"
	"strconv"
	"strings"
)

// MetadataVersion is the name of the feature that pins the rules of the metadata log.
const MetadataVersion = "metadata.version"

// Levels of metadata.version (MetadataVersion.java).
const (
	Minimum = 7  // 3.3-IV3
	SCRAM   = 11 // 3.5-IV2: SCRAM users
	CIDR    = 32 // 4.4-IV1: ACLs may be made with ranges (KIP-1276)
	Latest  = 33 // 4.4-IV2: what Kafka 4.4 gives a new cluster
)

// Version is one level of metadata.version.
type Version struct {
	Level   int16
	Name    string // such as 4.4-IV1
	Release string // such as 4.4
	Changes bool   // it brought records that older levels cannot read: going back below it would lose something
}

// Versions lists the levels that Kafka 4.4 works with, lowest first.
func Versions() []Version {
	level := int16(Minimum)
	var all []Version
	for _, r := range []struct {
		release string
		first   int
		changes string // T or F for each of its levels
	}{
		{"3.3", 3, "T"},
		{"3.4", 0, "T"},
		{"3.5", 0, "FFT"},
		{"3.6", 0, "FTT"},
		{"3.7", 0, "TFTFF"},
		{"3.8", 0, "F"},
		{"3.9", 0, "F"},
		{"4.0", 0, "FTFF"},
		{"4.1", 0, "FF"},
		{"4.2", 0, "FF"},
		{"4.3", 0, "T"},
		{"4.4", 0, "FTT"},
	} {
		for i, c := range r.changes {
			all = append(all, Version{level, fmt.Sprintf("%s-IV%d", r.release, r.first+i), r.release, c == 'T'})
			level++
		}
	}
	return all
}

// Name is the name of a level, such as 4.4-IV1; a level that Kafka 4.4 does not know is its number.
func Name(level int16) string {
	for _, v := range Versions() {
		if v.Level == level {
			return v.Name
		}
	}
	return strconv.Itoa(int(level))
}

// Parse reads the name of a level, or of a release, which is that release's last level. The error is Kafka's.
func Parse(text string) (int16, error) {
	var found int16
	var names []string
	for _, v := range Versions() {
		if text == v.Name || text == v.Release {
			found = v.Level
		}
		names = append(names, v.Name)
	}
	if found == 0 {
		//nolint:staticcheck // ST1005: Kafka's text
		return 0, fmt.Errorf("Unknown metadata.version '%s'. Supported metadata.version are: %s", text, strings.Join(names, ", "))
	}
	return found, nil
}

// Lossy tells whether going from one level of metadata.version down to another would lose something. Kafka 4.4 refuses it then,
// safe or not, whatever is in the metadata (FeatureControlManager).
func Lossy(from, to int16) bool {
	for _, v := range Versions() {
		if v.Changes && to < v.Level && v.Level <= from {
			return true
		}
	}
	return false
}

// Feature is one that a broker can work with, and the levels it knows. Level 0 is "not enabled".
type Feature struct {
	Name     string
	Min, Max int16
}

// Supported lists what a broker of Kafka 4.4 names in ApiVersions, in order of name.
func Supported() []Feature {
	return []Feature{
		{Name: "eligible.leader.replicas.version", Max: 1},
		{Name: "group.version", Max: 1},
		{Name: "kraft.version", Max: 1},
		{Name: MetadataVersion, Min: Minimum, Max: Latest},
		{Name: "share.version", Max: 2},
		{Name: "streams.version", Max: 1},
		{Name: "transaction.version", Max: 2},
	}
}

// Defaults are the levels that a new cluster of a level of metadata.version has of the other features, by name; a feature that it
// leaves at 0 is not named. They are what Kafka 4.4's StorageTool prints for version-mapping, without kraft.version, which a
// cluster of static voters leaves at 0.
func Defaults(level int16) map[string]int16 {
	levels := map[string]int16{}
	for _, d := range []struct {
		name  string
		since int16 // the level of metadata.version that brought it
		level int16
	}{
		{"group.version", 22, 1},                    // 4.0-IV0
		{"transaction.version", 24, 2},              // 4.0-IV2
		{"eligible.leader.replicas.version", 26, 1}, // 4.1-IV0
		{"share.version", 28, 1},                    // 4.2-IV0
		{"streams.version", 29, 1},                  // 4.2-IV1
		{"share.version", 31, 2},                    // 4.4-IV0
	} {
		if level >= d.since {
			levels[d.name] = d.level
		}
	}
	return levels
}

// Find is the feature of a name.
func Find(name string) (Feature, bool) {
	for _, f := range Supported() {
		if f.Name == name {
			return f, true
		}
	}
	return Feature{}, false
}
