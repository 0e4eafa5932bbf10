package connbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

const (
	// mostPerProcess is how many clients a process holds where its files would allow more: collections stay short.
	mostPerProcess = 15000
	// spareFiles of a client process are not for connections.
	spareFiles = 400
	// sampleEvery is the time between two samples.
	sampleEvery = 250 * time.Millisecond
	// settleAtMost bounds the wait for memory that does not settle.
	settleAtMost = 30 * time.Second
	// busyShare is the share of a machine's processors above which it is what keeps a storm from being faster.
	busyShare = 0.85
)

// run is a ramp under way. Its methods are called by one goroutine, but for those that say otherwise.
type run struct {
	o       *Options
	result  *Result
	workers *fleet.Workers
	started time.Time
	asked   bool // the target's limits are known
	windows Windows
	turn    int    // clients spread so far
	short   string // why the clients' side cannot hold the next step
	inside  *inside

	mu   sync.Mutex // guards the rest, and what the sampler adds to the result
	live Live
	told fleet.Progress // of the workers
	last time.Time      // that one came up
}

// Run ramps connections as o says. Its error says why the run could not begin; how it ended is in the result's verdict. When ctx ends
// the run does, and the result has what was measured until then.
func Run(ctx context.Context, o *Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := newRun(o)
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	sampling, stop := context.WithCancel(ctx)
	var sampler sync.WaitGroup
	sampler.Go(func() { r.sample(sampling) })
	err := r.measure(ctx)
	stop()
	sampler.Wait()
	err = errors.Join(err, r.end(context.WithoutCancel(ctx)))
	r.result.Seconds = time.Since(r.started).Seconds()
	return r.result, err
}

func newRun(o *Options) *run {
	r := &run{o: o, started: time.Now(), windows: Windows{Samples: 11, Size: time.Second}}
	r.result = &Result{
		Schema: Schema, Started: r.started, Host: report.ThisHost(), Limits: []LimitValue{}, Steps: []Step{}, Samples: []Sample{}, Unknown: []string{},
		Target: TargetInfo{Product: o.Product, Protocol: string(o.Protocol), MutualTLS: o.TLS.Certificate != "" && o.Protocol == fleet.SSL, Mechanism: o.Mechanism},
		Load: Load{
			Steps: o.Steps, Rate: o.Rate, Parallel: o.Parallel, TimeoutSecs: o.Timeout.Seconds(), MaxLatency: o.MaxLatency.Seconds(),
			WarmUp: o.WarmUp,
		},
	}
	info := &r.result.Target
	for i := range o.Targets {
		t := &o.Targets[i]
		info.Servers = append(info.Servers, t.Name)
		if t.PID != 0 && !slices.Contains(info.PIDs, t.PID) {
			info.PIDs = append(info.PIDs, t.PID)
			info.Programs = append(info.Programs, process(t.PID).program())
		}
	}
	if len(info.PIDs) == 0 {
		r.unknown("memory and processor time of the target: its process is not known (--pid, or a node of a lab)")
	}
	return r
}

func (r *run) unknown(text string) {
	if !slices.Contains(r.result.Unknown, text) {
		r.result.Unknown = append(r.result.Unknown, text)
	}
}

// begin starts client processes, tries one connection to each target and asks for its limits.
func (r *run) begin(ctx context.Context) error {
	r.doing("connecting", 0)
	for i := range r.o.Targets {
		if err := r.probe(ctx, &r.o.Targets[i]); err != nil {
			return err
		}
	}
	r.askLimits(ctx)
	per := r.o.PerProcess
	if per == 0 {
		per = perProcess()
	}
	most := slices.Max(r.o.Steps)
	r.result.Load.Processes = max(1, (most+per-1)/per)
	var err error
	r.workers, err = fleet.StartWorkers(context.WithoutCancel(ctx), r.result.Load.Processes, r.o.Worker)
	return err
}

// perProcess is how many connections a process can hold here.
func perProcess() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1000
	}
	return max(1, int(min(limit.Max, mostPerProcess+spareFiles))-spareFiles)
}

// probe makes one connection, because what is wrong with the first is wrong with all.
func (r *run) probe(ctx context.Context, t *Target) error {
	g := r.o.group(t, nil, 1)
	if len(r.o.Sources) > 0 {
		source, err := r.o.resolve(r.o.Sources[0])
		if err != nil {
			return err
		}
		g.Source = source
	}
	f, err := fleet.Open(ctx, fleet.Plan{Groups: []fleet.Group{g}, Timeout: r.o.Timeout})
	if f != nil {
		defer f.Close() //nolint:errcheck // one connection, and the run tells of what comes
	}
	if err == nil {
		err = f.FirstError()
	}
	if err != nil {
		return fmt.Errorf("not even one connection to %s: %w", t.Name, err)
	}
	return nil
}

