//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/internal/kernelsource"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// newLabOwner is the process behind each lab. Nobody calls it but lab up.
func newLabOwner(env Env) *cobra.Command {
	return &cobra.Command{
		Use:    "owner FOLDER",
		Short:  "Be the owner of a lab that lab up prepared",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			log := slog.New(slog.NewTextHandler(env.Stderr, nil))
			owner := netlab.Owner{Kernel: countForLab, Log: log}
			return owner.Run(c.Context(), args[0])
		},
	}
}

// countForLab counts in the kernel for the brokers of a lab.
func countForLab(ctx context.Context, r netlab.KernelRequest) (mode string, stop func() error, err error) {
	l, ok := r.Listener.(*net.UnixListener)
	if !ok {
		return "", nil, fmt.Errorf("the lab's socket is a %T, not a Unix socket", r.Listener)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		served := kernelsource.Serve(ctx, l, kernelsource.Options{Log: r.Log})
		if served != nil {
			r.Log.Error("count in the kernel", slog.Any("error", served))
			_ = l.Close() // nobody waits for an answer that will not come
		}
		ended <- served
	}()
	stop = func() error {
		cancel()
		return <-ended
	}
	client, err := kernelsource.Dial(l.Addr().String(), nil) //nolint:contextcheck // it connects to this process, which listens
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	report, err := client.Report(ctx)
	if err = errors.Join(err, client.Close()); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	ports, err := watchOthers(l.Addr().String(), r.Nodes) //nolint:contextcheck // as above
	if err != nil {
		return "", nil, errors.Join(err, stop())
	}
	end := stop
	stop = func() error { return errors.Join(ports.close(), end()) }
	mode = report.Mode
	if report.Why != "" {
		mode += ": " + report.Why
	}
	return mode, stop, nil
}

// watched are the counts that nobody but the lab asks for.
type watched []*kernelsource.Client

// watchOthers has the ports of those brokers counted that do not ask for it themselves: Apache Kafka's.
func watchOthers(socket string, nodes []netlab.KernelNode) (watched, error) {
	var all watched
	for i := range nodes {
		n := &nodes[i]
		if n.Kind == topology.Broker {
			continue
		}
		client, err := watchThere(socket, n.Netns.Path(), n.Ports)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("node %s: %w", n.Name, err), all.close())
		}
		all = append(all, client)
	}
	return all, nil
}

func (w watched) close() error {
	var err error
	for _, client := range w {
		err = errors.Join(err, client.Close())
	}
	return err
}
