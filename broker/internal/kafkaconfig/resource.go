package kafkaconfig

import (
	_ "embed" // the tables
	"encoding/json"
	"fmt"
	"slices"
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
	// Doc is the first sentence of Kafka's documentation, of topics only.
	Doc string `json:"doc"`
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
