package clients

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// With -kafka the broker is Apache Kafka's. It has what a broker of KRaft needs beside, and no metrics that are read here.

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
