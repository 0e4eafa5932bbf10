package netlab

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// ErrNoLab is in the error for a lab that does not exist.
var ErrNoLab = errors.New("no such lab")

// Options says where labs are and what runs in them. The zero value is what the command line uses.
type Options struct {
	// Root is the folder of all labs; its base name is also that of their cgroup. "" is /run/brokerlab.
	Root string
	// Binary runs owners and brokers; "" is the running program. It must take the arguments `lab owner FOLDER` (see
	// [Owner]) and `broker --config FILE`.
	Binary string
	// NoIPv6, unless "", is a reason to build labs without IPv6, as on a machine that has none.
	NoIPv6 string
	// Progress, unless nil, is told what [Up] does.
	Progress func(string)
}

func (o Options) home(name string) home {
	return home(filepath.Join(cmp.Or(o.Root, defaultRoot), name))
}

func (o Options) cgroup(name string) (cgroup, error) {
	root, err := cgroupRoot()
	if err != nil {
		return "", err
	}
	return cgroup(filepath.Join(root, filepath.Base(cmp.Or(o.Root, defaultRoot)), name)), nil
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Privileges tells what this process lacks to build, enter and remove labs; nil when it lacks nothing.
func Privileges() error {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("read the process's capabilities: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "\nCapEff:")
	field, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	effective, err := strconv.ParseUint(field, 16, 64)
	if err != nil {
		return fmt.Errorf("read the process's capabilities: %w", err)
	}
	var missing []string
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_KILL, "CAP_KILL"}} {
		if effective&(1<<c.bit) == 0 {
			missing = append(missing, c.name)
		}
	}
	switch {
	case os.Geteuid() != 0:
		return errors.New("labs need root, to make network namespaces: run it with sudo")
	case len(missing) > 0:
		return fmt.Errorf("labs need %s, which this root does not have: in a container, run it with --privileged", strings.Join(missing, ", "))
	}
	return nil
}

// Lab is a lab that was built, seen from any process. Safe for concurrent use.
type Lab struct {
	home    home
	state   *state
	nodes   []*Node
	subnets []*Subnet
	options Options
}

// Up builds the lab and waits until all its nodes listen. A lab of that name and shape that is up already is only
// completed: nodes that do not run are started. One of another shape is an error; the remains of one whose owner was
// killed are removed first. When Up fails or ctx ends, it leaves nothing of a lab that it began.
func Up(ctx context.Context, lab *topology.Lab, o Options) (*Lab, error) {
	if err := Privileges(); err != nil {
		return nil, err
	}
	h := o.home(lab.Name)
	unlock, err := h.lock(ctx, func() { o.progress("waiting for another up or down of lab %s", lab.Name) })
	if err != nil {
		return nil, err
	}
	built, err := up(ctx, h, lab, o)
	if unlocked := unlock(!h.exists()); unlocked != nil {
		return nil, errors.Join(err, unlocked)
	}
	return built, err
}

