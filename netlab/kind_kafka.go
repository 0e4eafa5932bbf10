package netlab

import (
	"cmp"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"maps"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Listeners that a Kafka node has besides those of the lab file: over TLS with the nodes' certificates, so that brokers and
// controllers know each other as themselves whatever the file's own listeners are. Nobody counts their connections.
const (
	controllersListener = "LAB_CONTROLLERS"
	brokersListener     = "LAB_BROKERS"
)

// kafkaServes is what Kafka logs once it serves. Its ports are open before: until then the cluster has no broker that a
// topic could be put on.
const kafkaServes = "Kafka Server started"

// kafkaLogging is what Kafka logs: as in a release, but to the node's log, and without the list of all configs.
const kafkaLogging = `# Made by lab up.
status = error
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
logger.channel.name = kafka.network.RequestChannel$
logger.channel.level = warn
logger.authorizer.name = kafka.authorizer.logger
logger.authorizer.level = info
`

// kafkaKind runs Apache Kafka in KRaft's combined mode: each node is a broker and a controller.
type kafkaKind struct{}

func (kafkaKind) prepare(h home, s *state, n *topology.Node, _ string) error {
	config := h.serverDefaults(s.Lab, n)
	lab := labCluster(s.Lab, n)
	maps.Copy(config, lab.defaults(n))
	maps.Copy(config, n.Config)
	all := allListeners(n)
	if config["inter.broker.listener.name"] == brokersListener && n.Config["security.inter.broker.protocol"] == "" {
		all = append(all, lab.listener(n, brokersListener))
	}
	complete(config, n, all)
	lab.complete(config, n)
	if err := writeSecret(h.path("nodes", n.Name, "log4j2.properties"), []byte(kafkaLogging)); err != nil {
		return err
	}
	return h.writeServerProperties(s.Lab, n, config)
}

func (kafkaKind) command(h home, s *state, n *topology.Node) (program, error) {
	kafka, err := kafkaHome(n)
	if err != nil {
		return program{}, err
	}
	getenv := kafkaEnv(n)
	options, says := kafkahome.Options(getenv), ""
	if getenv("KAFKA_LOG4J_OPTS") == "" { // whoever logs in their own way may not log what is waited for
		options, says = append(options, "-Dlog4j2.configurationFile="+h.path("nodes", n.Name, "log4j2.properties")), kafkaServes
	}
	properties := h.serverProperties(n)
	java := func(line []string) []string {
		line[0] = kafkahome.Program("java", getenv)
		return line
	}
	return program{
		args: java(kafka.JavaWith(options, kafkahome.Server, properties)),
		env:  environment(n),
		says: says,
		before: func() ([][]string, error) {
			if h.formatted(n) {
				return nil, nil
			}
			users, err := scramUsers(s.Lab)
			if err != nil {
				return nil, err
			}
			return [][]string{java(kafka.FormatCommand(properties, labCluster(s.Lab, n).id(), n.Release, users...))}, nil
		},
	}, nil
}

// kafkaEnv are the variables that a node's Kafka sees: those of its env, and this process's.
func kafkaEnv(n *topology.Node) func(string) string {
	return func(key string) string { return cmp.Or(n.Env[key], os.Getenv(key)) }
}

// kafkaHome is the release that a node runs.
func kafkaHome(n *topology.Node) (kafkahome.Home, error) {
	if n.Home != "" {
		return kafkahome.At(n.Home)
	}
	return kafkahome.Find(n.Version)
}

// formatted tells whether all folders for a node's logs have been formatted.
func (h home) formatted(n *topology.Node) bool {
	folders := entries(cmp.Or(n.Config["log.dirs"], n.Config["log.dir"], h.path("nodes", n.Name, "data")))
	folders = append(folders, entries(n.Config["metadata.log.dir"])...)
	return !slices.ContainsFunc(folders, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, "meta.properties"))
		return err != nil
	})
}

// scramUsers are the arguments that give the lab's users SCRAM credentials when storage is formatted, salted here so that
// no command line has a password.
func scramUsers(lab *topology.Lab) ([]string, error) {
	const iterations, saltBytes = 4096, 16
	var args []string
	for _, u := range lab.Users {
		for _, m := range []struct {
			name string
			new  func() hash.Hash
			size int
		}{{"SCRAM-SHA-256", sha256.New, sha256.Size}, {"SCRAM-SHA-512", sha512.New, sha512.Size}} {
			salt := make([]byte, saltBytes)
			_, _ = rand.Read(salt) // never fails
			salted, err := pbkdf2.Key(m.new, u.Password, salt, iterations, m.size)
			if err != nil {
				return nil, fmt.Errorf("salt the password of %s: %w", u.Name, err)
			}
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,iterations=%d,salt=%q,saltedpassword=%q]", m.name, u.Name, iterations,
				base64.StdEncoding.EncodeToString(salt), base64.StdEncoding.EncodeToString(salted)))
		}
	}
	return args, nil
}

