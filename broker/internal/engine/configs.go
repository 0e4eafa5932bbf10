package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// configRule judges a value as Kafka's ConfigDef does; "" means that it is good.
type configRule func(value string) string

// Obeys lists the broker properties that the data plane acts on.
func Obeys() []string {
	names := make([]string, 0, len(brokerConfigRules()))
	for name := range brokerConfigRules() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// brokerConfigRules are the properties of [Options.BrokerConfigs]. The data plane makes tickers of some of them, which
// panic for what is not positive.
func brokerConfigRules() map[string]configRule {
	const maxInt = math.MaxInt32
	return map[string]configRule{
		"message.max.bytes":                      within(0, maxInt),
		"log.message.timestamp.type":             oneOf("CreateTime", "LogAppendTime"),
		"log.retention.bytes":                    within(math.MinInt64, math.MaxInt64),
		"log.retention.ms":                       within(math.MinInt64, math.MaxInt64),
		"log.segment.bytes":                      within(1<<20, maxInt),
		"log.roll.ms":                            within(1, math.MaxInt64/1_000_000),
		"log.cleaner.backoff.ms":                 within(0, math.MaxInt64/1_000_000),
		"compression.type":                       anything,
		"min.insync.replicas":                    within(1, maxInt),
		"group.min.session.timeout.ms":           within(1, maxInt),
		"group.max.session.timeout.ms":           within(1, maxInt),
		"group.max.size":                         within(1, maxInt),
		"group.consumer.heartbeat.interval.ms":   within(1, maxInt),
		"group.consumer.session.timeout.ms":      within(1, maxInt),
		"group.share.heartbeat.interval.ms":      within(1, maxInt),
		"group.share.session.timeout.ms":         within(1, maxInt),
		"group.share.delivery.count.limit":       within(2, 25),
		"group.share.record.lock.duration.ms":    within(1000, maxInt),
		"group.share.partition.max.record.locks": within(100, 10_000),
		"group.share.max.share.sessions":         within(1, maxInt),
		"group.share.max.size":                   within(1, 1000),
		"offsets.retention.minutes":              within(1, maxInt),
		"offsets.retention.check.interval.ms":    within(1, maxInt),
		"transaction.max.timeout.ms":             within(1, maxInt),
		"transactional.id.expiration.ms":         within(1, maxInt),
	}
}

// topicConfigTable and groupConfigTable are Kafka's configs of topics and of groups, by name. Those that the data plane does not act on are kept and described.
//
//nolint:gochecknoglobals // immutable tables
var (
	topicConfigTable = sync.OnceValue(func() map[string]kafkaconfig.ResourceConfig { return configsByName(kafkaconfig.Topic()) })
	groupConfigTable = sync.OnceValue(func() map[string]kafkaconfig.ResourceConfig { return configsByName(kafkaconfig.Group()) })
)

func configsByName(rows []kafkaconfig.ResourceConfig) map[string]kafkaconfig.ResourceConfig {
	m := make(map[string]kafkaconfig.ResourceConfig, len(rows))
	for _, r := range rows {
		m[r.Name] = r
	}
	return m
}

func anything(string) string { return "" }

func within(low, high int64) configRule {
	return func(value string) string {
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch {
		case err != nil:
			if high > math.MaxInt32 {
				return "Not a number of type LONG"
			}
			return "Not a number of type INT"
		case n < low:
			return fmt.Sprintf("Value must be at least %d", low)
		case n > high:
			return fmt.Sprintf("Value must be no more than %d", high)
		}
		return ""
	}
}

func oneOf(values ...string) configRule {
	return func(value string) string {
		if slices.Contains(values, value) {
			return ""
		}
		return "String must be one of: " + strings.Join(values, ", ")
	}
}

// checkTopicConfig says, in Kafka's words, what is wrong with a topic's config; "" when nothing is.
func checkTopicConfig(name string, value *string) string {
	return checkConfig(topicConfigTable(), "topic", name, value)
}

func checkConfig(configs map[string]kafkaconfig.ResourceConfig, kind, name string, value *string) string {
	config, ok := configs[name]
	if !ok {
		return fmt.Sprintf("Unknown %s config name: %s", kind, name)
	}
	if value == nil {
		return fmt.Sprintf("Null value not supported for %s configs: %s", kind, name)
	}
	if err := config.Check(*value); err != nil {
		return err.Error()
	}
	if name == "remote.storage.enable" && strings.EqualFold(strings.TrimSpace(*value), "true") {
		return "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
	}
	return ""
}

func checkOptions(o *Options) error {
	var errs []error
	if o.NodeID < 0 {
		errs = append(errs, fmt.Errorf("node id %d is negative", o.NodeID))
	}
	if o.MaxPartitions < 0 {
		errs = append(errs, fmt.Errorf("%d partitions at most are negative", o.MaxPartitions))
	}
	if o.DefaultPartitions < 0 || o.DefaultPartitions > maxNewPartitions {
		errs = append(errs, fmt.Errorf("%d default partitions are not between 1 and %d", o.DefaultPartitions, maxNewPartitions))
	}
	errs = append(errs, CheckBrokerConfigs(o.BrokerConfigs))
	return errors.Join(errs...)
}

type resourceKey struct {
	kind kmsg.ConfigResourceType
	name string
}

// admitDescribeConfigs refuses to describe the same resources again and again: an answer is much larger than its
// question. Brokers' configs are the front door's.
func admitDescribeConfigs(e *Engine, req *kmsg.DescribeConfigsRequest) (passage, error) {
	const fewEnough = 1000
	once := distinct(req.Resources, func(r *kmsg.DescribeConfigsRequestResource) resourceKey {
		return resourceKey{r.ResourceType, r.ResourceName}
	})
	if len(req.Resources) > fewEnough && len(once) < len(req.Resources) {
		return passage{}, refuse(req, kerr.InvalidRequest, "resources are named twice")
	}
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.DescribeConfigsResponse)
		for i := range r.Resources {
			c := &r.Resources[i]
			if c.ResourceType == kmsg.ConfigResourceTypeGroupConfig && c.ErrorCode == 0 {
				e.groups.describe(c)
			}
			if why := CheckTopicName(c.ResourceName); c.ResourceType == kmsg.ConfigResourceTypeTopic && why != "" && c.ErrorCode != 0 {
				c.ErrorCode, c.ErrorMessage = kerr.InvalidTopicException.Code, &why
			}
		}
		return r, nil
	}}, nil
}

// interleave puts n answers in the order of their questions: those refused at their places, the others between them.
func interleave[T any](n int, refused map[int]T, others []T) []T {
	out := make([]T, 0, n)
	for i := range n {
		if r, ok := refused[i]; ok {
			out = append(out, r)
		} else if len(others) > 0 {
			out, others = append(out, others[0]), others[1:]
		}
	}
	return out
}
