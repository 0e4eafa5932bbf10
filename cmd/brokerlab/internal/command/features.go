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
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/feature"
)

// newFeatures is kafka-features.sh (FeatureCommand.java) under brokerlab's name.
func newFeatures(env Env) *cobra.Command {
	c := newFeaturesScript(env)
	c.Use = "features"
	for _, each := range append(c.Commands(), c) {
		each.Example = underOurName(each.Example)
	}
	return c
}

// newFeaturesScript is kafka-features.sh. How to reach the cluster may be said before the verb, as Kafka has it, or after it.
func newFeaturesScript(env Env) *cobra.Command {
	o := &featuresOptions{}
	c := &cobra.Command{
		Use:   "kafka-features.sh",
		Short: "Describe, upgrade and downgrade a cluster's features, such as metadata.version",
		Long: `Describe, upgrade and downgrade the features of a cluster, such as metadata.version, with the command line and the output
of kafka-features.sh.

To change them needs ALTER on the cluster. Exit status: 0 when done, else 1.`,
		Example: `  kafka-features.sh --bootstrap-server localhost:9092 describe
  kafka-features.sh --bootstrap-server localhost:9092 upgrade --dry-run \
    --feature metadata.version=33
  kafka-features.sh version-mapping --release-version 4.4`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(env.args) == 0 && c.HasParent() {
				return c.Help()
			}
			if len(args) == 0 {
				return featuresUsage(env, "too few arguments")
			}
			return featuresUsage(env, fmt.Sprintf("invalid choice: '%s' (choose from '%s')", args[0], strings.Join(featureVerbs(), "', '")))
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	f := c.PersistentFlags()
	f.StringVar(&o.servers, "bootstrap-server", "", "`host:port` of one or more brokers, separated by commas; IPv6 in brackets")
	f.StringVar(&o.controllers, "bootstrap-controller", "", "`host:port` of controllers, instead of brokers")
	f.StringVar(&o.config, "command-config", "", "a client.properties `file`: how to authenticate and encrypt")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return featuresUsage(env, argparseText(err)) })
	c.AddCommand(newFeaturesDescribe(env, o), newFeaturesUpdate(env, o, "upgrade"), newFeaturesUpdate(env, o, "downgrade"),
		newFeaturesUpdate(env, o, "disable"), newFeaturesMapping(env), newFeaturesDependencies(env))
	return c
}

// featureVerbs are the subcommands, as Kafka's tool lists them.
func featureVerbs() []string {
	return []string{"describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies"}
}

// featuresUsage is how argparse4j, the parser of kafka-features.sh, refuses a command line.
func featuresUsage(env Env, text string) error {
	return toolError(env, "Command line error: "+text+". Type --help for help.")
}

// argparseText is how argparse4j says what is wrong with a flag.
func argparseText(err error) string {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return "unrecognized arguments: '--" + e.GetSpecifiedName() + "'"
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return "argument --" + e.GetSpecifiedName() + ": expected one argument"
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok && e.GetFlag().Name == "node-id" {
		return fmt.Sprintf("argument --node-id: could not convert '%[1]s' to Integer (For input string: \"%[1]s\")", e.GetValue())
	}
	return err.Error()
}

// featuresOptions are the flags of kafka-features.sh.
type featuresOptions struct {
	bootstrapOptions

	node              int32
	metadata, release string
	features          []string
	dryRun, unsafe    bool
	format            format
}

// runFeatures runs f with a client of the cluster that the command line names.
func (o *featuresOptions) runFeatures(c *cobra.Command, env Env, f func(context.Context, *cluster) error) error {
	given := c.Flags().Changed
	switch {
	case given("bootstrap-server") && given("bootstrap-controller"):
		return featuresUsage(env, "argument --bootstrap-controller: not allowed with argument --bootstrap-server")
	case !given("bootstrap-server") && !given("bootstrap-controller"):
		return featuresUsage(env, "You must specify either --bootstrap-controller or --bootstrap-server.")
	}
	cl, err := o.open(env)
	if err == nil {
		err = f(c.Context(), cl)
		cl.kgo.Close()
	}
	if err != nil {
		if err.Error() == "unknown broker" { // kgo's, which has no name
			return toolError(env, fmt.Sprintf("there is no broker %d", o.node))
		}
		if e, ok := errors.AsType[*javaExceptionError](err); ok {
			return toolError(env, e.class+": "+e.text)
		}
		return toolError(env, err.Error())
	}
	return nil
}