// cluster is the nodes of one quorum, and the brokers of ours before them.
type cluster struct {
	lab   string
	name  string
	nodes []*topology.Node
	faces []*topology.Node
}

// labCluster is the cluster that n belongs to.
func labCluster(lab *topology.Lab, n *topology.Node) cluster {
	return cluster{lab: lab.Name, name: n.ClusterName(), nodes: lab.With(n, topology.Kafka), faces: lab.With(n, topology.Broker)}
}

// alone tells whether the cluster has one node only, which then reaches itself by loopback.
func (c cluster) alone() bool { return len(c.nodes) == 1 }

// id is the cluster's id, the same for all nodes and each time that the lab is built.
func (c cluster) id() string {
	sum := sha256.Sum256([]byte(c.lab + "/" + c.name))
	sum[0] &= 0x7f // so that its text does not begin with a hyphen, as if it were a flag
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// host is how the nodes of the cluster reach n.
func (c cluster) host(n *topology.Node) string {
	if c.alone() {
		return "localhost"
	}
	return n.Name
}

// listener is one of the lab's own listeners on n, at a port that the lab file leaves free.
func (c cluster) listener(n *topology.Node, name string) topology.Listener {
	const first = 9990
	port := uint16(first)
	free := func() {
		for slices.Contains(n.Ports, port) {
			port++
		}
	}
	free()
	if name == brokersListener {
		port++
		free()
	}
	l := topology.Listener{Name: name, Protocol: "SSL", Port: port}
	if c.alone() {
		l.Host = "localhost"
	}
	return l
}

// defaults is what a node of the cluster gets unless the file says otherwise, beside what every broker gets.
func (c cluster) defaults(n *topology.Node) map[string]string {
	var voters []string
	for _, one := range c.nodes {
		address := net.JoinHostPort(c.host(one), strconv.Itoa(int(c.listener(one, controllersListener).Port)))
		voters = append(voters, one.Config["node.id"]+"@"+address)
	}
	replicas := strconv.Itoa(min(len(c.nodes), 3))
	config := map[string]string{
		"process.roles":                                    "broker,controller",
		"controller.listener.names":                        controllersListener,
		"controller.quorum.voters":                         strings.Join(voters, ","),
		"default.replication.factor":                       replicas,
		"offsets.topic.replication.factor":                 replicas,
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
	}
	if n.Config["security.inter.broker.protocol"] == "" {
		config["inter.broker.listener.name"] = brokersListener
	}
	for _, name := range []string{controllersListener, brokersListener} {
		prefix := "listener.name." + strings.ToLower(name) + "."
		config[prefix+"ssl.client.auth"] = "required"
		config[prefix+"ssl.principal.mapping.rules"] = "DEFAULT"
	}
	return config
}

// complete adds what the cluster needs to values that the file may have: its controllers' listener, its nodes and its faces among
// the super users, and room for their connections where a limit for each address would keep them out.
func (c cluster) complete(config map[string]string, n *topology.Node) {
	l := c.listener(n, controllersListener)
	config["listeners"] += fmt.Sprintf(",%s://%s", l.Name, net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
	config["listener.security.protocol.map"] = strings.Join(addTo(entries(config["listener.security.protocol.map"]), l.Name+":", l.Protocol), ",")
	super := strings.Split(config["super.users"], ";")
	overrides := entries(config["max.connections.per.ip.overrides"])
	add := func(a netip.Addr) {
		overrides = addTo(overrides, strings.ToUpper(a.String())+":", strconv.Itoa(math.MaxInt32))
	}
	for _, one := range c.nodes {
		super = append(super, "User:CN="+one.Name)
		if !c.alone() {
			for _, a := range one.Addresses {
				add(a)
			}
		}
	}
	if c.alone() {
		add(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	for _, face := range c.faces {
		super = append(super, faceOf(n, face))
		for _, a := range face.Addresses {
			add(a)
		}
	}
	config["super.users"] = strings.TrimPrefix(strings.Join(super, ";"), ";")
	config["max.connections.per.ip.overrides"] = strings.Join(overrides, ",")
}
