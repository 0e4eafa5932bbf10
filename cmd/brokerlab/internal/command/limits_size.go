//go:build linux

package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/scenarios/connbench"
)

// limitsSizeOptions are the flags of brokerlab limits size.
type limitsSizeOptions struct {
	benchTarget

	memory      string
	reserve     float64
	connections int
	collect     bool
	settle      time.Duration
	yes         bool
	format      format
}

// limitsOfSystem are the commands below limits that need Linux.
func limitsOfSystem() []func(Env) *cobra.Command { return []func(Env) *cobra.Command{newLimitsSize} }

func newLimitsSize(env Env) *cobra.Command {
	var o limitsSizeOptions
	c := &cobra.Command{
		Use:   "size --memory SIZE (--bootstrap-server HOST:PORT --pid N | --lab LAB)",
		Short: "Measure what a TLS connection takes, and propose max.ssl.connections",
		Long: `Measure how much memory a TLS connection takes of a broker that runs on this machine, and propose how many it may have in
so much memory. Three kinds are measured one after the other, --connections of each: idle ones that had one answer, ones in
the middle of their handshake (the client has said hello and stays silent), and active ones that send a request every second.

The proposal is the lowest of several bounds, each with its reason: memory, files, and for Apache Kafka, which works the
same way, the heap. Of a Java process only the live heap counts, after a collection that jcmd asks for: its resident
memory holds garbage. What could not be measured is said.

The broker serves its clients meanwhile, but the measure is best without them: what they do is counted too.
--command-config says how to connect; its protocol must be SSL or SASL_SSL.`,
		Example: `  brokerlab limits size --memory 8GiB --bootstrap-server localhost:9093 \
      --command-config client.properties --pid $(pgrep -f server.properties)
  sudo brokerlab limits size --memory 2GiB --lab quickstart --listener SSL --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runLimitsSize(c.Context(), env, &o) },
	}
	o.flags(c)
	f := c.Flags()
	f.StringVar(&o.memory, "memory", "", "the `size` of the memory that the broker may use, such as 8GiB")
	f.Float64Var(&o.reserve, "reserve", 0.2, "the `share` of it that stays free")
	f.IntVar(&o.connections, "connections", 1000, "how many of each kind to measure with")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "memory that has not fallen for this `time` is that of idle connections")
	f.BoolVar(&o.collect, "gc", true, "let a Java broker collect its garbage before its heap is read (it stops for a moment)")
	f.BoolVar(&o.yes, "yes", false, "load a target outside of labs and loopback without asking")
	if err := c.MarkFlagRequired("memory"); err != nil {
		panic(err) // the flag was added above
	}
	addFormat(c, &o.format)
	return c
}

func runLimitsSize(ctx context.Context, env Env, o *limitsSizeOptions) error {
	size, err := connbench.ParseSize(o.memory)
	switch {
	case err != nil:
		return usage("--memory: " + err.Error())
	case !o.given():
		return usage("whose connections: --bootstrap-server or --lab")
	case o.lab == "" && len(o.pids) != 1:
		return usage("--pid: the process of the broker, whose memory is measured")
	case o.reserve < 0 || o.reserve >= 1:
		return usage("--reserve: a share of the memory, at least 0 and below 1")
	case o.connections < 1 || o.settle <= 0:
		return usage("--connections must be at least 1, --settle more than nothing")
	}
	options, release, err := o.open(ctx, env, o.connections, o.yes)
	if err != nil {
		return err
	}
	defer release()
	const atATime, warm, timeout = 48, 500, 20 * time.Second
	options.Parallel, options.WarmUp, options.Timeout = atATime, min(warm, o.connections), timeout
	options.Settle, options.Collect = o.settle, o.collect
	p := newProgress(env.Stderr)
	options.Watch = func(l connbench.Live) { p.set(liveText(&l)) }
	z, err := connbench.MeasureSize(ctx, &connbench.SizeOptions{
		Options: *options, Memory: size, Reserve: o.reserve, Connections: o.connections,
	})
	p.stop()
	if err != nil {
		return err
	}
	if o.format == formatJSON {
		return printJSON(env.Stdout, z)
	}
	return printSize(env, z)
}

func printSize(env Env, z *connbench.Size) error {
	var text strings.Builder
	rows := [][]string{{"CONNECTION", "BYTES", "LIVE HEAP"}}
	for _, k := range z.Kinds {
		heap := unknown
		if k.Heap != nil {
			heap = strconv.FormatFloat(*k.Heap, 'f', 0, 64)
		}
		rows = append(rows, []string{k.Kind, strconv.FormatFloat(k.Bytes, 'f', 0, 64), heap})
	}
	if z.KernelBytes != nil {
		rows = append(rows, []string{"the kernel's part", strconv.FormatFloat(*z.KernelBytes, 'f', 0, 64), unknown})
	}
	columns(&text, rows, 0)
	text.WriteByte('\n')
	rows = [][]string{{"BOUND", "CONNECTIONS", "WHY"}}
	for _, b := range z.Bounds {
		rows = append(rows, []string{b.What, strconv.Itoa(b.Connections), b.Why})
	}
	columns(&text, rows, 0)
	text.WriteByte('\n')
	for _, line := range z.Reasoning {
		text.WriteString(line + "\n")
	}
	for _, line := range z.Unknown {
		text.WriteString("not measured: " + line + "\n")
	}
	fmt.Fprintf(&text, "\n%s=%d\n", z.Key, z.Proposal)
	_, err := env.Stdout.Write([]byte(text.String()))
	return err
}
