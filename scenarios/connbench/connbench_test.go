package connbench

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

func TestARampEndsWithAllUpAndTellsWhatConnectionsCost(t *testing.T) {
	for _, protocol := range []fleet.Protocol{fleet.Plaintext, fleet.SSL} {
		t.Run(string(protocol), func(t *testing.T) {
			o := against(t, protocol)
			o.PerProcess, o.WarmUp, o.Settle = 20, 4, 300*time.Millisecond
			var told []Live
			o.Watch = func(l Live) { told = append(told, l) }
			r := ran(t, o)
			if v := r.Verdict; v.Kind != EndMax || v.Connections != 30 || !v.Certain {
				t.Errorf("verdict = %+v, want all 30", v)
			}
			if r.Load.Processes != 2 || len(r.Steps) != 2 || r.Steps[0].New != 5 || r.Steps[1].New != 25 {
				t.Fatalf("processes = %d, steps = %+v", r.Load.Processes, r.Steps)
			}
			for i := range r.Steps {
				s := &r.Steps[i]
				if s.Failed != 0 || s.Connect.Count != int64(s.New) || s.First.Count != int64(s.New) || s.First.P50 < s.Connect.P50 {
					t.Errorf("step %d: failed %d, connect %+v, first response %+v", i, s.Failed, s.Connect, s.First)
				}
				if (s.TLS != nil) != protocol.TLS() {
					t.Errorf("step %d: TLS latency = %v over %s", i, s.TLS, protocol)
				}
				if s.CPU == nil || s.CPU.TargetMicros <= 0 || s.CPU.ClientMicros <= 0 || s.Storm == nil || s.Settled == nil || s.Settled.Resident < 1<<20 {
					t.Errorf("step %d: cpu %+v, memory %+v %+v", i, s.CPU, s.Storm, s.Settled)
				}
				if s.Listing == nil || s.Listing.Rows < s.Connections {
					t.Errorf("step %d: listing %+v, want at least %d rows", i, s.Listing, s.Connections)
				}
			}
			if !slices.Equal(r.Target.Listeners, []string{"CLIENTS"}) || len(r.Limits) != 0 {
				t.Errorf("listeners = %v, limits = %v, want CLIENTS and none", r.Target.Listeners, r.Limits)
			}
			if len(told) == 0 {
				t.Error("nothing was told while it ran")
			}
			path := filepath.Join(t.TempDir(), "run.json")
			text, err := json.Marshal(r)
			if err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			saved, err := Read(path)
			if err != nil || saved.Verdict.Connections != 30 {
				t.Fatalf("Read() = %+v, %v", saved, err)
			}
			page, err := r.HTML([]Named{{"before", saved}})
			if err != nil || strings.Count(string(page), "<svg") < 4 || !strings.Contains(string(page), "Side by side") {
				t.Errorf("HTML() = %d bytes, %v", len(page), err)
			}
			rows := Compare([]Named{{"a", r}, {"b", saved}})
			if last := rows[len(rows)-1]; len(rows) < 10 || last[0] != "30" || last[len(last)-1] != "1.00" {
				t.Errorf("Compare() = %v", rows)
			}
		})
	}
}

func TestTheLimitThatARampComesToIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		protocol fleet.Protocol
		limits   []string
		source   string
		want     string // key
		up       int
	}{
		"broker":   {fleet.Plaintext, []string{"max.connections=20", "listener.name.internal.max.connections=100"}, "127.1.0.0/24", "max.connections", 18},
		"listener": {fleet.Plaintext, []string{"max.connections=25", "listener.name.clients.max.connections=15"}, "127.1.0.0/24", "listener.name.clients.max.connections", 13},
		"tls":      {fleet.SSL, []string{"max.connections=25", "max.ssl.connections=12"}, "127.1.0.0/24", "max.ssl.connections", 10},
		"address":  {fleet.Plaintext, []string{"max.connections.per.ip=9"}, "127.1.0.7/32", "max.connections.per.ip", 9},
		"address of its own": {
			fleet.Plaintext,
			[]string{"max.connections.per.ip=9", "max.connections.per.ip.overrides=127.1.0.7:11"},
			"127.1.0.7/32",
			"max.connections.per.ip.overrides 127.1.0.7", 11,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := against(t, c.protocol, c.limits...)
			o.Sources[0].Prefix = netip.MustParsePrefix(c.source)
			v := ran(t, o).Verdict
			if v.Kind != EndLimit || v.Limit == nil || v.Limit.Key != c.want || !v.Certain || v.Side != "target" {
				t.Fatalf("verdict = %+v, want the limit %s", v, c.want)
			}
			// This test's own client has connections too, one or two.
			if v.Connections > c.up+1 || v.Connections < c.up {
				t.Errorf("up = %d, want %d or one more", v.Connections, c.up)
			}
			if !strings.HasPrefix(v.Text, "limit reached at ") || len(v.Failures) == 0 {
				t.Errorf("text = %q, failures = %+v", v.Text, v.Failures)
			}
		})
	}
}

func TestARateThatHoldsConnectionsIsNamed(t *testing.T) {
	o := against(t, fleet.Plaintext, "listener.name.clients.max.connection.creation.rate=3", "quota.window.num=2")
	o.Steps = []int{60}
	v := ran(t, o).Verdict
	if v.Kind != EndLimit || v.Limit == nil || v.Limit.Key != "listener.name.clients.max.connection.creation.rate" {
		t.Errorf("verdict = %+v, want the listener's rate", v)
	}
}

func TestASlotThatIsFreedAtTheLimitGoesToWhoWaits(t *testing.T) {
	o := against(t, fleet.SSL, "max.ssl.connections=20", "max.connections=1000")
	o.AtLimit = true
	r := ran(t, o)
	a := r.AtLimit
	if a == nil || a.Admission == nil {
		t.Fatalf("at the limit = %+v, unknown %v, verdict %+v", a, r.Unknown, r.Verdict)
	}
	if a.Admission.Count < waiters/2 || a.NotSeen != 0 || a.Refused != 0 || a.Lost != 0 {
		t.Errorf("at the limit = %+v, want a slot for each that waited", a)
	}
	if a.Before.Count == 0 || a.During.Count == 0 {
		t.Errorf("requests inside: before %+v, during %+v", a.Before, a.During)
	}
	if text := strings.Join(r.Findings(), "\n"); !strings.Contains(text, "one slot free to the first response") {
		t.Errorf("Findings() = %s", text)
	}
}

func TestARateIsHeldAsKafkasRuleSays(t *testing.T) {
	o := against(t, fleet.Plaintext, "listener.name.clients.max.connection.creation.rate=20", "quota.window.num=3")
	o.Steps, o.AtLimit, o.Timeout = []int{2}, true, 3*time.Second
	r := ran(t, o)
	if r.AtLimit == nil || r.AtLimit.Rate == nil {
		t.Fatalf("at the limit = %+v, unknown %v", r.AtLimit, r.Unknown)
	}
	// The rule is exact over all of the time, up to what a second's boundary cuts off.
	if a := r.AtLimit.Rate; a.Sum < a.SumPredicted*8/10 || a.Sum > a.SumPredicted*12/10 || a.Seconds != 6 {
		t.Errorf("admitted %v = %d, the rule %v = %d", a.Admitted, a.Sum, a.Predicted, a.SumPredicted)
	}
}

func TestALatencyBoundEndsARamp(t *testing.T) {
	o := against(t, fleet.Plaintext)
	o.MaxLatency = time.Microsecond
	r := ran(t, o)
	if r.Verdict.Kind != EndLatency || r.Verdict.Connections != 5 || len(r.Steps) != 1 {
		t.Errorf("verdict = %+v after %d steps, want the bound after the first", r.Verdict, len(r.Steps))
	}
}

