//go:build linux

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/connbench"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// benchTarget are the flags that say what to load and from where.
type benchTarget struct {
	bootstrapOptions

	pids     []int
	sources  []string
	lab      string
	node     string
	listener string
	user     string
	subnets  []string
}

func (o *benchTarget) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.servers, "bootstrap-server", "", "`host:port` of the brokers to load, separated by commas; IPv6 in brackets")
	f.StringVar(&o.config, "command-config", "", "a client.properties `file`: how to authenticate and encrypt")
	f.IntSliceVar(&o.pids, "pid", nil, "`process` of the target on this machine, for its memory and processor time; one for each server")
	f.Lookup("pid").DefValue = ""
	f.StringSliceVar(&o.sources, "source", nil, "`prefixes` of this machine's addresses to connect from (127.1.0.0/24 for a target on 127.0.0.1)")
	f.Lookup("source").DefValue = ""
	f.StringVar(&o.lab, "lab", "", "load a node of this `lab` (name or file), which is up, instead of --bootstrap-server")
	f.StringVar(&o.node, "node", "", "the lab's `broker` to load; not needed where it has one")
	f.StringVar(&o.listener, "listener", "", "the node's listener to load, by `name`; the first by default")
	f.StringVar(&o.user, "user", "", "the lab's `user` to connect as; the first by default")
	f.StringSliceVar(&o.subnets, "subnet", nil, "the lab's `subnets` to connect from; all by default")
	f.Lookup("subnet").DefValue = ""
}

func (o *benchTarget) given() bool { return o.servers != "" || o.lab != "" }

// open finds the target and makes ready what loads it with up to so many connections. release is to be called in the end.
func (o *benchTarget) open(ctx context.Context, env Env, most int, yes bool) (_ *connbench.Options, release func(), _ error) {
	t := &target{options: &connbench.Options{Worker: fleetWorker(env)}}
	var err error
	switch {
	case o.servers != "" && o.lab != "":
		return nil, nil, usage("--bootstrap-server and --lab are two targets: choose one")
	case o.lab != "":
		err = o.openLab(ctx, env, t)
	default:
		err = o.openServers(ctx, env, t, most, yes)
	}
	if err != nil {
		t.release()
		return nil, nil, err
	}
	return t.options, t.release, nil
}

// target is what will be loaded.
type target struct {
	options *connbench.Options
	clients []*kgo.Client
	places  namespaces
	lab     *netlab.Lab
	dial    connbench.Dial
}

func (t *target) release() {
	for _, cl := range t.clients {
		cl.Close()
	}
	t.places.close()
	if t.lab != nil {
		_ = t.lab.Close() // its namespaces were only looked into
	}
}

// fleetWorker starts this program as a client process.
func fleetWorker(env Env) func(context.Context) *exec.Cmd {
	return func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", "fleet-worker")
		cmd.Stderr = env.Stderr
		return cmd
	}
}

func (o *benchTarget) openServers(ctx context.Context, env Env, t *target, most int, yes bool) error {
	for flag, used := range map[string]bool{"--node": o.node != "", "--listener": o.listener != "", "--user": o.user != "", "--subnet": len(o.subnets) > 0} {
		if used {
			return usage(flag + " needs --lab")
		}
	}
	names, config, err := loadClient(env, o.servers, o.config)
	if err != nil {
		return err
	}
	if len(o.pids) > 1 && len(o.pids) != len(names) {
		return usage(fmt.Sprintf("--pid: %d processes for %d servers: give one, or one for each", len(o.pids), len(names)))
	}
	if err := allowed(ctx, env, names, most, yes); err != nil {
		return err
	}
	var d net.Dialer
	t.dial = d.DialContext
	for i, name := range names {
		addr, err := connbench.Resolve(ctx, name)
		if err != nil {
			return fmt.Errorf("connect to %s: %w", name, err)
		}
		pid := 0
		if len(o.pids) > 0 {
			pid = o.pids[min(i, len(o.pids)-1)]
		}
		if err := t.add(ctx, config, connbench.Target{Name: name, Addr: addr, PID: pid}); err != nil {
			return err
		}
	}
	return o.from(t)
}

