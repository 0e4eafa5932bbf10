package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/internal/api"
	"github.com/brokerlab/brokerlab/broker/internal/network"
)

// metricsServer is metrics.listener: /metrics for Prometheus, /healthz, and nothing else.
type metricsServer struct {
	http   http.Server
	socket net.Listener
	bound  netip.AddrPort
	done   chan struct{} // closed when serving is over; nil before start
	log    *slog.Logger
}

// listenMetrics binds; start serves.
func listenMetrics(ctx context.Context, address string, b *Broker) (*metricsServer, error) {
	var lc net.ListenConfig
	socket, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics.listener: %w", err)
	}
	registry := prometheus.NewRegistry()
	for _, c := range append(b.api.Collectors(), &collector{broker: b}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) {
		if err := registry.Register(c); err != nil {
			return nil, errors.Join(fmt.Errorf("register metrics: %w", err), socket.Close())
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /healthz", b.healthz)
	m := &metricsServer{socket: socket, log: b.log}
	if a, ok := socket.Addr().(*net.TCPAddr); ok {
		m.bound = a.AddrPort()
	}
	m.http = http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(b.log.Handler(), slog.LevelDebug),
	}
	return m, nil
}

func (m *metricsServer) start() {
	m.done = make(chan struct{})
	go func() {
		defer close(m.done)
		if err := m.http.Serve(m.socket); !errors.Is(err, http.ErrServerClosed) {
			m.log.Error("metrics.listener stopped", slog.Any("error", err))
		}
	}()
}

func (m *metricsServer) close(ctx context.Context) error {
	if m.done == nil {
		return m.socket.Close()
	}
	patience, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := m.http.Shutdown(patience); err != nil {
		err = m.http.Close()
		<-m.done
		return err
	}
	<-m.done
	return nil
}

// healthz says that clients are served.
func (b *Broker) healthz(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-b.ready:
	default:
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	select {
	case <-b.meta.Failed():
		http.Error(w, "the metadata log cannot be followed", http.StatusServiceUnavailable)
	case <-b.stop:
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
	default:
		if b.meta.Fenced() {
			http.Error(w, "fenced from its cluster", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n")) // whoever asked may be gone
	}
}

// collector reads the broker's own counters when it is scraped. Metrics that Kafka has too bear the
// names that jmx_exporter gives Kafka's.
type collector struct{ broker *Broker }

// Describe sends nothing: what there is depends on the listeners.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends everything at one moment.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	b := c.broker
	counts := b.network.Counts()
	for i := range counts {
		listenerMetrics(out, &counts[i])
		authenticationMetrics(out, &counts[i], b.api.Authentications(counts[i].Listener.Name))
		admissionMetrics(out, &counts[i])
	}
	idleMetrics(out, counts)
	limitMetrics(out, b.quota)
	softwareMetrics(out, b.network)
	b.clusterMetrics(out)
	waiting, busy, workers := b.api.Load()
	gauge(out, "kafka_network_requestchannel_requestqueuesize_value", "Requests that wait for a worker.", float64(waiting))
	gauge(out, "brokerlab_io_threads_busy", "Workers that have a request; requests that wait for the data plane hold none.", float64(busy))
	gauge(out, "brokerlab_io_threads", "num.io.threads.", float64(workers))
	gauge(out, "brokerlab_start_time_seconds", "When the broker was made, in seconds since 1970.", float64(b.created.UnixMilli())/1000)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		gauge(out, "brokerlab_file_descriptors_limit", "How many files and sockets this process may have open.", float64(limit.Cur))
	}
	if b.kernel != nil {
		b.kernelMetrics(out)
	}
}

func gauge(out chan<- prometheus.Metric, name, help string, value float64, labels ...string) {
	send(out, prometheus.GaugeValue, name, help, value, labels...)
}

func counter(out chan<- prometheus.Metric, name, help string, value float64, labels ...string) {
	send(out, prometheus.CounterValue, name, help, value, labels...)
}

// send makes one sample; labels are names and values in turn.
func send(out chan<- prometheus.Metric, kind prometheus.ValueType, name, help string, value float64, labels ...string) {
	names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, nil, nil), err)
	}
	out <- m
}

