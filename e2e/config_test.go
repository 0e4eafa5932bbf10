package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

func itoa(port uint16) string { return strconv.Itoa(int(port)) }

func TestAWrongConfigNamesAllItsProblemsAndNeverStarts(t *testing.T) {
	dir := t.TempDir()
	properties := writeFile(t, dir, "server.properties", strings.Join([]string{
		"node.id=one",
		"listeners=PLAINTEXT://127.0.0.1:99999,SSL://127.0.0.1:0",
		"num.network.threads=0",
		"sasl.enabled.mechanisms=GSSAPI",
		"principal.builder.class=com.example.Builder",
		"log.dirs=" + dir + "/data",
	}, "\n"))
	r := brokerlab(t, "broker", "--config", properties)
	if r.code == 0 {
		t.Fatal("a wrong config started")
	}
	for _, want := range []string{"server.properties:1", "node.id", "99999", "num.network.threads", "principal.builder.class", "ssl.keystore"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, r.stderr)
		}
	}
}

func TestAnUnknownKeyIsAWarningThatSuggestsTheNearest(t *testing.T) {
	dir := t.TempDir()
	properties := writeFile(t, dir, "server.properties", "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nnum.netwrok.threads=2\n")
	r := brokerlab(t, "broker", "--config", properties, "--strict")
	if r.code == 0 || !strings.Contains(r.stderr, "num.network.threads") {
		t.Errorf("--strict: exit %d, said %q; want a failure that suggests num.network.threads", r.code, r.stderr)
	}
}

func TestARealKRaftConfigStarts(t *testing.T) {
	port := strconv.Itoa(kit.FreePort())
	dir := t.TempDir()
	properties := writeFile(t, dir, "server.properties", strings.Join([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.bootstrap.servers=localhost:9093",
		"listeners=PLAINTEXT://127.0.0.1:" + port + ",CONTROLLER://127.0.0.1:9093",
		"inter.broker.listener.name=PLAINTEXT",
		"advertised.listeners=PLAINTEXT://127.0.0.1:" + port + ",CONTROLLER://127.0.0.1:9093",
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
		"num.network.threads=3",
		"num.io.threads=8",
		"socket.send.buffer.bytes=102400",
		"socket.receive.buffer.bytes=102400",
		"socket.request.max.bytes=104857600",
		"log.dirs=" + dir + "/kraft-combined-logs",
		"num.partitions=1",
		"num.recovery.threads.per.data.dir=1",
		"offsets.topic.replication.factor=1",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"log.retention.hours=168",
		"log.segment.bytes=1073741824",
		"log.retention.check.interval.ms=300000",
	}, "\n"))
	start(t, "broker", "--config", properties)
	kit.Eventually(t, "the broker lists its connections", func() bool {
		return brokerlab(t, "connections", "list", "--bootstrap-server", "127.0.0.1:"+port).code == 0
	})
}
