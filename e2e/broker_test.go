package e2e

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// broker is a running `brokerlab broker` with one listener of each protocol on 127.0.0.1.
type broker struct {
	*process
	pki  kit.PKI
	dir  string
	port map[string]int // by protocol
}

func protocols() []string { return []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} }

// startBroker starts a broker, with more lines in its properties, and waits until it answers.
func startBroker(t *testing.T, more ...string) *broker {
	t.Helper()
	dir := t.TempDir()
	made, err := kit.NewPKI(dir, "e2e")
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{dir: dir, pki: made, port: map[string]int{}}
	var listeners []string
	for _, protocol := range protocols() {
		b.port[protocol] = kit.FreePort()
		listeners = append(listeners, fmt.Sprintf("%s://127.0.0.1:%d", protocol, b.port[protocol]))
	}
	config := []string{
		"node.id=1",
		"listeners=" + strings.Join(listeners, ","),
		"log.dirs=" + dir + "/data",
		"ssl.keystore.type=PEM",
		"ssl.keystore.location=" + b.pki.Server,
		"ssl.truststore.type=PEM",
		"ssl.truststore.location=" + b.pki.CA,
		"ssl.client.auth=requested",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		`listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";`,
		`listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";`,
		"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"kernel.accounting=auto",
	}
	properties := writeFile(t, dir, "server.properties", strings.Join(append(config, more...), "\n")+"\n")
	b.process = start(t, "broker", "--config", properties)
	b.wait(t)
	return b
}

// wait returns when b accepts connections; it binds all its listeners before it serves any.
func (b *broker) wait(t *testing.T) {
	t.Helper()
	kit.Eventually(t, "the broker answers on "+b.address("SASL_SSL"), func() bool {
		c, err := net.Dial("tcp", b.address("SASL_SSL"))
		return err == nil && c.Close() == nil
	})
}

func (b *broker) address(protocol string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port[protocol]))
}

// restart kills b, as a crash would, and starts it again.
func (b *broker) restart(t *testing.T) {
	t.Helper()
	b.stop(t, syscall.SIGKILL)
	b.process = start(t, "broker", "--config", b.dir+"/server.properties")
	b.wait(t)
}

// scramProperties writes a client.properties for SASL_SSL as a user with a SCRAM-SHA-512 password.
func (b *broker) scramProperties(t *testing.T, user, password string) string {
	t.Helper()
	return writeFile(t, b.dir, user+"-scram.properties", strings.Join([]string{
		"security.protocol=SASL_SSL", "ssl.truststore.type=PEM", "ssl.truststore.location=" + b.pki.CA, "sasl.mechanism=SCRAM-SHA-512",
		`sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="` + user + `" password="` + password + `";`,
	}, "\n")+"\n")
}

// clientProperties writes a client.properties for protocol as PLAIN's alice, or as carol's certificate where mTLS is true.
func (b *broker) clientProperties(t *testing.T, protocol string, mTLS bool) string {
	t.Helper()
	lines := []string{"security.protocol=" + protocol, "ssl.truststore.type=PEM", "ssl.truststore.location=" + b.pki.CA}
	if strings.HasPrefix(protocol, "SASL") {
		lines = append(lines, "sasl.mechanism=PLAIN",
			`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="alice-secret";`)
	}
	if mTLS {
		lines = append(lines, "ssl.keystore.type=PEM", "ssl.keystore.location="+b.pki.ClientStore)
	}
	return writeFile(t, b.dir, strings.ToLower(protocol)+"-client.properties", strings.Join(lines, "\n")+"\n")
}

// kcat returns the arguments by which kcat reaches b over protocol.
func (b *broker) kcat(protocol string, more ...string) []string {
	args := []string{"-b", b.address(protocol), "-X", "security.protocol=" + protocol, "-X", "ssl.ca.location=" + b.pki.CA}
	if strings.HasPrefix(protocol, "SASL") {
		args = append(args, "-X", "sasl.mechanisms=PLAIN", "-X", "sasl.username=alice", "-X", "sasl.password=alice-secret")
	}
	return append(args, more...)
}
