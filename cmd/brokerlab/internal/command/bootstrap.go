package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
)

// How the commands introduce themselves to brokers (KIP-511).
const (
	softwareName    = "brokerlab"
	softwareVersion = "0.1.0"
)

// longestAnswer is what a broker's answer may take: KIP-1329's list has no pages, and 250 bytes a connection are usual.
const longestAnswer = 1 << 30

// bootstrapOptions are the flags of every command that asks a cluster.
type bootstrapOptions struct {
	servers     string
	controllers string // instead of servers, where a command takes them
	config      string
	listKey     int16 // API key of ListClientConnections; 0 is the usual one
}

// addBootstrap gives c the flags --bootstrap-server, which is required, and --command-config.
func addBootstrap(c *cobra.Command, o *bootstrapOptions) {
	f := c.Flags()
	f.StringVar(&o.servers, "bootstrap-server", "", "`host:port` of one or more brokers, separated by commas; IPv6 in brackets")
	f.StringVar(&o.config, "command-config", "", "a client.properties `file`: how to authenticate and encrypt")
	if err := c.MarkFlagRequired("bootstrap-server"); err != nil {
		panic(err) // the flag was added two lines above
	}
}

// withCluster calls f with a client of the cluster, whose calls end when the time of a call is over. What the properties
// file says in vain goes to standard error.
func (o *bootstrapOptions) withCluster(ctx context.Context, env Env, f func(context.Context, *admin.Client) error) error {
	cl, err := o.open(env)
	if err != nil {
		return err
	}
	defer cl.kgo.Close()
	if isTerminal(env.Stderr) {
		waiting := time.AfterFunc(quiet, func() {
			_, _ = fmt.Fprintf(env.Stderr, "waiting for %s, at most %v\n", o.servers, cl.timeout)
		})
		defer waiting.Stop()
	}
	err = cl.call(ctx, func(ctx context.Context) error { return f(ctx, cl.admin) })
	closed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
	if o.config == "" && nobody(err) && closed {
		return fmt.Errorf("%w: does the listener want TLS or SASL (--command-config takes a client.properties file), "+
			"has this address reached max.connections.per.ip, or is the broker cut off from its cluster (its log says so)?", err)
	}
	return err
}

// parseBootstrap splits a list of host:port as Kafka's tools take it.
func parseBootstrap(list string) ([]string, error) {
	var seeds []string
	var problems []error
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		host, port, err := net.SplitHostPort(part)
		if err != nil || host == "" {
			problems = append(problems, fmt.Errorf("--bootstrap-server: %q is not host:port (an IPv6 address stands in brackets: [::1]:9092)", part))
			continue
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			problems = append(problems, fmt.Errorf("--bootstrap-server: %q has no port between 1 and 65535", part))
			continue
		}
		seeds = append(seeds, part)
	}
	if len(seeds) == 0 && len(problems) == 0 {
		problems = append(problems, errors.New("--bootstrap-server: no server is given"))
	}
	return seeds, errors.Join(problems...)
}
