package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// TargetVariable is the environment variable that says which product specs run against, as [ParseTarget] reads it. The runner
// sets it; without it that is brokerlab's own broker.
const TargetVariable = "BROKERLAB_TARGET"

// Product is a broker that specs can run against. The zero value is brokerlab's own.
type Product struct {
	// Kafka is the release of Apache Kafka, such as 4.4.0; "" for brokerlab's own broker.
	Kafka string
}

// ErrTarget is returned for a text that names no product.
var ErrTarget = errors.New("want broker, kafka or kafka:VERSION, such as kafka:4.3.0")

// ParseTarget reads a product: broker, kafka (the release that brokerlab is made after) or kafka:VERSION.
func ParseTarget(text string) (Product, error) {
	kind, version, given := strings.Cut(text, ":")
	switch {
	case kind == topology.Broker && !given, text == "":
		return Product{}, nil
	case kind == topology.Kafka && !given:
		return Product{Kafka: kafkahome.Default}, nil
	case kind == topology.Kafka:
		if err := kafkahome.CheckVersion(version); err != nil {
			return Product{}, fmt.Errorf("target %q: %w: %w", text, err, ErrTarget)
		}
		return Product{Kafka: version}, nil
	}
	return Product{}, fmt.Errorf("target %q: %w", text, ErrTarget)
}

// Target is the product that specs run against. What cannot be read is brokerlab's own: whoever begins a run has looked.
func Target() Product {
	p, _ := ParseTarget(os.Getenv(TargetVariable))
	return p
}

// IsKafka tells whether p is Apache Kafka.
func (p Product) IsKafka() bool { return p.Kafka != "" }

// String is p as [ParseTarget] reads it.
func (p Product) String() string {
	if p.IsKafka() {
		return topology.Kafka + ":" + p.Kafka
	}
	return topology.Broker
}

// Title is what people call p.
func (p Product) Title() string {
	if p.IsKafka() {
		return "Apache Kafka " + p.Kafka
	}
	return "brokerlab's broker"
}

// Find tells whether p can be started here: Apache Kafka has to have been fetched.
func (p Product) Find() error {
	if !p.IsKafka() {
		return nil
	}
	_, err := kafkahome.Find(p.Kafka)
	return err
}

// Node is a lab's node that runs p with these keys of server.properties. What a broker is told as metadata.version, Apache Kafka
// is formatted with.
func (p Product) Node(config map[string]topology.Text, listeners []string) topology.FileNode {
	if !p.IsKafka() {
		return topology.FileNode{Kind: topology.Broker, Config: config, Listeners: listeners}
	}
	const level = "metadata.version"
	n := topology.FileNode{Kind: topology.Kafka, Version: p.Kafka, Config: map[string]topology.Text{}, Listeners: listeners, Release: string(config[level])}
	for key, value := range config {
		if key != level && !strings.HasPrefix(key, "metrics.") {
			n.Config[key] = value
		}
	}
	return n
}

// Command is p as a process of this machine, outside of labs, told by a server.properties.
func (p Product) Command(ctx context.Context, properties string) (*exec.Cmd, error) {
	var line []string
	if p.IsKafka() {
		home, err := kafkahome.Find(p.Kafka)
		if err != nil {
			return nil, err
		}
		line = home.Java(kafkahome.Server, properties)
	} else {
		binary, err := Binary(ctx)
		if err != nil {
			return nil, err
		}
		line = []string{binary, "broker", "--config", properties}
	}
	return exec.CommandContext(ctx, line[0], line[1:]...), nil //nolint:gosec // programs of our own choice
}

// Ability is a thing that some specs are about or look through, and that not every product has.
type Ability string

// What a product can lack.
const (
	Listing    Ability = "listing"     // a list of connections (KIP-1329)
	ConfigPush Ability = "config-push" // clients push their configurations (KIP-1324)
	MaxSSL     Ability = "max-ssl"     // max.ssl.connections (KIP-1015)
	Ranges     Ability = "ranges"      // hosts of ACLs that are ranges (KIP-1276)
	Metrics    Ability = "metrics"     // metrics over HTTP, with the reasons for which connections ended
	Faces      Ability = "faces"       // brokers before an engine that is somewhere else
)

// Specs with the label "kafka" are the few that CI asks of Apache Kafka with each change; every spec can be asked by hand.

// needLabel begins the labels that [Needs] makes.
const needLabel = "needs:"

// Needs declares what specs cannot do without, in place of a label. Against a product that lacks it they are skipped, with the
// reason:
//
//	var _ = Describe("The list", Label("listing"), stage.Needs(stage.Listing), func() {
func Needs(needs ...Ability) Labels {
	labels := make(Labels, len(needs))
	for i, n := range needs {
		labels[i] = needLabel + string(n)
	}
	return labels
}

// Has tells whether the target has what need is about, for a spec that can do with less:
//
//	if stage.Has(stage.Metrics) {
//		Expect(s.Closed(ctx)).To(HaveKeyWithValue("idle", 30))
//	}
func Has(need Ability) bool { return Target().lacks(need) == "" }

// Lacks is why specs with these labels cannot run against p; "" if they can.
func (p Product) Lacks(labels []string) string {
	var whys []string
	for _, label := range labels {
		if need, ok := strings.CutPrefix(label, needLabel); ok {
			if why := p.lacks(Ability(need)); why != "" {
				whys = append(whys, why)
			}
		}
	}
	if len(whys) == 0 {
		return ""
	}
	return p.Title() + " has no " + strings.Join(whys, ", and no ")
}

// lacks is what p has not that need is about; "" if it has it.
func (p Product) lacks(need Ability) string {
	if !p.IsKafka() {
		return ""
	}
	switch need {
	case Listing:
		return "list of connections (KIP-1329)"
	case ConfigPush:
		return "request by which clients push their configurations (KIP-1324)"
	case MaxSSL:
		return "max.ssl.connections (KIP-1015)"
	case Faces:
		return "brokers before an engine that is somewhere else"
	case Metrics:
		return "metrics over HTTP, and nothing that tells why a connection ended"
	case Ranges:
		if p.before(4, 4) {
			return "hosts in ACLs that are ranges (KIP-1276, since 4.4)"
		}
		return ""
	}
	return fmt.Sprintf("%q, which brokerlab does not know", string(need))
}

// before tells whether p is Apache Kafka of a release before major.minor.
func (p Product) before(major, minor int) bool {
	parts := strings.Split(p.Kafka, ".")
	const both = 2
	if len(parts) < both {
		return false
	}
	m, _ := strconv.Atoi(parts[0]) // digits, as ParseTarget looked
	n, _ := strconv.Atoi(parts[1])
	return m < major || m == major && n < minor
}

// SkipForTarget skips the spec that runs if the target lacks what it [Needs]. Runs of specs call it before each.
func SkipForTarget() {
	if why := Target().Lacks(CurrentSpecReport().Labels()); why != "" {
		skip(report.LackTarget, why)
	}
}

// startTime is what a start of Apache Kafka may take on a machine that is busy with other things.
const startTime = 2 * time.Minute

// Within is the time that a spec may take which takes that long against brokerlab's own broker: starts of Apache Kafka, of which a
// spec has few, are allowed for.
func Within(d time.Duration) time.Duration {
	if Target().IsKafka() {
		return 2*d + startTime
	}
	return d
}
