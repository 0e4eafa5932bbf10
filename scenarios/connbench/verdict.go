package connbench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// Kind is why a run ended.
type Kind string

// The kinds of ends.
const (
	EndMax         Kind = "max"             // at the last step, with all connections up
	EndLatency     Kind = "latency bound"   // first responses took longer than the bound
	EndLimit       Kind = "limit"           // one of the target's limits, named in Limit
	EndShortage    Kind = "client shortage" // ports, files or memory of the clients' side: nothing about the target
	EndFiles       Kind = "target files"    // the target has no files left for connections
	EndMemory      Kind = "target memory"   // the target's memory ran out
	EndGone        Kind = "target gone"     // its process ended, or nobody listens any more
	EndSlow        Kind = "target slow"     // it was busy, and answered too late
	EndUnexplained Kind = "unexplained"     // clients failed, and nothing that could be read says why
	EndInterrupted Kind = "interrupted"     // whoever ran it stopped it
)

// Verdict is why a run ended and at how many connections.
type Verdict struct {
	Kind        Kind        `json:"kind"`
	Connections int         `json:"connections"` // up at the end
	Side        string      `json:"side"`        // what a larger run would have to change: target, client, both or none
	Text        string      `json:"text"`
	Limit       *LimitValue `json:"limit,omitempty"`
	Certain     bool        `json:"certain"`            // the numbers fit, no other limit is as near
	Failures    []Failure   `json:"failures,omitempty"` // what clients saw, alike ones counted
}

// Failure is how clients failed.
type Failure struct {
	Count   int           `json:"count"`
	Outcome fleet.Outcome `json:"outcome"`
	Phase   fleet.Phase   `json:"phase"`
	Error   string        `json:"error"`        // of one of them
	After   float64       `json:"afterSeconds"` // how long the first of them had tried
	Local   string        `json:"from,omitempty"`
}

// failures sums up the records of clients that failed.
func failures(records []fleet.Record) []Failure {
	var all []Failure
	at := map[[2]string]int{}
	for i := range records {
		r := &records[i]
		key := [2]string{string(r.Outcome), string(r.Phase)}
		k, known := at[key]
		if !known {
			k = len(all)
			at[key] = k
			all = append(all, Failure{
				Outcome: r.Outcome, Phase: r.Phase, Error: r.Error, After: r.Ended.Sub(r.Started).Seconds(), Local: r.Local.Addr().String(),
			})
		}
		all[k].Count++
	}
	return all
}

// ended explains why clients failed while connections were up.
func (r *run) ended(ctx context.Context, connections int) Verdict {
	v := Verdict{Kind: EndUnexplained, Connections: connections, Side: "target"}
	records, err := r.workers.Failures(sampleOfFailures)
	if err != nil {
		r.unknown("why clients failed: " + err.Error())
	}
	v.Failures = failures(records)
	if len(v.Failures) == 0 {
		v.Text = "clients failed, and none of them says how"
		return v
	}
	first := &v.Failures[0]
	switch {
	case shortage(&v, records):
	case r.gone(&v, first):
	case refusedAtOnce(first):
		r.refused(ctx, &v, first)
	case waited(first):
		r.waiting(ctx, &v, first)
	default:
		v.Text = fmt.Sprintf("clients failed at %s connections, at the step %q: %s", number(connections), first.Phase, first.Error)
	}
	return v
}

// sampleOfFailures is how many failures of each process are looked at.
const sampleOfFailures = 200

// shortage finds failures that are the clients' own: they say nothing about the target.
func shortage(v *Verdict, records []fleet.Record) bool {
	for i := range records {
		rec := &records[i]
		if rec.Outcome != fleet.Shortage {
			continue
		}
		what := "files, memory or ports"
		hint := ""
		switch text := rec.Error; {
		case strings.Contains(text, "cannot assign requested address"), strings.Contains(text, "address already in use"):
			what, hint = "ports", " (EADDRNOTAVAIL): use more source addresses, or widen net.ipv4.ip_local_port_range"
		case strings.Contains(text, "too many open files"):
			what, hint = "files", ": raise ulimit -Hn, or use more processes"
		case strings.Contains(text, "cannot allocate"), strings.Contains(text, "no buffer space"):
			what = "memory"
		}
		v.Kind, v.Side, v.Certain = EndShortage, "client", true
		v.Text = fmt.Sprintf("the clients' side ran out of %s at %s connections%s. The target did not refuse anything", what, number(v.Connections), hint)
		return true
	}
	return false
}