func newFeaturesDescribe(env Env, o *featuresOptions) *cobra.Command {
	c := &cobra.Command{
		Use:     "describe --bootstrap-server host:port",
		Short:   "Describe the features that are supported, and their levels",
		Example: "  kafka-features.sh describe --bootstrap-server localhost:9092",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.runFeatures(c, env, func(ctx context.Context, cl *cluster) error {
				return describeFeatures(ctx, env, cl, o.node, c.Flags().Changed("node-id"), o.format)
			})
		},
	}
	c.Flags().Int32Var(&o.node, "node-id", 0, "the `id` of the broker to ask; any when not given")
	addFormat(c, &o.format)
	return c
}

// featureRow is a feature in the JSON of describe.
type featureRow struct {
	Feature   string `json:"feature"`
	Min       int16  `json:"supportedMinVersion"`
	Max       int16  `json:"supportedMaxVersion"`
	Finalized int16  `json:"finalizedVersionLevel"`
	Epoch     *int64 `json:"epoch"`
}

func describeFeatures(ctx context.Context, env Env, cl *cluster, node int32, one bool, as format) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = softwareName, softwareVersion
	var resp *kmsg.ApiVersionsResponse
	var err error
	if one && !cl.controllers {
		err = cl.call(ctx, func(ctx context.Context) error {
			if _, listErr := kadm.NewClient(cl.kgo).BrokerMetadata(ctx); listErr != nil { // which brokers there are
				return listErr
			}
			resp, err = req.RequestWith(ctx, cl.kgo.Broker(int(node)))
			return err
		})
	} else {
		resp, err = ask[*kmsg.ApiVersionsResponse](ctx, cl, req)
	}
	if err == nil {
		err = javaError(resp.ErrorCode, nil)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(resp.SupportedFeatures, func(a, b kmsg.ApiVersionsResponseSupportedFeature) int { return cmp.Compare(a.Name, b.Name) })
	epoch := "-"
	if resp.FinalizedFeaturesEpoch >= 0 {
		epoch = strconv.FormatInt(resp.FinalizedFeaturesEpoch, 10)
	}
	rows := []featureRow{}
	for _, f := range resp.SupportedFeatures {
		level := finalized(resp, f.Name)
		if as == formatJSON {
			row := featureRow{Feature: f.Name, Min: f.MinVersion, Max: f.MaxVersion, Finalized: level}
			if epoch != "-" {
				row.Epoch = &resp.FinalizedFeaturesEpoch
			}
			rows = append(rows, row)
			continue
		}
		_, err = fmt.Fprintf(env.Stdout, "Feature: %-40s  SupportedMinVersion: %-15s  SupportedMaxVersion: %-15s  FinalizedVersionLevel: %-15s  Epoch: %s\n",
			f.Name, levelText(f.Name, f.MinVersion), levelText(f.Name, f.MaxVersion), levelText(f.Name, level), epoch)
		if err != nil {
			return err
		}
	}
	if as == formatJSON {
		return printJSON(env.Stdout, rows)
	}
	return nil
}

// finalized is the level of a feature in the cluster; 0 where it has none.
func finalized(resp *kmsg.ApiVersionsResponse, name string) int16 {
	for _, f := range resp.FinalizedFeatures {
		if f.Name == name {
			return f.MaxVersionLevel
		}
	}
	return 0
}

// levelText is a level as Kafka's tool shows it: metadata.version has names.
func levelText(name string, level int16) string {
	if name != feature.MetadataVersion {
		return strconv.Itoa(int(level))
	}
	for _, r := range releases() {
		if r.Level == level {
			return r.Name
		}
	}
	return fmt.Sprintf("UNKNOWN %d", level)
}