func TestAnInterruptedRampKeepsWhatItMeasured(t *testing.T) {
	o := against(t, fleet.Plaintext)
	o.Steps = []int{5, 1000}
	o.Rate = 50
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Watch = func(l Live) {
		if l.Want == 1000 && l.Connections > 5 {
			cancel()
		}
	}
	r, err := Run(ctx, o)
	if err != nil || r.Verdict.Kind != EndInterrupted || len(r.Steps) != 1 || r.Steps[0].Connections != 5 {
		t.Errorf("Run() = %+v, %v, want the first step", r, err)
	}
}

func TestATargetThatTakesNobodyIsToldAtOnce(t *testing.T) {
	o := against(t, fleet.Plaintext)
	o.Targets[0].Addr = netip.MustParseAddrPort("127.0.0.1:1")
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not even one connection") {
		t.Errorf("Run() = %v, want that nobody listens", err)
	}
	o.Sources[0].Prefix = netip.MustParsePrefix("192.0.2.1/32") // nobody's address
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), string(fleet.Shortage)) {
		t.Errorf("Run() = %v, want a shortage of the clients' side", err)
	}
}

func TestOptionsTellAllThatIsWrongWithThem(t *testing.T) {
	o := &Options{Steps: []int{5, 5}, Rate: -1, Targets: []Target{{Name: "x", PID: 1 << 30}}}
	err := o.Validate()
	for _, want := range []string{"more than the one before", "negative", "has no address", "process 1073741824", "parallel 0", "time-out", "client processes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() lacks %q: %v", want, err)
		}
	}
}

func TestAShortageOfTheClientsIsNotTheTargets(t *testing.T) {
	for text, want := range map[string]string{
		"connect: cannot assign requested address":  "ran out of ports at 28,231 connections",
		"make a TCP socket: too many open files":    "ran out of files at 28,231 connections",
		"make a TCP socket: cannot allocate memory": "ran out of memory at 28,231 connections",
	} {
		v := Verdict{Connections: 28231}
		if !shortage(&v, []fleet.Record{{Outcome: fleet.TimedOut}, {Outcome: fleet.Shortage, Error: text}}) {
			t.Errorf("%q is no shortage", text)
		}
		if v.Kind != EndShortage || v.Side != "client" || !strings.Contains(v.Text, want) || !strings.Contains(v.Text, "did not refuse") {
			t.Errorf("verdict of %q = %+v, want %q", text, v, want)
		}
	}
}

func TestSizesAreOfEachKindOfConnection(t *testing.T) {
	o := against(t, fleet.SSL)
	o.WarmUp, o.Settle, o.Timeout = 20, 500*time.Millisecond, 10*time.Second
	z, err := MeasureSize(t.Context(), &SizeOptions{Options: *o, Memory: 8 << 30, Reserve: 0.2, Connections: 200})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, k := range z.Kinds {
		kinds = append(kinds, k.Kind)
	}
	if !slices.Equal(kinds, []string{"idle", "in handshake", "active"}) || z.Key != MaxSSLConnections {
		t.Errorf("kinds = %v, key %s", kinds, z.Key)
	}
	lowest := z.Bounds[0].Connections
	for _, b := range z.Bounds {
		lowest = min(lowest, b.Connections)
	}
	if len(z.Bounds) < 2 || z.Proposal > lowest || z.Proposal < lowest*9/10 || len(z.Reasoning) < 2 {
		t.Errorf("bounds = %+v, proposal %d, reasoning %v", z.Bounds, z.Proposal, z.Reasoning)
	}
	o.Protocol = fleet.Plaintext
	if _, err := MeasureSize(t.Context(), &SizeOptions{Options: *o, Memory: 1 << 30, Connections: 10}); err == nil || !strings.Contains(err.Error(), "TLS connections") {
		t.Errorf("MeasureSize() of plaintext = %v", err)
	}
}