// gone finds a target that ended.
func (r *run) gone(v *Verdict, first *Failure) bool {
	for i := range r.o.Targets {
		t := &r.o.Targets[i]
		if t.PID == 0 {
			continue
		}
		if err := process(t.PID).alive(); err != nil {
			v.Kind, v.Certain = EndGone, true
			v.Text = fmt.Sprintf("the process behind %s (%d) ended at %s connections: look for what killed it", t.Name, t.PID, number(v.Connections))
			return true
		}
	}
	if first.Outcome == fleet.Refused {
		v.Kind, v.Certain = EndGone, true
		v.Text = fmt.Sprintf("nobody listens any more, at %s connections", number(v.Connections))
		return true
	}
	return false
}

// waited tells whether a client was left without an answer: what Kafka's limits on numbers and rates do.
func waited(f *Failure) bool { return f.Outcome == fleet.TimedOut }

// refusedAtOnce tells whether a client was closed before any answer: what limits of addresses do.
func refusedAtOnce(f *Failure) bool {
	return (f.Outcome == fleet.ClosedByBroker || f.Outcome == fleet.Reset) && (f.Phase == fleet.Handshaking || f.Phase == fleet.Greeting)
}

// refused explains connections that the target closed without an answer.
func (r *run) refused(_ context.Context, v *Verdict, first *Failure) {
	held := time.Duration(first.After * float64(time.Second))
	const atOnce = 50 * time.Millisecond // a rate holds for longer, a maximum does not hold at all
	name, does := MaxPerIP, "was closed at once"
	if held > atOnce {
		name, does = IPCreationRate, fmt.Sprintf("was held for %.1f s and then closed", held.Seconds())
	}
	v.Kind = EndLimit
	if l := r.limitNamed(name, first.Local); l != nil {
		v.Limit, v.Certain = l, true
		v.Text = fmt.Sprintf("limit reached at %s connections%s: %s. A client from %s %s", number(v.Connections), r.own(), l, first.Local, does)
		return
	}
	v.Text = fmt.Sprintf("limit reached at %s connections: a client from %s %s, as %s would; the target did not tell its value",
		number(v.Connections), first.Local, does, name)
}

// own names the connections that count beside those of the ramp.
func (r *run) own() string {
	if c := r.o.Targets[0].Control; c != nil {
		return fmt.Sprintf(" (beside %d of this command's own)", c.Connections())
	}
	return ""
}

// limitNamed finds a limit that applies to addresses: that of addr itself, or the one that all have.
func (r *run) limitNamed(name, addr string) *LimitValue {
	var found *LimitValue
	for i := range r.result.Limits {
		l := &r.result.Limits[i]
		if l.Name != name {
			continue
		}
		if strings.HasSuffix(l.Key, " "+addr) {
			return l
		}
		if found == nil && (l.Key == name || strings.HasSuffix(l.Key, " default")) {
			found = l
		}
	}
	return found
}

