package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
)

func load(t *testing.T, text string) (*ClientConfig, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadClientConfig(path)
}

func TestClientPropertiesBecomeOptions(t *testing.T) {
	c, err := load(t, `
# as kafka-acls.sh takes it
bootstrap.servers = a:9092, [::1]:9093
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
   username="alice" password="s3:cr\\"et";
client.id=operator
request.timeout.ms=5000
socket.connection.setup.timeout.ms=2000
ssl.truststore.location=/nowhere
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Bootstrap) != 2 || c.Bootstrap[1] != "[::1]:9093" || c.RequestTimeout != 5*time.Second || len(c.Warnings) != 0 {
		t.Errorf("config = %+v", c)
	}
	want := Security{Protocol: "SASL_PLAINTEXT", Mechanism: "SCRAM-SHA-512", Username: "alice", Password: `s3:cr"et`}
	if c.Security != want {
		t.Errorf("security = %+v, want %+v", c.Security, want)
	}
	cl, err := kgo.NewClient(append(c.Options, kgo.SeedBrokers("127.0.0.1:1"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if id, ok := cl.OptValue(kgo.ClientID).(string); !ok || id != "operator" {
		t.Errorf("client id = %v", cl.OptValue(kgo.ClientID))
	}
	mechanisms, ok := cl.OptValue(kgo.SASL).([]kgosasl.Mechanism)
	if !ok || len(mechanisms) != 1 || mechanisms[0].Name() != "SCRAM-SHA-512" {
		t.Errorf("sasl = %v", cl.OptValue(kgo.SASL))
	}
	if d := cl.OptValue(kgo.DialTimeout); d != 2*time.Second {
		t.Errorf("dial time-out = %v", d)
	}
}

func TestAllProblemsOfClientPropertiesAreToldAtOnce(t *testing.T) {
	_, err := load(t, "security.protocol=SASL_TLS\nrequest.timeout.ms=soon\nsocket.connection.setup.timeout.ms=-1\nsasl.mechanism=GSSAPI\n")
	if err == nil {
		t.Fatal("a wrong file is no error")
	}
	for _, want := range []string{"client.properties", "security.protocol: \"SASL_TLS\"", "request.timeout.ms: \"soon\"", "socket.connection.setup.timeout.ms: -1", "sasl.mechanism: GSSAPI"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestSASLNeedsALoginThatFits(t *testing.T) {
	const module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
	for name, c := range map[string]struct{ text, want string }{
		"no mechanism":   {"", "GSSAPI is not supported"},
		"no login":       {"sasl.mechanism=PLAIN", "must be set"},
		"broken login":   {"sasl.mechanism=PLAIN\nsasl.jaas.config=what", "sasl.jaas.config:"},
		"two logins":     {"sasl.mechanism=PLAIN\nsasl.jaas.config=" + module + "; " + module + ";", "2 login modules"},
		"another module": {"sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config=" + module + " username=a password=b;", "needs a org.apache.kafka.common.security.scram"},
		"nobody":         {"sasl.mechanism=PLAIN\nsasl.jaas.config=" + module + " password=b;", "no username"},
		"bearer":         {"sasl.mechanism=OAUTHBEARER", "OAUTHBEARER is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "security.protocol=SASL_PLAINTEXT\n"+c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestKeysThatMeanNothingAreWarnings(t *testing.T) {
	c, err := load(t, "sasl.mechanisms=PLAIN\nmy.key=1\ngroup.id=g\n")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(c.Warnings, "\n")
	if want := "my.key means nothing here\nsasl.mechanisms means nothing here; did you mean sasl.mechanism?"; got != want {
		t.Errorf("warnings = %q, want %q", got, want)
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	if _, err := ClientOptions(filepath.Join(t.TempDir(), "absent.properties")); err == nil || !strings.Contains(err.Error(), "absent.properties") {
		t.Errorf("error = %v", err)
	}
}
