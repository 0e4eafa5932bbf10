package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// Kafka's defaults, for a [Config] that was not read from properties.
const (
	defaultHeartbeat    = 2 * time.Second
	defaultSession      = 9 * time.Second
	defaultStartTimeout = time.Minute
	// leavePatience is how long a broker that stops waits for the log to know it: the others find out by themselves.
	leavePatience = 3 * time.Second
)

// supported are the levels of metadata.version that the broker works at.
func (c *Config) supported() metadata.Levels {
	return metadata.Levels{Min: feature.Minimum, Max: cmp.Or(c.SupportedLevel, feature.Latest)}
}

// metadataLog is where the log is that the broker shares.
func (c *Config) metadataLog() *metadata.Remote {
	return &metadata.Remote{
		Servers: c.Metadata.Servers, Topic: cmp.Or(c.MetadataTopic, DefaultMetadataTopic), Client: c.Metadata.Client.Options,
	}
}

// reachEngine opens the data plane that is by address, and returns the id of its cluster.
func (b *Broker) reachEngine(ctx context.Context) (cluster string, err error) {
	client := b.cfg.Engine.Client
	b.engine, err = engine.Open(ctx, engine.Options{
		NodeID: b.cfg.NodeID, Log: b.log,
		Remote: &engine.Remote{
			Seeds: b.cfg.Engine.Servers, Dial: dialer(client.Security.TLS), SASL: client.SASL,
			Hidden: b.cfg.hides, Changed: b.engineChanged,
		},
	})
	if err != nil {
		return "", fmt.Errorf("open topics: %w", err)
	}
	cluster = b.engine.ClusterID()
	if id := b.cfg.ClusterID; id != "" && id != cluster {
		return "", fmt.Errorf("cluster.id is %s, but the cluster at %s=%v is %s", id, engineServers, b.cfg.Engine.Servers, cluster)
	}
	if session := cmp.Or(b.cfg.Session, defaultSession); b.engine.Kafka() && b.cfg.Metadata == b.cfg.Engine && session <= defaultSession {
		b.log.WarnContext(ctx, "the session is no longer than Apache Kafka may take to elect another leader for the metadata log: "+
			"when one of its brokers dies, this one may be fenced for a moment; 30000 is enough",
			slog.Int64(sessionKey, session.Milliseconds()))
	}
	return cluster, nil
}

// dialer makes connections over TLS; nil where config is.
func dialer(config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	if config == nil {
		return nil
	}
	d := &tls.Dialer{Config: config}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if _, foreign := errors.AsType[x509.UnknownAuthorityError](err); foreign {
			return nil, fmt.Errorf("%w: engine.ssl.truststore.location has to hold its CA", err)
		}
		if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil, fmt.Errorf("TLS handshake: %w (does it speak TLS there? engine.security.protocol says so)", err)
		}
		return conn, err
	}
}

// engineChanged is told that the engine offers other versions.
func (b *Broker) engineChanged() {
	if s := b.handler.handler.Load(); s != nil {
		s.Renew()
		b.log.Info("the engine offers other versions of requests than before: so does this broker")
	}
}

// imageChanged is told of each new image of the metadata.
func (b *Broker) imageChanged(*metadata.Image) {
	if s := b.handler.handler.Load(); s != nil {
		s.Changed()
	}
}

// registration is the broker as the others, and their clients, are to know it.
func (b *Broker) registration() metadata.Broker {
	levels := b.cfg.supported()
	r := metadata.Broker{ID: b.cfg.NodeID, Incarnation: b.incarnation, Rack: b.cfg.Rack, MinLevel: levels.Min, MaxLevel: levels.Max}
	for _, l := range *b.listeners.Load() {
		r.Listeners = append(r.Listeners, metadata.BrokerListener{
			Name: l.Name, Protocol: string(l.Protocol), Host: l.advertised.Host, Port: l.advertised.Port,
		})
	}
	return r
}

// join makes the broker one of its cluster, before it serves anybody. It returns nil when ctx ends, or the broker is stopped.
func (b *Broker) join(ctx context.Context) error {
	if b.cfg.Metadata == nil {
		return nil
	}
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, cmp.Or(b.cfg.StartTimeout, defaultStartTimeout))
	defer cancel()
	go func() {
		select {
		case <-b.stop:
			cancel()
		case <-waiting.Done():
		}
	}()
	err := b.meta.Join(waiting, b.registration(), metadata.JoinOptions{
		Heartbeat: cmp.Or(b.cfg.Heartbeat, defaultHeartbeat), Session: cmp.Or(b.cfg.Session, defaultSession),
	})
	select {
	case <-ctx.Done():
		return nil
	case <-b.stop:
		return nil
	default:
	}
	if err != nil {
		return err
	}
	b.joined.Store(true)
	b.log.InfoContext(ctx, "joined the cluster", slog.Int("brokers", len(b.meta.Image().Brokers())), slog.Duration("took", time.Since(began)))
	return nil
}

// reregister tells the others of listeners that are others now.
func (b *Broker) reregister() {
	if !b.joined.Load() {
		return
	}
	r := b.registration()
	if now, ok := b.meta.Image().Broker(r.ID); ok && slices.Equal(now.Listeners, r.Listeners) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(b.cfg.Session, defaultSession))
	defer cancel()
	if err := b.meta.Reregister(ctx, r); err != nil {
		b.log.Error("the cluster does not know of this broker's listeners yet", slog.Any("error", err))
	}
}

// leave tells the others that the broker stops, so that they lead nobody to it.
func (b *Broker) leave(ctx context.Context) {
	if !b.joined.Load() {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, leavePatience)
	defer cancel()
	if err := b.meta.Leave(waiting); err != nil {
		b.log.Warn("the cluster does not know yet that this broker stops", slog.Any("error", err))
	}
}

// refuses tells whether a listener takes no new connections because the broker is fenced. That of other brokers goes on, while
// there are others, as it does beyond limits of the broker: whoever looks after the broker comes in there.
func (b *Broker) refuses(listener string) bool {
	return b.meta.Fenced() && (listener != b.cfg.protected() || len(*b.listeners.Load()) == 1)
}

// clusterMetrics tell how the broker is with its cluster.
func (b *Broker) clusterMetrics(out chan<- prometheus.Metric) {
	s := b.meta.Status()
	fenced, connected := 0.0, 0.0
	if s.Fenced {
		fenced = 1
	}
	if s.Connected {
		connected = 1
	}
	gauge(out, "brokerlab_fenced", "1 while the broker is fenced from its cluster, and takes no new clients.", fenced)
	gauge(out, "brokerlab_metadata_log_connected", "1 while the metadata log answers.", connected)
	gauge(out, "brokerlab_metadata_log_offset", "The next entry of the metadata log that the broker is to apply.", float64(s.Offset))
	gauge(out, "brokerlab_metadata_log_lag", "Entries that the metadata log was seen to have and that are not applied.", float64(max(s.End-s.Offset, 0)))
}
