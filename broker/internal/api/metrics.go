package api

import (
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// metrics counts requests and what they were answered, under the names that jmx_exporter gives
// Kafka's. Safe for concurrent use.
type metrics struct {
	requests *prometheus.CounterVec
	errors   *prometheus.CounterVec
	seconds  *prometheus.CounterVec
	codes    sync.Map // reflect.Type → codeFields
	sasl     sync.Map // a listener's name → *authentications
}

// authentications are those of a listener.
type authentications struct{ succeeded, again, failed, failedAgain atomic.Uint64 }

// Authentications counts the SASL authentications of a listener since the broker was made: those that succeeded and those that failed.
// Those that were not their connection's first, Again, are not among the others.
type Authentications struct{ Succeeded, Failed, Again, FailedAgain uint64 }

// Authentications counts those of the listener of a name. All are 0 where nobody has tried.
func (s *Server) Authentications(listener string) Authentications {
	if known, ok := s.metrics.sasl.Load(listener); ok {
		a := known.(*authentications)
		return Authentications{Succeeded: a.succeeded.Load(), Failed: a.failed.Load(), Again: a.again.Load(), FailedAgain: a.failedAgain.Load()}
	}
	return Authentications{}
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &metrics{
		requests: counter("kafka_network_requestmetrics_requestspersec_count", "Requests answered, by API and version.", "request", "version"),
		errors:   counter("kafka_network_requestmetrics_errorspersec_count", "Error codes in answers, NONE where there is none, by API.", "request", "error"),
		seconds:  counter("kafka_network_requestmetrics_totaltimems_sum", "Milliseconds from a request's arrival to its answer, summed.", "request"),
	}
}

// Collectors are the request metrics, for a registry.
func (s *Server) Collectors() []prometheus.Collector {
	m := s.metrics
	all := []prometheus.Collector{m.requests, m.errors, m.seconds}
	if s.authorizations != nil {
		all = append(all, s.authorizations.collectors()...)
	}
	if s.pushes != nil {
		all = append(all, s.pushes.metrics.collectors()...)
	}
	return all
}

// Load tells how many requests wait for a worker, how many have one, and how many workers there are.
func (s *Server) Load() (waiting, busy, workers int) { return s.pool.load() }

func (m *metrics) authenticated(listener string, again bool) {
	if again {
		m.saslOf(listener).again.Add(1)
		return
	}
	m.saslOf(listener).succeeded.Add(1)
}

func (m *metrics) refusedAuthentication(listener string, again bool) {
	if again {
		m.saslOf(listener).failedAgain.Add(1)
		return
	}
	m.saslOf(listener).failed.Add(1)
}

func (m *metrics) saslOf(listener string) *authentications {
	known, _ := m.sasl.LoadOrStore(listener, new(authentications))
	return known.(*authentications)
}

func (m *metrics) answered(r *row, version int16, resp kmsg.Response, took time.Duration) {
	m.requests.WithLabelValues(r.name, strconv.Itoa(int(version))).Inc()
	m.seconds.WithLabelValues(r.name).Add(float64(took) / float64(time.Millisecond))
	v := reflect.ValueOf(resp).Elem()
	fields := m.fields(v.Type())
	if fields == nil {
		m.errors.WithLabelValues(r.name, "NONE").Inc()
		return
	}
	counts := map[int16]int{}
	fields.count(v, counts)
	for code, n := range counts {
		m.errors.WithLabelValues(r.name, errorName(code)).Add(float64(n))
	}
}

func errorName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	if code == protocol.CodeConfigTooLarge {
		return "CONFIG_TOO_LARGE"
	}
	if err := kerr.TypedErrorForCode(code); err != nil {
		return err.Message
	}
	return strconv.Itoa(int(code))
}

// codeFields are the places of a response type where it has error codes.
type codeFields struct {
	own   []int               // int16 fields named ErrorCode
	lists map[int]*codeFields // slices of structs that have some
}

func (f *codeFields) count(v reflect.Value, counts map[int16]int) {
	for _, i := range f.own {
		counts[int16(v.Field(i).Int())]++
	}
	for i, inner := range f.lists {
		list := v.Field(i)
		for j := range list.Len() {
			inner.count(list.Index(j), counts)
		}
	}
}

func (m *metrics) fields(t reflect.Type) *codeFields {
	if known, ok := m.codes.Load(t); ok {
		return known.(*codeFields)
	}
	f := findCodes(t)
	m.codes.Store(t, f)
	return f
}

// findCodes is nil for a type without error codes.
func findCodes(t reflect.Type) *codeFields {
	f := &codeFields{lists: map[int]*codeFields{}}
	for i := range t.NumField() {
		field := t.Field(i)
		switch {
		case field.Name == "ErrorCode" && field.Type.Kind() == reflect.Int16:
			f.own = append(f.own, i)
		case field.Type.Kind() == reflect.Slice && field.Type.Elem().Kind() == reflect.Struct:
			if inner := findCodes(field.Type.Elem()); inner != nil {
				f.lists[i] = inner
			}
		}
	}
	if len(f.own) == 0 && len(f.lists) == 0 {
		return nil
	}
	return f
}