func up(ctx context.Context, h home, lab *topology.Lab, o Options) (*Lab, error) {
	if h.owned() {
		failed, err := h.complete(ctx, lab, o)
		switch {
		case err == nil:
			return open(h, o)
		case errors.Is(err, unix.ECONNREFUSED) && h.disowned(ctx):
			// Its owner was dying: killed a moment ago.
		case !failed:
			return nil, err
		}
	}
	if h.exists() {
		o.progress("removing what is left of an earlier lab %s", lab.Name)
		if err := h.teardown(ctx); err != nil {
			return nil, fmt.Errorf("remove what is left of an earlier lab %s: %w", lab.Name, err)
		}
	}
	err := h.raise(ctx, lab, o)
	if err == nil {
		var built *Lab
		if built, err = open(h, o); err == nil {
			return built, nil
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w%s", err, h.lastWords())
	}
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return nil, errors.Join(fmt.Errorf("bring up lab %s: %w", lab.Name, err), h.teardown(cleanup))
}

// disowned waits a little for an owner that does not listen any more to end, and tells whether it has: a process closes its
// files one after another while it dies, and what it was just starting may hold a copy of them.
func (h home) disowned(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return until(ctx, func() (bool, error) { return !h.owned(), nil }) == nil
}

// lastWords is what the owner and the nodes said last, for the error of a lab that did not come up in time.
func (h home) lastWords() string {
	var words strings.Builder
	words.WriteString(lastLines(h.path("owner.log")))
	nodes, _ := os.ReadDir(h.path("nodes")) // not there yet: none
	for _, n := range nodes {
		words.WriteString(lastLines(h.path("nodes", n.Name(), "log")))
	}
	return words.String()
}

// complete brings a lab that has an owner to what up promises. It tells whether the lab had failed to build before,
// while nobody was there to remove it.
func (h home) complete(ctx context.Context, lab *topology.Lab, o Options) (failed bool, err error) {
	s, err := h.readState()
	if err != nil {
		return false, err
	}
	was, errWas := json.Marshal(s.Asked)
	want, errWant := json.Marshal(lab)
	err = errors.Join(errWas, errWant)
	if err != nil {
		return false, err
	}
	if !bytes.Equal(was, want) {
		return false, fmt.Errorf("lab %s is up, built from another lab file: take it down first (brokerlab lab down %s)", lab.Name, lab.Name)
	}
	st, err := h.call(ctx, request{Op: opUp}, o.Progress)
	if err != nil {
		failed = st != nil && st.State == LabFailed
		return failed, fmt.Errorf("lab %s is up, but not complete: %w", lab.Name, err)
	}
	return false, nil
}

// raise makes the lab's folder and owner and waits for the owner to build the rest.
func (h home) raise(ctx context.Context, lab *topology.Lab, o Options) error {
	s := &state{Asked: lab, Lab: lab, Binary: o.Binary, Since: time.Now()}
	why := o.NoIPv6
	if why == "" {
		if err := IPv6(); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		var err error
		if s.Lab, s.Skipped, err = withoutIPv6(lab, why); err != nil {
			return err
		}
	}
	var err error
	if s.Lab, err = withKafka(s.Lab); err != nil {
		return err
	}
	if s.Binary == "" {
		if s.Binary, err = os.Executable(); err != nil {
			return err
		}
	}
	if s.Cgroup, err = o.cgroup(lab.Name); err != nil {
		return err
	}
	err = os.Mkdir(string(h), 0o755) //nolint:gosec // exposed labs are used by everybody; keys in it are not readable
	if err != nil {
		return err
	}
	err = h.note(step{stepCgroup, string(s.Cgroup)})
	if err != nil {
		return err
	}
	err = h.writeState(s)
	if err != nil {
		return err
	}
	owner, err := h.startOwner(s)
	if err != nil {
		return fmt.Errorf("start the lab's owner: %w", err)
	}
	return h.await(ctx, owner, o)
}

// startOwner starts the owner, born in its cgroup and in a session of its own. The channel closes when it ends.
func (h home) startOwner(s *state) (<-chan struct{}, error) {
	group := s.Cgroup.node(ownerCgroup)
	if err := group.make(); err != nil {
		return nil, err
	}
	into, err := group.file()
	if err != nil {
		return nil, err
	}
	defer into.Close() //nolint:errcheck // only needed for the start
	log, err := os.OpenFile(h.path("owner.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()                                        //nolint:errcheck // the owner has its own
	cmd := exec.Command(s.Binary, "lab", "owner", string(h)) //nolint:gosec,noctx // the program that makes labs; it outlives any context
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(into.Fd())}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // whoever needs to know asks the owner
		close(ended)
	}()
	return ended, nil
}

// await waits for the owner to answer, and then to finish.
func (h home) await(ctx context.Context, ended <-chan struct{}, o Options) error {
	err := until(ctx, func() (bool, error) {
		if closed(ended) {
			return false, fmt.Errorf("the lab's owner ended%s", lastLines(h.path("owner.log")))
		}
		_, err := h.call(ctx, request{Op: opStatus}, nil)
		return err == nil, nil // an error: it does not listen yet
	})
	if err != nil {
		return err
	}
	_, err = h.call(ctx, request{Op: opUp}, o.Progress)
	if errors.Is(err, errNoOwner) {
		return fmt.Errorf("%w%s", err, lastLines(h.path("owner.log")))
	}
	return err
}

// withoutIPv6 is the lab without what needs IPv6, and what that was.
func withoutIPv6(lab *topology.Lab, why string) (*topology.Lab, []Skipped, error) {
	without, skipped := *lab, []Skipped(nil)
	without.Nodes, without.Subnets = nil, nil
	for i := range lab.Nodes {
		n := lab.Nodes[i]
		n.Addresses = nil
		for _, a := range lab.Nodes[i].Addresses {
			if a.Is6() {
				skipped = append(skipped, Skipped{n.Name, a.String(), why})
				continue
			}
			n.Addresses = append(n.Addresses, a)
		}
		if len(n.Addresses) == 0 {
			return nil, nil, fmt.Errorf("node %s has only IPv6 addresses: %s", n.Name, why)
		}
		without.Nodes = append(without.Nodes, n)
	}
	for _, s := range lab.Subnets {
		var prefixes []netip.Prefix
		for _, p := range s.Prefixes {
			if p.Addr().Is6() {
				skipped = append(skipped, Skipped{s.Name, p.String(), why})
				continue
			}
			prefixes = append(prefixes, p)
		}
		if len(prefixes) > 0 {
			without.Subnets = append(without.Subnets, topology.Subnet{Name: s.Name, Prefixes: prefixes})
		}
	}
	return &without, skipped, nil
}

// withKafka is the lab with the folder of each node's release of Kafka, which has to be on this machine.
func withKafka(lab *topology.Lab) (*topology.Lab, error) {
	with := *lab
	with.Nodes = slices.Clone(lab.Nodes)
	for i := range with.Nodes {
		n := &with.Nodes[i]
		if n.Kind != topology.Kafka {
			continue
		}
		err := kafkahome.CheckProgram(kafkahome.Program("java", kafkaEnv(n)))
		var kafka kafkahome.Home
		if err == nil {
			kafka, err = kafkaHome(n)
		}
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.Name, err)
		}
		n.Home = kafka.Folder
	}
	return &with, nil
}

