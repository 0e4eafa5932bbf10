//go:build linux

package command

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker"
)

// engineOptions are the flags of brokerlab engine.
type engineOptions struct {
	cfg       broker.EngineConfig
	overrides []string
	level     slog.Level
	json      bool
}

func newEngine(env Env) *cobra.Command {
	var o engineOptions
	c := &cobra.Command{
		Use:   "engine [--nodes N] [--data DIR]",
		Short: "Serve topics and metadata for several brokers",
		Long: `Serve the topics, and the metadata log, of several brokers until it gets SIGINT or SIGTERM.

The brokers with node.id 1, 2 … N are the faces of its nodes: clients connect to them, and never to the
engine. Once brokers are served, the two lines that their configurations need are printed on standard
output. The log goes to standard error.

The engine knows no users: whoever reaches its ports may do anything. Keep them on an address that only
brokers reach.

What the engine itself stores is as safe as in a broker of its own: an acknowledged record survives the
end of the process, and with -o log.flush.interval.messages=1 that of the machine; an acknowledged change
of metadata always does.

Exit status: 0 after a clean stop, 1 when the engine failed, 2 when the command line cannot be meant.`,
		Example: `  brokerlab engine --nodes 3 --data /var/lib/brokerlab-engine
  brokerlab broker -o node.id=1 -o listeners=PLAINTEXT://127.0.0.1:9092 \
    -o engine.bootstrap.servers=127.0.0.1:9192 -o metadata.bootstrap.servers=127.0.0.1:9191`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runEngine(c.Context(), env, o) },
	}
	f := c.Flags()
	f.IntVar(&o.cfg.Nodes, "nodes", 3, "for how many brokers, with node.id 1, 2 …")
	f.StringVar(&o.cfg.Listen, "listen", "127.0.0.1:9192", "`host:port` for engine.bootstrap.servers; nodes have the ports after it")
	f.StringVar(&o.cfg.Metadata, "metadata", "127.0.0.1:9191", "`host:port` for metadata.bootstrap.servers; \"\": the nodes have it, too")
	f.StringVar(&o.cfg.Advertised, "advertised", "", "the `host` that brokers are told, where it is not that of --listen")
	f.StringVar(&o.cfg.Dir, "data", "", "the `directory` that keeps everything; without one it is gone at the end")
	f.StringVar(&o.cfg.ClusterID, "cluster-id", "", "the `id` of a new cluster; without one it is made up")
	f.StringArrayVarP(&o.overrides, "override", "o", nil, "a `key=value` of those broker properties that topics obey; may be repeated")
	f.TextVar(&o.level, "log-level", slog.LevelInfo, "the least `level` that is logged: DEBUG, INFO, WARN or ERROR")
	f.BoolVar(&o.json, "log-json", false, "log one JSON object a line")
	return c
}

func runEngine(ctx context.Context, env Env, o engineOptions) error {
	o.cfg.Properties = map[string]string{}
	for _, pair := range o.overrides {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return usage(fmt.Sprintf("--override %q is not key=value", pair))
		}
		o.cfg.Properties[key] = value
	}
	if err := o.check(); err != nil {
		return err
	}
	o.cfg.Log = processLog(env, o.level, o.json)
	o.cfg.Ready = func(bootstrap, metadata string) {
		fmt.Fprintf(env.Stdout, "engine.bootstrap.servers=%s\n", bootstrap)
		if metadata != "" {
			fmt.Fprintf(env.Stdout, "metadata.bootstrap.servers=%s\n", metadata)
		}
	}
	go returnMemory(ctx)
	return broker.ServeEngine(ctx, o.cfg)
}

// processLog is the log of a process that serves.
func processLog(env Env, level slog.Level, json bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(slog.NewJSONHandler(jsonWriter{env.Stderr}, options))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, options))
}
