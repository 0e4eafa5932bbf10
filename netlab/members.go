package netlab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// place is a namespace of the lab, entered by this process when first needed.
type place struct {
	path string
	mu   sync.Mutex // guards ns
	ns   *netns.Handle
}

// Netns enters the namespace. The handle is the lab's: [Lab.Close] closes it.
func (p *place) Netns() (*netns.Handle, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ns != nil {
		return p.ns, nil
	}
	var err error
	p.ns, err = netns.Open(p.path)
	return p.ns, err
}

// Socket creates a non-blocking TCP socket in the namespace, for the caller to bind and connect from any thread.
// family is unix.AF_INET or unix.AF_INET6.
func (p *place) Socket(family int) (int, error) {
	ns, err := p.Netns()
	if err != nil {
		return -1, err
	}
	return ns.Socket(family)
}

// Cookie is the kernel's number of the namespace.
func (p *place) Cookie() (uint64, error) {
	ns, err := p.Netns()
	if err != nil {
		return 0, err
	}
	return ns.Cookie()
}

func (p *place) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ns == nil {
		return nil
	}
	ns := p.ns
	p.ns = nil
	return ns.Close()
}

// Node is a node of a lab that was built. Safe for concurrent use.
type Node struct {
	topology.Node

	place
	lab *Lab
}

// Start starts the node's program unless it runs, and waits until it listens.
func (n *Node) Start(ctx context.Context) error { return n.operate(ctx, opStart) }

// Stop asks the node's program to end and waits until it has.
func (n *Node) Stop(ctx context.Context) error { return n.operate(ctx, opStop) }

// Kill ends the node's program and its children with SIGKILL.
func (n *Node) Kill(ctx context.Context) error { return n.operate(ctx, opKill) }

// Restart is Stop and Start.
func (n *Node) Restart(ctx context.Context) error { return n.operate(ctx, opRestart) }

// RestartKafka is Restart of a node of kind kafka with another release, which runs from now on; the node's data stays. n
// itself does not change: see [Node.Status]. A release that does not start is not taken back.
func (n *Node) RestartKafka(ctx context.Context, kafka kafkahome.Home) error {
	return n.call(ctx, request{Op: opRestart, Node: n.Name, Kafka: &kafka})
}

func (n *Node) operate(ctx context.Context, op string) error {
	return n.call(ctx, request{Op: op, Node: n.Name})
}

func (n *Node) call(ctx context.Context, r request) error {
	if _, err := n.lab.home.call(ctx, r, nil); err != nil {
		return fmt.Errorf("%s %s: %w", r.Op, n.Name, err)
	}
	return nil
}

// Status describes the node.
func (n *Node) Status(ctx context.Context) (NodeStatus, error) {
	st, err := n.lab.Inspect(ctx)
	if err != nil {
		return NodeStatus{}, err
	}
	for i := range st.Nodes {
		if st.Nodes[i].Name == n.Name {
			return st.Nodes[i], nil
		}
	}
	return NodeStatus{}, fmt.Errorf("lab %s has no node %s", n.lab.Name(), n.Name)
}

// LogPath is the file with what the node's program printed, over all its starts.
func (n *Node) LogPath() string { return n.lab.home.path("nodes", n.Name, "log") }

// AllListeners are a broker's own listeners and those behind its exposed ports.
func (n *Node) AllListeners() []topology.Listener { return allListeners(&n.Node) }

// Port is the port of a broker's listener, by the listener's name.
func (n *Node) Port(listener string) (uint16, error) {
	for _, l := range allListeners(&n.Node) {
		if strings.EqualFold(l.Name, listener) {
			return l.Port, nil
		}
	}
	return 0, fmt.Errorf("node %s has no listener %s", n.Name, listener)
}

// Subnet is a client network of a lab that was built. Safe for concurrent use.
type Subnet struct {
	topology.Subnet

	*place
	lab *Lab
}