// allowed asks whether a target outside of this machine's loopback is meant.
func allowed(ctx context.Context, env Env, names []string, most int, yes bool) error {
	var outside []string
	for _, name := range names {
		addrs, err := connbench.Addresses(ctx, name)
		if err != nil {
			return fmt.Errorf("find the address of %s: %w", name, err)
		}
		if !slices.ContainsFunc(addrs, func(a netip.AddrPort) bool { return !a.Addr().IsLoopback() }) {
			continue
		}
		outside = append(outside, fmt.Sprintf("%s (%s)", name, joined(addrs)))
	}
	if len(outside) == 0 || yes {
		return nil
	}
	what := fmt.Sprintf("%s is outside of labs and of this machine's loopback, and would get up to %d connections",
		strings.Join(outside, ", "), most)
	if !isTerminal(env.Stderr) {
		return &ExitError{Code: 2, Err: errors.New(what + ": give --yes if that is meant")}
	}
	if _, err := fmt.Fprintf(env.Stderr, "%s. Go on? [y/N] ", what); err != nil {
		return err
	}
	answer, err := bufio.NewReader(env.Stdin).ReadString('\n')
	if err == nil && strings.EqualFold(strings.TrimSpace(answer), "y") {
		return nil
	}
	return &ExitError{Code: 1, Err: errors.New("not started")}
}

// from sets where connections come from, and how many ports there are for them.
func (o *benchTarget) from(t *target) error {
	const local4 = "127.1.0.0/24"
	texts := o.sources
	if len(texts) == 0 && !slices.ContainsFunc(t.options.Targets, func(t connbench.Target) bool {
		return !t.Addr.Addr().Is4() || !t.Addr.Addr().IsLoopback()
	}) {
		texts = []string{local4}
	}
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, notOne := netip.ParseAddr(text)
			if notOne != nil {
				return usage(fmt.Sprintf("--source: %q is neither an address nor a prefix", text))
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		t.options.Sources = append(t.options.Sources, fleet.SourceSpec{Prefix: p})
	}
	return nil
}

// add takes one server in: its certificate is verified, and a client asks it about its limits.
func (t *target) add(ctx context.Context, config *admin.ClientConfig, one connbench.Target) error {
	s := config.Security
	o := t.options
	o.Protocol = fleet.Protocol(s.Protocol)
	o.Mechanism, o.Username, o.Password = s.Mechanism, s.Username, s.Password
	if s.TLS != nil {
		var err error
		if o.TLS, err = connbench.ClientTLS(s.TLS); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, config.RequestTimeout)
		defer cancel()
		if one.Pin, err = connbench.Verify(bounded, t.dial, one.Name, one.Addr, s.TLS); err != nil {
			return fmt.Errorf("verify the certificate of %s: %w", one.Name, err)
		}
	}
	options := []kgo.Opt{
		kgo.ClientID(softwareName),
		kgo.SeedBrokers(one.Name),
		kgo.SoftwareNameAndVersion(softwareName, softwareVersion),
		kgo.RequestRetries(2),
		kgo.BrokerMaxReadBytes(longestAnswer),
		kgo.ConnIdleTimeout(15 * time.Minute), // at a limit it would not come in again
		admin.Versions(protocol.DefaultKeys()),
	}
	dial := t.dial
	if s.TLS != nil {
		dial = dial.TLS(s.TLS)
	}
	options = append(options, config.Options...)
	cl, err := kgo.NewClient(append(options, kgo.DialTLSConfig(nil), kgo.Dialer(dial))...) // the one or the other
	if err != nil {
		return err
	}
	t.clients = append(t.clients, cl)
	control := &connbench.Cluster{
		Client: cl, Admin: admin.New(cl), Name: one.Name, Addr: one.Addr, TLS: o.Protocol.TLS(), Timeout: config.CallTimeout,
	}
	one.Control = control
	o.Targets = append(o.Targets, one)
	return nil
}

