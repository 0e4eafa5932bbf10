package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/feature"
)

// releases are the levels of metadata.version that Kafka 4.4's tool knows: one more than its brokers can be set to.
func releases() []feature.Version {
	return append(feature.Versions(), feature.Version{Level: feature.Latest + 1, Name: "4.5-IV0", Release: "4.5"})
}

// parseRelease reads a version such as 4.4-IV1 or 4.4, which is that release's last level.
func parseRelease(text string) (feature.Version, error) {
	var found feature.Version
	var names []string
	for _, r := range releases() {
		if text == r.Name || text == r.Release {
			found = r
		}
		names = append(names, r.Name)
	}
	if found.Level == 0 {
		return found, fmt.Errorf("Unknown metadata.version '%s'. Supported metadata.version are: %s", text, strings.Join(names, ", ")) //nolint:staticcheck // ST1005: Kafka's text
	}
	return found, nil
}

// featureLevel is a feature and one of its levels.
type featureLevel struct {
	name  string
	level int16
}

// releaseLevels are the levels that a cluster of a metadata.version gets: that one first, then as Feature.java lists them,
// each from the metadata.version on that "bootstraps" it.
func releaseLevels(level int16) []featureLevel {
	all := []featureLevel{{feature.MetadataVersion, level}}
	for _, f := range []struct {
		name string
		from []int16 // of level 1, 2, …
	}{
		{"kraft.version", []int16{21}},
		{"transaction.version", []int16{24, 24}},
		{"group.version", []int16{22}},
		{"eligible.leader.replicas.version", []int16{26}},
		{"share.version", []int16{28, 31}},
		{"streams.version", []int16{29}},
	} {
		l := featureLevel{name: f.name}
		for _, from := range f.from {
			if level >= from {
				l.level++
			}
		}
		all = append(all, l)
	}
	return all
}

// parseLevel reads feature=level.
//
//nolint:revive,staticcheck // ST1005: Kafka's texts
func parseLevel(text string) (string, int16, error) {
	name, right, ok := strings.Cut(text, "=")
	if !ok {
		return "", 0, fmt.Errorf("Can't parse feature=level string %s: equals sign not found.", text)
	}
	right = strings.TrimSpace(right)
	level, err := strconv.ParseInt(right, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("Can't parse feature=level string %s: unable to parse %s as a short.", text, right)
	}
	return strings.TrimSpace(name), int16(level), nil
}

func newFeaturesMapping(env Env) *cobra.Command {
	var text string
	c := &cobra.Command{
		Use:     "version-mapping",
		Short:   "Tell which level of each feature belongs to a version; asks no cluster",
		Example: "  kafka-features.sh version-mapping --release-version 4.4",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			release, err := parseRelease(text)
			if err != nil {
				return toolError(env, err.Error())
			}
			for i, l := range releaseLevels(release.Level) {
				line := fmt.Sprintf("%s=%d", l.name, l.level)
				if i == 0 {
					line += " (" + text + ")"
				}
				if _, err = fmt.Fprintln(env.Stdout, line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&text, "release-version", feature.Name(feature.Latest), "a `version` such as 4.4 or 4.4-IV1")
	return c
}

func newFeaturesDependencies(env Env) *cobra.Command {
	var texts []string
	c := &cobra.Command{
		Use:     "feature-dependencies --feature feature=level",
		Short:   "Tell what levels of other features a level needs; asks no cluster",
		Example: "  kafka-features.sh feature-dependencies --feature eligible.leader.replicas.version=1",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(texts) == 0 {
				return featuresUsage(env, "argument --feature is required")
			}
			for _, text := range texts {
				name, level, err := parseLevel(text)
				if err == nil {
					err = checkLevel(name, level)
				}
				if err != nil {
					return toolError(env, err.Error())
				}
				if _, err = fmt.Fprintln(env.Stdout, dependencies(name, level)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringArrayVar(&texts, "feature", nil, "`feature=level`; may be repeated")
	return c
}

// checkLevel refuses a feature or a level that Kafka 4.4 does not know.
//
//nolint:staticcheck // ST1005: Kafka's texts
func checkLevel(name string, level int16) error {
	f, ok := feature.Find(name)
	switch {
	case !ok:
		return fmt.Errorf("Unknown feature: %s", name)
	case name == feature.MetadataVersion && (level < f.Min || level > feature.Latest+1):
		return fmt.Errorf("Unknown metadata.version %d", level)
	case name != feature.MetadataVersion && (level < f.Min || level > f.Max):
		return fmt.Errorf("No feature:%s with feature level %d", name, level)
	}
	return nil
}

// dependencies says what a level needs. In Kafka 4.4 only one needs anything.
func dependencies(name string, level int16) string {
	text := fmt.Sprintf("%s=%d", name, level)
	if name == feature.MetadataVersion {
		text += " (" + levelText(name, level) + ")"
	}
	if name == "eligible.leader.replicas.version" && level == 1 {
		return text + " requires:\n    metadata.version=23 (4.0-IV1)"
	}
	return text + " has no dependencies."
}
