package stage

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Nobody is the user of clients that have no name: plaintext, or TLS without a certificate.
const Nobody = ""

// Anonymous is the principal of Nobody.
const Anonymous = "User:ANONYMOUS"

// Group is count clients from the subnet with this prefix at one of the broker's listeners, of the address family of the prefix. A
// user brings a certificate on SSL and a password (PLAIN) on SASL listeners; the record's Principal is what the broker
// should take them for. Change what you need before you open it.
func (s *Stage) Group(prefix, listener, user string, count int) fleet.Group {
	GinkgoHelper()
	network := s.Network(prefix)
	l := s.listener(listener)
	g := fleet.Group{
		Name:     fmt.Sprintf("%s from %s", listener, prefix),
		Count:    count,
		Target:   netip.AddrPortFrom(s.Address(network.prefix.Addr().Is6()), l.Port),
		Protocol: fleet.Protocol(l.Protocol),
		Source:   network,
		From:     network.spec(),
		Listener: l.Name, Principal: Anonymous,
	}
	if user != Nobody {
		g.Name += " as " + user
	}
	if g.Protocol.TLS() {
		g.TLS.CA = readFile(s.lab.CAFile())
		if user != Nobody && !g.Protocol.SASL() {
			pem := readFile(s.lab.UserPEM(user))
			g.TLS.Certificate, g.TLS.Key = pem, pem
			g.Principal = "User:" + user
		}
	}
	if g.Protocol.SASL() {
		g.Username, g.Password = user, s.password(user)
		g.Principal = "User:" + user
	}
	return g
}

func readFile(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// password is that of a user of the lab, or one that was made at run time.
func (s *Stage) password(user string) string {
	GinkgoHelper()
	s.mu.Lock()
	secret, ok := s.secrets[user]
	s.mu.Unlock()
	if ok {
		return secret
	}
	for _, u := range s.lab.Topology().Users {
		if u.Name == user {
			return u.Password
		}
	}
	Fail(fmt.Sprintf("there is no user %q", user))
	return ""
}

// Scram makes a user with SCRAM credentials while the broker runs. Making one twice is fine.
func (s *Stage) Scram(ctx context.Context, user, mechanism string) {
	GinkgoHelper()
	s.mu.Lock()
	_, known := s.secrets[user]
	s.secrets[user] = user + "-secret"
	s.mu.Unlock()
	if known {
		return
	}
	m := kadm.ScramSha256
	if mechanism == fleet.ScramSHA512 {
		m = kadm.ScramSha512
	}
	answers, err := s.kadm.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{
		User: user, Mechanism: m, Iterations: 4096, Password: user + "-secret",
	}})
	Expect(err).NotTo(HaveOccurred())
	Expect(answers.Error()).NotTo(HaveOccurred())
}

// CreateTopic makes a topic, with as many replicas as the broker gives one by itself.
func (s *Stage) CreateTopic(ctx context.Context, name string, partitions int32) {
	GinkgoHelper()
	const asUsual = -1
	answer, err := s.kadm.CreateTopic(ctx, partitions, asUsual, nil, name)
	Expect(err).NotTo(HaveOccurred())
	Expect(answer.Err).NotTo(HaveOccurred())
	s.settleTopic(ctx, name, partitions)
}

// EndOffset is the offset of the next record of a partition.
func (s *Stage) EndOffset(ctx context.Context, topic string, partition int32) (int64, error) {
	offsets, err := s.kadm.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		return 0, fmt.Errorf("there is no partition %d of %s", partition, topic)
	}
	return o.Offset, o.Err
}

// Fleet opens clients and closes them when the spec ends. Clients that fail are in its records; only a fleet that
// cannot start fails the spec.
func (s *Stage) Fleet(ctx context.Context, groups ...fleet.Group) *fleet.Fleet {
	GinkgoHelper()
	return s.Open(ctx, fleet.Plan{Groups: groups})
}

// Open is [Stage.Fleet] for a whole plan.
func (s *Stage) Open(ctx context.Context, plan fleet.Plan) *fleet.Fleet {
	GinkgoHelper()
	f := s.NewFleet()
	Expect(f.Add(ctx, plan)).To(Succeed())
	return f
}

// NewFleet is an empty fleet, to be filled by Add or Churn. It is closed when the spec ends, and what it measured goes
// into the report.
func (s *Stage) NewFleet() *fleet.Fleet {
	GinkgoHelper()
	return s.NewFleetOf(0)
}

