package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A process holds less than 20,000 sockets on many machines, so a larger fleet is split over worker processes. A worker reads one
// command a line as JSON, the plan first, and answers each with one line. It ends, with its clients, when its input does.

type command struct {
	Op   string `json:"op"` // open, stop, churn, stats, records, failures, close, latencies
	Plan *Plan  `json:"plan,omitempty"`
	How  How    `json:"how,omitempty"`
	// Churn and how long it lasts.
	Churn   *Churn        `json:"churn,omitempty"`
	Lasting time.Duration `json:"lasting,omitempty"`
	// Count bounds how many clients are closed or told of; 0: all.
	Count int `json:"count,omitempty"`
}

type answer struct {
	// Progress comes with Interim a few times while clients are opened, and once more with the answer to that.
	Progress  *Progress                          `json:"progress,omitempty"`
	Interim   bool                               `json:"interim,omitempty"`
	Error     string                             `json:"error,omitempty"`
	Count     int                                `json:"count,omitempty"`
	Records   []Record                           `json:"records,omitempty"`
	Stats     *Stats                             `json:"stats,omitempty"`
	Latencies map[Latency]*hdrhistogram.Snapshot `json:"latencies,omitempty"`
}

// progressEvery is how often a worker tells how far it is.
const progressEvery = 200 * time.Millisecond

// Serve is the whole of a worker process: it obeys the commands of in until its end. resolve makes a source from its
// description.
func Serve(ctx context.Context, in io.Reader, out io.Writer, resolve func(SourceSpec) (Source, error)) error {
	s := &server{resolve: resolve, answers: json.NewEncoder(out)}
	defer func() {
		if s.fleet != nil {
			_ = s.fleet.Close() // the process ends
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	orders := make(chan order)
	go listen(ctx, json.NewDecoder(in), orders)
	for o := range orders {
		if o.err != nil {
			return fmt.Errorf("read a command: %w", o.err)
		}
		var a answer
		if err := s.obey(&o, &a); err != nil { //nolint:contextcheck // an order has its own
			a.Error = err.Error()
		}
		if err := s.answers.Encode(&a); err != nil {
			return fmt.Errorf("answer a command: %w", err)
		}
	}
	return nil
}

// server is a worker process from the inside.
type server struct {
	fleet   *Fleet // nil until the first plan
	resolve func(SourceSpec) (Source, error)
	answers *json.Encoder
}

// order is a command and the context in which it is obeyed, or why there is none.
type order struct {
	command

	ctx context.Context //nolint:containedctx // a command's own: stop ends it
	err error
}

// listen reads commands while others are obeyed, because stop ends the one before it. It closes orders at the end of the input.
func listen(ctx context.Context, lines *json.Decoder, orders chan<- order) {
	defer close(orders)
	stop := func() {}
	defer func() { stop() }() //nolint:gocritic // the last one, not this one
	for {
		var o order
		o.err = lines.Decode(&o.command)
		if errors.Is(o.err, io.EOF) {
			return
		}
		if o.Op == "stop" {
			stop()
			continue
		}
		stop() // of the command before, which has been answered
		orderCtx, cancel := context.WithCancel(ctx)
		o.ctx, stop = orderCtx, cancel
		select {
		case orders <- o:
		case <-ctx.Done():
			return
		}
		if o.err != nil {
			return
		}
	}
}

func (s *server) obey(cmd *order, a *answer) error {
	if cmd.Op == "open" {
		return s.open(cmd.ctx, cmd.Plan, a)
	}
	if s.fleet == nil {
		return errors.New("no plan was opened")
	}
	var err error
	switch cmd.Op {
	case "churn":
		err = s.churn(cmd)
	case "stats":
		a.Stats = new(s.fleet.Stats())
	case "records":
		a.Records = s.fleet.Records()
	case "failures":
		a.Records = failures(s.fleet, cmd.Count)
	case "close":
		a.Count, err = s.fleet.CloseWhere(first(cmd.Count), cmd.How)
	case "latencies":
		a.Latencies = map[Latency]*hdrhistogram.Snapshot{}
		for name, h := range s.fleet.TakeLatencies() {
			a.Latencies[name] = h.Export()
		}
	default:
		err = fmt.Errorf("unknown command %q", cmd.Op)
	}
	return err
}

// open opens plan's clients and tells of it meanwhile. That it was stopped is no error.
func (s *server) open(ctx context.Context, plan *Plan, a *answer) error {
	if plan == nil {
		return errors.New("no plan to open")
	}
	if err := s.find(plan); err != nil {
		return err
	}
	if s.fleet == nil { // the first plan's timeout is that of all
		f, err := New(plan.Timeout)
		if err != nil {
			return err
		}
		s.fleet = f
	}
	opened := make(chan error, 1)
	go func() { opened <- s.fleet.Add(ctx, *plan) }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var told error
	for {
		select {
		case err := <-opened:
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = nil
			}
			a.Progress = new(s.fleet.Progress())
			return errors.Join(err, told)
		case <-tick.C:
			told = s.answers.Encode(&answer{Progress: new(s.fleet.Progress()), Interim: true})
		}
	}
}

// failures are the records of the first n clients that failed, n 0: of all of them.
func failures(f *Fleet, n int) []Record {
	var failed []Record
	records := f.Records()
	for i := range records {
		if r := &records[i]; r.Outcome == Abandoned || r.Err() == nil {
			continue
		}
		failed = append(failed, records[i])
		if len(failed) == n {
			break
		}
	}
	return failed
}

// first matches the first n records that it is asked about; n 0: all.
func first(n int) func(Record) bool {
	if n == 0 {
		return nil
	}
	return func(Record) bool {
		n--
		return n >= 0
	}
}

// Workers is a fleet in several processes. Its methods may not be called at the same time. A worker that ends before it is told to is
// a [*LostError] of each method from then on; what the others say is returned beside it.
type Workers struct {
	workers []*worker
}

// Pipe is a way to a process that runs [Serve].
type Pipe struct {
	Name string                      // of the worker, in errors
	In   io.WriteCloser              // takes its commands; its end is that of the worker
	Out  io.Reader                   // gives its answers
	Wait func(context.Context) error // returns when the worker has ended
	PID  int                         // of a process of this machine; else 0
}

// NewWorkers is a fleet in the processes at the far ends of pipes, which have no clients yet.
func NewWorkers(pipes ...Pipe) *Workers {
	w := &Workers{}
	for _, p := range pipes {
		w.workers = append(w.workers, &worker{Pipe: p, lines: json.NewEncoder(p.In), answer: json.NewDecoder(bufio.NewReader(p.Out))})
	}
	return w
}

// LostError is a worker that has ended in the middle, or cannot be reached any more: its share of the clients is not known of.
type LostError struct {
	Worker  string
	Clients int // that it was to open
	Err     error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s is lost, with its %d clients: %v", e.Worker, e.Clients, e.Err)
}

func (e *LostError) Unwrap() error { return e.Err }

type worker struct {
	Pipe

	answer  *json.Decoder
	clients int        // that it was to open
	lost    *LostError // nil while it can be asked

	mu    sync.Mutex // guards lines
	lines *json.Encoder
}

func (w *worker) send(c *command) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.Encode(c)
}

