package stage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

const (
	brokerNode = "broker"
	// opsName and opsPrefix are the stage's own subnet: who asks the broker must not be mistaken for who is asked about.
	opsName   = "ops"
	opsPrefix = "192.0.2.0/28"
	// metricsPort is where the broker serves its metrics, inside the lab.
	metricsPort = 9404
	// downTime bounds the removal of a lab.
	downTime = time.Minute
)

// Option is a part of a stage.
type Option func(*plan)

type plan struct {
	config      map[string]topology.Text
	listeners   []string
	prefixes    []string
	users       map[string]topology.FileUser
	brokers     int                      // that are a cluster; 0: a broker alone
	kafka       bool                     // Apache Kafka is behind them
	kafkaConfig map[string]topology.Text // of its nodes
}

// Broker sets keys of the broker's server.properties, as key=value.
func Broker(properties ...string) Option {
	return func(p *plan) {
		for _, property := range properties {
			key, value, ok := strings.Cut(property, "=")
			if !ok {
				panic(fmt.Sprintf("stage.Broker: %q is not key=value", property))
			}
			p.config[key] = topology.Text(value)
		}
	}
}

// Listeners replaces the four standard listeners (PLAINTEXT on 9092, SSL on 9093, SASL_PLAINTEXT on 9094, SASL_SSL on
// 9095), as Kafka writes them.
func Listeners(listeners ...string) Option {
	return func(p *plan) { p.listeners = listeners }
}

// Subnet adds client networks by their prefixes. A client can have any address of them.
func Subnet(prefixes ...string) Option {
	return func(p *plan) { p.prefixes = append(p.prefixes, prefixes...) }
}

// Stage is what a spec works on, seen from one of its brokers. Safe for concurrent use.
type Stage struct {
	*scene

	node    *netlab.Node
	id      int32       // its node.id
	frozen  atomic.Bool // nobody answers
	outside *outside    // nil: the broker itself tells
}

// scene is what all brokers of a stage have in common.
type scene struct {
	lab     *netlab.Lab
	ops     *netlab.Subnet
	subnets map[string]*Network
	brokers []*Stage // by their node.id, from 1
	client  *kgo.Client
	admin   *admin.Client
	kadm    *kadm.Client
	capture *capture // nil unless packets are recorded

	saved  sync.Once // what is known of a failed spec
	folder string    // where that is, below the report's folder
	kept   bool      // the lab is left standing

	mu      sync.Mutex // guards what follows
	fleets  []*fleet.Fleet
	secrets map[string]string // passwords of users that were made at run time
}

// number tells labs of one process apart.
var number atomic.Int64 //nolint:gochecknoglobals // one process, one count

// New builds a stage and waits until its broker serves. The stage ends with the spec.
func New(ctx SpecContext, options ...Option) *Stage {
	GinkgoHelper()
	if err := netlab.Privileges(); err != nil {
		skip(report.LackPrivileges, err.Error())
	}
	if err := Target().Find(); err != nil {
		skip(report.LackTarget, err.Error())
	}
	before := lookAround()
	s := &Stage{scene: &scene{subnets: map[string]*Network{}, secrets: map[string]string{}}}
	DeferCleanup(func() {
		if s.kept {
			return // its owner goes on
		}
		before.expectAsBefore()
	})

	p := plan{config: map[string]topology.Text{}, users: map[string]topology.FileUser{}}
	Broker(fmt.Sprintf("metrics.listener=0.0.0.0:%d", metricsPort))(&p)
	for _, o := range options {
		o(&p)
	}
	p.needKafka()
	s.raise(ctx, &p)
	s.record()
	if Target().IsKafka() {
		for _, b := range s.brokers {
			b.watchFromOutside(ctx)
		}
	}
	s.connect(ctx)
	s.sample()
	DeferCleanup(s.evidence)
	return s
}

// node is a broker.
func (p *plan) node(product Product) topology.FileNode {
	n := product.Node(p.config, p.listeners)
	if !product.IsKafka() {
		return n
	}
	return fast(n)
}

// fast tells a JVM to start fast, unless the environment tells it otherwise: a spec has it for seconds.
func fast(n topology.FileNode) topology.FileNode {
	n.Env = map[string]topology.Text{}
	for name, options := range map[string]topology.Text{
		"KAFKA_HEAP_OPTS":            "-Xms256m -Xmx1g",
		"KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -XX:-UsePerfData -Djava.awt.headless=true",
	} {
		if os.Getenv(name) == "" {
			n.Env[name] = options
		}
	}
	return n
}

// file is the lab file of p.
func (p *plan) file(name string, nodes map[string]topology.FileNode) *topology.File {
	f := &topology.File{
		Name:    name,
		Nodes:   nodes,
		Subnets: map[string]topology.FileSubnet{opsName: {CIDR: topology.Strings{opsPrefix}}},
	}
	for i, prefix := range p.prefixes {
		f.Subnets[fmt.Sprintf("clients-%d", i+1)] = topology.FileSubnet{CIDR: topology.Strings{prefix}}
	}
	return f
}

