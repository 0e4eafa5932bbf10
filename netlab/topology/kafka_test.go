package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
)

func TestKafkaHasWhatABrokerHasAndAVersion(t *testing.T) {
	lab := parse(t, `
name: x
nodes:
  k1: {kind: kafka, expose: [29092], env: {KAFKA_HEAP_OPTS: -Xmx1g}}
  k2: {kind: kafka, version: 4.3.0, release: 4.3-IV0, cluster: two, listeners: IN://:9000, config: {listener.security.protocol.map: IN:SSL}}
`)
	one, two := lab.Nodes[0], lab.Nodes[1]
	if !one.Serves() || one.Version != kafkahome.Default || one.Config["node.id"] != "1" || len(one.Listeners) != 4 || len(one.Ports) != 5 ||
		one.Expose[0].Protocol != "PLAINTEXT" || one.Env["KAFKA_HEAP_OPTS"] != "-Xmx1g" {
		t.Errorf("k1 = %+v, want version %s, node.id 1, four listeners and an exposed one", one, kafkahome.Default)
	}
	if two.Version != "4.3.0" || two.Release != "4.3-IV0" || two.Cluster != "two" || two.Config["node.id"] != "2" || two.Listeners[0] != (Listener{"IN", "SSL", "", 9000}) {
		t.Errorf("k2 = %+v, want what the file says", two)
	}
}

func TestAHomeIsRelativeToTheLabFileAndHasItsVersion(t *testing.T) {
	folder := t.TempDir()
	libs := filepath.Join(folder, "mine", "libs")
	if err := os.MkdirAll(libs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(libs, "kafka_2.13-4.2.1.jar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lab, err := Parse(filepath.Join(folder, "lab.yaml"), []byte("name: x\nnodes: {k: {kind: kafka, home: mine}}"))
	if err != nil {
		t.Fatal(err)
	}
	if n := lab.Nodes[0]; n.Version != "4.2.1" || n.Home != filepath.Join(folder, "mine") {
		t.Errorf("version, home = %s, %s, want 4.2.1 of %s/mine", n.Version, n.Home, folder)
	}
}

func TestWhatIsWrongWithAKafkaNodeIsToldAtItsPlace(t *testing.T) {
	for _, c := range []struct{ nodes, want string }{
		{"{k: {kind: kafka, version: 4.x}}", `lab.yaml:2:26: "4.x" is no version of Kafka such as 4.4.0`},
		{"{k: {kind: kafka, version: 3.9.1}}", "lab.yaml:2:26: version 3.9.1: want 4.0.0 or later"},
		{"{k: {kind: kafka, home: /nowhere}}", "lab.yaml:2:26: no release of Kafka: open /nowhere/libs"},
		{"{k: {kind: kafka, version: 4.3.0, home: /nowhere}}", "lab.yaml:2:42: version is here, too"},
		{"{k: {kind: kafka, release: latest}}", `lab.yaml:2:26: "latest" is no level of metadata.version`},
		{"{k: {kind: kafka, cluster: a b}}", `lab.yaml:2:26: name "a b" may have letters`},
		{"{k: {kind: kafka, cmd: ls}}", "lab.yaml:2:26: a node of kind kafka has no cmd"},
		{"{k: {kind: kafka, ports: [1]}}", "lab.yaml:2:26: a node of kind kafka has no ports"},
		{"{b: {kind: broker, version: 4.3.0}}", "lab.yaml:2:27: a node of kind broker has no version"},
		{"{b: {kind: broker, env: {A: b}}}", "lab.yaml:2:27: a node of kind broker has no env"},
		{"{e: {kind: exec, cmd: ls, cluster: c}}", "lab.yaml:2:34: a node of kind exec has no cluster"},
		{"{k: {kind: kafak}}", `lab.yaml:2:13: unknown kind "kafak": did you mean "kafka"?`},
		{"{a: {kind: kafka, cluster: c, release: 4.3}, b: {kind: kafka, cluster: c}}", `release is "", that of a in the same cluster is "4.3"`},
		{"{a: {kind: kafka, cluster: c, version: 4.3.0}, b: {kind: kafka, cluster: c}}", "version is 4.4.0, that of a in the same cluster is 4.3.0"},
		{"{a: {kind: kafka, config: {node.id: 2}}, b: {kind: kafka}}", "node.id 2 is that of a"},
	} {
		_, err := Parse("lab.yaml", []byte("name: x\nnodes: "+c.nodes))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.nodes, err, c.want)
		}
	}
}
