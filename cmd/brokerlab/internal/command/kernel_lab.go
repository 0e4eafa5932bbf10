//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernelsource"
	"github.com/brokerlab/brokerlab/netlab"
)

// beginLab counts on the brokers of a lab by asking its owner, who has counted since before they started. The brokers are
// not asked: they may be Apache Kafka's, or not run.
func (o *kernelOptions) beginLab() (*counting, error) {
	if err := netlab.Privileges(); err != nil {
		return nil, err
	}
	lab, err := openLab(o.lab)
	if err != nil {
		return nil, err
	}
	var all labCounting
	for _, n := range lab.Nodes() {
		if !n.Serves() || len(o.nodes) > 0 && !slices.Contains(o.nodes, n.Name) {
			continue
		}
		client, err := watchNode(lab, n)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("node %s: %w", n.Name, err), all.close())
		}
		all = append(all, nodeCounting{n, client})
	}
	for _, name := range o.nodes {
		if slices.ContainsFunc(all, func(c nodeCounting) bool { return c.node.Name == name }) {
			continue
		}
		err := fmt.Errorf("node %s of lab %s is no broker: brokerlab lab exec %s %s -- brokerlab kernel show --port PORT counts there", name, lab.Name(), lab.Name(), name)
		if _, unknown := lab.Node(name); unknown != nil {
			err = unknown
		}
		return nil, errors.Join(err, all.close())
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("lab %s has no broker", lab.Name())
	}
	return &counting{all.ask, all.close}, nil
}

// watchNode asks a lab's owner for the counts of a node.
func watchNode(lab *netlab.Lab, n *netlab.Node) (*kernelsource.Client, error) {
	ns, err := n.Netns()
	if err != nil {
		return nil, err
	}
	return watchThere(lab.KernelSocket(), ns.Path(), n.Ports)
}

// watchThere asks for the counts of ports in the network namespace that is bound at path.
func watchThere(socket, path string, ports []uint16) (*kernelsource.Client, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()                             //nolint:errcheck // the client has its own
	client, err := kernelsource.Dial(socket, file) // it bounds itself
	if err != nil {
		return nil, err
	}
	if err := client.Watch(ports); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// nodeCounting is a node and whoever knows its counts.
type nodeCounting struct {
	node   *netlab.Node
	client *kernelsource.Client
}

// labCounting is all nodes of a lab that are asked about.
type labCounting []nodeCounting

func (l labCounting) ask(ctx context.Context) ([]kernelCounts, error) {
	var counts []kernelCounts
	var failed error
	for _, c := range l {
		report, err := c.client.Report(ctx)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("node %s: %w", c.node.Name, err))
			continue
		}
		nameListeners(&report, c.node)
		counts = append(counts, kernelCounts{Time: time.Now(), Name: c.node.Name, Report: report})
	}
	return counts, failed
}

// nameListeners says which listener has which port: the kernel does not know.
func nameListeners(r *broker.KernelReport, n *netlab.Node) {
	for i := range r.Ports {
		for _, l := range n.AllListeners() {
			if l.Port == r.Ports[i].Port {
				r.Ports[i].Listener = l.Name
			}
		}
	}
}

func (l labCounting) close() error {
	var err error
	for _, c := range l {
		err = errors.Join(err, c.client.Close())
	}
	return err
}