// In is the subnet with its IPv4 or IPv6 prefixes only; it shares the namespace. It may have no prefix.
func (s *Subnet) In(v6 bool) *Subnet {
	part := &Subnet{Subnet: topology.Subnet{Name: s.Name}, place: s.place, lab: s.lab}
	for _, p := range s.Prefixes {
		if p.Addr().Is6() == v6 {
			part.Prefixes = append(part.Prefixes, p)
		}
	}
	return part
}

// Addr is the i-th address of the subnet, counted through its prefixes in order, from 0: the first prefix's .0 is
// Addr(0). After the last it begins again. IPv6 prefixes count up to 2^54 addresses each.
func (s *Subnet) Addr(i int) netip.Addr {
	if len(s.Prefixes) == 0 || i < 0 {
		return netip.Addr{}
	}
	total := uint64(0)
	for _, p := range s.Prefixes {
		total += size(p)
	}
	k := uint64(i) % total
	for _, p := range s.Prefixes {
		if k < size(p) {
			return add(p.Addr(), k)
		}
		k -= size(p)
	}
	return netip.Addr{} // not reached: k < total
}

// size is how many addresses p has, as far as they are counted.
func size(p netip.Prefix) uint64 { return 1 << min(p.Addr().BitLen()-p.Bits(), 54) } // so that a sum of them does not overflow

// add is the address k above a.
func add(a netip.Addr, k uint64) netip.Addr {
	if a.Is4() {
		b := a.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(k))
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	low := binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(b[8:], low+k) // p is canonical and k below its size: no carry beyond 64 bits
	return netip.AddrFrom16(b)
}

// Dial connects from an address of the subnet; the zero source is the subnet's default one. Only the creation of the
// socket runs in the namespace.
func (s *Subnet) Dial(ctx context.Context, source netip.Addr, dest netip.AddrPort) (net.Conn, error) {
	ns, err := s.Netns()
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, ns, source, dest)
	if err != nil {
		return nil, fmt.Errorf("dial from %s: %w", s.Name, err)
	}
	return c, nil
}

// Dialer gives a dial function, as kgo.Dialer and http.Transport take it, for a source address of the subnet. It knows
// the nodes by name, in the source's family.
func (s *Subnet) Dialer(source netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		v6 := source.Is6()
		if !source.IsValid() {
			v6 = len(s.Prefixes) > 0 && s.Prefixes[0].Addr().Is6()
		}
		dest, err := s.lab.resolve(address, v6)
		if err != nil {
			return nil, err
		}
		return s.Dial(ctx, source, dest)
	}
}

// Command is a program to run in a node or subnet.
type Command struct {
	Args   []string
	Env    []string // added to the caller's
	Dir    string   // "" is the caller's
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Started, unless nil, is told the process once it runs, to be killed by whoever cannot wait for what a context does.
	Started func(*os.Process)
}

// Exec runs a program in the namespace of a node, a subnet or the router, with the lab's hosts, and waits for its end.
// A program that ended with a code other than 0 gives an [exec.ExitError]. When ctx ends the program is asked to end too, and
// killed if it has not in five seconds. A program that cannot be found gives [exec.ErrNotFound] or [os.ErrNotExist].
func (l *Lab) Exec(ctx context.Context, in string, c Command) error {
	if len(c.Args) == 0 {
		return errors.New("no program to run")
	}
	known := in == routerName
	for _, n := range l.nodes {
		known = known || n.Name == in
	}
	if !known {
		if _, err := l.Subnet(in); err != nil {
			return l.noPlace(in)
		}
	}
	ns, err := netns.Open(l.home.netns(in))
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // entered for this program only
	group := l.state.Cgroup.node(execCgroup)
	err = group.makeIn()
	if err != nil {
		return err
	}
	into, err := group.file()
	if err != nil {
		return err
	}
	defer into.Close()                                        //nolint:errcheck // only needed for the start
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...) //nolint:gosec // running what the caller says is the purpose
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second // then it is killed
	cmd.Env, cmd.Dir = append(os.Environ(), c.Env...), c.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(into.Fd())}
	if err := ns.Start(l.home.view(l.state.Lab, in), cmd.Start); err != nil {
		return err
	}
	if c.Started != nil {
		c.Started(cmd.Process)
	}
	return cmd.Wait()
}
