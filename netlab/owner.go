package netlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Owner is the process behind a lab: it builds the lab and holds what must outlive lab up. [Owner.Run] is its life.
type Owner struct {
	// Kernel, unless nil, starts counting for the lab's brokers. It is called once, before any node starts; stop is
	// called when the owner ends by itself. An error does not fail the lab: inspect shows it. netlab knows nothing
	// of BPF: whoever wires the binary does.
	Kernel func(ctx context.Context, request KernelRequest) (mode string, stop func() error, err error)
	// Log is the owner's own log.
	Log *slog.Logger

	home    home
	state   *state
	router  *netns.Handle
	nodes   []*process
	members []member
	kernel  string

	mu       sync.Mutex // guards what follows
	progress string
	changed  chan struct{} // closed and replaced with each progress
	outcome  error
	built    bool // building has ended, with outcome
}

// KernelRequest is what a lab asks of whoever counts in the kernel.
type KernelRequest struct {
	// Listener is the Unix socket that brokers are given as kernel.accounting=lab:PATH. The callee closes it.
	Listener net.Listener
	// Nodes are the brokers, Apache Kafka's too, which cannot ask at the listener. Their namespaces stay open as long as the owner lives.
	Nodes []KernelNode
	// Cgroup contains every process of the lab.
	Cgroup string
	Log    *slog.Logger
}

// KernelNode is a broker and where its sockets are.
type KernelNode struct {
	Name        string
	Kind        string // topology.Broker or topology.Kafka
	Netns       *netns.Handle
	NetnsCookie uint64
	Ports       []uint16
}

// Run builds the lab whose folder [Up] prepared and serves it until ctx ends or the process is killed.
func (o *Owner) Run(ctx context.Context, folder string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.home, o.changed = home(folder), make(chan struct{})
	lock, err := o.home.own()
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // ends with the process at the latest
	if o.state, err = o.home.readState(); err != nil {
		return err
	}
	o.members = members(o.state.Lab)
	var config net.ListenConfig
	control, err := config.Listen(ctx, "unix", o.home.path("owner.sock"))
	if err != nil {
		return err
	}
	if err := os.Chmod(o.home.path("owner.sock"), 0o600); err != nil {
		return err
	}
	var all sync.WaitGroup
	defer all.Wait()
	context.AfterFunc(ctx, func() { _ = control.Close() })
	all.Go(func() {
		stop, err := o.build(ctx, &all)
		if err != nil {
			o.Log.Error("build lab", slog.Any("error", err))
		}
		o.mu.Lock()
		o.built, o.outcome = true, err
		o.tell()
		o.mu.Unlock()
		<-ctx.Done()
		o.close(context.WithoutCancel(ctx), stop)
	})
	o.serve(ctx, control, &all)
	return nil
}

// close ends what the process's own end would end less politely.
func (o *Owner) close(ctx context.Context, stop func() error) {
	for _, p := range o.nodes {
		if err := errors.Join(p.group.kill(ctx), p.ns.Close()); err != nil {
			o.Log.Warn("end node", slog.String("node", p.node.Name), slog.Any("error", err))
		}
	}
	if stop != nil {
		if err := stop(); err != nil {
			o.Log.Warn("stop counting", slog.Any("error", err))
		}
	}
}

// step tells everybody who waits what happens now.
func (o *Owner) step(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress = fmt.Sprintf(format, args...)
	o.tell()
}

// tell wakes everybody who waits. mu is held.
func (o *Owner) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// build makes the lab, step by step. The returned function, if any, stops counting.
func (o *Owner) build(ctx context.Context, all *sync.WaitGroup) (stop func() error, err error) {
	lab := o.state.Lab
	ports, err := exposeAll(ctx, lab) // first: a port in use is the likeliest thing to fail
	if err != nil {
		return nil, err
	}
	err = o.mountNetns()
	if err != nil {
		return nil, err
	}
	var made atomic.Int64
	o.step("namespaces: 0 of %d", len(o.members))
	err = o.home.network(ctx, o.members, o.v6(), func() { o.step("namespaces: %d of %d", made.Add(1), len(o.members)) })
	if err != nil {
		return nil, err
	}
	if o.router, err = netns.Open(o.home.netns(routerName)); err != nil {
		return nil, err
	}
	err = o.router.Do(func() error { return fence(lab, o.members) })
	if err != nil {
		return nil, err
	}
	o.step("certificates and properties")
	err = o.home.material(lab)
	if err != nil {
		return nil, fmt.Errorf("write certificates and properties: %w", err)
	}
	handles, err := o.openNodes()
	if err != nil {
		return nil, err
	}
	socket, stop := o.startKernel(ctx, handles)
	nodes := make([]*process, len(lab.Nodes))
	for i := range lab.Nodes {
		if nodes[i], err = o.node(&lab.Nodes[i], handles[i], socket); err != nil {
			return stop, err
		}
	}
	o.mu.Lock()
	o.nodes = nodes
	o.mu.Unlock()
	if err := o.startNodes(ctx); err != nil {
		return stop, err
	}
	for _, p := range ports {
		f := forward{listener: p.listener, router: o.router, to: p.to, log: o.Log}
		all.Go(func() { f.serve(ctx) })
	}
	return stop, nil
}

