package command

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

func writeProperties(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestARealBrokerListsTheCallerAndASilentSocket(t *testing.T) {
	b := admintest.Real(t, []string{
		"listeners=PLAINTEXT://127.0.0.1:0,INSIDE://[::1]:0",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
		"advertised.listeners=PLAINTEXT://127.0.0.1:0,INSIDE://[::1]:0",
		"inter.broker.listener.name=PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN",
		`listener.name.inside.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";`,
	})
	plain, inside := b.Addr("PLAINTEXT"), b.Addr("INSIDE")
	var d net.Dialer
	silent, err := d.DialContext(t.Context(), "tcp", inside.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	silentPort := silent.LocalAddr().(*net.TCPAddr).Port

	properties := writeProperties(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "client.id=operator",
		`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";`)
	var got ran
	deadline := time.Now().Add(30 * time.Second)
	for { // until the broker has admitted the silent socket
		got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", inside.String(), "--command-config", properties)
		if got.code != 0 {
			t.Fatalf("list = %+v", got)
		}
		if strings.Contains(got.out, fmt.Sprint("  ", silentPort, "  ")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("list never shows the silent socket of port %d:\n%s", silentPort, got.out)
		}
	}
	silentLine, own := "", ""
	for line := range strings.Lines(got.out) {
		switch {
		case strings.Contains(line, fmt.Sprint("  ", silentPort, "  ")):
			silentLine = line
		case strings.Contains(line, "User:alice"):
			own = line
		}
	}
	if f := strings.Fields(silentLine); len(f) != 8 || f[1] != "-" || f[2] != "0:0:0:0:0:0:0:1" || f[4] != "INSIDE" || f[5] != "SASL_PLAINTEXT" || f[6] != "-" || f[7] == "-" {
		t.Errorf("silent socket = %q", silentLine)
	}
	if f := strings.Fields(own); len(f) != 8 || f[6] != softwareName+"/"+softwareVersion || !strings.HasSuffix(f[7], "Z") {
		t.Errorf("own connection = %q", own)
	}

	got = run(t, "kafka-client-connections.sh", "--bootstrap-server", inside.String(), "--command-config", properties, "--list",
		"--principal", "User:alice", "--listener", "inside", "--client-address", "::1")
	if lines := strings.Count(got.out, "User:alice"); got.code != 0 || lines == 0 || lines != strings.Count(got.out, "\n")-1 {
		t.Errorf("filtered list = %+v", got)
	}
	got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", inside.String(), "--command-config", properties, "--wide",
		"--format", "json", "--protocol", "sasl_plaintext", "--client-address", "::/64")
	var doc struct {
		Connections []jsonWide
		Errors      []jsonError
	}
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	alice := 0
	for i := range doc.Connections {
		if c := &doc.Connections[i]; c.SASL != nil && c.SASL.Mechanism == "PLAIN" && c.ClientID != nil && *c.ClientID == "operator" {
			alice++
		}
	}
	if got.code != 0 || alice == 0 || len(doc.Connections) <= alice {
		t.Errorf("wide list = %+v", got)
	}

	got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", plain.String(), "--principal", "User:bob")
	if got.code != 0 || strings.Count(got.out, "\n") != 1 {
		t.Errorf("list of nobody = %+v, want the header", got)
	}
	wrong := writeProperties(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN",
		`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wrong";`)
	got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", inside.String(), "--command-config", wrong)
	if got.code != 1 || !strings.Contains(got.errout, "Invalid username or password") {
		t.Errorf("list with a wrong password = %+v", got)
	}
}

func TestAMovedKeyIsFollowed(t *testing.T) {
	b := admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0", "list.client.connections.api.key=20093"})
	args := []string{"brokerlab", "connections", "list", "--bootstrap-server", b.Addr("PLAINTEXT").String()}
	if got := run(t, args...); got.code != 1 || !strings.Contains(got.errout, "key 93") {
		t.Errorf("list by the usual key = %+v, want that it is not offered", got)
	}
	if got := run(t, append(args, "--api-key", "20093")...); got.code != 0 || !strings.Contains(got.out, "User:ANONYMOUS") {
		t.Errorf("list by the moved key = %+v", got)
	}
}
