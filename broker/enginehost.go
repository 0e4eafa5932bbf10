package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"

	"github.com/brokerlab/brokerlab/broker/internal/api"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// EngineConfig says what [ServeEngine] serves.
type EngineConfig struct {
	// Nodes is how many brokers it is for: those with node.id 1, 2 …
	Nodes int
	// Listen is host:port for engine.bootstrap.servers; the nodes have the ports after it. With port 0 all have any.
	Listen string
	// Metadata is host:port for metadata.bootstrap.servers; empty: the engine's own nodes hold the metadata log, which
	// is then as durable as records are.
	Metadata string
	// Advertised is the host that brokers are told to connect to; that of the addresses when empty.
	Advertised string
	// Dir keeps everything; empty keeps it in memory.
	Dir string
	// ClusterID is the id of a new cluster; empty makes one up. A Dir that belongs to another cluster is an error.
	ClusterID string
	// Properties are the broker properties that the data plane obeys; others are an error. With log.flush.interval.messages=1 records
	// survive the end of the machine, as in a broker of its own.
	Properties map[string]string
	// Ready is told the addresses in use once brokers are served; metadata is empty without one of its own.
	Ready func(bootstrap, metadata string)
	// Log gets its lines; nil drops them.
	Log *slog.Logger
}

// ServeEngine serves the data plane of several brokers, and their metadata log, as a process of their own: what
// engine.bootstrap.servers and metadata.bootstrap.servers lead to. It returns once ctx has ended and everything is saved.
// Whoever reaches its ports may do anything.
func ServeEngine(ctx context.Context, cfg EngineConfig) (err error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	properties, durable, err := flushed(cfg.Properties)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	cluster := cfg.ClusterID
	var dir *dataDir
	if cfg.Dir != "" {
		const nobody = 0 // no broker has this directory
		if dir, err = openDataDir(cfg.Dir, cluster, nobody); err != nil {
			return err
		}
		cluster = dir.cluster
	} else if cluster == "" {
		cluster = randomUUID()
	}
	defer func() { err = errors.Join(err, dir.release()) }()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var hosts []*engine.Host
	served := make(chan error, 2)
	serve := func(what string, o engine.HostOptions) (string, error) {
		o.ClusterID, o.Advertised, o.Log, o.Refuse = cluster, cfg.Advertised, cfg.Log, api.ErrorResponse
		h, failed := engine.Listen(ctx, o)
		if failed != nil {
			return "", fmt.Errorf("%s: %w", what, failed)
		}
		hosts = append(hosts, h)
		go func() { served <- h.Serve() }()
		return h.Addr(), nil
	}
	metadata := ""
	if cfg.Metadata != "" {
		metadata, err = serve("metadata log", engine.HostOptions{
			Nodes: 1, Alone: true, Listen: cfg.Metadata, Options: engine.Options{Dir: dir.sub("metadata"), SyncWrites: true},
		})
	}
	bootstrap := ""
	if err == nil {
		bootstrap, err = serve("engine", engine.HostOptions{
			Nodes: cfg.Nodes, Listen: cfg.Listen, Options: engine.Options{Dir: dir.sub("data"), BrokerConfigs: properties, SyncWrites: durable},
		})
	}
	if err == nil {
		cfg.Log.Info("started", slog.String("cluster_id", cluster), slog.Int("nodes", cfg.Nodes), slog.String("engine", bootstrap), slog.String("metadata", metadata))
		if cfg.Ready != nil {
			cfg.Ready(bootstrap, metadata)
		}
		select {
		case <-ctx.Done():
		case err = <-served:
		}
	}
	for _, h := range hosts {
		err = errors.Join(err, h.Close())
	}
	cfg.Log.Info("stopped", slog.String("cluster_id", cluster))
	return err
}

// flushed takes log.flush.interval.messages, which is not a topic's in the data plane, out of properties, and tells whether it asks for each
// batch to be durable before it is acknowledged: 1 does, more leave that to the kernel.
func flushed(properties map[string]string) (rest map[string]string, durable bool, err error) {
	const name = "log.flush.interval.messages"
	text, ok := properties[name]
	if !ok {
		return properties, false, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return nil, false, fmt.Errorf("%s=%s: want 1, or a higher number", name, text)
	}
	rest = maps.Clone(properties)
	delete(rest, name)
	return rest, n == 1, nil
}
