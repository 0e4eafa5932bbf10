package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

const (
	// clusterName is the cluster of a stage's brokers.
	clusterName = "brokers"
	// engineNode is the node of the embedded engine of brokers that are a cluster.
	engineNode = "engine"
	// EngineVersion is the release of Apache Kafka that [BeforeKafka] puts brokers before.
	EngineVersion = kafkahome.Default
)

// Brokers makes the stage's brokers a cluster of so many, named broker1, broker2 and so on, before an embedded engine in a node of
// its own. The stage itself is about the first of them; [Stage.Broker] gives the others. Against Apache Kafka they are a cluster
// of its own.
func Brokers(count int) Option {
	return func(p *plan) { p.brokers = count }
}

// BeforeKafka puts the brokers before as many nodes of Apache Kafka, named kafka1, kafka2 and so on, instead of an embedded engine.
func BeforeKafka() Option {
	return func(p *plan) { p.kafka = true }
}

// nodes are the nodes of the stage's lab, and the names of its brokers in order.
func (p *plan) nodes() (nodes map[string]topology.FileNode, brokers []string) {
	if p.brokers == 0 {
		return map[string]topology.FileNode{brokerNode: p.node(Target())}, []string{brokerNode}
	}
	nodes = map[string]topology.FileNode{}
	for i := range p.brokers {
		name := brokerNode + strconv.Itoa(i+1)
		n := p.node(Target())
		n.Cluster = clusterName
		nodes[name], brokers = n, append(brokers, name)
		if p.kafka {
			behind := fast(topology.FileNode{Kind: topology.Kafka, Version: EngineVersion, Cluster: clusterName, Config: p.kafkaConfig})
			nodes[topology.Kafka+strconv.Itoa(i+1)] = behind
		}
	}
	if !p.kafka && !Target().IsKafka() {
		nodes[engineNode] = topology.FileNode{Kind: topology.Engine, Cluster: clusterName}
	}
	return nodes, brokers
}

// needKafka skips the spec where there is no Apache Kafka to put brokers before.
func (p *plan) needKafka() {
	if !p.kafka {
		return
	}
	_, err := kafkahome.Find(EngineVersion)
	if err == nil {
		err = kafkahome.CheckJava()
	}
	if err != nil {
		skip(report.LackTarget, err.Error())
	}
}

// Broker is the stage seen from its broker with this node.id: its node, its list, its counts, clients at its listeners, requests to
// it alone. Everything else is shared.
func (s *Stage) Broker(id int) *Stage {
	GinkgoHelper()
	Expect(id).To(And(BeNumerically(">", 0), BeNumerically("<=", len(s.brokers))), "the stage has no broker %d", id)
	return s.brokers[id-1]
}

// All is the stage seen from each of its brokers, in order.
func (s *Stage) All() []*Stage { return s.brokers }

// Part is another node of the stage's lab by its name: "engine", or "kafka1" and so on.
func (s *Stage) Part(name string) *netlab.Node {
	GinkgoHelper()
	n, err := s.lab.Node(name)
	Expect(err).NotTo(HaveOccurred())
	return n
}

// Name is the name of the broker's node.
func (s *Stage) Name() string { return s.node.Name }

// Cut lets no packet pass between the broker's node and another node or subnet of the lab, until heal is called or the spec ends.
func (s *Stage) Cut(ctx context.Context, other string) (heal func(context.Context)) {
	GinkgoHelper()
	Expect(s.lab.Cut(ctx, s.node.Name, other)).To(Succeed())
	heal = func(ctx context.Context) {
		GinkgoHelper()
		Expect(s.lab.Heal(ctx, s.node.Name, other)).To(Succeed())
	}
	DeferCleanup(heal)
	return heal
}

// nodes is what is asked of a cluster to ask this broker alone; a broker that is alone needs no name.
func (s *Stage) nodes() []int32 {
	if len(s.brokers) < 2 {
		return nil
	}
	return []int32{s.id}
}

// self sends requests to this broker.
func (s *Stage) self() kmsg.Requestor {
	if len(s.brokers) < 2 {
		return s.client
	}
	return one{s.client.Broker(int(s.id))}
}

// Of is this broker as a client sees it, or as the stage's own client does if c is nil: where no answer, or a refusal, is one of the answers.
func (s *Stage) Of(c *kgo.Client) kmsg.Requestor {
	if c == nil {
		return s.self()
	}
	return one{c.Broker(int(s.id))}
}

// one sends requests to one broker of a cluster.
type one struct{ broker *kgo.Broker }

// Request sends a request, again where that can help.
func (o one) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return o.broker.RetriableRequest(ctx, req)
}

// Bootstrap is the address of a listener of every broker of the stage, as --bootstrap-server takes them.
func (s *Stage) Bootstrap(listener string) string {
	GinkgoHelper()
	all := make([]string, len(s.brokers))
	for i, b := range s.brokers {
		all[i] = fmt.Sprintf("%s:%d", b.node.Name, b.listener(listener).Port)
	}
	return strings.Join(all, ",")
}

// PID is the broker's process.
func (s *Stage) PID(ctx context.Context) int {
	GinkgoHelper()
	return s.pid(ctx)
}

