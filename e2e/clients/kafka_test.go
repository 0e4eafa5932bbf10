package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// With -kafka the broker is Apache Kafka's. It has what a broker of KRaft needs beside, and no metrics that are read here.

// cellsOfKafka are by client, pair and operation whether it worked with a broker of Apache Kafka, as far as that was tried.
type cellsOfKafka map[string]map[string]map[string]bool

// committedOfKafka is where they are kept. With -kafka and -update a run adds what it tried.
const committedOfKafka = "testdata/kafka.json"

func readCellsOfKafka(t *testing.T) cellsOfKafka {
	t.Helper()
	content, err := os.ReadFile(committedOfKafka)
	if err != nil {
		t.Fatal(err)
	}
	cells := cellsOfKafka{}
	if err := json.Unmarshal(content, &cells); err != nil {
		t.Fatalf("read %s: %v", committedOfKafka, err)
	}
	return cells
}

// refuses tells whether operations were tried, and none of them worked: all that a client has over a pair, where none is named.
func (k cellsOfKafka) refuses(client string, p pair, ops ...string) bool {
	tried := 0
	for op, works := range k[client][p.String()] {
		if len(ops) > 0 && !slices.Contains(ops, op) {
			continue
		}
		if works {
			return false
		}
		tried++
	}
	return tried > 0
}

// updateKafka writes what a run saw of Apache Kafka.
func (r *results) updateKafka(t *testing.T) {
	t.Helper()
	cells := readCellsOfKafka(t)
	for _, c := range r.Clients {
		for p, ops := range c.Cells {
			seen := map[string]bool{}
			for op, cell := range ops {
				if cell.Unsupported == "" {
					seen[op] = cell.Works
				}
			}
			if cells[c.Client] == nil {
				cells[c.Client] = map[string]map[string]bool{}
			}
			cells[c.Client][p] = seen
		}
	}
	writeJSON(t, committedOfKafka, cells)
	readResults(t).writePage(t)
}

// kafkaOnly is what Apache Kafka's properties have beside those of ours.
func kafkaOnly() []string {
	return []string{
		"process.roles=broker,controller", "controller.listener.names=CONTROLLER", "sasl.mechanism.controller.protocol=PLAIN",
		"sasl.mechanism.inter.broker.protocol=PLAIN",
		"listener.name.controller.sasl.enabled.mechanisms=PLAIN",
		`listener.name.controller.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required ` +
			`username="admin" password="` + password + `" user_admin="` + password + `";`,
		"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1", "transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=1", "share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
	}
}

// kafkaCommand is the command line of a class of Apache Kafka's.
func kafkaCommand(t *testing.T, class string, args ...string) []string {
	t.Helper()
	libs, err := kafkaLibs()
	if err != nil {
		t.Skip(err)
	}
	log := filepath.Join(tree(), "e2e", "clients", "testdata", "kafka-log4j2.properties")
	return append(append(java(), "-Xmx512m", "-Dlog4j2.configurationFile="+log, "-cp", libs+"/*", class), args...)
}

// formatKafka makes the folder for the data of a broker of Apache Kafka.
func formatKafka(t *testing.T, dir string) {
	t.Helper()
	c := kafkaCommand(t, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", dir+"/server.properties", "--standalone")
	if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
}