// Open gives access to a lab that another process built. It does not ask whether its owner lives; [Lab.Inspect] does.
func Open(name string, o Options) (*Lab, error) {
	h := o.home(name)
	if filepath.Base(string(h)) != name || !h.exists() {
		return nil, fmt.Errorf("lab %q: %w", name, ErrNoLab)
	}
	return open(h, o)
}

func open(h home, o Options) (*Lab, error) {
	s, err := h.readState()
	if err != nil {
		return nil, fmt.Errorf("lab %s is not complete: %w", h.name(), err)
	}
	l := &Lab{home: h, state: s, options: o}
	for i := range s.Lab.Nodes {
		l.nodes = append(l.nodes, &Node{lab: l, Node: s.Lab.Nodes[i], place: place{path: h.netns(s.Lab.Nodes[i].Name)}})
	}
	for _, subnet := range s.Lab.Subnets {
		l.subnets = append(l.subnets, &Subnet{lab: l, Subnet: subnet, place: &place{path: h.netns(subnet.Name)}})
	}
	return l, nil
}

// List gives the names of all labs, also of those of which only remains are there.
func List(o Options) ([]string, error) {
	all, err := homes(cmp.Or(o.Root, defaultRoot))
	if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var names []string
	for _, h := range all {
		names = append(names, h.name())
	}
	return names, nil
}

// Down removes the lab of that name, whatever state it is in, with all its processes. A lab that is not there gives
// [ErrNoLab].
func Down(ctx context.Context, name string, o Options) error {
	if err := Privileges(); err != nil {
		return err
	}
	h := o.home(name)
	if filepath.Base(string(h)) != name {
		return fmt.Errorf("lab %q: %w", name, ErrNoLab)
	}
	if _, err := os.Lstat(h.lockPath()); errors.Is(err, fs.ErrNotExist) && !h.exists() {
		return fmt.Errorf("lab %s: %w", name, ErrNoLab)
	}
	unlock, err := h.lock(ctx, func() { o.progress("waiting for another up or down of lab %s", name) })
	if err != nil {
		return err
	}
	if err := h.teardown(ctx); err != nil {
		return errors.Join(fmt.Errorf("take down lab %s: %w", name, err), unlock(false))
	}
	return unlock(true)
}

// Name is the lab's name.
func (l *Lab) Name() string { return l.home.name() }

// Folder is where the lab keeps its files.
func (l *Lab) Folder() string { return string(l.home) }

// Topology is the lab as it was built: without what Skipped names.
func (l *Lab) Topology() *topology.Lab { return l.state.Lab }

// Skipped is what the file asks for and this machine cannot have.
func (l *Lab) Skipped() []Skipped { return l.state.Skipped }

// Down removes the lab and closes what this process has open of it.
func (l *Lab) Down(ctx context.Context) error {
	return errors.Join(l.Close(), Down(ctx, l.Name(), l.options))
}

