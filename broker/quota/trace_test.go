package quota

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What Kafka 4.4.0's own ConnectionQuotas did (testdata/Trace.java) is what
// Connections does, to the millisecond and to the last digit of its metrics.
func TestRatesAreWhatKafkaItselfDoes(t *testing.T) {
	t.Parallel()
	scenarios := traces(t)
	if len(scenarios) != 20 {
		t.Fatalf("%d scenarios, want 20", len(scenarios))
	}
	for i, lines := range scenarios {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := replay{t: t, ipRates: map[netip.Addr]int{}, ipDefault: Unlimited}
				for n, line := range lines {
					if got := r.line(strings.Fields(line)); got != line {
						t.Fatalf("line %d of scenario %d:\n got %q\nwant %q", n, i, got, line)
					}
				}
			})
		})
	}
}

func traces(t *testing.T) (scenarios [][]string) {
	t.Helper()
	f, err := os.Open("testdata/connections-4.4.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "scenario") {
			scenarios = append(scenarios, nil)
		}
		last := len(scenarios) - 1
		scenarios[last] = append(scenarios[last], lines.Text())
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return scenarios
}

// replay does what the lines of a trace say and says what came of it.
type replay struct {
	t         *testing.T
	q         *Connections
	c         Config
	ipDefault int
	ipRates   map[netip.Addr]int
	open      []*Slot
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// line does one line and returns it as it ought to be.
func (r *replay) line(f []string) string {
	switch f[0] {
	case "scenario":
		r.c = Default()
		r.c.CreationRate, r.c.MaxPerIP, r.c.InterBroker = number(f[3]), number(f[4]), internal
		r.c.Listeners = map[string]ListenerConfig{}
		r.q = New(Window{Samples: number(f[1]), Size: time.Duration(number(f[2])) * time.Millisecond}, r.c)
		for _, name := range []string{external, admin, internal} {
			r.q.AddListener(name, false)
		}
	case "pass":
		pass(time.Duration(number(f[1])) * time.Millisecond)
	case "rate":
		r.c.CreationRate = number(f[1])
		r.q.Configure(r.c)
	case "listener-rate":
		r.c.Listeners[f[1]] = ListenerConfig{MaxConnections: Unlimited, CreationRate: number(f[2])}
		r.q.Configure(r.c)
	case "ip-rate":
		r.ipRate(f[1], number(f[2]))
	case "close":
		at := number(f[1])
		r.open[at].Release()
		r.open = append(r.open[:at], r.open[at+1:]...)
	case "connect":
		return r.connect(f[1], f[2])
	default:
		return r.metric(f)
	}
	return strings.Join(f, " ")
}

func (r *replay) ipRate(name string, perSecond int) {
	switch {
	case name == "default":
		r.ipDefault = perSecond
	case perSecond < 0:
		delete(r.ipRates, addr(name))
	default:
		r.ipRates[addr(name)] = perSecond
	}
	r.q.SetIPRates(r.ipDefault, r.ipRates)
}

func (r *replay) connect(listener, from string) string {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Hour)
	defer cancel()
	start := time.Now()
	slot, waited, err := r.q.Acquire(ctx, listener, addr(from))
	took := time.Since(start)
	if waited.Rate != took || waited.Slot != 0 {
		r.t.Errorf("waited = %v, but it took %v", waited, took)
	}
	outcome := "open"
	var held *ThrottledError
	var many *TooManyError
	switch {
	case errors.As(err, &held):
		outcome = fmt.Sprintf("held %d", held.Delay.Milliseconds())
	case errors.As(err, &many):
		outcome = fmt.Sprintf("many %d", many.Max)
	case err != nil:
		r.t.Fatal(err)
	}
	if held == nil {
		r.open = append(r.open, &slot)
	}
	return fmt.Sprintf("connect %s %s waits %d %s", listener, from, took.Milliseconds(), outcome)
}

// metric reads what the trace has read. A number that is Kafka's to the last
// digit is written as Kafka wrote it.
func (r *replay) metric(f []string) string {
	same := func(at int, got float64) {
		want, err := strconv.ParseFloat(f[at], 64)
		if err != nil && f[at] != "none" {
			r.t.Fatal(err)
		}
		equal := got == want || (math.IsNaN(got) && math.IsNaN(want))
		if f[at] == "none" { // no sensor: nothing was measured
			equal = got == 0
		}
		if !equal {
			f[at] = strconv.FormatFloat(got, 'g', -1, 64)
		}
	}
	switch f[0] {
	case "broker-rate":
		same(1, r.q.State().CreationRate)
	case "listener":
		l := listenerState(r.t, r.q, f[1])
		same(3, l.CreationRate)
		same(5, l.ThrottleTime)
		same(7, l.IPThrottleTime)
		f[9] = strconv.FormatUint(l.Blocked.Count, 10)
	case "ip":
		s := r.q.IP(addr(f[1]))
		f[3], f[7] = strconv.Itoa(s.Connections), strconv.Itoa(s.Rate)
		same(5, s.CreationRate)
		measured := false
		r.q.EachIPRate(func(a netip.Addr, _ float64) bool {
			measured = measured || a == addr(f[1])
			return true
		})
		if measured != (f[5] != "none") {
			r.t.Errorf("address %s has a sensor: %v, want %v", f[1], measured, !measured)
		}
	default:
		r.t.Fatalf("unknown line %v", f)
	}
	return strings.Join(f, " ")
}
