package connbench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Schema names the shape of a [Result] as JSON. It changes when a field changes its meaning or goes; new fields may come.
const Schema = "brokerlab/bench-connections/v1"

// Result is a run. Sizes are in bytes, times in microseconds unless their names say otherwise. What could not be measured is absent, and
// Unknown says why.
type Result struct {
	Schema   string       `json:"schema"`
	Started  time.Time    `json:"started"`
	Seconds  float64      `json:"seconds"`
	Host     report.Host  `json:"host"` // where the clients ran
	Target   TargetInfo   `json:"target"`
	Load     Load         `json:"load"`
	Limits   []LimitValue `json:"limits"` // those that are set
	Baseline *Memory      `json:"baseline,omitempty"`
	Steps    []Step       `json:"steps"`
	Verdict  Verdict      `json:"verdict"`
	AtLimit  *AtLimit     `json:"atLimit,omitempty"`
	After    *Memory      `json:"after,omitempty"` // once all connections were closed
	Samples  []Sample     `json:"samples"`
	Unknown  []string     `json:"unknown"`
}

// TargetInfo says what was measured.
type TargetInfo struct {
	Product   string   `json:"product,omitempty"` // what runs there, such as kafka:4.4.0, where that is known
	Servers   []string `json:"servers"`
	Listeners []string `json:"listeners,omitempty"` // by their names, where the target told
	Protected bool     `json:"protected,omitempty"` // one of them is the inter-broker listener beside others: the broker's limits do not hold it
	Protocol  string   `json:"protocol"`
	MutualTLS bool     `json:"mutualTls,omitempty"`
	Mechanism string   `json:"mechanism,omitempty"`
	PIDs      []int    `json:"pids,omitempty"`
	Programs  []string `json:"programs,omitempty"`
}

// Load says how it was loaded.
type Load struct {
	Steps       []int   `json:"steps"`
	Rate        float64 `json:"rate,omitempty"` // connections a second; absent: as fast as possible
	Parallel    int     `json:"parallel"`
	TimeoutSecs float64 `json:"timeoutSeconds"`
	MaxLatency  float64 `json:"maxLatencySeconds,omitempty"`
	WarmUp      int     `json:"warmUp"`
	Processes   int     `json:"processes"`
}

// Name is what the run is called beside others: by what it measured, or "this run".
func (r *Result) Name() string { return cmp.Or(r.Target.Product, "this run") }

// Memory is what processes hold.
type Memory struct {
	Resident int64         `json:"residentBytes"`
	Growing  int64         `json:"growingBytes"`        // without mapped files
	Heap     *int64        `json:"heapBytes,omitempty"` // live, of a Java process, after a collection
	Kernel   *kernelMemory `json:"kernel,omitempty"`
}

// Step is one step of the ramp.
type Step struct {
	Want        int     `json:"want"`        // connections
	Connections int     `json:"connections"` // up at the end
	New         int     `json:"new"`         // that came up in this step
	Failed      int     `json:"failed"`
	Seconds     float64 `json:"seconds"`   // until the last was up, or the first had failed
	PerSecond   float64 `json:"perSecond"` // came up

	Connect report.Latency  `json:"connect"`        // socket() to established
	TLS     *report.Latency `json:"tls,omitempty"`  // established to handshake done
	SASL    *report.Latency `json:"sasl,omitempty"` // first token to authenticated
	First   report.Latency  `json:"firstResponse"`  // socket() to the first answer

	CPU       *CPU     `json:"cpu,omitempty"`
	Storm     *Memory  `json:"storm,omitempty"`     // right after the last was up
	Settled   *Memory  `json:"settled,omitempty"`   // once it did not fall any more
	Overflows *int64   `json:"overflows,omitempty"` // connections that found the accept queue full
	Listing   *Listing `json:"listing,omitempty"`
	// Per connection, since the baseline.
	StormBytes   *float64 `json:"stormBytesPerConnection,omitempty"`
	SettledBytes *float64 `json:"settledBytesPerConnection,omitempty"`
	HeapBytes    *float64 `json:"heapBytesPerConnection,omitempty"`
	KernelBytes  *float64 `json:"kernelBytesPerConnection,omitempty"` // of both ends where the target is on this machine

	Bottleneck string `json:"bottleneck"` // what kept it from being faster
}

// CPU is processor time. Cores is how many processors were busy on average.
type CPU struct {
	TargetMicros float64 `json:"targetMicrosPerConnection,omitempty"`
	ClientMicros float64 `json:"clientMicrosPerConnection"`
	TargetCores  float64 `json:"targetCores,omitempty"`
	ClientCores  float64 `json:"clientCores"`
	BusyCores    float64 `json:"busyCores"` // of the clients' machine, by all that runs there
	Processors   int     `json:"processors"`
}

// Listing is one list of all connections.
type Listing struct {
	Seconds float64 `json:"seconds"`
	Rows    int     `json:"rows"`
}

// Sample is how the run stood at one moment.
type Sample struct {
	At          time.Duration `json:"atNanos"`
	Connections int           `json:"connections"`
	Failed      int           `json:"failed"`
	Resident    int64         `json:"residentBytes,omitempty"`
	TargetCores float64       `json:"targetCores,omitempty"`
	ClientCores float64       `json:"clientCores,omitempty"`
}

// Read reads a result that was written as JSON.
func Read(path string) (*Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a result: %w", err)
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("read result %s: its schema is %.60q, not %s", path, r.Schema, Schema)
	}
	return &r, nil
}

// Peak is the step with the most connections; nil where no step came to any.
func (r *Result) Peak() *Step {
	var peak *Step
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Connections > 0 && (peak == nil || s.Connections > peak.Connections) {
			peak = s
		}
	}
	return peak
}