type exposedPort struct {
	listener net.Listener
	to       netip.AddrPort
}

func exposeAll(ctx context.Context, lab *topology.Lab) ([]exposedPort, error) {
	var ports []exposedPort
	for i := range lab.Nodes {
		n := &lab.Nodes[i]
		for _, e := range n.Expose {
			to := n.Addr(false)
			if !to.IsValid() {
				to = n.Addr(true)
			}
			l, err := expose(ctx, e.Port)
			if err != nil {
				return nil, fmt.Errorf("node %s: %w", n.Name, err)
			}
			ports = append(ports, exposedPort{l, netip.AddrPortFrom(to, e.Port)})
		}
	}
	return ports, nil
}

// mountNetns makes the folder of namespaces a mount: one unmount removes them all, and no other mount namespace that
// shares mounts with this one gets them.
func (o *Owner) mountNetns() error {
	path := o.home.path("netns")
	if err := o.home.note(step{stepMount, path}); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("brokerlab", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700"); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	if err := unix.Mount("", path, "", unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make %s private: %w", path, err)
	}
	return nil
}

// v6 tells whether the lab has IPv6.
func (o *Owner) v6() bool {
	for i := range o.members {
		for _, p := range o.members[i].prefixes {
			if p.Addr().Is6() {
				return true
			}
		}
	}
	return false
}

func (o *Owner) openNodes() ([]*netns.Handle, error) {
	handles := make([]*netns.Handle, len(o.state.Lab.Nodes))
	for i := range handles {
		var err error
		if handles[i], err = netns.Open(o.home.netns(o.state.Lab.Nodes[i].Name)); err != nil {
			return nil, err
		}
	}
	return handles, nil
}

// node prepares one node.
func (o *Owner) node(n *topology.Node, ns *netns.Handle, kernel string) (*process, error) {
	k, err := kindOf(n.Kind)
	if err != nil {
		return nil, err
	}
	err = k.prepare(o.home, o.state, n, kernel)
	if err != nil {
		return nil, fmt.Errorf("prepare node %s: %w", n.Name, err)
	}
	p := &process{home: o.home, node: n, ns: ns, view: o.home.view(o.state.Lab, n.Name), group: o.state.Cgroup.node(n.Name), state: StateNew}
	if p.program, err = k.command(o.home, o.state, n); err != nil {
		return nil, fmt.Errorf("prepare node %s: %w", n.Name, err)
	}
	return p, nil
}

// startKernel starts counting. Without it the lab runs; inspect says why it does not count.
func (o *Owner) startKernel(ctx context.Context, handles []*netns.Handle) (socket string, stop func() error) {
	var nodes []KernelNode
	for i := range o.state.Lab.Nodes {
		if n := &o.state.Lab.Nodes[i]; n.Serves() {
			nodes = append(nodes, KernelNode{n.Name, n.Kind, handles[i], o.members[i].cookie, n.Ports})
		}
	}
	mode, stop, err := "off: this program does not count in the kernel", (func() error)(nil), error(nil)
	switch {
	case len(nodes) == 0:
		mode = "off: the lab has no broker"
	case o.Kernel != nil:
		socket = o.home.path("kernel.sock")
		o.step("counting in the kernel")
		var config net.ListenConfig
		var l net.Listener
		if l, err = config.Listen(ctx, "unix", socket); err == nil {
			mode, stop, err = o.Kernel(ctx, KernelRequest{Listener: l, Nodes: nodes, Cgroup: string(o.state.Cgroup), Log: o.Log})
		}
	}
	if err != nil {
		mode, socket = "off: "+err.Error(), ""
		o.Log.Warn("count in the kernel", slog.Any("error", err))
	}
	o.mu.Lock()
	o.kernel = mode
	o.mu.Unlock()
	return socket, stop
}

// startNodes starts what does not run and waits until all are ready: brokers that have their engine elsewhere once everything
// else is.
func (o *Owner) startNodes(ctx context.Context) error {
	o.mu.Lock()
	nodes := o.nodes
	o.mu.Unlock()
	var first, then []*process
	for _, p := range nodes {
		if p.node.Fronts() {
			then = append(then, p)
		} else {
			first = append(first, p)
		}
	}
	if err := o.startAll(ctx, first); err != nil {
		return err
	}
	return o.startAll(ctx, then)
}