// converse sends a command and reads its answer; heard is told of progress until then.
func (w *worker) converse(c *command, a *answer, heard func(Progress)) error {
	if w.lost != nil {
		return w.lost
	}
	if c.Plan != nil {
		w.clients += c.Plan.Connections()
	}
	err := w.send(c)
	for err == nil {
		*a = answer{}
		if err = w.answer.Decode(a); err == nil && a.Progress != nil {
			heard(*a.Progress)
		}
		if err == nil && !a.Interim {
			break
		}
	}
	if err != nil {
		w.lost = &LostError{w.Name, w.clients, err}
		return w.lost
	}
	if a.Error != "" {
		return fmt.Errorf("%s: %s: %s", w.Name, c.Op, a.Error)
	}
	return nil
}

// StartWorkers starts n processes without clients with start, which returns a command that will end up in [Serve].
func StartWorkers(ctx context.Context, n int, start func(context.Context) *exec.Cmd) (*Workers, error) {
	var pipes []Pipe
	for i := range n {
		p, err := startWorker(start(ctx))
		if err != nil {
			return nil, errors.Join(err, NewWorkers(pipes...).Close()) //nolint:contextcheck // it bounds itself
		}
		p.Name = fmt.Sprintf("fleet worker %d", i)
		pipes = append(pipes, p)
	}
	return NewWorkers(pipes...), nil
}

// OpenWorkers starts one process for each plan, as [StartWorkers] does, and opens the plans at the same time. Sources are
// described by [Group.From].
func OpenWorkers(ctx context.Context, plans []Plan, start func(context.Context) *exec.Cmd) (*Workers, error) {
	w, err := StartWorkers(ctx, len(plans), start)
	if err != nil {
		return nil, err
	}
	if err := w.Add(ctx, plans, nil); err != nil {
		return nil, errors.Join(err, w.Close()) //nolint:contextcheck // it bounds itself
	}
	return w, nil
}

func startWorker(cmd *exec.Cmd) (Pipe, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return Pipe{}, fmt.Errorf("start a fleet worker: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Pipe{}, fmt.Errorf("start a fleet worker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return Pipe{}, fmt.Errorf("start a fleet worker: %w", err)
	}
	return Pipe{In: in, Out: out, Wait: func(context.Context) error { return cmd.Wait() }, PID: cmd.Process.Pid}, nil
}