func (o *Options) resolve(s fleet.SourceSpec) (fleet.Source, error) {
	if o.Resolve != nil {
		return o.Resolve(s)
	}
	return fleet.Loopback(s.Prefix), nil
}

func (r *run) askLimits(ctx context.Context) {
	for i := range r.o.Targets {
		t := &r.o.Targets[i]
		if t.Control == nil {
			continue
		}
		l, err := t.Control.Limits(ctx)
		if err != nil {
			r.unknown("limits: " + err.Error())
		}
		if l == nil {
			continue
		}
		r.asked, r.windows = true, l.Windows
		r.result.Target.Protected = r.result.Target.Protected || l.Protected
		if l.Listener == "" {
			r.unknown("the name of the listener at " + t.Name + ": no listener of the broker has that port")
		} else if !slices.Contains(r.result.Target.Listeners, l.Listener) {
			r.result.Target.Listeners = append(r.result.Target.Listeners, l.Listener)
		}
		for _, one := range l.Apply {
			if len(r.o.Targets) > 1 {
				one.Target = t.Name
			}
			r.result.Limits = append(r.result.Limits, one)
		}
	}
	if !r.asked {
		r.unknown("limits: the target was not asked or did not tell")
	}
}

// measure is the ramp. It leaves a verdict in any case.
func (r *run) measure(ctx context.Context) error {
	if r.o.AtLimit {
		if err := r.openInside(ctx); err != nil {
			return err
		}
	}
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	r.result.Baseline = r.settled(ctx, "settling")
	for _, want := range r.o.Steps {
		more, err := r.step(ctx, want)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !more || ctx.Err() != nil {
			break
		}
	}
	r.conclude(ctx)
	if r.o.AtLimit && ctx.Err() == nil {
		r.atLimit(ctx)
	}
	return nil
}

// warmUp lets connections come and go, so that what a first one allocates for all is not counted as theirs.
func (r *run) warmUp(ctx context.Context) error {
	if r.o.WarmUp == 0 {
		return nil
	}
	r.doing("warming up", r.o.WarmUp)
	err := r.add(ctx, r.o.WarmUp)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if failed := r.progress().Failed; failed > 0 {
		r.unknown(fmt.Sprintf("figures of a warm target: %d connections of the warm-up failed", failed))
	}
	if closed := r.closeAll(); closed != nil {
		return closed
	}
	_, err = r.workers.Latencies() // taken, and not looked at
	return err
}

// closeAll closes the workers' clients.
func (r *run) closeAll() error {
	_, err := r.workers.CloseAll(fleet.RST)
	r.mu.Lock()
	r.told.Up = 0
	r.mu.Unlock()
	return err
}

// add opens n connections more, and stops at the first that fails.
func (r *run) add(ctx context.Context, n int) error {
	count := len(r.workers.PIDs())
	plans := make([]fleet.Plan, count)
	for i := range plans {
		part := share(n, count, i)
		plans[i] = r.o.plan(part, r.turn)
		plans[i].Parallel = max(1, r.o.Parallel/count)
		plans[i].Rate = r.o.Rate * float64(part) / float64(n)
		r.turn += part
	}
	failed := r.progress().Failed
	return r.workers.Add(ctx, plans, func(p fleet.Progress) bool { return r.heard(p) <= failed })
}

// heard takes in how far the workers are, and returns how many of their clients failed so far.
func (r *run) heard(p fleet.Progress) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Up > r.told.Up {
		r.last = time.Now()
	}
	r.told = p
	return p.Failed
}

func (r *run) progress() fleet.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told
}

func (r *run) lastUp() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// up is how many connections there are, those inside this process included.
func (r *run) up() int { return r.progress().Up + r.inside.count() }

