package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
)

func newKafka(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "kafka",
		Short: "Get released versions of Apache Kafka, for labs and comparisons",
		Long: `Get released versions of Apache Kafka, for nodes of kind kafka in labs and for comparisons with it. Versions are kept
side by side in $BROKERLAB_KAFKA_DIR, or else below the user's folder for caches. Maven gets them; Java runs them.`,
		Example: "  brokerlab kafka fetch 4.4.0\n  brokerlab kafka list",
	}
	for _, add := range []func(Env) *cobra.Command{newKafkaFetch, newKafkaList, newKafkaPath} {
		c.AddCommand(add(env))
	}
	return c
}

func newKafkaFetch(env Env) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "fetch [VERSION …]",
		Short: "Get versions of Kafka with Maven",
		Long: `Get versions of Apache Kafka with Maven (mvn), from whatever repositories it is set up for: the server, its tools, and
what they need. What is there already stays. Without a version: ` + kafkahome.Default + `.

Exit status: 0 when all versions are there, 1 when one could not be had.`,
		Example: "  brokerlab kafka fetch\n  brokerlab kafka fetch 4.3.0 4.4.0 --dir build/kafka",
		Args:    versions,
		RunE:    func(c *cobra.Command, args []string) error { return kafkaFetch(c.Context(), env, dir, args) },
	}
	c.Flags().StringVar(&dir, "dir", "", "the `FOLDER` to keep them in (default: where labs look for them)")
	return c
}

// versions wants versions of Kafka only.
func versions(_ *cobra.Command, args []string) error {
	for _, v := range args {
		if err := kafkahome.CheckVersion(v); err != nil {
			return &ExitError{Code: 2, Err: err}
		}
	}
	return nil
}

func kafkaFetch(ctx context.Context, env Env, dir string, all []string) error {
	if dir == "" {
		var err error
		if dir, err = kafkahome.Dir(); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		all = []string{kafkahome.Default}
	}
	for _, v := range all {
		h, err := fetchKafka(ctx, env, dir, v)
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintf(env.Stdout, "Kafka %s: %s\n", h.Version, h.Folder); err != nil {
			return err
		}
	}
	return nil
}

// fetchKafka gets one version and tells what happens meanwhile.
func fetchKafka(ctx context.Context, env Env, dir, version string) (kafkahome.Home, error) {
	p := newProgress(env.Stderr)
	defer p.stop()
	return kafkahome.Fetch(ctx, dir, version, p.set)
}

// haveKafka finds a version where versions are kept, or gets it there.
func haveKafka(ctx context.Context, env Env, version string) (kafkahome.Home, error) {
	h, err := kafkahome.Find(version)
	if !errors.Is(err, kafkahome.ErrNotFetched) {
		return h, err
	}
	dir, err := kafkahome.Dir()
	if err != nil {
		return kafkahome.Home{}, err
	}
	return fetchKafka(ctx, env, dir, version)
}

func newKafkaList(env Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the versions of Kafka that are on this machine",
		Example: "  brokerlab kafka list\n  brokerlab kafka list --format json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return kafkaList(env, f) },
	}
	addFormat(c, &f)
	return c
}

func kafkaList(env Env, f format) error {
	all, err := kafkahome.List()
	if err != nil {
		return err
	}
	if f == formatJSON {
		return printJSON(env.Stdout, append([]kafkahome.Home{}, all...))
	}
	if len(all) == 0 {
		var dir string
		if dir, err = kafkahome.Dir(); err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "No version of Kafka is in %s: brokerlab kafka fetch gets one.\n", dir)
		return err
	}
	rows := [][]string{{"VERSION", "FOLDER"}}
	for _, h := range all {
		rows = append(rows, []string{h.Version, h.Folder})
	}
	var b strings.Builder
	columns(&b, rows, 0)
	_, err = io.WriteString(env.Stdout, b.String())
	return err
}

func newKafkaPath(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "path [VERSION]",
		Short: "Print the folder of a version of Kafka",
		Long: `Print the folder of a version of Apache Kafka that is on this machine; its libs are the class path of Kafka's own
tools. Without a version: ` + kafkahome.Default + `.

Exit status: 0 when it is there, 1 when it is not.`,
		Example: `  brokerlab kafka path 4.3.0
  java -cp "$(brokerlab kafka path)/libs/*" org.apache.kafka.tools.TopicCommand --help`,
		Args: cobra.MatchAll(cobra.MaximumNArgs(1), versions),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := kafkahome.Find(append(args, kafkahome.Default)[0])
			if err != nil {
				return fmt.Errorf("%w%s", err, keptKafkas())
			}
			_, err = fmt.Fprintln(env.Stdout, h.Folder)
			return err
		},
	}
}

// keptKafkas says which versions there are, for an error about one that is not.
func keptKafkas() string {
	all, err := kafkahome.List()
	if err != nil || len(all) == 0 {
		return ""
	}
	versions := make([]string, len(all))
	for i, h := range all {
		versions[i] = h.Version
	}
	return "; this machine has " + strings.Join(versions, ", ")
}
