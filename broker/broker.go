package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/api"
	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/keystore"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/broker/quota"
)

// shutdownPatience is how long [Broker.Serve] waits for its parts after its context has ended.
const shutdownPatience = 10 * time.Second

// Broker is a Kafka broker. [New] takes all that it needs, [Broker.Serve] serves, and
// [Broker.Shutdown] gives everything back. Its methods are safe for concurrent use.
type Broker struct {
	cfg     *Config
	log     *slog.Logger
	kernel  KernelSource // nil: nobody counts
	created time.Time

	openKernel func() (KernelSource, error) // nil: kernel is what there is
	start      context.Context              //nolint:containedctx // an option of New, and of it alone

	quota     *quota.Connections
	overrides overrides

	dir     *dataDir // nil without log.dirs
	meta    *metadata.Store
	engine  *engine.Engine
	network *network.Server
	policy  configpush.Policy // nil without client.config.policy.class.name
	api     *api.Server
	handler late
	metrics *metricsServer // nil without metrics.listener

	incarnation string                           // of this start, where brokers register
	joined      atomic.Bool                      // it is registered, or was
	listeners   atomic.Pointer[[]*boundListener] // replaced as a whole by alterations
	sasl        *sasl.Server
	serving     atomic.Bool
	ready       chan struct{}
	stop        chan struct{}
	stopping    sync.Once
	stopped     chan struct{}
	closeErr    error // written before stopped is closed
}

// boundListener is a listener with its socket's address. It is not changed once it is in Broker.listeners: an
// alteration makes another, which shares the TLS configuration of the moment.
type boundListener struct {
	*ListenerConfig
	bound      netip.AddrPort
	advertised api.Endpoint
	tls        *atomic.Pointer[tls.Config]
	nextTLS    *tls.Config // what tls is to be from the commit on
}

// Option changes how a broker is made.
type Option func(*Broker)

// WithKernel lets src count the broker's sockets. The broker closes it.
func WithKernel(src KernelSource) Option { return func(b *Broker) { b.kernel = src } }

// WithKernelFrom is [WithKernel] for a source that takes its time: open runs while the broker opens
// its data, and an error of it is one of [New].
func WithKernelFrom(open func() (KernelSource, error)) Option {
	return func(b *Broker) { b.openKernel = open }
}

// WithStart lets [New] give up waiting for what is elsewhere when ctx ends.
func WithStart(ctx context.Context) Option { return func(b *Broker) { b.start = ctx } }

// WithLog gives the broker its log; without it a broker is silent.
func WithLog(log *slog.Logger) Option { return func(b *Broker) { b.log = log } }