// step goes on to want connections. more is false where the run ends here.
func (r *run) step(ctx context.Context, want int) (more bool, _ error) {
	before := r.up()
	if want <= before {
		return true, nil
	}
	s := Step{Want: want}
	r.doing("connecting", want)
	failed := r.progress().Failed
	overflows := r.overflows()
	clock := r.clock()
	if err := r.add(ctx, want-before); err != nil {
		// Found before the first socket, by the process that would have held it.
		if _, text, ok := strings.Cut(err.Error(), fleet.ShortageText); ok {
			r.short, _, _ = strings.Cut(text, "\n")
			return false, nil
		}
		return false, err
	}
	spent := r.clock()
	s.Storm = r.memory(ctx, false)
	s.Connections, s.Failed, s.Seconds = r.up(), r.progress().Failed-failed, spent.at.Sub(clock.at).Seconds()
	s.New = max(0, s.Connections-before)
	if last := r.lastUp(); s.Failed > 0 && last.After(clock.at) { // who waits in vain does not make it slower
		s.Seconds = last.Sub(clock.at).Seconds()
	}
	s.PerSecond = float64(s.New) / s.Seconds
	s.CPU = spent.since(clock, s.New)
	if now := r.overflows(); now >= 0 && overflows >= 0 {
		s.Overflows = new(now - overflows)
	}
	latencies, err := r.workers.Latencies()
	if err != nil {
		return false, err
	}
	s.latencies(latencies)
	s.Bottleneck = r.bottleneck(&s)
	s.Settled = r.settled(ctx, "settling")
	s.Listing = r.listing(ctx)
	s.perConnection(r.result.Baseline, r.inside.count())
	if s.Settled != nil && s.Settled.Kernel != nil && s.KernelBytes == nil {
		r.unknown("memory of the kernel by connection: other programs opened or closed sockets meanwhile")
	}
	r.mu.Lock()
	r.result.Steps = append(r.result.Steps, s)
	r.mu.Unlock()
	late := r.o.MaxLatency > 0 && s.First.P99 > r.o.MaxLatency.Microseconds()
	return s.Failed == 0 && s.Connections >= want && !late, nil
}

func (s *Step) latencies(all map[fleet.Latency]*hdrhistogram.Histogram) {
	take := func(name fleet.Latency) *report.Latency {
		h := all[name]
		if h == nil {
			return nil
		}
		return new(report.NewLatency(string(name), h))
	}
	s.Connect, s.First = report.Latency{Name: string(fleet.ConnectLatency)}, report.Latency{Name: string(fleet.FirstLatency)}
	if l := take(fleet.ConnectLatency); l != nil {
		s.Connect = *l
	}
	if l := take(fleet.FirstLatency); l != nil {
		s.First = *l
	}
	s.TLS, s.SASL = take(fleet.TLSLatency), take(fleet.SASLLatency)
}

// perConnection divides what memory has grown by.
func (s *Step) perConnection(base *Memory, inside int) {
	n := float64(s.Connections - inside) // those were there before the baseline
	if base == nil || n <= 0 {
		return
	}
	// Less than before says that memory of before was given back meanwhile, and nothing of connections.
	each := func(now, before int64) *float64 {
		if now <= before {
			return nil
		}
		return new(float64(now-before) / n)
	}
	if s.Storm != nil {
		s.StormBytes = each(s.Storm.Growing, base.Growing)
	}
	if s.Settled == nil {
		return
	}
	s.SettledBytes = each(s.Settled.Growing, base.Growing)
	if s.Settled.Heap != nil && base.Heap != nil {
		s.HeapBytes = each(*s.Settled.Heap, *base.Heap)
	}
	if s.Settled.Kernel != nil && base.Kernel != nil {
		if bytes, ok := s.Settled.Kernel.by(base.Kernel, int(n)); ok {
			s.KernelBytes = &bytes
		}
	}
}

// conclude writes the verdict.
func (r *run) conclude(ctx context.Context) {
	v := &r.result.Verdict
	s := r.lastStep()
	up := r.up()
	asked := r.o.Steps[len(r.o.Steps)-1]
	switch {
	case ctx.Err() != nil:
		*v = Verdict{Kind: EndInterrupted, Connections: up, Side: "none", Certain: true, Text: fmt.Sprintf("interrupted at %s connections", number(up))}
	case r.short != "":
		*v = Verdict{
			Kind: EndShortage, Connections: up, Side: "client", Certain: true,
			Text: fmt.Sprintf("ended at %s connections, before the next step: %s%s", number(up), fleet.ShortageText, r.short),
		}
	case s == nil:
		*v = Verdict{Kind: EndUnexplained, Connections: up, Side: "none", Text: "no step was made"}
	case s.Failed > 0 || s.Connections < s.Want:
		*v = r.ended(ctx, up)
	case r.o.MaxLatency > 0 && s.First.P99 > r.o.MaxLatency.Microseconds():
		*v = Verdict{
			Kind: EndLatency, Connections: up, Side: sideOf(s), Certain: true,
			Text: fmt.Sprintf("latency bound reached at %s connections: 99 %% of first responses came within %s, the bound is %v. %s",
				number(up), report.Micros(s.First.P99), r.o.MaxLatency, s.Bottleneck),
		}
	default:
		*v = Verdict{
			Kind: EndMax, Connections: up, Side: "none", Certain: true,
			Text: fmt.Sprintf("all %s connections are up, no limit was reached. What kept it from being faster: %s", number(asked), s.Bottleneck),
		}
	}
}

