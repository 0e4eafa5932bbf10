//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/scenarios/connbench"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/fleet/crew"
)

// fleetRunOptions are the flags of brokerlab fleet run.
type fleetRunOptions struct {
	meetingOptions

	workers      int
	wait         time.Duration
	target       string
	targetConfig string
	connections  int
	rate         float64
	hold         time.Duration
	behaviour    string
	every        time.Duration
	records      string
	clientID     string
	yes          bool
	format       format
}

func newFleetRun(env Env) *cobra.Command {
	var o fleetRunOptions
	c := &cobra.Command{
		Use:   "run --bootstrap-server host:port --topic TOPIC --target host:port",
		Short: "Give a fleet's clients out to workers at a topic, and collect what they saw",
		Long: `Give a fleet's clients out to the workers that wait at a topic (brokerlab fleet worker), have them open all at the same time
and hold them for --hold, close them, and show what each worker saw.

The topic's partitions are the shares: a topic that is made here has 12, so that there may be up to 12 workers. One run has
the topic at a time; another waits for its end, at most --wait. A worker that dies takes its clients along: its shares are
shown as LOST, with how many clients that is, and are not given to others behind your back. One that comes in the middle
gets its share of the next run.

With several servers in --target each gets the same number of clients. Names are resolved here, so that all workers connect to
the same addresses; a certificate is verified here once, and workers take no other.

Exit status: 0 every client came up and stayed; 1 some did not, or a share was lost; 2 nothing could be given out.`,
		Example: `  brokerlab fleet run --bootstrap-server localhost:9092 --topic fleet --workers 3 \
      --target localhost:9092 --connections 900 --hold 10s
  brokerlab fleet run --bootstrap-server kafka:9092 --topic fleet --workers 4 \
      --target broker1:9093,broker2:9093 --target-config client.properties \
      --connections 40000 --rate 2000 --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env) },
	}
	o.flags(c)
	f := c.Flags()
	f.IntVar(&o.workers, "workers", 1, "wait until this `number` of workers is there")
	f.DurationVar(&o.wait, "wait", time.Minute, "how long to wait for workers, and for the end of another run")
	f.StringVar(&o.target, "target", "", "`host:port` of the brokers to connect to, separated by commas")
	f.StringVar(&o.targetConfig, "target-config", "", "a client.properties `file`: how the clients authenticate and encrypt")
	f.IntVar(&o.connections, "connections", 100, "the `number` of clients, in all")
	f.Float64Var(&o.rate, "rate", 0, "the `number` of connections to begin a second, in all; 0: as fast as possible, which may be more than the queue of a listener takes (socket.listen.backlog.size, 50)")
	f.DurationVar(&o.hold, "hold", 10*time.Second, "how long the clients stay once all have come up")
	f.StringVar(&o.behaviour, "behaviour", string(fleet.Idle), "the `behaviour` of clients: idle, metadata, produce or silent")
	f.DurationVar(&o.every, "every", time.Second, "time between two requests of a client that asks for metadata or produces")
	f.StringVar(&o.records, "records-topic", "", "the `topic` of --target that clients produce to, or ask about")
	f.StringVar(&o.clientID, "client-id", "", "the clients' `id`")
	f.BoolVar(&o.yes, "yes", false, "load a target outside of this machine's loopback without asking")
	addFormat(c, &o.format)
	if err := c.MarkFlagRequired("target"); err != nil {
		panic(err) // the flag was added above
	}
	return c
}

// plan is the whole fleet: a group for each server.
func (o *fleetRunOptions) plan(ctx context.Context, env Env) (fleet.Plan, error) {
	plan := fleet.Plan{Rate: o.rate}
	names, config, err := loadClient(env, o.target, o.targetConfig)
	if err != nil {
		return plan, err
	}
	if refused := allowed(ctx, env, names, o.connections, o.yes); refused != nil {
		return plan, refused
	}
	s := config.Security
	var trust fleet.TLS
	if s.TLS != nil {
		if trust, err = connbench.ClientTLS(s.TLS); err != nil {
			return plan, err
		}
	}
	for i, name := range names {
		g := fleet.Group{
			Name: name, Protocol: fleet.Protocol(s.Protocol), Username: s.Username, Password: s.Password, Mechanism: s.Mechanism, TLS: trust,
			ClientID: o.clientID, Behaviour: fleet.Behaviour(o.behaviour), Every: o.every, Topic: o.records,
			Count: o.connections / len(names),
		}
		if i < o.connections%len(names) {
			g.Count++
		}
		if g.Target, err = connbench.Resolve(ctx, name); err != nil {
			return plan, fmt.Errorf("connect to %s: %w", name, err)
		}
		if s.TLS != nil {
			bounded, cancel := context.WithTimeout(ctx, config.RequestTimeout)
			var d net.Dialer
			g.TLS.Pin, err = connbench.Verify(bounded, d.DialContext, name, g.Target, s.TLS)
			cancel()
			if err != nil {
				return plan, fmt.Errorf("verify the certificate of %s: %w", name, err)
			}
		}
		plan.Groups = append(plan.Groups, g)
	}
	err = plan.Validate()
	return plan, err
}

func (o *fleetRunOptions) run(ctx context.Context, env Env) error {
	if o.workers < 1 || o.connections < 1 || o.wait <= 0 || o.hold < 0 {
		return usage("--workers and --connections must be at least 1, --wait more than nothing, and --hold not less")
	}
	p := newProgress(env.Stderr)
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			p.stop()
		}
	}
	defer stop()
	options, err := o.meeting(env, p.set)
	if err != nil {
		return err
	}
	plan, err := o.plan(ctx, env)
	if err != nil {
		if _, ok := errors.AsType[*ExitError](err); ok {
			return err
		}
		return &ExitError{Code: 2, Err: err}
	}
	result, err := o.drive(ctx, options, plan, p)
	stop()
	if result == nil {
		return &ExitError{Code: 2, Err: err}
	}
	if printed := o.print(env, result); printed != nil {
		return printed
	}
	if err != nil || result.Up < o.connections || result.Lost > 0 {
		return &ExitError{Code: 1, Err: err}
	}
	return nil
}

// jsonFleet is the document of fleet run with --format json.
type jsonFleet struct {
	Topic       string                    `json:"topic"`
	Connections int                       `json:"connections"` // asked for
	Up          int                       `json:"up"`          // at the end of the hold
	Failed      int                       `json:"failed"`
	Lost        int                       `json:"lost"` // clients of lost shares
	Requests    int64                     `json:"requests"`
	Reauths     int64                     `json:"reauthentications"` // of clients whose SASL sessions end
	Workers     []jsonFleetWorker         `json:"workers"`
	LostShares  []jsonLostShare           `json:"lostShares"`
	Outcomes    map[fleet.Outcome]int     `json:"outcomes"`
	Latencies   map[string]jsonPercentile `json:"latencies"` // milliseconds
	Problems    []string                  `json:"problems"`

	shares     int
	histograms map[fleet.Latency]*hdrhistogram.Histogram
}

type jsonFleetWorker struct {
	Name     string `json:"name"`
	Shares   int    `json:"shares"`
	Clients  int    `json:"clients"` // given to it
	Up       int    `json:"up"`
	Failed   int    `json:"failed"`
	Lost     int    `json:"lost"`
	Requests int64  `json:"requests"`
	Reauths  int64  `json:"reauthentications"`
}

type jsonLostShare struct {
	Share   int    `json:"share"` // from 1 on
	Of      int    `json:"of"`
	Worker  string `json:"worker"`
	Clients int    `json:"clients"`
	Why     string `json:"why"`
}

type jsonPercentile struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// drive gives the plan out, holds the clients and collects what was seen. An error beside a result is that it was interrupted.
func (o *fleetRunOptions) drive(ctx context.Context, options crew.Options, plan fleet.Plan, p *progress) (*jsonFleet, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, o.wait, fmt.Errorf("waited for %v (--wait)", o.wait))
	defer cancel()
	c, err := crew.Gather(waiting, options, o.workers)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:contextcheck // it bounds itself
	n := min(c.Shares(), o.connections)
	workers, holders, err := c.Give(waiting, n)
	if err != nil {
		return nil, err
	}
	defer workers.Close() //nolint:errcheck,contextcheck // who has not ended is lost, which was said; it bounds itself
	plans := crew.Split(plan, n)
	result := &jsonFleet{Topic: o.topic, Connections: o.connections, Outcomes: map[fleet.Outcome]int{}, LostShares: []jsonLostShare{}, Problems: []string{}}
	note := func(err error) {
		for _, e := range flatten([]error{err}) {
			if _, lost := errors.AsType[*fleet.LostError](e); !lost && !errors.Is(e, context.Canceled) {
				result.Problems = append(result.Problems, e.Error())
			}
		}
	}
	note(workers.Add(ctx, plans, func(all fleet.Progress) bool {
		p.set(fmt.Sprintf("%d of %d clients are up, %d failed", all.Up, o.connections, all.Failed))
		return true
	}))
	note(o.keep(ctx, workers, p))
	stats, err := workers.Stats()
	note(err)
	result.histograms, err = workers.Latencies()
	note(err)
	failures, err := workers.Failures(1)
	note(err)
	for i := range failures {
		result.Problems = append(result.Problems, fmt.Sprintf("client %d to %s: %v", failures[i].Index, failures[i].Group, failures[i].Err()))
	}
	if _, err = workers.CloseAll(fleet.FIN); err != nil {
		note(err)
	}
	result.count(plans, holders, stats, workers)
	return result, context.Cause(ctx) // nil unless it was interrupted
}

// keep lets the clients stay for a while, and looks meanwhile which workers are lost.
func (o *fleetRunOptions) keep(ctx context.Context, workers *fleet.Workers, p *progress) error {
	end := time.NewTimer(o.hold)
	defer end.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // what was seen until now is shown
		case <-end.C:
			return nil
		case <-tick.C:
		}
		stats, err := workers.Stats()
		up := 0
		for i := range stats {
			up += stats[i].Up
		}
		p.set(fmt.Sprintf("%d of %d clients are up", up, o.connections))
		if lost := workers.Lost(); len(lost) > 0 {
			p.set(fmt.Sprintf("%d of %d clients are up; %s", up, o.connections, plural(len(lost), "share")+" lost"))
		}
		if err != nil && len(workers.Lost()) == 0 {
			return err
		}
	}
}

// count adds up what was seen, by worker.
func (r *jsonFleet) count(plans []fleet.Plan, holders []string, stats []fleet.Stats, workers *fleet.Workers) {
	byName := map[string]*jsonFleetWorker{}
	lost := workers.Lost()
	r.shares = len(holders)
	for i, name := range holders {
		w := byName[name]
		if w == nil {
			w = &jsonFleetWorker{Name: name}
			byName[name] = w
		}
		w.Shares++
		w.Clients += plans[i].Connections()
		if e := lost[i]; e != nil {
			w.Lost += plans[i].Connections()
			r.LostShares = append(r.LostShares, jsonLostShare{i + 1, len(holders), name, plans[i].Connections(), e.Err.Error()})
			continue
		}
		s := &stats[i]
		w.Up += s.Up
		w.Requests += s.Requests
		w.Reauths += s.Reauths
		for outcome, n := range s.Outcomes {
			r.Outcomes[outcome] += n
		}
		w.Failed += plans[i].Connections() - s.Up
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		w := byName[name]
		r.Workers = append(r.Workers, *w)
		r.Up, r.Failed, r.Lost = r.Up+w.Up, r.Failed+w.Failed, r.Lost+w.Lost
		r.Requests, r.Reauths = r.Requests+w.Requests, r.Reauths+w.Reauths
	}
	r.Latencies = map[string]jsonPercentile{}
	for name, h := range r.histograms {
		const p50, p99 = 50, 99
		ms := func(micros int64) float64 { return float64(micros) / 1000 }
		r.Latencies[string(name)] = jsonPercentile{ms(h.ValueAtQuantile(p50)), ms(h.ValueAtQuantile(p99)), ms(h.Max())}
	}
}

// synAgain is after how many milliseconds a kernel first asks again for a connection that was not answered.
const synAgain = 1000

func (o *fleetRunOptions) print(env Env, r *jsonFleet) error {
	if o.format == formatJSON {
		return printJSON(env.Stdout, r)
	}
	rows := [][]string{{"WORKER", "SHARES", "CLIENTS", "UP", "FAILED", "LOST", "REQUESTS", "REAUTHS"}}
	for _, w := range append(r.Workers, jsonFleetWorker{"all", r.shares, r.Connections, r.Up, r.Failed, r.Lost, r.Requests, r.Reauths}) {
		rows = append(rows, []string{
			shown(w.Name), strconv.Itoa(w.Shares), strconv.Itoa(w.Clients), strconv.Itoa(w.Up), strconv.Itoa(w.Failed), strconv.Itoa(w.Lost),
			strconv.FormatInt(w.Requests, 10), strconv.FormatInt(w.Reauths, 10),
		})
	}
	if r.Reauths == 0 { // most targets' sessions do not end
		for i := range rows {
			rows[i] = rows[i][:len(rows[i])-1]
		}
	}
	if err := printTable(env.Stdout, rows, 0); err != nil {
		return err
	}
	var text strings.Builder
	for _, l := range r.LostShares {
		fmt.Fprintf(&text, "LOST: share %d of %d, %s of worker %s: %s\n", l.Share, l.Of, plural(l.Clients, "client"), shown(l.Worker), shown(l.Why))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Latencies)) {
		l := r.Latencies[name]
		fmt.Fprintf(&text, "%-15s p50 %8.1f ms   p99 %8.1f ms   max %8.1f ms\n", name, l.P50, l.P99, l.Max)
	}
	if o.rate == 0 && r.Latencies[string(fleet.ConnectLatency)].Max >= synAgain {
		text.WriteString(fold("Connects that took a second or more: a listener's accept queue was full, so that they were begun again. "+
			"--rate 1000 begins so many a second.", tableWidth) + "\n")
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(&text, "%s\n", fold(shown(problem), tableWidth))
	}
	_, err := env.Stdout.Write([]byte(text.String()))
	return err
}
