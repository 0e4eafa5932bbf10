package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// cluster is an open client that is asked again and again; the time of each call is bounded.
type cluster struct {
	kgo     *kgo.Client
	admin   *admin.Client
	timeout time.Duration
}

// open connects to the cluster that o names.
func (o *bootstrapOptions) open(env Env) (*cluster, error) {
	seeds, err := parseBootstrap(o.servers)
	if err != nil {
		return nil, err
	}
	config, err := admin.NewClientConfig(nil)
	if o.config != "" {
		config, err = admin.LoadClientConfig(o.config)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range config.Warnings {
		if _, err = fmt.Fprintf(env.Stderr, "brokerlab: %s: %s\n", o.config, w); err != nil {
			return nil, err
		}
	}
	keys := protocol.DefaultKeys()
	if o.listKey != 0 {
		keys.ListClientConnections = o.listKey
	}
	options := []kgo.Opt{
		kgo.ClientID(softwareName), // unless the file has one
		kgo.SeedBrokers(seeds...),
		kgo.SoftwareNameAndVersion(softwareName, softwareVersion),
		kgo.RequestRetries(2),
		kgo.BrokerMaxReadBytes(longestAnswer),
		admin.Versions(keys),
	}
	cl, err := kgo.NewClient(append(options, config.Options...)...)
	if err != nil {
		return nil, err
	}
	return &cluster{cl, admin.New(cl, admin.WithKeys(keys)), config.CallTimeout}, nil
}

// call bounds the time of f.
func (c *cluster) call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v", c.timeout))
	defer cancel()
	err := f(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
