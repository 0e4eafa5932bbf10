package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/feature"
)

// newFeatures is kafka-features.sh (FeatureCommand.java).
func newFeatures(env Env) *cobra.Command {
	c := &cobra.Command{Use: "features", Short: "Describe, upgrade and downgrade a cluster's features, such as metadata.version", Args: cobra.NoArgs}
	c.AddCommand(newFeaturesDescribe(env))
	for _, verb := range []string{"upgrade", "downgrade", "disable"} {
		c.AddCommand(newFeaturesUpdate(env, verb))
	}
	return c
}

func newFeaturesDescribe(env Env) *cobra.Command {
	var o bootstrapOptions
	c := &cobra.Command{
		Use:     "describe --bootstrap-server host:port",
		Short:   "Describe the features that are supported, and their levels",
		Example: "  brokerlab features describe --bootstrap-server localhost:9092",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return describeFeatures(c.Context(), env, &o) },
	}
	addBootstrap(c, &o)
	return c
}

func describeFeatures(ctx context.Context, env Env, o *bootstrapOptions) error {
	cl, err := o.open(env)
	if err != nil {
		return err
	}
	defer cl.kgo.Close()
	var resp *kmsg.ApiVersionsResponse
	err = cl.call(ctx, func(ctx context.Context) error {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = softwareName, softwareVersion
		resp, err = req.RequestWith(ctx, cl.kgo)
		return err
	})
	if err != nil {
		return err
	}
	if err = kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	slices.SortFunc(resp.SupportedFeatures, func(a, b kmsg.ApiVersionsResponseSupportedFeature) int { return cmp.Compare(a.Name, b.Name) })
	epoch := "-"
	if resp.FinalizedFeaturesEpoch >= 0 {
		epoch = strconv.FormatInt(resp.FinalizedFeaturesEpoch, 10)
	}
	for _, f := range resp.SupportedFeatures {
		var level int16
		for _, done := range resp.FinalizedFeatures {
			if done.Name == f.Name {
				level = done.MaxVersionLevel
			}
		}
		_, err = fmt.Fprintf(env.Stdout, "Feature: %-40s  SupportedMinVersion: %-15s  SupportedMaxVersion: %-15s  FinalizedVersionLevel: %-15s  Epoch: %s\n",
			f.Name, levelText(f.Name, f.MinVersion), levelText(f.Name, f.MaxVersion), levelText(f.Name, level), epoch)
		if err != nil {
			return err
		}
	}
	return nil
}

// levelText is a level as Kafka's tool shows it: metadata.version has names.
func levelText(name string, level int16) string {
	if name == feature.MetadataVersion {
		return feature.Name(level)
	}
	return strconv.Itoa(int(level))
}

type featuresOptions struct {
	bootstrapOptions

	metadata       string
	features       []string
	dryRun, unsafe bool
}

func newFeaturesUpdate(env Env, verb string) *cobra.Command {
	var o featuresOptions
	c := &cobra.Command{
		Use:     verb + " --bootstrap-server host:port",
		Short:   strings.ToUpper(verb[:1]) + verb[1:] + " features",
		Example: "  brokerlab features " + verb + " --bootstrap-server localhost:9092 --dry-run --feature metadata.version=33",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env, verb) },
	}
	if verb == "disable" {
		c.Example = "  brokerlab features disable --bootstrap-server localhost:9092 --dry-run --feature group.version"
	}
	addBootstrap(c, &o.bootstrapOptions)
	f := c.Flags()
	f.StringArrayVar(&o.features, "feature", nil, "`feature=level`, to disable only the feature; may be repeated")
	f.BoolVar(&o.dryRun, "dry-run", false, "only ask whether it can be done")
	if verb != "disable" {
		f.StringVar(&o.metadata, "metadata", "", "the `version` of metadata.version, such as 4.4-IV1")
	}
	if verb != "upgrade" {
		f.BoolVar(&o.unsafe, "unsafe", false, "even if metadata may be lost")
	}
	return c
}

// updates are what the command line asks for.
func (o *featuresOptions) updates(verb string) ([]kmsg.UpdateFeaturesRequestFeatureUpdate, error) {
	var all []kmsg.UpdateFeaturesRequestFeatureUpdate
	add := func(name string, level int16) error {
		if slices.ContainsFunc(all, func(u kmsg.UpdateFeaturesRequestFeatureUpdate) bool { return u.Feature == name }) {
			return fmt.Errorf("Feature %s was specified more than once.", name) //nolint:staticcheck // Kafka's text
		}
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, 1
		if verb != "upgrade" {
			u.UpgradeType = 2
		}
		if o.unsafe {
			u.UpgradeType = 3
		}
		all = append(all, u)
		return nil
	}
	if o.metadata != "" {
		level, err := feature.Parse(o.metadata)
		if err != nil {
			return nil, err
		}
		if err = add(feature.MetadataVersion, level); err != nil {
			return nil, err
		}
	}
	for _, text := range o.features {
		name, level := text, int64(0)
		if verb != "disable" {
			left, right, ok := strings.Cut(text, "=")
			if !ok {
				return nil, fmt.Errorf("Can't parse feature=level string %s: equals sign not found.", text) //nolint:staticcheck // Kafka's text
			}
			var err error
			right = strings.TrimSpace(right)
			if level, err = strconv.ParseInt(right, 10, 16); err != nil {
				return nil, fmt.Errorf("Can't parse feature=level string %s: unable to parse %s as a short.", text, right) //nolint:staticcheck // Kafka's text
			}
			name = strings.TrimSpace(left)
		}
		if err := add(name, int16(level)); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("You must specify at least one feature to " + verb) //nolint:staticcheck // Kafka's text
	}
	slices.SortFunc(all, func(a, b kmsg.UpdateFeaturesRequestFeatureUpdate) int { return cmp.Compare(a.Feature, b.Feature) })
	return all, nil
}

func (o *featuresOptions) run(ctx context.Context, env Env, verb string) error {
	updates, err := o.updates(verb)
	if err != nil {
		return err
	}
	cl, err := o.open(env)
	if err != nil {
		return err
	}
	defer cl.kgo.Close()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.FeatureUpdates, req.ValidateOnly = updates, o.dryRun
	var resp *kmsg.UpdateFeaturesResponse
	err = cl.call(ctx, func(ctx context.Context) error {
		resp, err = req.RequestWith(ctx, cl.kgo)
		return err
	})
	if err != nil {
		return err
	}
	could, done := "Could not", "was"
	if o.dryRun {
		could, done = "Can not", "can be"
	}
	failed := 0
	for _, u := range updates {
		to, past := fmt.Sprintf(" to %d", u.MaxVersionLevel), verb+"d"
		if verb == "disable" {
			to = ""
		}
		code, message := resp.ErrorCode, resp.ErrorMessage
		for _, r := range resp.Results {
			if code == 0 && r.Feature == u.Feature {
				code, message = r.ErrorCode, r.ErrorMessage
			}
		}
		line := fmt.Sprintf("%s %s %s%s.", u.Feature, done, past, to)
		if e := kerr.TypedErrorForCode(code); e != nil {
			failed++
			text := e.Description
			if message != nil {
				text = *message
			}
			line = fmt.Sprintf("%s %s %s%s. %s", could, verb, u.Feature, to, text)
		}
		if _, err = fmt.Fprintln(env.Stdout, line); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d out of %d operation(s) failed.", failed, len(updates)) //nolint:staticcheck // Kafka's text
	}
	return nil
}