// NewFleetOf is [Stage.NewFleet] with a bound on each step of a client other than the usual; 0: the usual.
func (s *Stage) NewFleetOf(timeout time.Duration) *fleet.Fleet {
	GinkgoHelper()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := newFleet(fmt.Sprintf("clients %d", len(s.fleets)+1), timeout)
	DeferCleanup(s.evidence) // before it is closed
	s.fleets = append(s.fleets, f)
	return f
}

// NewFleet is a fleet without a stage. It is closed when the spec ends.
func NewFleet(ctx context.Context, groups ...fleet.Group) *fleet.Fleet {
	GinkgoHelper()
	f := newFleet("clients", 0)
	Expect(f.Add(ctx, fleet.Plan{Groups: groups})).To(Succeed())
	return f
}

func newFleet(label string, timeout time.Duration) *fleet.Fleet {
	GinkgoHelper()
	f, err := fleet.New(timeout)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(f.Close()).To(Succeed())
		all := f.Latencies()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			report.Attach(report.NewLatency(label+": "+string(name), all[name]))
		}
	})
	return f
}

// AllUp fails the spec unless every client of f is up.
func AllUp(f *fleet.Fleet) {
	GinkgoHelper()
	Expect(f.FirstError()).NotTo(HaveOccurred())
	stats := f.Stats()
	Expect(stats.Up).To(Equal(stats.Begun), "%v", stats.Outcomes)
}

// Network is a client network of the stage: a source of sockets for fleets.
type Network struct {
	subnet *netlab.Subnet
	prefix netip.Prefix
}

var (
	_ fleet.Source     = (*Network)(nil)
	_ fleet.PortRanger = (*Network)(nil)
)

// Socket makes a socket in the network's namespace.
func (n *Network) Socket(family int) (int, error) { return n.subnet.Socket(family) }

// Addr is the network's i-th client address.
func (n *Network) Addr(i int) netip.Addr { return fleet.Nth(n.prefix, i) }

// spec describes the network to a worker process.
func (n *Network) spec() *fleet.SourceSpec {
	GinkgoHelper()
	ns, err := n.subnet.Netns()
	Expect(err).NotTo(HaveOccurred())
	return &fleet.SourceSpec{Namespace: ns.Path(), Prefix: n.prefix}
}

// Dialer is for clients that are not of a fleet: it dials from an address of the network and knows the broker by the name
// "broker".
func (n *Network) Dialer(source netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	return n.subnet.Dialer(source)
}

// Prefix is the network's addresses.
func (n *Network) Prefix() netip.Prefix { return n.prefix }

// At is one address of the network as a source of its own.
func (n *Network) At(addr string) *Network {
	a := netip.MustParseAddr(addr)
	return &Network{subnet: n.subnet, prefix: netip.PrefixFrom(a, a.BitLen())}
}

// PortRange is the ephemeral ports of the network's namespace.
func (n *Network) PortRange() (first, last int, err error) {
	ns, err := n.subnet.Netns()
	if err != nil {
		return 0, 0, err
	}
	err = ns.Do(func() error {
		text, readErr := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
		if readErr != nil {
			return readErr
		}
		_, readErr = fmt.Sscan(string(text), &first, &last)
		return readErr
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read the ephemeral ports of %v: %w", n.prefix, err)
	}
	return first, last, nil
}

// SetPortRange bounds the ephemeral ports of the network's namespace, for clients that are to run out of them.
func (n *Network) SetPortRange(_ context.Context, first, last int) {
	GinkgoHelper()
	ns, err := n.subnet.Netns()
	Expect(err).NotTo(HaveOccurred())
	Expect(ns.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", fmt.Appendf(nil, "%d %d", first, last), 0)
	})).To(Succeed())
}

// Listen listens at an IPv4 address of the network.
func (n *Network) Listen(at netip.AddrPort) net.Listener {
	GinkgoHelper()
	Expect(at.Addr().Is4()).To(BeTrue(), "%v is not IPv4", at)
	fd, err := n.subnet.Socket(unix.AF_INET)
	Expect(err).NotTo(HaveOccurred())
	f := os.NewFile(uintptr(fd), "listen")
	defer func() { Expect(f.Close()).To(Succeed()) }() // the listener has a descriptor of its own
	Expect(unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})).To(Succeed())
	Expect(unix.Listen(fd, 1024)).To(Succeed())
	l, err := net.FileListener(f)
	Expect(err).NotTo(HaveOccurred())
	return l
}
