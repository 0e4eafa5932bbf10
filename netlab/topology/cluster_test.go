package topology

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shape is the nodes of a lab in a line each.
func shape(lab *Lab) []string {
	var all []string
	for i := range lab.Nodes {
		n := &lab.Nodes[i]
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s: %s of %s %s", n.Name, n.Kind, n.Cluster, n.Config["node.id"])))
	}
	return all
}

func TestANumberOfBrokersIsAClusterWithAnEngine(t *testing.T) {
	lab := parse(t, `
name: x
brokers: 3
defaults: {broker: {config: {max.connections: 7, num.io.threads: 2}}}
nodes: {broker2: {config: {max.connections: 9}, expose: [29092]}, alone: {kind: broker}}
`)
	want := []string{"alone: broker of  1", "broker1: broker of brokers 1", "broker2: broker of brokers 2", "broker3: broker of brokers 3", "engine: engine of brokers"}
	if diff := cmp.Diff(want, shape(lab)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	for i, limit := range []string{"7", "7", "9", "7"} { // the lone one is of the kind, too
		if c := lab.Nodes[i].Config; c["max.connections"] != limit || c["num.io.threads"] != "2" {
			t.Errorf("config of %s = %v, want max.connections %s and what defaults says", lab.Nodes[i].Name, c, limit)
		}
	}
	engine := &lab.Nodes[4]
	if diff := cmp.Diff([]uint16{9191, 9192, 9193, 9194, 9195}, engine.Ports); diff != "" {
		t.Errorf("ports of the engine (-want +got):\n%s", diff)
	}
	if got := lab.With(engine, Broker); len(got) != 3 || got[0].Name != "broker1" || !got[0].Fronts() || lab.Nodes[0].Fronts() {
		t.Errorf("faces of the engine = %v, want the three of its cluster alone", got)
	}
}

func TestBrokersBeforeKafkaHaveTheIDsOfItsNodes(t *testing.T) {
	lab := parse(t, `
name: x
brokers: 2
engine: kafka
defaults: {kafka: {version: 4.3.0, env: {KAFKA_HEAP_OPTS: -Xmx256m}}}
nodes: {other: {kind: kafka}}
`)
	want := []string{"broker1: broker of brokers 1", "broker2: broker of brokers 2", "kafka1: kafka of brokers 1", "kafka2: kafka of brokers 2", "other: kafka of  1"}
	if diff := cmp.Diff(want, shape(lab)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if k := lab.Nodes[3]; k.Version != "4.3.0" || k.Env["KAFKA_HEAP_OPTS"] != "-Xmx256m" || !lab.Behind(&k) || lab.Behind(&lab.Nodes[4]) {
		t.Errorf("kafka2 = %+v, want what defaults says, behind brokers", k)
	}
}

func TestAClusterCanBeWrittenNodeByNode(t *testing.T) {
	lab := parse(t, `
name: x
nodes:
  a: {kind: broker, cluster: east, config: {node.id: 2}}
  b: {kind: broker, cluster: east, config: {node.id: 1}}
  e: {kind: engine, cluster: east, addresses: 10.0.0.9}
  w: {kind: broker, cluster: west}
  w2: {kind: kafka, cluster: west}
  far: {kind: broker, cluster: far, config: {node.id: 7, engine.bootstrap.servers: "w2:9092"}}
`)
	want := []string{
		"a: broker of east 2", "b: broker of east 1", "e: engine of east", "far: broker of far 7", "w: broker of west 1", "w2: kafka of west 1",
	}
	if diff := cmp.Diff(want, shape(lab)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func TestWhatIsWrongWithAClusterIsToldAtItsPlace(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"brokers: 0", []string{"2:1: brokers is 0: want 1 to 100"}},
		{"brokers: 101", []string{"2:1: brokers is 101: want 1 to 100"}},
		{"brokers: three", []string{`2:1: "three" is not a whole number`}},
		{"engine: kafka", []string{"2:1: whose engine? Say how many brokers there are, such as brokers: 3, or give nodes of kind broker and kafka the same cluster"}},
		{"brokers: 2\nengine: redpanda", []string{`3:1: unknown engine "redpanda": known are embedded, kafka`}},
		{"brokers: 2\nnodes: {broker1: {kind: kafka}, broker2: {cluster: x}, engine: {config: {a: b}}}", []string{
			"3:19: kind is kafka: brokers makes broker1 a node of kind broker", "3:43: brokers makes broker2 a node of its own cluster", "3:65: a node of kind engine has no config",
		}},
		{"brokers: 3\ndefaults: {broker: {listeners: X://:1}, brokr: {}, kafka: {kind: kafka, addresses: 10.0.0.1, cluster: c, expose: [1]}}", []string{
			"3:21: listener X: X is no security protocol", `3:41: unknown kind "brokr": did you mean "broker"?`,
			"3:60: kind cannot be that of all", "3:73: addresses cannot be", "3:94: cluster cannot be", "3:106: expose cannot be",
		}},
		{"brokers: 2\nnodes: {broker1: {config: {node.id: 5}}}", []string{"3:9: node.id is 5: a broker is the face of the engine's node with its node.id, and that has 1, 2"}},
		{"brokers: 2\nnodes: {Broker1: {kind: broker}}", []string{`2:1: name "broker1" is taken: it is a node`}},
		{"brokers: 1\nsubnets: {engine: {cidr: 10.0.0.0/8}}", []string{`3:11: name "engine" is taken: it is a node`}},
		{"nodes:\n  a: {kind: broker, cluster: c}", []string{"3:21: cluster c has neither a node of kind engine nor nodes of kind kafka"}},
		{"nodes:\n  e: {kind: engine}", []string{"3:3: cluster is missing"}},
		{"nodes:\n  e: {kind: engine, cluster: c}", []string{"3:21: cluster c has no broker that would keep its records here"}},
		{"nodes:\n  a: {kind: broker, cluster: c}\n  e: {kind: engine, cluster: c}\n  f: {kind: engine, cluster: c}", []string{
			"4:21: cluster c has an engine already: f", "5:21: cluster c has an engine already: e",
		}},
		{"nodes:\n  a: {kind: broker, cluster: c}\n  b: {kind: broker, cluster: c}\n  k: {kind: kafka, cluster: c}", []string{"4:3: node.id is 2: a broker is the face of the engine's node with its node.id, and that has 1"}},
		{"nodes:\n  a: {kind: broker, cluster: c, config: {node.id: 1}}\n  b: {kind: broker, cluster: c, config: {node.id: 1}}\n  e: {kind: engine, cluster: c}", []string{"4:3: node.id 1 is that of a"}},
		{"nodes:\n  e: {kind: engine, cluster: a b, expose: [1], cmd: x, listeners: 'SSL://:1', ports: [1], env: {A: b}, version: 4.4.0}", []string{
			`3:21: name "a b" may have`, "3:21: cluster a b has no broker", "3:35: a node of kind engine has no expose", "3:48: a node of kind engine has no cmd",
			"3:56: a node of kind engine has no listeners", "3:79: a node of kind engine has no ports", "3:91: a node of kind engine has no env", "3:104: a node of kind engine has no version",
		}},
	} {
		_, err := Parse("lab.yaml", []byte("name: x\n"+c.text))
		var problems InvalidError
		if !errors.As(err, &problems) {
			t.Errorf("%s: %v, want problems", c.text, err)
			continue
		}
		for i, p := range problems {
			if i >= len(c.want) || !strings.HasPrefix(p.String(), "lab.yaml:"+c.want[i]) {
				t.Errorf("%s:\nproblem %d = %s, want %q", c.text, i, p, append(c.want, make([]string, len(problems))...)[i])
			}
		}
		if len(problems) < len(c.want) {
			t.Errorf("%s: problems = %d, want %d:\n%v", c.text, len(problems), len(c.want), err)
		}
	}
}