func newFeaturesUpdate(env Env, o *featuresOptions, verb string) *cobra.Command {
	c := &cobra.Command{
		Use:     verb + " --bootstrap-server host:port",
		Short:   strings.ToUpper(verb[:1]) + verb[1:] + " features",
		Example: "  kafka-features.sh " + verb + " --bootstrap-server localhost:9092 \\\n    --dry-run --feature metadata.version=33",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.runFeatures(c, env, func(ctx context.Context, cl *cluster) error { return o.update(ctx, env, cl, verb) })
		},
	}
	if verb == "disable" {
		c.Example = "  kafka-features.sh disable --bootstrap-server localhost:9092 --dry-run --feature group.version"
	}
	f := c.Flags()
	f.StringArrayVar(&o.features, "feature", nil, "`feature=level`, to disable only the feature; may be repeated")
	f.BoolVar(&o.dryRun, "dry-run", false, "only ask whether it can be done")
	if verb != "disable" {
		f.StringVar(&o.metadata, "metadata", "", "the `version` of metadata.version, such as 4.4-IV1; deprecated")
		f.StringVar(&o.release, "release-version", "", "the `version` whose levels all features get, such as 4.4 or 4.4-IV1")
	}
	if verb != "upgrade" {
		f.BoolVar(&o.unsafe, "unsafe", false, "even if metadata may be lost")
	}
	return c
}

// updates are what the command line asks for.
//
//nolint:gocognit,revive,staticcheck // one flag after another; ST1005: Kafka's texts
func (o *featuresOptions) updates(env Env, verb string) ([]kmsg.UpdateFeaturesRequestFeatureUpdate, error) {
	var all []kmsg.UpdateFeaturesRequestFeatureUpdate
	add := func(name string, level int16) error {
		if slices.ContainsFunc(all, func(u kmsg.UpdateFeaturesRequestFeatureUpdate) bool { return u.Feature == name }) {
			return fmt.Errorf("Feature %s was specified more than once.", name)
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
	if o.release != "" {
		if o.metadata != "" || len(o.features) > 0 {
			return nil, errors.New("Can not specify `release-version` with other feature flags.")
		}
		release, err := parseRelease(o.release)
		if err != nil {
			return nil, err
		}
		for _, l := range releaseLevels(release.Level) {
			if err := add(l.name, l.level); err != nil {
				return nil, err
			}
		}
	}
	if o.metadata != "" {
		if _, err := fmt.Fprintln(env.Stdout, " `metadata` flag is deprecated and may be removed in a future release."); err != nil {
			return nil, err
		}
		release, err := parseRelease(o.metadata)
		if err != nil {
			return nil, err
		}
		if err := add(feature.MetadataVersion, release.Level); err != nil {
			return nil, err
		}
	}
	for _, text := range o.features {
		name, level := text, int16(0)
		if verb != "disable" {
			var err error
			if name, level, err = parseLevel(text); err != nil {
				return nil, err
			}
			if level < 0 {
				return nil, errors.New("Cannot specify a negative version level.")
			}
		}
		if err := add(name, level); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, errors.New("You must specify at least one feature to " + verb)
	}
	slices.SortFunc(all, func(a, b kmsg.UpdateFeaturesRequestFeatureUpdate) int { return cmp.Compare(a.Feature, b.Feature) })
	return all, nil
}

func (o *featuresOptions) update(ctx context.Context, env Env, cl *cluster, verb string) error {
	updates, err := o.updates(env, verb)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.FeatureUpdates, req.ValidateOnly = updates, o.dryRun
	resp, err := ask[*kmsg.UpdateFeaturesResponse](ctx, cl, req)
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
		return fmt.Errorf("%d out of %d operation(s) failed.", failed, len(updates)) //nolint:revive,staticcheck // ST1005: Kafka's text
	}
	return nil
}
