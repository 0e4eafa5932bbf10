package connbench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"time"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// Target is one listener that connections go to.
type Target struct {
	// Name is host:port as people give it.
	Name string
	// Addr is where connections go.
	Addr netip.AddrPort
	// PID is the process behind it, on this machine; 0: not known, and with it neither memory nor processor time.
	PID int
	// Pin is the certificate that was verified, see [fleet.TLS]; "" without TLS.
	Pin string
	// Control answers questions about the target; nil: nothing is asked.
	Control Control
}

// Options says what to ramp, and against what.
type Options struct {
	// Product is what runs there, such as kafka:4.4.0; "" where that is not known.
	Product string
	// Targets take connections in turn. At least one.
	Targets []Target
	// Protocol, TLS and the credentials are those of all clients. Pin in TLS is each target's own.
	Protocol  fleet.Protocol
	TLS       fleet.TLS
	Mechanism string
	Username  string
	Password  string
	// Sources are where clients come from, in turn; empty: an address of the kernel's choice.
	Sources []fleet.SourceSpec

	// Steps are numbers of connections, each more than the one before.
	Steps []int
	// Rate is how many connections are begun a second; 0: as fast as the machine can.
	Rate float64
	// Parallel bounds the clients that are connecting at a time, in all processes together.
	Parallel int
	// Timeout bounds each step of a client: a first response that takes longer has failed.
	Timeout time.Duration
	// MaxLatency ends the run where 99 % of first responses did not come within it; 0: no bound.
	MaxLatency time.Duration
	// WarmUp is how many connections come and go before the first step.
	WarmUp int
	// Settle is how long memory may not have fallen to count as settled; 0: it is only read right after each step.
	Settle time.Duration
	// PerProcess is how many connections a client process holds; 0: as many as files allow, at most 15,000.
	PerProcess int
	// AtLimit goes on at the limit that was reached: admission, latency inside, rates.
	AtLimit bool
	// Collect lets Java processes collect their garbage before memory is read, by jcmd.
	Collect bool

	// Worker starts a process that ends up in [fleet.Serve].
	Worker func(context.Context) *exec.Cmd
	// Resolve makes a source in this process; nil: only those without a namespace.
	Resolve func(fleet.SourceSpec) (fleet.Source, error)
	// Watch, unless nil, is told several times a second how the run stands.
	Watch func(Live)
}

// Live is how a run stands.
type Live struct {
	Doing       string  // in a word or two
	Want        int     // connections at the end of this step
	Connections int     // up now
	Failed      int     // so far
	PerSecond   float64 // connections that came up in the last moment
	Memory      int64   // of the target's processes, resident; 0: unknown
	Cores       float64 // of the target's processes, in the last moment; below 0: unknown
	Elapsed     time.Duration
}

// Validate returns all that is wrong with o, joined.
func (o *Options) Validate() error {
	var errs []error
	note := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	note(len(o.Targets) == 0, "no target")
	note(len(o.Steps) == 0, "no steps")
	note(len(o.Steps) > 0 && o.Steps[0] < 1, "a step of %v connections: at least 1", o.Steps)
	note(!slices.IsSorted(o.Steps) || len(slices.Compact(slices.Clone(o.Steps))) != len(o.Steps), "steps %v: each must be more than the one before", o.Steps)
	note(o.Rate < 0, "rate %v is negative", o.Rate)
	note(o.Parallel < 1, "parallel %d: at least 1", o.Parallel)
	note(o.Timeout <= 0, "a time-out of %v: it must be more than nothing", o.Timeout)
	note(o.MaxLatency < 0 || o.Settle < 0 || o.WarmUp < 0 || o.PerProcess < 0, "neither latency, settling, warm-up nor size of a process may be negative")
	note(o.Worker == nil, "nothing starts client processes")
	for i := range o.Targets {
		t := &o.Targets[i]
		note(!t.Addr.IsValid(), "target %s has no address", t.Name)
		note(o.Protocol.TLS() && t.Pin == "", "target %s: no certificate was verified", t.Name)
		if t.PID != 0 {
			if err := process(t.PID).alive(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// group is count clients of t from source.
func (o *Options) group(t *Target, source *fleet.SourceSpec, count int) fleet.Group {
	g := fleet.Group{
		Name: t.Name, Count: count, Target: t.Addr, Protocol: o.Protocol, From: source, TLS: o.TLS,
		Username: o.Username, Password: o.Password, Mechanism: o.Mechanism,
		ClientID: "brokerlab-bench", Software: "brokerlab-bench", SoftwareVersion: "1.0",
	}
	g.TLS.Pin = t.Pin
	return g
}

// plan spreads n clients over targets and sources; turn is how many were spread before, so that small shares even out.
func (o *Options) plan(n, turn int) fleet.Plan {
	p := fleet.Plan{Parallel: o.Parallel, Timeout: o.Timeout, Rate: o.Rate}
	sources := make([]*fleet.SourceSpec, 0, len(o.Sources))
	for i := range o.Sources {
		sources = append(sources, &o.Sources[i])
	}
	if len(sources) == 0 {
		sources = append(sources, nil)
	}
	kinds := len(o.Targets) * len(sources)
	for k := range kinds {
		at := (k + turn) % kinds
		count := share(n, kinds, k)
		if count == 0 {
			continue
		}
		p.Groups = append(p.Groups, o.group(&o.Targets[at%len(o.Targets)], sources[at/len(o.Targets)], count))
	}
	return p
}

// share is the k-th of parts equal shares of n, the first ones larger by one where it does not divide.
func share(n, parts, k int) int {
	s := n / parts
	if k < n%parts {
		s++
	}
	return s
}