// Close lets go of the namespaces that this process has entered. The lab stays up, and l can be used again.
func (l *Lab) Close() error {
	var err error
	for _, n := range l.nodes {
		err = errors.Join(err, n.close())
	}
	for _, s := range l.subnets {
		err = errors.Join(err, s.close())
	}
	return err
}

// Leaks lists what is left of the lab: see [Leaks].
func (l *Lab) Leaks() ([]string, error) { return Leaks(l.Name(), l.options) }

// Inspect asks the lab's owner how the lab is, and the router what is cut. Without an owner the state says so, and the rest is what was
// built.
func (l *Lab) Inspect(ctx context.Context) (*Status, error) {
	st, err := l.home.call(ctx, request{Op: opStatus}, nil)
	if errors.Is(err, errNoOwner) {
		st, err = l.home.describe(l.state), nil
	}
	if err != nil {
		return st, err
	}
	st.Cuts, err = l.cuts()
	return st, err
}

// Nodes are the lab's nodes in order.
func (l *Lab) Nodes() []*Node { return slices.Clone(l.nodes) }

// Subnets are the lab's subnets in order.
func (l *Lab) Subnets() []*Subnet { return slices.Clone(l.subnets) }

// Node gives the node of that name.
func (l *Lab) Node(name string) (*Node, error) {
	for _, n := range l.nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("lab %s has no node %q (there are: %s)", l.Name(), name, strings.Join(names(l.nodes), ", "))
}

// names are those of nodes, in order.
func names(nodes []*Node) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.Name
	}
	return all
}

// noPlace is the error of a name that is no node's and no subnet's. Of very many subnets it names some.
func (l *Lab) noPlace(name string) error {
	const most = 20
	there := names(l.nodes)
	for _, s := range l.subnets[:min(most, len(l.subnets))] {
		there = append(there, s.Name)
	}
	if len(l.subnets) > most {
		there = append(there, "…")
	}
	return fmt.Errorf("lab %s has no node or subnet %q (there are: %s)", l.Name(), name, strings.Join(there, ", "))
}

// Subnet gives the subnet of that name.
func (l *Lab) Subnet(name string) (*Subnet, error) {
	for _, s := range l.subnets {
		if s.Name == name {
			return s, nil
		}
	}
	for _, s := range l.state.Skipped {
		if s.Name == name {
			return nil, fmt.Errorf("lab %s is without subnet %s (%s): %s", l.Name(), name, s.What, s.Why)
		}
	}
	return nil, fmt.Errorf("lab %s has no subnet %q", l.Name(), name)
}

// Properties is the client.properties file of a user for a listener, such as SASL_SSL or EXPOSED_29192. For a
// PLAINTEXT listener the user does not matter.
func (l *Lab) Properties(listener, user string) string {
	path := l.home.properties(listener, anonymous)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return l.home.properties(listener, user)
}

// PKCS12Properties is the same with PKCS12 stores instead of PEM. Only listeners with TLS have it.
func (l *Lab) PKCS12Properties(listener, user string) string {
	return l.home.pkcs12Properties(listener, user)
}

// KernelSocket is the Unix socket at which the lab's owner tells what the kernel counts for its brokers, where it counts.
func (l *Lab) KernelSocket() string { return l.home.path("kernel.sock") }

// TLSFolder has ca.pem, node-NAME.pem and user-NAME.pem (key, certificate, CA), and ca.p12 and user-NAME.p12.
func (l *Lab) TLSFolder() string { return l.home.path("tls") }

// CAFile is the certificate that signed all others of the lab.
func (l *Lab) CAFile() string { return l.home.path("tls", "ca.pem") }

// UserPEM is a user's key and certificate chain.
func (l *Lab) UserPEM(user string) string { return l.home.path("tls", userPEM(user)) }

// resolve turns "broker1:9092" or "10.0.0.1:9092" into addresses, v6 or not.
func (l *Lab) resolve(address string, v6 bool) (netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return a, nil
	}
	i := strings.LastIndexByte(address, ':')
	if i < 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no host:port", address)
	}
	port, err := strconv.ParseUint(address[i+1:], 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q has no port", address)
	}
	n, err := l.Node(address[:i])
	if err != nil {
		return netip.AddrPort{}, err
	}
	a := n.Addr(v6)
	if !a.IsValid() {
		return netip.AddrPort{}, fmt.Errorf("node %s has no address of the source's family", n.Name)
	}
	return netip.AddrPortFrom(a, uint16(port)), nil
}