// openLab loads a broker of a lab from the lab's subnets.
func (o *benchTarget) openLab(ctx context.Context, env Env, t *target) error {
	if len(o.pids) > 0 || len(o.sources) > 0 || o.config != "" {
		return usage("--pid, --source and --command-config are for --bootstrap-server: a lab knows them")
	}
	if err := netlab.Privileges(); err != nil {
		return err
	}
	lab, err := openLab(o.lab)
	if err != nil {
		return err
	}
	t.lab = lab
	status, err := inspect(ctx, lab)
	if err != nil {
		return err
	}
	node, listener, err := o.choose(status)
	if err != nil {
		return err
	}
	_, config, err := loadClient(env, listener.Advertised, lab.Properties(listener.Name, o.userOf(lab)))
	if err != nil {
		return err
	}
	t.options.Resolve = t.places.resolve
	addr := netip.AddrPortFrom(node.Addresses[0], listener.Port)
	if err := o.fromLab(t, lab, status, addr.Addr().Is6()); err != nil {
		return err
	}
	return t.add(ctx, config, connbench.Target{Name: listener.Advertised, Addr: addr, PID: node.PID})
}

// userOf is who connects: the first user of the lab unless there is a word.
func (o *benchTarget) userOf(lab *netlab.Lab) string {
	if users := lab.Topology().Users; o.user == "" && len(users) > 0 {
		return users[0].Name
	}
	return o.user
}

// choose finds node and listener by the flags.
func (o *benchTarget) choose(status *netlab.Status) (*netlab.NodeStatus, *netlab.ListenerStatus, error) {
	var brokers []string
	var node *netlab.NodeStatus
	for i := range status.Nodes {
		if n := &status.Nodes[i]; n.Kind == topology.Broker || n.Kind == topology.Kafka {
			brokers = append(brokers, n.Name)
			if n.Name == o.node || o.node == "" && node == nil {
				node = n
			}
		}
	}
	if node == nil || o.node == "" && len(brokers) > 1 {
		return nil, nil, usage(fmt.Sprintf("--node: the brokers of lab %s are %s", status.Name, strings.Join(brokers, ", ")))
	}
	if node.PID == 0 {
		return nil, nil, fmt.Errorf("node %s of lab %s does not run (%s)", node.Name, status.Name, node.State)
	}
	var names []string
	for i := range node.Listeners {
		l := &node.Listeners[i]
		if o.listener == "" || strings.EqualFold(o.listener, l.Name) {
			return node, l, nil
		}
		names = append(names, l.Name)
	}
	return nil, nil, usage(fmt.Sprintf("--listener: those of node %s are %s", node.Name, strings.Join(names, ", ")))
}

// fromLab lets connections come from the lab's subnets.
func (o *benchTarget) fromLab(t *target, lab *netlab.Lab, status *netlab.Status, v6 bool) error {
	var names []string
	for i := range status.Subnets {
		s := &status.Subnets[i]
		names = append(names, s.Name)
		if len(o.subnets) > 0 && !slices.Contains(o.subnets, s.Name) {
			continue
		}
		for _, p := range s.Prefixes {
			if p.Addr().Is6() != v6 {
				continue
			}
			t.options.Sources = append(t.options.Sources, fleet.SourceSpec{Namespace: s.Netns, Prefix: p})
			if t.dial != nil {
				continue
			}
			subnet, err := lab.Subnet(s.Name)
			if err != nil {
				return err
			}
			t.dial = connbench.Dial(subnet.Dialer(subnet.In(v6).Addr(1)))
		}
	}
	if t.dial == nil {
		return usage(fmt.Sprintf("--subnet: those of lab %s are %s, and clients need one with addresses of the node's family", status.Name, strings.Join(names, ", ")))
	}
	return nil
}
