package broker

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/quota"
)

const (
	// mostAddresses bounds the series with an address: a label that clients
	// choose must not grow without end. Those that connect fastest are shown.
	mostAddresses = 100
	// mostSoftware bounds the series with the name of a client's software; the
	// rest are one, named other.
	mostSoftware = 100
)

// limitMetrics are what is counted and measured to hold connections to their
// limits (KIP-402, KIP-612, KIP-1015).
func limitMetrics(out chan<- prometheus.Metric, q *quota.Connections) {
	s := q.State()
	gauge(out, "kafka_network_connectionquotas_connectionscount_value", "Connections that have a slot, of all listeners.", float64(s.Connections))
	gauge(out, "kafka_network_connectionquotas_sslconnectionscount_value", "Those of them that TLS listeners admitted.", float64(s.SSL))
	gauge(out, "kafka_server_socket_server_metrics_broker_connection_accept_rate", "Connections accepted a second, without a protected listener.", s.CreationRate)
	for i := range s.Listeners {
		l := &s.Listeners[i]
		blockedMetrics(out, l.Name, &l.Blocked)
		acceptRate(out, l.CreationRate, "listener", l.Name)
		gauge(out, "kafka_server_socket_server_metrics_connection_accept_throttle_time", "Milliseconds that rates made connections wait, on average; NaN when none did.", l.ThrottleTime, "listener", l.Name)
		gauge(out, "kafka_server_socket_server_metrics_ip_connection_accept_throttle_time", "Milliseconds that rates of addresses had sockets held, on average; NaN when none were.", l.IPThrottleTime, "listener", l.Name)
	}
	type measured struct {
		addr      netip.Addr
		perSecond float64
	}
	var addresses []measured
	q.EachIPRate(func(addr netip.Addr, perSecond float64) bool {
		addresses = append(addresses, measured{addr, perSecond})
		return true
	})
	slices.SortFunc(addresses, func(a, b measured) int {
		return cmp.Or(cmp.Compare(b.perSecond, a.perSecond), a.addr.Compare(b.addr))
	})
	for _, a := range addresses[:min(len(addresses), mostAddresses)] {
		acceptRate(out, a.perSecond, "ip", network.JavaAddr(a.addr))
	}
}

func acceptRate(out chan<- prometheus.Metric, perSecond float64, labels ...string) {
	gauge(out, "kafka_server_socket_server_metrics_connection_accept_rate", "Connections accepted a second, by listener, and by address where it has a quota.", perSecond, labels...)
}

// blockedMetrics are a meter of Kafka's: its rates are nanoseconds a nanosecond.
func blockedMetrics(out chan<- prometheus.Metric, listener string, m *quota.Meter) {
	const help = "The time that the acceptor was blocked: "
	counter(out, "kafka_network_acceptor_acceptorblockedpercent_count", help+"nanoseconds in all.", float64(m.Count), "listener", listener)
	gauge(out, "kafka_network_acceptor_acceptorblockedpercent_meanrate", help+"share of all time, 0 to 1.", m.Mean, "listener", listener)
	gauge(out, "kafka_network_acceptor_acceptorblockedpercent_oneminuterate", help+"share of the last minute, weighted.", m.OneMinute, "listener", listener)
	gauge(out, "kafka_network_acceptor_acceptorblockedpercent_fiveminuterate", help+"share of the last five minutes, weighted.", m.FiveMinute, "listener", listener)
	gauge(out, "kafka_network_acceptor_acceptorblockedpercent_fifteenminuterate", help+"share of the last fifteen minutes, weighted.", m.FifteenMinute, "listener", listener)
}

// admissionMetrics say what became of every socket that a listener accepted.
func admissionMetrics(out chan<- prometheus.Metric, n *network.ListenerCounts) {
	outcome := func(reason string, sockets uint64) {
		counter(out, "brokerlab_connections_outcome_total", "Accepted sockets, by what became of them.", float64(sockets), "listener", n.Listener.Name, "reason", reason)
	}
	outcome("admitted", n.Admitted)
	for _, reason := range []network.Reason{network.ReasonPerIPLimit, network.ReasonPerIPRate, network.ReasonFenced, network.ReasonListenerChanged, network.ReasonShutdown} {
		outcome(reason.String(), n.RefusedFor[reason])
	}
	gauge(out, "brokerlab_connections_throttled", "Sockets held open for a while, because their address connects too fast.", float64(n.Throttled), "listener", n.Listener.Name)
	for _, l := range n.Loops {
		gauge(out, "brokerlab_network_thread_connections", "Connections of one network thread.", float64(l.Connections),
			"listener", n.Listener.Name, "networkprocessor", strconv.Itoa(int(l.Processor)))
	}
}

// software is what KIP-511 counts connections by.
type software struct{ listener, name, version string }

// softwareMetrics count the connections of each kind of client software.
func softwareMetrics(out chan<- prometheus.Metric, s *network.Server) {
	counts := map[software]int{}
	for c := range s.Connections() {
		id := c.Identity()
		counts[software{c.Listener().Name, cmp.Or(id.Software, "unknown"), cmp.Or(id.SoftwareVersion, "unknown")}]++
	}
	kinds := make([]software, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b software) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.listener, b.listener), cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version))
	})
	show := func(kind software, n int) {
		gauge(out, "kafka_server_socket_server_metrics_connections", "Connections that are open, by the client's software.", float64(n),
			"listener", kind.listener, "clientsoftwarename", kind.name, "clientsoftwareversion", kind.version)
	}
	others := map[software]int{}
	for i, kind := range kinds {
		if i < mostSoftware {
			show(kind, counts[kind])
		} else {
			others[software{kind.listener, "other", "other"}] += counts[kind]
		}
	}
	for kind, n := range others {
		show(kind, n)
	}
}