// Faces are the node ids of the brokers that have an address, as this broker tells its clients.
func (s *Stage) Faces(ctx context.Context) ([]int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; null would be all
	resp, err := req.RequestWith(ctx, s.self())
	if err != nil {
		return nil, err
	}
	var ids []int32
	for i := range resp.Brokers {
		ids = append(ids, resp.Brokers[i].NodeID)
	}
	slices.Sort(ids)
	return ids, nil
}

// HasUser tells whether the broker has SCRAM credentials of a user.
func (s *Stage) HasUser(ctx context.Context, user string) bool {
	GinkgoHelper()
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	one := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
	one.Name = user
	req.Users = append(req.Users, one)
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	return len(resp.Results) == 1 && resp.Results[0].ErrorCode == 0
}

// Upgrade takes the cluster to a level of metadata.version. The zero Refusal is success.
func (s *Stage) Upgrade(ctx context.Context, level string) Refusal {
	GinkgoHelper()
	to, err := feature.Parse(level)
	Expect(err).NotTo(HaveOccurred())
	req := kmsg.NewPtrUpdateFeaturesRequest()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = feature.MetadataVersion, to, 1
	req.FeatureUpdates = append(req.FeatureUpdates, update)
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	refusal := Refusal{Code: resp.ErrorCode, Text: textOf(resp.ErrorMessage)}
	for i := range resp.Results {
		if r := &resp.Results[i]; r.ErrorCode != 0 {
			refusal = Refusal{Code: r.ErrorCode, Text: textOf(r.ErrorMessage)}
		}
	}
	return refusal
}

// Rewrite sets a key of the broker's server.properties, which its next start reads; an empty value takes the key away.
func (s *Stage) Rewrite(key, value string) {
	GinkgoHelper()
	path := filepath.Join(filepath.Dir(s.node.LogPath()), propertiesFile)
	var lines []string
	for line := range strings.Lines(readFile(path)) {
		if !strings.HasPrefix(line, key+"=") {
			lines = append(lines, line)
		}
	}
	if value != "" {
		lines = append(lines, key+"="+value+"\n")
	}
	Expect(os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600)).To(Succeed())
}

// Knock connects anew from a subnet to a listener without TLS, and asks what everybody may ask before they log in.
func (s *Stage) Knock(ctx context.Context, prefix, listener string) error {
	GinkgoHelper()
	const bound = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	c, err := s.Network(prefix).Dialer(netip.Addr{})(ctx, "tcp", fmt.Sprintf("%s:%d", s.node.Name, s.listener(listener).Port))
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // all that is wanted was read, or nothing will be
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	_, writeErr := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 0))
	var size [4]byte
	_, readErr := io.ReadFull(c, size[:])
	return errors.Join(writeErr, readErr)
}

// Reach connects from a subnet to a port of a node of the lab.
func (s *Stage) Reach(ctx context.Context, prefix, node string, port uint16) error {
	GinkgoHelper()
	const bound = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	c, err := s.Network(prefix).Dialer(netip.Addr{})(ctx, "tcp", fmt.Sprintf("%s:%d", node, port))
	if err != nil {
		return err
	}
	return c.Close()
}

// Told are the addresses of brokers, as host:port, that this broker tells a client of a listener: in Metadata, DescribeCluster and
// FindCoordinator.
func (s *Stage) Told(ctx context.Context, prefix, listener, user, topic, group string) []string {
	GinkgoHelper()
	c := s.Client(prefix, s.Network(prefix).Addr(0).String(), listener, user)
	defer c.Close()
	self := one{c.Broker(int(s.id))}
	var all []string
	tell := func(host string, port int32) {
		if address := fmt.Sprintf("%s:%d", host, port); !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	metadata := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = new(topic)
	metadata.Topics = append(metadata.Topics, asked)
	answer, err := metadata.RequestWith(ctx, self)
	Expect(err).NotTo(HaveOccurred())
	for i := range answer.Brokers {
		tell(answer.Brokers[i].Host, answer.Brokers[i].Port)
	}
	described, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, self)
	Expect(err).NotTo(HaveOccurred())
	for i := range described.Brokers {
		tell(described.Brokers[i].Host, described.Brokers[i].Port)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{group}
	found, err := find.RequestWith(ctx, self)
	Expect(err).NotTo(HaveOccurred())
	for i := range found.Coordinators {
		if found.Coordinators[i].ErrorCode == 0 {
			tell(found.Coordinators[i].Host, found.Coordinators[i].Port)
		}
	}
	return all
}

// TryCommand is [Stage.Command] where a failure is one of the answers: what it printed, what it said on standard error, and its exit code.
func (s *Stage) TryCommand(ctx context.Context, args ...string) (out, problems string, code int) {
	GinkgoHelper()
	binary, err := Binary(ctx)
	Expect(err).NotTo(HaveOccurred())
	var printed, said bytes.Buffer
	err = s.lab.Exec(ctx, opsName, netlab.Command{Args: append([]string{binary}, args...), Stdout: &printed, Stderr: &said})
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return printed.String(), said.String(), ended.ExitCode()
	}
	Expect(err).NotTo(HaveOccurred())
	return printed.String(), said.String(), 0
}
