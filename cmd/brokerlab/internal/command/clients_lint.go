package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/configpush/advice"
)

type clientsLintOptions struct {
	clientsOptions

	processing time.Duration
}

func newClientsLint(env Env) *cobra.Command {
	var o clientsLintOptions
	c := &cobra.Command{
		Use:   "lint --bootstrap-server host:port",
		Short: "Find known trouble in what clients run with",
		Long: `Find known trouble in the configurations that clients have pushed: settings that lose or duplicate records, that contradict
each other, that throw consumers out of their group, or that burden brokers. Each finding has its reason and Kafka's default.

With --processing-time, how long the application works on one record, max.poll.interval.ms is held against it.
Needs DESCRIBE on the cluster. Exit status: 0 without a finding, else 1.`,
		Example: `  brokerlab clients lint --bootstrap-server localhost:9092
  brokerlab clients lint --bootstrap-server localhost:9092 --processing-time 700ms`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.processing < 0 {
				return usage("--processing-time is not negative")
			}
			return o.run(c, env, true, func(rows []pusher, asked error) error { return o.print(env, rows, asked) })
		},
	}
	o.add(c)
	c.Flags().DurationVar(&o.processing, "processing-time", 0, "how `long` the application works on one record; 0 when it is not known")
	return c
}

// jsonAdvice is one finding of clients lint.
type jsonAdvice struct {
	NodeID        int32  `json:"nodeId"`
	Principal     string `json:"principal"`
	ClientAddress string `json:"clientAddress"`
	ClientID      string `json:"clientId"`
	Key           string `json:"key"`
	Value         string `json:"value"`
	Reason        string `json:"reason"`
	Default       string `json:"default"`
}

func (o *clientsLintOptions) print(env Env, rows []pusher, asked error) error {
	all := []jsonAdvice{} // an empty list, not null
	for i := range rows {
		r := &rows[i]
		found := 0
		for j := range r.Configurations {
			for _, f := range advice.Check(entriesOf(&r.Configurations[j]), advice.Options{Processing: o.processing}) {
				all = append(all, jsonAdvice{r.node, r.Principal, r.ClientAddress, r.ClientID, f.Key, f.Value, f.Reason, f.Default})
				found++
			}
		}
		if o.format == formatJSON || found == 0 {
			continue
		}
		if err := printHanging(env.Stdout, "", r.title()); err != nil {
			return err
		}
		if err := printAdvice(env, all[len(all)-found:]); err != nil {
			return err
		}
	}
	var err error
	if o.format == formatJSON {
		err = printJSON(env.Stdout, struct {
			Findings []jsonAdvice `json:"findings"`
			Errors   []jsonError  `json:"errors"`
		}{all, jsonErrors(asked)})
	} else {
		_, err = fmt.Fprintf(env.Stdout, "Findings: %d in %s.\n", len(all), plural(len(rows), "client"))
	}
	if err == nil && asked == nil && len(all) > 0 {
		return &ExitError{Code: 1}
	}
	return err
}

func printAdvice(env Env, findings []jsonAdvice) error {
	for _, f := range findings {
		if err := printHanging(env.Stdout, "  ", shown(f.Key)+"="+shown(f.Value)); err != nil {
			return err
		}
		if err := printHanging(env.Stdout, "    ", f.Reason+" (Kafka's default: "+f.Default+")"); err != nil {
			return err
		}
	}
	return nil
}