func listenerMetrics(out chan<- prometheus.Metric, n *network.ListenerCounts) {
	l := []string{"listener", n.Listener.Name}
	for _, reason := range network.Reasons() {
		counter(out, "brokerlab_connections_closed_total", "Connections that ended, by reason.", float64(n.Closed[reason]), append(l, "reason", reason.String())...)
	}
	gauge(out, "kafka_server_socket_server_metrics_connection_count", "Connections that are open.", float64(n.Established), l...)
	counter(out, "kafka_server_socket_server_metrics_connection_creation_total", "Connections that were admitted.", float64(n.Admitted), l...)
	counter(out, "kafka_server_socket_server_metrics_connection_close_total", "Connections that were admitted, and ended.", float64(n.Ended), l...)
	counter(out, "kafka_server_socket_server_metrics_incoming_byte_total", "Bytes read from clients, ciphertext over TLS.", float64(n.BytesIn), l...)
	counter(out, "kafka_server_socket_server_metrics_outgoing_byte_total", "Bytes written to clients, ciphertext over TLS.", float64(n.BytesOut), l...)
	counter(out, "kafka_network_socketserver_expiredconnectionskilledcount_value", "Connections closed because their SASL session had expired.", float64(n.Closed[network.ReasonSessionExpired]), l...)
	gauge(out, "brokerlab_connections_handshaking", "Connections that are not through their TLS handshake.", float64(n.Handshaking), l...)
	gauge(out, "brokerlab_connections_queued", "Accepted sockets that no network thread has registered yet.", float64(n.Queued), l...)
	gauge(out, "brokerlab_connections_held", "Sockets in the acceptor's hand.", float64(n.Held), l...)
	counter(out, "brokerlab_connections_refused_total", "Accepted sockets that a limit did not admit.", float64(n.Refused), l...)
	counter(out, "brokerlab_accept_pauses_total", "Times that accepting paused for want of file descriptors.", float64(n.FilePauses), l...)
	counter(out, "brokerlab_tls_handshakes_total", "TLS handshakes that ended.", float64(n.Handshakes), append(l, "result", "success")...)
	counter(out, "brokerlab_tls_handshakes_total", "TLS handshakes that ended.", float64(n.HandshakeFailures), append(l, "result", "failure")...)
}

// authenticationMetrics count as Kafka does: over TLS alone the handshake is the authentication, and with SASL a handshake that
// fails is one that failed.
func authenticationMetrics(out chan<- prometheus.Metric, n *network.ListenerCounts, sasl api.Authentications) {
	succeeded, failed := sasl.Succeeded, sasl.Failed+n.HandshakeFailures+n.Closed[network.ReasonPlaintextOnTLS]
	if n.Listener.Protocol == network.SSL {
		succeeded = n.Handshakes
	}
	l := []string{"listener", n.Listener.Name}
	counter(out, "kafka_server_socket_server_metrics_successful_authentication_total", "Authentications that succeeded: SASL, or the handshake where TLS is all there is.", float64(succeeded), l...)
	counter(out, "kafka_server_socket_server_metrics_successful_reauthentication_total", "SASL re-authentications that succeeded.", float64(sasl.Again), l...)
	counter(out, "kafka_server_socket_server_metrics_failed_authentication_total", "SASL authentications and TLS handshakes that failed.", float64(failed), l...)
	counter(out, "kafka_server_socket_server_metrics_failed_reauthentication_total", "SASL re-authentications that failed.", float64(sasl.FailedAgain), l...)
}

// idleMetrics say how much time the network threads have to spare.
func idleMetrics(out chan<- prometheus.Metric, counts []network.ListenerCounts) {
	threads, sum := 0, 0.0
	for i := range counts {
		for _, l := range counts[i].Loops {
			gauge(out, "kafka_network_processor_idlepercent_value", "Share of the last minute that a network thread was idle for, 0 to 1.", l.Idle, "networkprocessor", strconv.Itoa(int(l.Processor)))
			sum += l.Idle
			threads++
		}
	}
	if threads > 0 {
		gauge(out, "kafka_network_socketserver_networkprocessoravgidlepercent_value", "The same on average over all network threads.", sum/float64(threads))
	}
}