// Add opens plans[i] in worker i, beside the clients that it has, and returns when all are up, failed or stopped. watch, unless nil,
// is told a few times a second how far all are together; the first false stops the opening in all workers, as the end of ctx does,
// and clients that had not come up are abandoned.
func (w *Workers) Add(ctx context.Context, plans []Plan, watch func(Progress) bool) error {
	if len(plans) != len(w.workers) {
		return fmt.Errorf("%d plans for %d fleet workers", len(plans), len(w.workers))
	}
	state := &adding{workers: w.workers, watch: watch, each: make([]Progress, len(plans))}
	defer context.AfterFunc(ctx, state.stop)()
	_, err := w.ask(func(i int) command { return command{Op: "open", Plan: &plans[i]} }, state.heard)
	return errors.Join(err, ctx.Err())
}

// adding is an [Workers.Add] under way.
type adding struct {
	workers []*worker
	watch   func(Progress) bool

	mu      sync.Mutex // guards the rest, and calls of watch
	each    []Progress
	stopped bool
}

func (a *adding) heard(i int, p Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.each[i] = p
	sum := Progress{}
	for _, p := range a.each {
		sum.Begun, sum.Up, sum.Failed = sum.Begun+p.Begun, sum.Up+p.Up, sum.Failed+p.Failed
	}
	if a.watch != nil && !a.watch(sum) {
		a.stopLocked()
	}
}

func (a *adding) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopLocked()
}

func (a *adding) stopLocked() {
	if a.stopped {
		return
	}
	a.stopped = true
	for _, one := range a.workers {
		_ = one.send(&command{Op: "stop"}) // one that is gone has stopped
	}
}

// PIDs are the process ids of the workers.
func (w *Workers) PIDs() []int {
	var all []int
	for _, one := range w.workers {
		all = append(all, one.PID)
	}
	return all
}

// each sends a command to every worker at once and collects the answers.
func (w *Workers) each(cmd func(i int) command) ([]answer, error) {
	return w.ask(cmd, func(int, Progress) {})
}

// ask is each; heard is told of progress, for several workers at once.
func (w *Workers) ask(cmd func(i int) command, heard func(i int, p Progress)) ([]answer, error) {
	answers, errs := make([]answer, len(w.workers)), make([]error, len(w.workers))
	var all sync.WaitGroup
	for i, one := range w.workers {
		all.Go(func() {
			c := cmd(i)
			errs[i] = one.converse(&c, &answers[i], func(p Progress) { heard(i, p) })
		})
	}
	all.Wait()
	return answers, errors.Join(errs...)
}

// Records returns the records of all workers; their ids are only unique within a worker.
func (w *Workers) Records() ([]Record, error) {
	answers, err := w.each(func(int) command { return command{Op: "records"} })
	var records []Record
	for i := range answers {
		records = append(records, answers[i].Records...)
	}
	return records, err
}

// Failures returns the records of clients that failed, of each worker the first atMost; 0: all.
func (w *Workers) Failures(atMost int) ([]Record, error) {
	answers, err := w.each(func(int) command { return command{Op: "failures", Count: atMost} })
	var records []Record
	for i := range answers {
		records = append(records, answers[i].Records...)
	}
	return records, err
}

// CloseAll closes all clients in the way how and returns how many were up.
func (w *Workers) CloseAll(how How) (int, error) { return w.CloseSome(0, how) }

// CloseSome is CloseAll for the first n clients of each worker that are up; 0: all.
func (w *Workers) CloseSome(n int, how How) (int, error) {
	answers, err := w.each(func(int) command { return command{Op: "close", How: how, Count: n} })
	closed := 0
	for i := range answers {
		closed += answers[i].Count
	}
	return closed, err
}

// Latencies takes and merges the workers' histograms: what they measured since the last time.
func (w *Workers) Latencies() (map[Latency]*hdrhistogram.Histogram, error) {
	answers, err := w.each(func(int) command { return command{Op: "latencies"} })
	all := map[Latency]*hdrhistogram.Histogram{}
	for i := range answers {
		for name, s := range answers[i].Latencies {
			if all[name] == nil {
				all[name] = NewHistogram()
			}
			all[name].Merge(hdrhistogram.Import(s))
		}
	}
	return all, err
}

// Stats counts the records of each worker where they are: those of pipes[i] are at i. What a lost worker's would be is zero.
func (w *Workers) Stats() ([]Stats, error) {
	answers, err := w.each(func(int) command { return command{Op: "stats"} })
	all := make([]Stats, len(answers))
	for i := range answers {
		if s := answers[i].Stats; s != nil {
			all[i] = *s
		}
	}
	return all, err
}

// Lost are the workers that have ended in the middle, by their number.
func (w *Workers) Lost() map[int]*LostError {
	all := map[int]*LostError{}
	for i, one := range w.workers {
		if one.lost != nil {
			all[i] = one.lost
		}
	}
	return all
}

// closeWithin bounds how long a worker may take to end.
const closeWithin = time.Minute

// Close ends the workers and waits for them.
func (w *Workers) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	var errs []error
	for _, one := range w.workers {
		errs = append(errs, one.In.Close())
	}
	for _, one := range w.workers {
		errs = append(errs, one.Wait(ctx))
	}
	w.workers = nil
	return errors.Join(errs...)
}
