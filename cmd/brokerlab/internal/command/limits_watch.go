package command

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

func newLimitsWatch(env Env) *cobra.Command {
	var o limitsOptions
	var interval time.Duration
	var count int
	c := &cobra.Command{
		Use:   "watch --bootstrap-server host:port",
		Short: "Show limits, use and who waits again and again",
		Long: `Show limits, how far they are used and who waits again and again, until interrupted or --count times. On a terminal the
picture of limits show is refreshed in place, without the limits that are off; elsewhere each listener of each broker is a line of key=value pairs each
time, or with --format json each time a document on a line.

A value that is not known, or a limit that is none, is a dash. A broker that does not answer is named on standard error when
that begins, and when it answers again. Needs DESCRIBE on the cluster. Exit status: 1 when a broker did not answer the last
time.`,
		Example: `  brokerlab limits watch --bootstrap-server localhost:9092 --count 3
  brokerlab limits watch --bootstrap-server localhost:9092 --listener SSL --interval 200ms --count 2
  brokerlab limits watch --bootstrap-server localhost:9092 --format json --count 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval <= 0 || count < 0 {
				return usage("--interval must be more than nothing, --count at least 0")
			}
			return o.runWatch(c, env, interval, count)
		},
	}
	const most = 3 // so that the picture fits a terminal
	o.flags(c, most)
	c.Flags().DurationVar(&interval, "interval", time.Second, "`time` between two looks")
	c.Flags().IntVar(&count, "count", 0, "`times` to look; 0 until interrupted")
	return c
}

func (o *limitsOptions) runWatch(c *cobra.Command, env Env, interval time.Duration, count int) error {
	f, err := o.filter(c)
	if err != nil {
		return err
	}
	w := &watching{env: env, interval: interval, count: count}
	cl, err := o.open(env, w)
	if err != nil {
		return err
	}
	defer cl.kgo.Close()
	var answers []*protocol.DescribeLimitsResponse
	ask := func(ctx context.Context) (bool, error) {
		err := cl.call(ctx, func(ctx context.Context) (err error) {
			answers, err = cl.admin.DescribeLimits(ctx, f)
			return err
		})
		return len(answers) > 0, err
	}
	return w.run(c.Context(), ask, func(asked error) error { return o.printAgain(env, answers, asked) })
}

func (o *limitsOptions) printAgain(env Env, answers []*protocol.DescribeLimitsResponse, err error) error {
	if o.format == formatJSON {
		return printJSONLine(env.Stdout, jsonOfAnswers(answers, err))
	}
	var text strings.Builder
	if isTerminal(env.Stdout) {
		text.WriteString(refresh)
		if failed := writeLimits(&text, answers, true); failed != nil {
			return failed
		}
	} else {
		for _, a := range answers {
			writeLimitLines(&text, a)
		}
	}
	_, failed := io.WriteString(env.Stdout, text.String())
	return failed
}

// writeLimitLines writes a line for each listener of a broker.
func writeLimitLines(text *strings.Builder, a *protocol.DescribeLimitsResponse) {
	for i := range a.Listeners {
		l := &a.Listeners[i]
		held, address := "0", unknown
		if l.Held != nil {
			held, address = "1", shown(l.Held.Address)
		}
		fmt.Fprintf(text, "time=%s node=%d listener=%s open=%d max=%s broker_open=%s broker_max=%s ssl_open=%s ssl_max=%s"+
			" accept_queue=%s overflows=%s held=%s held_address=%s held_by_rate=%d queued=%d blocked=%s next=%q\n",
			since(a.Time), a.NodeID, shown(l.ListenerName), l.Connections, maxOf(a, "max.connections", l.ListenerName),
			useOf(a, "max.connections"), maxOf(a, "max.connections", ""), useOf(a, "max.ssl.connections"), maxOf(a, "max.ssl.connections", ""),
			strings.ReplaceAll(queueLength(&l.AcceptQueue), " of ", "/"), overflows(&l.AcceptQueue), held, address, l.Throttled, l.Queued,
			percent(l.BlockedOneMinute), nextPhrase(&l.Next))
	}
}

// limitOf finds a limit of the broker, or of a listener when that is not ""; nil where there is none.
func limitOf(a *protocol.DescribeLimitsResponse, name, listener string) *protocol.DescribeLimitsResponseLimit {
	for i := range a.Limits {
		if l := &a.Limits[i]; l.Name == name && l.ListenerName == listener {
			return l
		}
	}
	return nil
}

func maxOf(a *protocol.DescribeLimitsResponse, name, listener string) string {
	l := limitOf(a, name, listener)
	if l == nil || l.Value == protocol.NoLimit {
		return unknown
	}
	return strconv.FormatInt(l.Value, 10)
}

func useOf(a *protocol.DescribeLimitsResponse, name string) string {
	l := limitOf(a, name, "")
	if l == nil {
		return unknown
	}
	return quantity(l, l.InUse)
}