// waiting explains connections that got no answer.
func (r *run) waiting(ctx context.Context, v *Verdict, first *Failure) {
	l, certain := r.holding(ctx)
	if l == nil {
		l, certain = r.reached(ctx, v.Connections)
	}
	if l != nil && l.rate() {
		r.heldForRate(v, l)
		v.Certain = certain
		return
	}
	if l != nil {
		v.Kind, v.Limit, v.Certain = EndLimit, l, certain
		likely := ""
		if !certain {
			likely = "most likely "
		}
		v.Text = fmt.Sprintf("limit reached at %s connections%s, which is %s%s. The next one waits", number(v.Connections), r.own(), likely, l)
		return
	}
	if text := r.outOfFiles(); text != "" {
		v.Kind, v.Certain, v.Text = EndFiles, true, fmt.Sprintf("%s at %s connections: the next one waits", text, number(v.Connections))
		return
	}
	if l := r.rateLimit(); l != nil {
		r.heldForRate(v, l)
		return
	}
	waited := r.late(v.Connections)
	if s := r.lastStep(); s != nil && s.CPU != nil && s.CPU.TargetCores > 0 && s.CPU.BusyCores > busyShare*float64(s.CPU.Processors) {
		v.Kind, v.Side = EndSlow, "both"
		v.Text = waited + ": " + s.Bottleneck
		return
	}
	if first.Phase == fleet.Connecting {
		v.Text = waited + ", not even to the SYN: its accept queue is full, or packets are dropped on the way"
		return
	}
	v.Text = waited + ": connected, then silence, as at a limit on connections"
	if !r.asked {
		v.Text += "; the target's limits could not be read"
	} else {
		v.Text += "; none of the limits that could be read explains it"
	}
}

func (r *run) heldForRate(v *Verdict, l *LimitValue) {
	v.Kind, v.Limit = EndLimit, l
	v.Text = r.late(v.Connections) + ": held for a rate, " + l.String() + ". With a --rate below it, or a longer --timeout, more come up"
}

func (r *run) late(connections int) string {
	return fmt.Sprintf("no first response within %v at %s connections", r.o.Timeout, number(connections))
}

// holding is the limit that a target itself names.
func (r *run) holding(ctx context.Context) (*LimitValue, bool) {
	for i := range r.o.Targets {
		t := &r.o.Targets[i]
		if t.Control == nil {
			continue
		}
		name, listener := t.Control.Holds(ctx)
		for k := range r.result.Limits {
			l := &r.result.Limits[k]
			if l.Name == name && strings.EqualFold(l.Listener, listener) && (l.Target == "" || l.Target == t.Name) {
				return l, true
			}
		}
	}
	return nil, false
}

// rateLimit is a limit on how many come a second, the lowest one.
func (r *run) rateLimit() *LimitValue {
	var lowest *LimitValue
	for i := range r.result.Limits {
		if l := &r.result.Limits[i]; l.Name == CreationRate && (lowest == nil || l.Value < lowest.Value) {
			lowest = l
		}
	}
	return lowest
}

// reached is the limit that connections have come to. Other connections may count too, so the nearest one above is meant, and
// it is certain where what is left of it is no more than those that are known of and a few.
func (r *run) reached(ctx context.Context, connections int) (nearest *LimitValue, certain bool) {
	if ctx.Err() != nil {
		return nil, false
	}
	left := 0.0
	for i := range r.result.Limits {
		l := &r.result.Limits[i]
		if l.Name != MaxConnections && l.Name != MaxSSLConnections {
			continue
		}
		here := float64(connections) / float64(len(r.o.Targets))
		if d := l.Value - here; d >= 0 && (nearest == nil || d < left) {
			nearest, left = l, d
		}
	}
	if nearest == nil {
		return nil, false
	}
	const others, share = 8, 0.02
	own := 0
	if len(r.o.Targets) > 0 && r.o.Targets[0].Control != nil {
		own = r.o.Targets[0].Control.Connections()
	}
	near := float64(own+others) + share*nearest.Value
	if left > near {
		return nil, false
	}
	return nearest, left <= float64(own)
}

// outOfFiles tells of a target that has no files left.
func (r *run) outOfFiles() string {
	const spare = 256 // what brokers leave to the rest of the process
	for i := range r.o.Targets {
		t := &r.o.Targets[i]
		if t.PID == 0 {
			continue
		}
		open, limit, err := process(t.PID).files()
		if err == nil && limit > 0 && open >= limit-spare {
			return fmt.Sprintf("the process behind %s has %s of at most %s files open", t.Name, number(open), number(limit))
		}
	}
	return ""
}