func (r *run) lastStep() *Step {
	if len(r.result.Steps) == 0 {
		return nil
	}
	return &r.result.Steps[len(r.result.Steps)-1]
}

// clock is how much processor time was spent until a moment; below 0: unknown.
type clock struct {
	at                    time.Time
	target, clients, busy time.Duration
	processors            int
}

func (r *run) clock() clock {
	c := clock{at: time.Now(), target: cpuOf(r.result.Target.PIDs), clients: cpuOf(r.workers.PIDs())}
	var err error
	if c.busy, c.processors, err = busy(); err != nil {
		r.unknown(err.Error())
		c.busy = -1
	}
	return c
}

// cpuOf adds processes up; -1 where one cannot be read or there is none.
func cpuOf(pids []int) time.Duration {
	sum := time.Duration(0)
	for _, pid := range pids {
		spent, err := process(pid).cpu()
		if err != nil {
			return -1
		}
		sum += spent
	}
	if len(pids) == 0 {
		return -1
	}
	return sum
}

// since is what was spent from before to c on n connections.
func (c clock) since(before clock, n int) *CPU {
	wall := c.at.Sub(before.at)
	cores := func(now, then time.Duration) float64 {
		if now < 0 || then < 0 || wall <= 0 {
			return 0
		}
		return float64(now-then) / float64(wall)
	}
	cpu := &CPU{
		TargetCores: cores(c.target, before.target), ClientCores: cores(c.clients, before.clients), BusyCores: cores(c.busy, before.busy),
		Processors: c.processors,
	}
	if n > 0 {
		each := float64(wall.Microseconds()) / float64(n)
		cpu.TargetMicros, cpu.ClientMicros = cpu.TargetCores*each, cpu.ClientCores*each
	}
	return cpu
}

// bottleneck says what kept a step from being faster.
func (r *run) bottleneck(s *Step) string {
	c := s.CPU
	if r.o.Rate > 0 && s.PerSecond > 0.9*r.o.Rate {
		return "the rate that was asked for"
	}
	of := func(cores float64) string { return strconv.FormatFloat(cores, 'f', 1, 64) }
	if c.BusyCores < busyShare*float64(c.Processors) {
		if r.result.Target.PIDs == nil && !r.local() {
			return fmt.Sprintf("not this machine's processors (%s of %d busy): the target, the way to it, or %d clients connecting at a time",
				of(c.BusyCores), c.Processors, r.o.Parallel)
		}
		return fmt.Sprintf("no processor was busy all the time (%s of %d): waiting, with %d clients connecting at a time",
			of(c.BusyCores), c.Processors, r.o.Parallel)
	}
	text := fmt.Sprintf("processors of the clients' machine: %s of %d busy, clients %s", of(c.BusyCores), c.Processors, of(c.ClientCores))
	if c.TargetCores > 0 {
		text += ", target " + of(c.TargetCores)
	}
	if rest := c.BusyCores - c.ClientCores - c.TargetCores; c.TargetCores > 0 && rest > 0.2*c.BusyCores {
		text += ", other programs " + of(rest)
	}
	return text
}

// sideOf is which side the processors were busy for.
func sideOf(s *Step) string {
	c := s.CPU
	switch {
	case c == nil || c.BusyCores < busyShare*float64(c.Processors):
		return "target"
	case c.TargetCores > 2*c.ClientCores:
		return "target"
	case c.ClientCores > 2*c.TargetCores:
		return "client"
	}
	return "both"
}

// local tells whether a target is on this machine, as far as addresses tell.
func (r *run) local() bool {
	return slices.ContainsFunc(r.o.Targets, func(t Target) bool { return t.Addr.Addr().IsLoopback() })
}