// startAll starts those of nodes that do not run, side by side, and waits until all are ready.
func (o *Owner) startAll(ctx context.Context, nodes []*process) error {
	for _, p := range nodes {
		o.step("starting %s", p.node.Name)
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	for _, p := range nodes {
		o.step("waiting for %s", p.node.Name)
		if err := p.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// serve answers requests until ctx ends.
func (o *Owner) serve(ctx context.Context, control net.Listener, all *sync.WaitGroup) {
	for {
		c, err := control.Accept()
		if err != nil {
			if ctx.Err() == nil {
				o.Log.Error("accept on the owner's socket", slog.Any("error", err))
			}
			<-ctx.Done()
			return
		}
		all.Go(func() {
			defer c.Close() //nolint:errcheck // answered, or nobody listens
			o.answer(ctx, c)
		})
	}
}

func (o *Owner) answer(ctx context.Context, c net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var r request
	in := json.NewDecoder(c)
	if err := in.Decode(&r); err != nil {
		return
	}
	go func() { // who asked says nothing more: this ends when they hang up, and then the work does
		var nothing json.RawMessage
		_ = in.Decode(&nothing)
		cancel()
	}()
	out := json.NewEncoder(c)
	err := o.do(ctx, r, func(progress string) { _ = out.Encode(reply{Progress: progress}) })
	last := reply{Status: o.status(), Done: true}
	if err != nil {
		last.Error = err.Error()
	}
	_ = out.Encode(last) //nolint:errchkjson // who asked may have gone
}

func (o *Owner) do(ctx context.Context, r request, progress func(string)) error {
	if r.Op == opStatus {
		return nil
	}
	if err := o.waitBuilt(ctx, progress); err != nil {
		return err
	}
	if r.Op == opUp {
		return o.startNodes(ctx)
	}
	i := slices.IndexFunc(o.nodes, func(p *process) bool { return p.node.Name == r.Node })
	if i < 0 {
		return fmt.Errorf("lab %s has no node %q", o.home.name(), r.Node)
	}
	return o.operate(ctx, i, r)
}

// operate does what r asks of node i.
func (o *Owner) operate(ctx context.Context, i int, r request) error {
	p := o.nodes[i]
	switch r.Op {
	case opStop:
		return p.stop(ctx)
	case opKill:
		return p.kill(ctx)
	case opRestart:
		if r.Kafka != nil && p.node.Kind != topology.Kafka { // before anything is stopped
			return fmt.Errorf("node %s is of kind %s: only one of kind %s runs another version", p.node.Name, p.node.Kind, topology.Kafka)
		}
		if err := p.stop(ctx); err != nil {
			return err
		}
		if r.Kafka != nil {
			if err := o.changeKafka(i, *r.Kafka); err != nil {
				return err
			}
		}
	case opStart:
	default:
		return fmt.Errorf("operation %q is not known to this version", r.Op)
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	return p.ready(ctx)
}

// changeKafka gives a node another release of Kafka, also for those who open the lab later.
func (o *Owner) changeKafka(i int, kafka kafkahome.Home) error {
	p := o.nodes[i]
	kafka, err := kafkahome.At(kafka.Folder)
	if err != nil {
		return err
	}
	changed := *p.node
	changed.Version, changed.Home = kafka.Version, kafka.Folder
	next, err := kafkaKind{}.command(o.home, o.state, &changed)
	if err != nil {
		return err
	}
	o.mu.Lock()
	p.node.Version, p.node.Home = kafka.Version, kafka.Folder
	err = o.home.writeState(o.state)
	o.mu.Unlock()
	if err != nil {
		return err
	}
	p.op.Lock()
	defer p.op.Unlock()
	p.program = next
	return nil
}

// waitBuilt waits until the lab was built, and gives the error if it was not.
func (o *Owner) waitBuilt(ctx context.Context, progress func(string)) error {
	for {
		o.mu.Lock()
		built, err, text, changed := o.built, o.outcome, o.progress, o.changed
		o.mu.Unlock()
		if built {
			return err
		}
		if text != "" {
			progress(text)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// status describes the lab as it is now.
func (o *Owner) status() *Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := o.home.describe(o.state)
	st.OwnerPID, st.Kernel, st.State = os.Getpid(), o.kernel, LabBuilding
	if o.built {
		st.State = LabUp
		if o.outcome != nil {
			st.State, st.Error = LabFailed, o.outcome.Error()
		}
		for i := range o.members { // nodes, then subnets
			if i < len(st.Nodes) {
				st.Nodes[i].NetnsCookie = o.members[i].cookie
			} else {
				st.Subnets[i-len(st.Nodes)].NetnsCookie = o.members[i].cookie
			}
		}
	}
	for i, p := range o.nodes {
		p.mu.Lock()
		n := &st.Nodes[i]
		n.State, n.Reason, n.Since = p.state, p.reason, p.since
		if p.cmd != nil && p.ended != nil && !closed(p.ended) {
			n.PID = p.cmd.Process.Pid
		}
		p.mu.Unlock()
	}
	return st
}