// kernelMetrics are the kernel's own counts, each series beside the one that says how far to trust
// it.
func (b *Broker) kernelMetrics(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := kernelMessages{source: b.kernel, names: b.listenerNames}.report(ctx)
	if err != nil {
		r = KernelReport{Mode: KernelModeOff, Exactness: KernelUnavailable, Why: err.Error()}
	}
	gauge(out, "brokerlab_kernel_info", "How the kernel counts; always 1.", 1, "mode", r.Mode, "exactness", r.Exactness, "why", r.Why)
	for i := range r.Ports {
		kernelPortMetrics(out, &r.Ports[i])
		if r.Mode == KernelModeFull {
			kernelServedMetrics(out, &r.Ports[i])
		}
	}
	if r.Mode == KernelModeFull {
		gauge(out, "brokerlab_kernel_group_served", "Sockets of all listeners that were sent payload and are not closing.", float64(r.Group.Served))
		gauge(out, "brokerlab_kernel_group_served_max", "The most there ever were of them at one instant.", float64(r.Group.ServedMax))
		gauge(out, "brokerlab_kernel_group_served_tls", "Those of them that speak TLS.", float64(r.Group.ServedTLS))
		gauge(out, "brokerlab_kernel_group_served_tls_max", "The most there ever were of those at one instant.", float64(r.Group.ServedTLSMax))
	}
	for cause, n := range r.Lost {
		counter(out, "brokerlab_kernel_lost_total", "Events that the kernel's counting missed, by cause.", float64(n), "cause", cause)
	}
}

func kernelPortMetrics(out chan<- prometheus.Metric, p *KernelPort) {
	l := []string{"listener", p.Listener, "port", strconv.Itoa(int(p.Port))}
	for _, k := range []struct {
		name string
		n    int64
	}{{"tls", p.TLS}, {"plaintext", p.Plaintext}, {"undecided", p.Undecided}, {"unknown", p.Unknown}} {
		gauge(out, "brokerlab_kernel_connections", "Established server sockets, by their first bytes.", float64(k.n), append(l, "protocol", k.name)...)
	}
	gauge(out, "brokerlab_kernel_established", "Established server sockets.", float64(p.Established), l...)
	counter(out, "brokerlab_kernel_opened_total", "Connections that were established since counting began.", float64(p.Opened), l...)
	counter(out, "brokerlab_kernel_closed_total", "Connections that ended since counting began.", float64(p.Closed), l...)
	gauge(out, "brokerlab_kernel_seeded", "Connections that were there when counting began.", float64(p.Seeded), l...)
	counter(out, "brokerlab_kernel_received_bytes_total", "Bytes from clients, ciphertext over TLS; the end of a stream counts as one.", float64(p.BytesIn), l...)
	counter(out, "brokerlab_kernel_sent_bytes_total", "Bytes that clients acknowledged, ciphertext over TLS; the end of a stream counts as one.", float64(p.BytesOut), l...)
	gauge(out, "brokerlab_kernel_accept_queue", "Established connections that wait to be accepted.", float64(p.AcceptQueue), l...)
	gauge(out, "brokerlab_kernel_closing", "Established connections that the broker has closed and TCP has not ended yet.", float64(p.Closing), l...)
	gauge(out, "brokerlab_kernel_accept_backlog", "The limit of the accept queue.", float64(p.Backlog), l...)
	counter(out, "brokerlab_kernel_accept_overflows_total", "Connections dropped because the accept queue was full.", float64(p.Overflows), l...)
}

// kernelServedMetrics are what only BPF programs see.
func kernelServedMetrics(out chan<- prometheus.Metric, p *KernelPort) {
	l := []string{"listener", p.Listener, "port", strconv.Itoa(int(p.Port))}
	gauge(out, "brokerlab_kernel_served", "Sockets that were sent payload and are not closing.", float64(p.Served), l...)
	gauge(out, "brokerlab_kernel_served_max", "The most there ever were of them at one instant.", float64(p.ServedMax), l...)
	gauge(out, "brokerlab_kernel_served_tls", "Those of them that speak TLS.", float64(p.ServedTLS), l...)
	gauge(out, "brokerlab_kernel_served_tls_max", "The most there ever were of those at one instant.", float64(p.ServedTLSMax), l...)
	counter(out, "brokerlab_kernel_served_total", "Sockets that were ever sent payload.", float64(p.ServedTotal), l...)
}
