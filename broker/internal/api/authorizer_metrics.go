package api

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// authorizerMetrics count what the authorizer decides, under Kafka's names (group "plugins") and as totals.
type authorizerMetrics struct {
	total             *prometheus.CounterVec
	allowed, denied   prometheus.Counter
	allowedRate       perMinute
	deniedRate        perMinute
	acls              prometheus.GaugeFunc
	requests, yes, no prometheus.GaugeFunc
}

func newAuthorizerMetrics(a *acl.Authorizer) *authorizerMetrics {
	m := &authorizerMetrics{total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "brokerlab_authorizations_total", Help: "What the authorizer decided, by result: allowed or denied.",
	}, []string{"result"})}
	m.allowed, m.denied = m.total.WithLabelValues("allowed"), m.total.WithLabelValues("denied")
	gauge := func(name, help string, value func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kafka_server_plugins_" + name, Help: help,
			ConstLabels: prometheus.Labels{"config": "authorizer.class.name", "class": "StandardAuthorizer", "role": "broker"},
		}, value)
	}
	m.acls = gauge("acls_total_count", "ACLs that there are.", func() float64 { return float64(a.Index.Len()) })
	m.yes = gauge("authorization_allowed_rate_per_minute", "Decisions of the last minute that allowed.", m.allowedRate.value)
	m.no = gauge("authorization_denied_rate_per_minute", "Decisions of the last minute that denied.", m.deniedRate.value)
	m.requests = gauge("authorization_request_rate_per_minute", "Decisions of the last minute.", func() float64 {
		return m.allowedRate.value() + m.deniedRate.value()
	})
	return m
}

func (m *authorizerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.total, m.acls, m.requests, m.yes, m.no}
}

func (m *authorizerMetrics) decided(allowed bool) {
	if allowed {
		m.allowed.Inc()
		m.allowedRate.add()
		return
	}
	m.denied.Inc()
	m.deniedRate.add()
}

// perMinute counts what happened in the last minute, second by second. Safe for concurrent use.
type perMinute struct {
	mu      sync.Mutex
	seconds [60]struct{ second, count int64 }
}

func (p *perMinute) add() {
	now := time.Now().Unix()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.seconds[now%int64(len(p.seconds))]
	if s.second != now {
		s.second, s.count = now, 0
	}
	s.count++
}

func (p *perMinute) value() float64 {
	now := time.Now().Unix()
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum int64
	for i := range p.seconds {
		s := &p.seconds[i]
		if now-s.second < int64(len(p.seconds)) {
			sum += s.count
		}
	}
	return float64(sum)
}
