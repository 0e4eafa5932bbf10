package kafkaconfig

import (
	_ "embed" // the tables
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ResourceConfig is a config of topics or of groups, as Kafka 4.4.0 answered
// DescribeConfigs about one that has nothing of its own.
type ResourceConfig struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	// Default is the value when neither the resource nor the broker has one;
	// nil is null.
	Default *string `json:"default"`
	// Synonym is the broker's config that it falls back to, "" when there is none.
	Synonym string `json:"synonym"`
	// Min, Max, Choices and Unique are those of [Config].
	Min     *float64 `json:"min"`
	Max     *float64 `json:"max"`
	Choices []string `json:"choices"`
	Unique  bool     `json:"unique"`
	// Doc says what the config is about.
	Doc string `json:"doc"`
}

// Check validates a value as Kafka's controller does: entries of a list that come again are none. The error is an [*InvalidError].
func (r ResourceConfig) Check(value string) error {
	c := Config{Name: r.Name, Type: r.Type, Min: r.Min, Max: r.Max, Choices: r.Choices}
	if r.Type == List && r.Unique {
		for _, e := range SplitList(value) {
			if e == "" {
				return &InvalidError{Name: r.Name, Value: value, whole: fmt.Sprintf("Configuration '%s' values must not be empty.", r.Name)}
			}
			if err := c.checkChoice(e); err != nil {
				return err
			}
		}
		return nil
	}
	if err := c.Check(value); err != nil {
		return err
	}
	switch r.Name {
	case "leader.replication.throttled.replicas", "follower.replication.throttled.replicas":
		return r.checkThrottled(value)
	case "share.auto.offset.reset":
		return r.checkReset(strings.TrimSpace(value))
	}
	return nil
}

// Canonical prints a valid value as Kafka describes it: of a list each entry once.
func (r ResourceConfig) Canonical(value string) string {
	value = Config{Name: r.Name, Type: r.Type}.Canonical(value)
	if r.Type != List || !r.Unique {
		return value
	}
	var once []string
	for _, e := range SplitList(value) {
		if !slices.Contains(once, e) {
			once = append(once, e)
		}
	}
	return strings.Join(once, ",")
}

// checkThrottled wants the replicas whose replication is throttled: partition:broker, or all.
func (r ResourceConfig) checkThrottled(value string) error {
	entries := SplitList(value)
	for _, e := range entries {
		if !throttled().MatchString(e) && strings.TrimSpace(strings.Join(entries, "")) != "*" {
			return &InvalidError{
				Name: r.Name, Value: "[" + strings.Join(entries, ", ") + "]",
				Why: r.Name + " must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
			}
		}
	}
	return nil
}

//nolint:gochecknoglobals // compiled once
var (
	throttled = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(\d+:\d+)?\z`) })
	duration  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\A[-+]?P([-+]?[0-9]+D)?(T([-+]?[0-9]+H)?([-+]?[0-9]+M)?([-+]?[0-9]+([.,][0-9]{0,9})?S)?)?\z`)
	})
)

// checkReset wants a place to begin at: an end, or so long ago.
func (r ResourceConfig) checkReset(value string) error {
	if value == "earliest" || value == "latest" {
		return nil
	}
	ago, by := strings.CutPrefix(value, "by_duration:")
	if by && duration().MatchString(ago) && strings.ContainsAny(ago, "0123456789") && !strings.Contains(ago, "-") {
		return nil
	}
	return &InvalidError{Name: r.Name, Value: value, Why: "Invalid value `" + value + "` for configuration " + r.Name +
		". The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."}
}

//go:embed topic-4.4.0.json
var topicSource []byte

//go:embed group-4.4.0.json
var groupSource []byte

//nolint:gochecknoglobals // immutable tables, read once
var (
	topicTable = sync.OnceValue(func() []ResourceConfig { return resources(topicSource) })
	groupTable = sync.OnceValue(func() []ResourceConfig { return resources(groupSource) })
)

// Topic lists the configs of topics in order of name.
func Topic() []ResourceConfig { return slices.Clone(topicTable()) }

// Group lists the configs of groups in order of name.
func Group() []ResourceConfig { return slices.Clone(groupTable()) }

func resources(source []byte) (rows []ResourceConfig) {
	if err := json.Unmarshal(source, &rows); err != nil {
		panic(fmt.Sprintf("embedded table of Kafka's configs: %v", err)) // a test reads it
	}
	return rows
}