// New makes a broker: it locks and reads the data directory and binds every listener, but serves
// nobody before [Broker.Serve]. After an error nothing is left: no socket, no lock, no goroutine.
func New(cfg *Config, opts ...Option) (*Broker, error) {
	b := &Broker{
		cfg: cfg, log: slog.New(slog.DiscardHandler), created: time.Now(), incarnation: randomUUID(), start: context.Background(),
		ready: make(chan struct{}), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	for _, o := range opts {
		o(b)
	}
	if err := b.open(); err != nil {
		return nil, errors.Join(err, b.close(context.Background()))
	}
	return b, nil
}

// open takes everything, in the order in which close gives it back last to first.
func (b *Broker) open() error {
	for _, w := range b.cfg.Warnings {
		b.log.Warn("configuration", slog.String("warning", w))
	}
	if len(b.cfg.Ignored) > 0 {
		b.log.Info("properties of Kafka that have no use here", slog.String("properties", strings.Join(b.cfg.Ignored, ", ")))
	}
	b.overrides = overrides{b.cfg.Properties[dynamicconfig.PerIPOverrides], b.cfg.PerIPOverrides}
	b.quota = quota.New(b.cfg.Window, b.cfg.quotas(b.cfg.Properties, nil, b.overrides))
	ctx, cancel := context.WithTimeout(b.start, cmp.Or(b.cfg.StartTimeout, defaultStartTimeout))
	defer cancel()
	var opening sync.WaitGroup
	var kernelErr error
	if b.openKernel != nil {
		opening.Go(func() {
			if b.kernel, kernelErr = b.openKernel(); kernelErr != nil {
				b.kernel = nil // not a nil pointer in an interface
			}
		})
	}
	cluster, err := b.openStores(ctx)
	opening.Wait()
	if failed := errors.Join(err, kernelErr); failed != nil {
		return failed
	}
	return b.openListeners(ctx, cluster)
}

// openDir locks the data directory and returns the cluster's id, which is known where somebody else has given it.
func (b *Broker) openDir(known string) (cluster string, err error) {
	if len(b.cfg.LogDirs) == 0 {
		switch {
		case b.cfg.Engine == nil:
			b.log.Info("no log.dirs: topics, records and metadata are gone when the broker stops")
		case b.cfg.Metadata == nil:
			b.log.Info("no log.dirs and no metadata log by address: ACLs, users, configs and quotas are gone when the broker stops")
		}
		return cmp.Or(known, randomUUID()), nil
	}
	if len(b.cfg.LogDirs) > 1 {
		b.log.Warn("only the first of log.dirs is used", slog.Any("log_dirs", b.cfg.LogDirs))
	}
	b.dir, err = openDataDir(b.cfg.LogDirs[0], known, b.cfg.NodeID)
	if err != nil {
		return "", err
	}
	return b.dir.cluster, nil
}

// openStores opens the data plane and the metadata, and returns the cluster's id. A data plane by address comes first: it says
// which cluster this is.
func (b *Broker) openStores(ctx context.Context) (cluster string, err error) {
	if b.cfg.Engine != nil {
		if cluster, err = b.reachEngine(ctx); err != nil {
			return "", err
		}
		if cluster, err = b.openDir(cluster); err != nil {
			return "", err
		}
		return cluster, b.openMetadata(ctx, cluster)
	}
	if cluster, err = b.openDir(b.cfg.ClusterID); err != nil {
		return "", err
	}
	if failed := b.openMetadata(ctx, cluster); failed != nil {
		return "", failed
	}
	b.engine, err = engine.Open(ctx, engine.Options{
		Dir: b.dir.sub("data"), NodeID: b.cfg.NodeID, ClusterID: cluster, SyncWrites: b.cfg.SyncWrites,
		DefaultPartitions: int(b.cfg.NumPartitions), BrokerConfigs: b.engineConfigs(), Log: b.log,
	})
	if err != nil {
		return "", fmt.Errorf("open topics: %w", err)
	}
	return cluster, nil
}

// openMetadata opens the metadata log, wherever it is.
func (b *Broker) openMetadata(ctx context.Context, cluster string) error {
	level, err := newClusterLevel(b.cfg.MetadataVersion)
	if err != nil {
		return err
	}
	o := metadata.Options{
		NodeID: b.cfg.NodeID, ClusterID: cluster, Log: b.log, Supported: b.cfg.supported(),
		Bootstrap:     api.Bootstrap(level, dynamicconfig.Values(b.cfg.Properties).Get("min.insync.replicas")),
		QuotasChanged: b.setIPRates, Changed: b.imageChanged,
	}
	if b.cfg.Metadata == nil {
		o.Dir = b.dir.sub("metadata")
	} else {
		o.Remote = b.cfg.metadataLog()
	}
	if b.meta, err = metadata.Open(ctx, o); err != nil {
		return fmt.Errorf("open metadata: %w", err)
	}
	return nil
}

// newClusterLevel is the level of a new cluster by name; without one it is what Kafka 4.4 gives.
func newClusterLevel(name string) (int16, error) {
	if name == "" {
		return feature.Latest, nil
	}
	return feature.Parse(name)
}

// engineConfigs are the properties that the data plane obeys.
func (b *Broker) engineConfigs() map[string]string {
	obeyed := map[string]string{}
	for _, name := range engine.Obeys() {
		if v, ok := b.cfg.Properties[name]; ok {
			obeyed[name] = v
		}
	}
	return obeyed
}

// openListeners binds every listener and makes what serves them.
func (b *Broker) openListeners(ctx context.Context, cluster string) error {
	b.network = network.New(network.Options{
		NodeID: b.cfg.NodeID, Handler: &b.handler, Log: b.log, Subject: keystore.DistinguishedName,
		BeforeListen: b.watch, Limits: b.quota, Fenced: b.refuses,
	})
	b.listeners.Store(&[]*boundListener{})
	keys := protocol.DefaultKeys()
	if b.cfg.ListClientConnectionsKey != 0 {
		keys.ListClientConnections = b.cfg.ListClientConnectionsKey
	}
	if b.cfg.PushConfigKey != 0 {
		keys.PushConfig = b.cfg.PushConfigKey
	}
	if err := api.CheckKeys(keys); err != nil {
		return err
	}
	var err error
	if b.policy, err = b.openPolicy(); err != nil {
		return err
	}
	b.sasl = b.authenticator()
	options := api.Options{
		NodeID: b.cfg.NodeID, ClusterID: cluster, Rack: b.cfg.Rack,
		Engine: b.engine, Metadata: b.meta, SASL: b.sasl, Hidden: b.cfg.hides, SupportedLevel: b.cfg.SupportedLevel,
		Connections: b.network.Connections, Closed: b.network.ClosedConnections, Counts: b.network.Counts, AcceptQueue: b.network.AcceptQueue, Limits: b.quota, Unsent: b.network.Unsent, Log: b.log,
		ConfigPolicy: b.policy, ConfigPolicyTimeout: b.cfg.ConfigPolicyTimeout,
		Workers: b.cfg.NumIOThreads, Queued: b.cfg.QueuedRequests, FailedAuthDelay: b.cfg.FailedAuthDelay,
		AutoCreateTopics: b.cfg.AutoCreateTopics, NumPartitions: b.cfg.NumPartitions, Replication: b.cfg.DefaultReplicationFactor,
		OwnAPIs: b.cfg.APIsEnabled, Keys: keys,
		Properties: api.Properties{Static: b.cfg.Properties, InterBroker: b.cfg.InterBrokerListener, Fixed: own, Prepare: b.prepare},
	}
	if b.cfg.Authorizer != "" {
		options.Authorizer = b.authorizer()
		options.AuthorizerLog = b.log.With(slog.String("logger", "kafka.authorizer.logger"))
	}
	if b.kernel != nil {
		options.Kernel = kernelMessages{source: b.kernel, names: b.listenerNames}
	}
	b.api = api.New(ctx, options)
	b.handler.handler.Store(b.api)
	b.observe()
	if unbound := b.listenAll(); unbound != nil { //nolint:contextcheck // binding waits for nothing
		return unbound
	}
	if b.cfg.MetricsListener == "" {
		return nil
	}
	b.metrics, err = listenMetrics(ctx, b.cfg.MetricsListener, b)
	return err
}

// authorizer decides by the rules of the metadata. It says which of them were made before ranges meant anything: they do now.
func (b *Broker) authorizer() *acl.Authorizer {
	a := &acl.Authorizer{Index: b.meta.ACLs(), AllowEveryone: b.cfg.AllowEveryone, SuperUsers: map[string]struct{}{}}
	for _, user := range b.cfg.SuperUsers {
		a.SuperUsers[user] = struct{}{}
	}
	level := b.meta.Image().Feature(feature.MetadataVersion)
	if level >= feature.CIDR {
		return a
	}
	const most = 20
	slashes := 0
	for rule := range a.Index.All() {
		if !acl.IsCIDR(rule.Host) {
			continue
		}
		slashes++
		if slashes <= most {
			b.log.Warn("the host of an ACL from before metadata.version 4.4-IV1 has a slash: it matched nobody then, and is a range now",
				slog.String("acl", rule.String()), slog.String("metadata_version", feature.Name(level)))
		}
	}
	if slashes > most {
		b.log.Warn("more such ACLs", slog.Int("acls", slashes-most))
	}
	return a
}

// listenAll binds the listeners of the properties file and puts the dynamic configs of an earlier run to work.
func (b *Broker) listenAll() error {
	at := &reconfiguration{broker: b}
	for i := range b.cfg.Listeners {
		if err := at.add(b.cfg.Listeners[i]); err != nil {
			at.discard()
			return err
		}
	}
	at.limit(api.Alteration{}, b.cfg.Properties)
	at.values = b.cfg.Properties
	at.commit()()
	b.api.Start()
	return nil
}

// watch has the kernel count a port before anyone can connect to it.
func (b *Broker) watch(port int) error {
	if b.kernel == nil {
		return nil
	}
	return b.kernel.Watch([]uint16{uint16(port)})
}

// advertised is where clients of a listener are sent.
func (b *Broker) advertised(ctx context.Context, l *boundListener) (host string, port int32) {
	host, port = l.AdvertisedHost, int32(l.AdvertisedPort)
	if port == 0 {
		port = int32(l.bound.Port())
	}
	if host == "" {
		host = l.Host
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = b.hostName(ctx)
	}
	return host, port
}

// hostName is the machine's name, if it leads anywhere.
func (b *Broker) hostName(ctx context.Context) string {
	const patience = 100 * time.Millisecond
	name, err := os.Hostname()
	if err == nil {
		lookup, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if _, err = resolver().LookupHost(lookup, name); err == nil {
			return name
		}
	}
	b.log.Warn("the machine's name does not resolve: advertising localhost; set advertised.listeners", slog.String("host", name), slog.Any("error", err))
	return "localhost"
}

// authenticator knows the SCRAM users; what listeners offer is told it by [Broker.publish].
func (b *Broker) authenticator() *sasl.Server {
	return sasl.NewServer(sasl.Options{Scram: func(mechanism, user string) (salt, storedKey, serverKey []byte, iterations int, ok bool) {
		c, ok := b.meta.Image().Scram(user, mechanism)
		return c.Salt, c.StoredKey, c.ServerKey, int(c.Iterations), ok
	}})
}

// Addr is where a listener is bound; the zero value for a name that is none.
func (b *Broker) Addr(listener string) netip.AddrPort {
	for _, l := range *b.listeners.Load() {
		if l.Name == listener {
			return l.bound
		}
	}
	return netip.AddrPort{}
}

// MetricsAddr is where metrics.listener is bound; the zero value without one.
func (b *Broker) MetricsAddr() netip.AddrPort {
	if b.metrics == nil {
		return netip.AddrPort{}
	}
	return b.metrics.bound
}

// Ready is closed once clients are served.
func (b *Broker) Ready() <-chan struct{} { return b.ready }

// Serve serves clients until ctx ends or [Broker.Shutdown] is called, and returns when everything is
// given back. It is called once. An error means that the broker could not go on, or not stop
// cleanly.
func (b *Broker) Serve(ctx context.Context) error {
	b.serving.Store(true)
	if err := b.join(ctx); err != nil || ctx.Err() != nil {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
		defer cancel()
		return errors.Join(err, b.shutdown(patience))
	}
	b.network.Start() //nolint:contextcheck // Shutdown ends it, not a context
	if b.metrics != nil {
		b.metrics.start()
	}
	names := make([]string, 0, len(*b.listeners.Load()))
	for _, l := range *b.listeners.Load() {
		names = append(names, fmt.Sprintf("%s://%s", l.Name, l.bound))
	}
	b.log.InfoContext(ctx, "started", slog.Int("node_id", int(b.cfg.NodeID)), slog.String("cluster_id", b.api.ClusterID()),
		slog.String("listeners", strings.Join(names, ",")), slog.Duration("took", time.Since(b.created)))
	var watching sync.WaitGroup
	defer watching.Wait()
	if b.cfg.StoreWatch > 0 {
		seen := b.seenStores()
		watching.Go(func() { b.watchStores(seen) })
	}
	close(b.ready)

	var failed error
	select {
	case <-ctx.Done():
		b.log.InfoContext(ctx, "shutting down")
	case <-b.stop:
		b.log.InfoContext(ctx, "shutting down")
	case <-b.meta.Failed():
		failed = fmt.Errorf("metadata: %w", b.meta.Err())
		b.log.ErrorContext(ctx, "shutting down: the metadata log cannot be followed", slog.Any("error", failed))
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
	defer cancel()
	return errors.Join(failed, b.shutdown(patience))
}

// Shutdown closes every connection with reason shutdown and gives everything back; what clients were
// told is done is kept. It returns when that is over, or with ctx's error before. A broker that never
// served is shut down too.
func (b *Broker) Shutdown(ctx context.Context) error { return b.shutdown(ctx) }

func (b *Broker) shutdown(ctx context.Context) error {
	b.stopping.Do(func() {
		close(b.stop)
		go func() {
			b.closeErr = b.close(context.WithoutCancel(ctx))
			b.log.Info("shut down completed")
			close(b.stopped)
		}()
	})
	select {
	case <-b.stopped:
		return b.closeErr
	case <-ctx.Done():
		return fmt.Errorf("shut down: %w", ctx.Err())
	}
}

// close gives back whatever open has taken so far, last to first.
func (b *Broker) close(ctx context.Context) error {
	var errs []error
	if b.metrics != nil {
		errs = append(errs, b.metrics.close(ctx))
	}
	b.leave(ctx)
	if b.network != nil {
		errs = append(errs, b.network.Shutdown(ctx))
	}
	if b.api != nil {
		b.api.Close()
	}
	errs = append(errs, b.closePolicy())
	if b.engine != nil {
		errs = append(errs, b.engine.Close())
	}
	if b.meta != nil {
		errs = append(errs, b.meta.Close())
	}
	if b.kernel != nil {
		errs = append(errs, b.kernel.Close())
	}
	errs = append(errs, b.dir.release())
	return errors.Join(errs...)
}

func (b *Broker) listenerNames() map[uint16]string {
	names := map[uint16]string{}
	for _, l := range *b.listeners.Load() {
		names[l.bound.Port()] = l.Name
	}
	return names
}
