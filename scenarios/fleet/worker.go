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

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A process holds less than 20,000 sockets on many machines, so a larger fleet is split over worker processes. A worker reads one
// command a line as JSON, the plan first, and answers each with one line. It ends, with its clients, when its input does.

type command struct {
	Op   string `json:"op"` // open, records, close, latencies
	Plan *Plan  `json:"plan,omitempty"`
	How  How    `json:"how,omitempty"`
}

type answer struct {
	Error     string                             `json:"error,omitempty"`
	Count     int                                `json:"count,omitempty"`
	Records   []Record                           `json:"records,omitempty"`
	Latencies map[Latency]*hdrhistogram.Snapshot `json:"latencies,omitempty"`
}

// Serve is the whole of a worker process: it obeys the commands of in until its end. resolve makes a source from its
// description.
func Serve(ctx context.Context, in io.Reader, out io.Writer, resolve func(SourceSpec) (Source, error)) error {
	var f *Fleet
	defer func() {
		if f != nil {
			_ = f.Close() // the process ends
		}
	}()
	lines, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var cmd command
		err := lines.Decode(&cmd)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		var a answer
		if f, err = obey(ctx, f, &cmd, &a, resolve); err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(&a); err != nil {
			return fmt.Errorf("answer a command: %w", err)
		}
	}
}

func obey(ctx context.Context, f *Fleet, cmd *command, a *answer, resolve func(SourceSpec) (Source, error)) (*Fleet, error) {
	if cmd.Op == "open" {
		if f != nil || cmd.Plan == nil {
			return f, errors.New("a worker opens one plan")
		}
		for i := range cmd.Plan.Groups {
			g := &cmd.Plan.Groups[i]
			if g.From == nil {
				continue
			}
			s, err := resolve(*g.From)
			if err != nil {
				return nil, fmt.Errorf("group %q: %w", g.Name, err)
			}
			g.Source = s
		}
		opened, err := Open(ctx, *cmd.Plan)
		if opened != nil {
			a.Count = opened.Stats().Up
		}
		return opened, err
	}
	if f == nil {
		return nil, errors.New("no plan was opened")
	}
	var err error
	switch cmd.Op {
	case "records":
		a.Records = f.Records()
	case "close":
		a.Count, err = f.CloseWhere(nil, cmd.How)
	case "latencies":
		a.Latencies = map[Latency]*hdrhistogram.Snapshot{}
		for name, h := range f.Latencies() {
			a.Latencies[name] = h.Export()
		}
	default:
		err = fmt.Errorf("unknown command %q", cmd.Op)
	}
	return f, err
}

// Workers is a fleet in several processes. Its methods may not be called at the same time.
type Workers struct {
	workers []*worker
}

type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *json.Encoder
	answer *json.Decoder
}

// OpenWorkers starts one process for each plan with start, which returns a command that will end up in [Serve], and opens
// the plans at the same time. Sources are described by [Group.From].
func OpenWorkers(ctx context.Context, plans []Plan, start func(context.Context) *exec.Cmd) (*Workers, error) {
	w := &Workers{}
	for range plans {
		one, err := startWorker(start(ctx))
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.workers = append(w.workers, one)
	}
	_, err := w.each(func(i int) command { return command{Op: "open", Plan: &plans[i]} })
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func startWorker(cmd *exec.Cmd) (*worker, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a fleet worker: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a fleet worker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a fleet worker: %w", err)
	}
	return &worker{cmd: cmd, in: in, lines: json.NewEncoder(in), answer: json.NewDecoder(bufio.NewReader(out))}, nil
}

// each sends a command to every worker at once and collects the answers.
func (w *Workers) each(cmd func(i int) command) ([]answer, error) {
	answers, errs := make([]answer, len(w.workers)), make([]error, len(w.workers))
	var all sync.WaitGroup
	for i, one := range w.workers {
		all.Go(func() {
			c := cmd(i)
			err := one.lines.Encode(&c)
			if err == nil {
				err = one.answer.Decode(&answers[i])
			}
			if err == nil && answers[i].Error != "" {
				err = errors.New(answers[i].Error)
			}
			if err != nil {
				errs[i] = fmt.Errorf("fleet worker %d: %s: %w", i, c.Op, err)
			}
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

// CloseAll closes all clients in the way how and returns how many were up.
func (w *Workers) CloseAll(how How) (int, error) {
	answers, err := w.each(func(int) command { return command{Op: "close", How: how} })
	n := 0
	for i := range answers {
		n += answers[i].Count
	}
	return n, err
}

// Latencies merges the workers' histograms.
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

// Close ends the workers and waits for them.
func (w *Workers) Close() error {
	var errs []error
	for _, one := range w.workers {
		errs = append(errs, one.in.Close())
	}
	for _, one := range w.workers {
		errs = append(errs, one.cmd.Wait())
	}
	w.workers = nil
	return errors.Join(errs...)
}
