package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// cluster is an open client that is asked again and again; the time of each call is bounded.
type cluster struct {
	kgo     *kgo.Client
	admin   *admin.Client
	timeout time.Duration
	own     *ownConnections

	controllers bool // only they are asked, and they know no topics
}

// loadClient reads the bootstrap servers and, unless file is empty, a client.properties, whose warnings go to stderr.
func loadClient(env Env, servers, file string) (seeds []string, config *admin.ClientConfig, err error) {
	if seeds, err = parseBootstrap(servers); err != nil {
		return nil, nil, err
	}
	if file == "" {
		config, err = admin.NewClientConfig(nil)
	} else {
		config, err = admin.LoadClientConfig(file)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, w := range config.Warnings {
		if _, err = fmt.Fprintf(env.Stderr, "brokerlab: %s: %s\n", file, w); err != nil {
			return nil, nil, err
		}
	}
	return seeds, config, nil
}

// open connects to the cluster that o names. A watch that it is for bounds what is waited for.
func (o *bootstrapOptions) open(env Env, watch ...*watching) (*cluster, error) {
	servers := o.servers
	if servers == "" && o.controllers != "" {
		servers = o.controllers
	}
	seeds, config, err := loadClient(env, servers, o.config)
	if err != nil {
		return nil, err
	}
	keys := protocol.DefaultKeys()
	if o.listKey != 0 {
		keys.ListClientConnections = o.listKey
	}
	own := &ownConnections{ports: map[int32]bool{}}
	options := []kgo.Opt{
		kgo.WithHooks(own),
		kgo.ClientID(softwareName), // unless the file has one
		kgo.SeedBrokers(seeds...),
		kgo.SoftwareNameAndVersion(softwareName, softwareVersion),
		kgo.RequestRetries(2),
		kgo.BrokerMaxReadBytes(longestAnswer),
		admin.Versions(keys),
	}
	options = append(options, config.Options...)
	for _, w := range watch {
		options = append(options, w.bounds(config.RequestTimeout)...)
	}
	cl, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return &cluster{cl, admin.New(cl, admin.WithKeys(keys)), config.CallTimeout, own, o.servers == "" && o.controllers != ""}, nil
}

// call bounds the time of f.
func (c *cluster) call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer within %v", c.timeout))
	defer cancel()
	err := f(ctx)
	if errors.Is(err, context.DeadlineExceeded) && nobody(err) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// ask sends req to whom it concerns, to a controller when only those were named, and bounds its time.
func ask[R kmsg.Response](ctx context.Context, c *cluster, req kmsg.Request) (R, error) {
	var answer R
	err := c.call(ctx, func(ctx context.Context) error {
		send := c.kgo.Request
		if c.controllers {
			send = c.kgo.SeedBrokers()[0].RetriableRequest
		}
		resp, err := send(ctx, req)
		if err != nil {
			return err
		}
		var ok bool
		if answer, ok = resp.(R); !ok {
			return fmt.Errorf("an answer of type %T", resp)
		}
		return nil
	})
	return answer, err
}