// memory reads what the target's processes and the kernel hold now; nil where the target's is unknown.
func (r *run) memory(ctx context.Context, collect bool) *Memory {
	pids := r.result.Target.PIDs
	if len(pids) == 0 {
		return nil
	}
	m := &Memory{}
	heap, known := int64(0), true
	for _, pid := range pids {
		p := process(pid)
		if collect && r.o.Collect && p.java() {
			used, err := p.liveHeap(ctx)
			if err != nil {
				r.unknown("live heap of the target: " + err.Error())
			}
			heap, known = heap+used, known && err == nil
		} else {
			known = false
		}
		now, err := p.memory()
		if err != nil {
			r.unknown("memory of the target: " + err.Error())
			return nil
		}
		m.Resident, m.Growing = m.Resident+now.all, m.Growing+now.growing
	}
	if known {
		m.Heap = &heap
	}
	kernel, err := readKernelMemory()
	if err != nil {
		r.unknown("memory of the kernel: " + err.Error())
	} else {
		m.Kernel = &kernel
	}
	return m
}

// settled is the memory once it has not fallen for a while: processes give pages back some time after a burst. nil without settling.
func (r *run) settled(ctx context.Context, doing string) *Memory {
	if r.o.Settle == 0 || len(r.result.Target.PIDs) == 0 {
		return nil
	}
	const fall = 64 << 10
	r.doing(doing, 0)
	low, since := r.memory(ctx, true), time.Now()
	deadline := since.Add(settleAtMost)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for low != nil {
		select {
		case <-ctx.Done():
			return low
		case <-tick.C:
		}
		now := r.memory(ctx, false)
		if now == nil {
			return nil
		}
		if now.Growing < low.Growing-fall {
			now.Heap = low.Heap
			low, since = now, time.Now()
		}
		if time.Since(since) > r.o.Settle || time.Now().After(deadline) {
			now.Heap = low.Heap
			return now
		}
	}
	return nil
}

// overflows adds up what the targets' namespaces count; -1: unknown.
func (r *run) overflows() int64 {
	if len(r.result.Target.PIDs) == 0 {
		return -1
	}
	n, err := process(r.result.Target.PIDs[0]).overflows()
	if err != nil {
		r.unknown("overflows of the accept queue: " + err.Error())
		return -1
	}
	return n
}

// listing times one list of the first target's connections.
func (r *run) listing(ctx context.Context) *Listing {
	c := r.o.Targets[0].Control
	if c == nil {
		return nil
	}
	start := time.Now()
	rows, err := c.List(ctx)
	if err != nil {
		r.unknown("time to list the connections: " + err.Error())
		return nil
	}
	return &Listing{Seconds: time.Since(start).Seconds(), Rows: rows}
}

// doing says what the run is about to do.
func (r *run) doing(what string, want int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.Doing = what
	if want > 0 {
		r.live.Want = want
	}
	r.tell()
}

func (r *run) tell() {
	r.live.Elapsed = time.Since(r.started)
	if r.o.Watch != nil {
		r.o.Watch(r.live)
	}
}

// sample follows the run until ctx ends, on a goroutine of its own.
func (r *run) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	pids := r.result.Target.PIDs
	workers := r.workers.PIDs()
	last, target, clients, up := time.Now(), cpuOf(pids), cpuOf(workers), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, targetNow, clientsNow := time.Now(), cpuOf(pids), cpuOf(workers)
		wall := float64(now.Sub(last))
		resident := int64(0)
		for _, pid := range pids {
			if m, err := process(pid).memory(); err == nil {
				resident += m.all
			}
		}
		r.mu.Lock()
		s := Sample{At: now.Sub(r.started), Connections: r.told.Up + r.inside.count(), Failed: r.told.Failed, Resident: resident}
		s.ClientCores = float64(clientsNow-clients) / wall
		if targetNow >= 0 && target >= 0 {
			s.TargetCores = float64(targetNow-target) / wall
		}
		r.result.Samples = append(r.result.Samples, s)
		r.live.Connections, r.live.Failed, r.live.Memory, r.live.Cores = s.Connections, s.Failed, resident, s.TargetCores
		r.live.PerSecond = max(0, float64(s.Connections-up)) / (wall / float64(time.Second))
		if targetNow < 0 {
			r.live.Cores = -1
		}
		r.tell()
		r.mu.Unlock()
		last, target, clients, up = now, targetNow, clientsNow, s.Connections
	}
}

// end closes all that is left and looks at what memory was given back.
func (r *run) end(ctx context.Context) error {
	err := errors.Join(r.closeAll(), r.inside.close())
	if r.result.Verdict.Kind != EndInterrupted && r.result.Verdict.Kind != EndGone && err == nil {
		r.result.After = r.settled(ctx, "closed, settling")
	}
	return errors.Join(err, r.workers.Close()) //nolint:contextcheck // closing waits by its own clock
}

// number prints n with a comma each three digits.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return strings.Replace(text, "-,", "-", 1)
}
