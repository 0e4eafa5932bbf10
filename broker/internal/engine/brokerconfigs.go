package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CheckBrokerConfigs tells whether the data plane can obey values of [Obeys].
func CheckBrokerConfigs(values map[string]string) error {
	rules := brokerConfigRules()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		rule, ok := rules[name]
		if !ok {
			errs = append(errs, fmt.Errorf("the data plane does not know the property %s", name))
			continue
		}
		if why := rule(values[name]); why != "" {
			errs = append(errs, fmt.Errorf("%s=%s: %s", name, values[name], why))
		}
	}
	return errors.Join(errs...)
}

// ticking is a value as the data plane can take it: what is kept without an end, and a pause that is none, have more than one
// spelling in Kafka.
func ticking(name, value string) string {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	switch {
	case err != nil:
	case name == "log.retention.ms" && n < 0:
		return "-1"
	case name == "log.cleaner.backoff.ms" && n == 0:
		return "1"
	default:
		return strings.TrimSpace(value)
	}
	return value
}

// SetBrokerConfigs replaces [Options].BrokerConfigs. log.cleaner.backoff.ms is read once, at [Open]. A data plane somewhere
// else has settings of its own, which stay as they are.
func (e *Engine) SetBrokerConfigs(ctx context.Context, values map[string]string) error {
	if e.remote != nil {
		return nil
	}
	if err := CheckBrokerConfigs(values); err != nil {
		return err
	}
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version = 1
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeBroker
	for _, name := range slices.Sorted(maps.Keys(values)) {
		c := kmsg.NewAlterConfigsRequestResourceConfig()
		value := ticking(name, values[name])
		c.Name, c.Value = name, &value
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	resp, err := e.ask(ctx, req)
	if err != nil {
		return err
	}
	answer, _ := resp.(*kmsg.AlterConfigsResponse)
	for i := range answer.Resources {
		if err := kerr.ErrorForCode(answer.Resources[i].ErrorCode); err != nil {
			return fmt.Errorf("alter the data plane's configs: %w", err)
		}
	}
	return nil
}