// raise builds the lab and sees to its end.
func (s *Stage) raise(ctx context.Context, p *plan) {
	GinkgoHelper()
	binary, err := Binary(ctx)
	Expect(err).NotTo(HaveOccurred())
	name := labName(os.Getpid(), number.Add(1))
	nodes, brokers := p.nodes()
	lab, err := p.file(name, nodes).Resolve("")
	Expect(err).NotTo(HaveOccurred())
	o := netlab.Options{Binary: binary, Progress: func(line string) { GinkgoWriter.Println(line) }}
	s.lab, err = netlab.Up(ctx, lab, o)
	Expect(err).NotTo(HaveOccurred(), "bring up the lab")
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // the spec's own context has ended by then
		if CurrentSpecReport().Failed() {
			s.printLogs()
			s.evidence() // unless it was saved before, with clients still there
		}
		kept := s.keep()
		if s.folder != "" || kept {
			report.Attach(report.Evidence{Folder: s.folder, Lab: s.keptLab()})
		}
		if kept {
			return
		}
		Expect(s.lab.Down(ctx)).To(Succeed())
		Expect(netlab.Leaks(name, o)).To(BeEmpty(), "the lab left something")
	}, NodeTimeout(downTime))
	for _, skipped := range s.lab.Skipped() {
		skip(report.LackKernel, fmt.Sprintf("%s %s: %s", skipped.Name, skipped.What, skipped.Why))
	}
	for i, name := range brokers {
		b := s
		if i > 0 {
			b = &Stage{scene: s.scene}
		}
		b.node, err = s.lab.Node(name)
		Expect(err).NotTo(HaveOccurred())
		b.id = int32(i + 1)
		s.brokers = append(s.brokers, b)
	}
	s.ops, err = s.lab.Subnet(opsName)
	Expect(err).NotTo(HaveOccurred())
	for i, text := range p.prefixes {
		subnet, err := s.lab.Subnet(fmt.Sprintf("clients-%d", i+1))
		Expect(err).NotTo(HaveOccurred())
		s.subnets[text] = &Network{subnet: subnet, prefix: netip.MustParsePrefix(text).Masked()}
	}
}

// keptLab is the name of the lab if it is left standing.
func (s *Stage) keptLab() string {
	if !s.kept {
		return ""
	}
	return s.lab.Name()
}

// printLogs puts the last that the lab's nodes said into the report of a spec that failed.
func (s *Stage) printLogs() {
	for _, n := range s.lab.Nodes() {
		text, err := os.ReadFile(n.LogPath())
		if err != nil {
			continue
		}
		const most = 25 // lines: the spec's own message must be found beside them
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(lines) > most {
			lines = append([]string{"…"}, lines[len(lines)-most:]...)
		}
		GinkgoWriter.Printf("--- the log of %s\n%s\n", n.Name, strings.Join(lines, "\n"))
	}
}

// connect makes the stage's own client, over plaintext from the subnet ops.
func (s *Stage) connect(ctx context.Context) {
	GinkgoHelper()
	var err error
	s.client, err = kgo.NewClient(
		kgo.SeedBrokers(strings.Split(s.Bootstrap(s.plainListener()), ",")...),
		kgo.Dialer(s.ops.Dialer(netip.Addr{})),
		kgo.ClientID("stage"),
		admin.Versions(),
	)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.client.Close)
	s.admin, s.kadm = admin.New(s.client), kadm.NewClient(s.client)
	for _, b := range s.brokers {
		Eventually(b.Ping).WithContext(ctx).WithTimeout(30 * time.Second).Should(Succeed())
		b.hasConfigs(ctx, nil) // so that the connection to the broker under its own name, too, is there before anybody counts
	}
}

// plainListener is the first listener with protocol PLAINTEXT.
func (s *Stage) plainListener() string {
	GinkgoHelper()
	for _, l := range s.node.Listeners {
		if l.Protocol == string(fleet.Plaintext) {
			return l.Name
		}
	}
	Fail("a stage needs a PLAINTEXT listener for its own questions")
	return ""
}

func (s *Stage) listener(name string) topology.Listener {
	GinkgoHelper()
	for _, l := range s.node.Listeners {
		if strings.EqualFold(l.Name, name) {
			return l
		}
	}
	Fail(fmt.Sprintf("the broker has no listener %q", name))
	return topology.Listener{}
}

// Address is the broker's address of a family.
func (s *Stage) Address(v6 bool) netip.Addr {
	GinkgoHelper()
	a := s.node.Addr(v6)
	Expect(a.IsValid()).To(BeTrue(), "the broker has no address of that family")
	return a
}

// Network is the client network with this prefix, as given to [Subnet].
func (s *Stage) Network(prefix string) *Network {
	GinkgoHelper()
	n := s.subnets[prefix]
	if n == nil {
		Fail(fmt.Sprintf("the stage has no subnet %q", prefix))
	}
	return n
}

// Node is the broker's node: stop, kill and start it there.
func (s *Stage) Node() *netlab.Node { return s.node }

// Ping asks the broker for a sign of life.
func (s *Stage) Ping(ctx context.Context) error {
	if len(s.brokers) < 2 {
		return s.client.Ping(ctx)
	}
	_, err := s.self().Request(ctx, kmsg.NewPtrApiVersionsRequest())
	return err
}

// Lab is the stage's lab.
func (s *Stage) Lab() *netlab.Lab { return s.lab }

// CutOff takes down the link of a subnet, inside it, so that not one packet comes or goes any more. Its clients stay.
func (s *Stage) CutOff(_ context.Context, prefix string) {
	GinkgoHelper()
	ns, err := s.Network(prefix).subnet.Netns()
	Expect(err).NotTo(HaveOccurred())
	Expect(ns.Do(linksDown)).To(Succeed())
}

// errNoLink is returned where a subnet has no link to take down.
var errNoLink = errors.New("the subnet has no link")
