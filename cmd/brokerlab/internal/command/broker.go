//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernelsource"
)

// brokerOptions are the flags of brokerlab broker.
type brokerOptions struct {
	config    string
	overrides []string
	strict    bool
	level     slog.Level
	json      bool
}

func newBroker(env Env) *cobra.Command {
	var o brokerOptions
	c := &cobra.Command{
		Use:   "broker [--config server.properties] [-o key=value …]",
		Short: "Run a Kafka broker",
		Long: `Run a Kafka broker until it gets SIGINT or SIGTERM.

The configuration is Kafka's server.properties, by Kafka's names. Every problem of it is printed at once, with its
place, and nothing is started then. The log goes to standard error.

Exit status: 0 after a clean stop, 1 when the broker failed, 2 when it could not start.`,
		Example: `  brokerlab broker -o node.id=1 -o listeners=PLAINTEXT://127.0.0.1:9092
  brokerlab broker --config server.properties -o log.dirs=/var/lib/brokerlab`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runBroker(c.Context(), env, o) },
	}
	f := c.Flags()
	f.StringVarP(&o.config, "config", "c", "", "a server.properties `file`")
	f.StringArrayVarP(&o.overrides, "override", "o", nil, "a `key=value` that overrides the file; may be repeated")
	f.BoolVar(&o.strict, "strict", false, "refuse unknown properties instead of warning")
	f.TextVar(&o.level, "log-level", slog.LevelInfo, "the least `level` that is logged: DEBUG, INFO, WARN or ERROR")
	f.BoolVar(&o.json, "log-json", false, "log one JSON object a line")
	return c
}

func runBroker(ctx context.Context, env Env, o brokerOptions) error {
	cfg, err := broker.LoadConfig(o.config, o.overrides, o.strict) //nolint:contextcheck // the start waits for names of hosts, for a while
	if err != nil {
		return &ExitError{Code: 2, Err: listed("configuration cannot be used", err)}
	}
	log := processLog(env, o.level, o.json)
	options := []broker.Option{broker.WithLog(log), broker.WithStart(ctx)}
	if cfg.KernelAccounting != "" && cfg.KernelAccounting != "off" {
		options = append(options, broker.WithKernelFrom(func() (broker.KernelSource, error) { //nolint:contextcheck // the source lives as long as the broker, not as a call
			return kernelsource.Open(cfg.KernelAccounting, kernelsource.Options{Log: log})
		}))
	}
	b, err := broker.New(cfg, options...) //nolint:contextcheck // Shutdown ends it, not a context
	if err != nil {
		return &ExitError{Code: 2, Err: listed("broker cannot start", err)}
	}
	go returnMemory(ctx)
	return b.Serve(ctx)
}

// listed prints the parts of a joined error one a line.
func listed(what string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	parts := joined.Unwrap()
	lines := make([]string, 0, len(parts))
	for _, part := range parts {
		lines = append(lines, "  "+strings.ReplaceAll(part.Error(), "\n", "\n  "))
	}
	if len(lines) == 1 {
		return fmt.Errorf("%s: %w", what, err)
	}
	return errors.New(what + ":\n" + strings.Join(lines, "\n"))
}
