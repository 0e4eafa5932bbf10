package api

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pushResult is what became of a push.
type pushResult string

const (
	pushAccepted pushResult = "accepted"
	pushTooLarge pushResult = "too_large"
	pushInvalid  pushResult = "invalid"
	pushTooOften pushResult = "too_often"
	pushOverload pushResult = "overload"
	pushTimeout  pushResult = "timeout"
	pushError    pushResult = "policy_error"
	pushPanic    pushResult = "policy_panic"
)

// pushMetrics count pushed configurations. There is no label that clients choose. Safe for concurrent use.
type pushMetrics struct {
	results *prometheus.CounterVec
	bytes   prometheus.Counter
	calls   prometheus.Counter
	millis  prometheus.Counter
	queue   prometheus.GaugeFunc
	average prometheus.GaugeFunc
	longest prometheus.GaugeFunc
	recent  recentTimes
}

func newPushMetrics(waiting func() float64) *pushMetrics {
	m := &pushMetrics{}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string, value func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.results = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brokerlab_config_pushes_total", Help: "Client configurations that were pushed, by what became of them.",
	}, []string{"result"})
	for _, r := range []pushResult{pushAccepted, pushTooLarge, pushInvalid, pushTooOften, pushOverload, pushTimeout, pushError, pushPanic} {
		m.results.WithLabelValues(string(r))
	}
	m.bytes = counter("brokerlab_config_push_bytes_total", "Bytes of keys and values that were pushed, those of refused pushes too.")
	m.calls = counter("brokerlab_config_push_policy_calls_total", "Pushes that the policy has dealt with.")
	m.millis = counter("brokerlab_config_push_policy_time_ms_sum", "Milliseconds that the policy took, summed; those for pushes that it took together counted once.")
	m.queue = gauge("brokerlab_config_push_queue", "Pushes that wait for the policy.", waiting)
	m.average = gauge("brokerlab_config_push_policy_time_ms_avg", "Milliseconds that the policy took for a push in the last minute, on average.", func() float64 {
		average, _ := m.recent.read(time.Now())
		return average
	})
	m.longest = gauge("brokerlab_config_push_policy_time_ms_max", "Milliseconds that the policy took in the last minute, at most.", func() float64 {
		_, longest := m.recent.read(time.Now())
		return longest
	})
	return m
}

func (m *pushMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.results, m.bytes, m.calls, m.millis, m.queue, m.average, m.longest}
}

func (m *pushMetrics) result(r pushResult) { m.results.WithLabelValues(string(r)).Inc() }

// took counts the time that the policy took for n pushes at once.
func (m *pushMetrics) took(d time.Duration, n int) {
	ms := float64(d) / float64(time.Millisecond)
	m.calls.Add(float64(n))
	m.millis.Add(ms)
	m.recent.add(time.Now(), ms, n)
}

// recentTimes are the times of the last minute, second by second. Safe for concurrent use.
type recentTimes struct {
	mu      sync.Mutex
	seconds [60]struct {
		second, count int64
		sum, longest  float64
	}
}

func (r *recentTimes) add(now time.Time, ms float64, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.seconds[now.Unix()%int64(len(r.seconds))]
	if s.second != now.Unix() {
		s.second, s.count, s.sum, s.longest = now.Unix(), 0, 0, 0
	}
	s.count += int64(n)
	s.sum += ms
	s.longest = max(s.longest, ms)
}

// read is 0 and 0 when there were none.
func (r *recentTimes) read(now time.Time) (average, longest float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var count int64
	var sum float64
	for i := range r.seconds {
		if s := &r.seconds[i]; now.Unix()-s.second < int64(len(r.seconds)) {
			count += s.count
			sum += s.sum
			longest = max(longest, s.longest)
		}
	}
	if count == 0 {
		return 0, 0
	}
	return sum / float64(count), longest
}
