package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// authorized makes a broker one that goes by ACLs, with whoever comes without TLS and SASL above them.
func authorized() []string {
	return []string{"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS"}
}

// script runs the binary under test through a link of the name of one of Kafka's scripts.
func script(t *testing.T, name string, args ...string) result {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(path(t), link); err != nil {
		t.Fatal(err)
	}
	return run(t, "", link, args...)
}

// want fails t unless r ended with code and printed, on either stream, all of texts.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.stdout+r.stderr, text) {
			t.Errorf("said %q and %q, want %q", r.stdout, r.stderr, text)
		}
	}
	if r.code != code {
		t.Errorf("exit %d, want %d\n%s%s", r.code, code, r.stdout, r.stderr)
	}
}

func TestALinkNamedLikeAScriptOfKafkaIsThatScript(t *testing.T) {
	b := startBroker(t)
	server := []string{"--bootstrap-server", b.address("PLAINTEXT")}
	for name, same := range map[string]struct{ script, command []string }{
		"kafka-acls.sh":     {[]string{"--list"}, []string{"acls", "--list"}}, // refused: the broker has no authorizer
		"kafka-configs.sh":  {[]string{"--describe", "--broker", "1", "--all"}, []string{"configs", "--describe", "--broker", "1", "--all"}},
		"kafka-features.sh": {[]string{"describe"}, []string{"features", "describe"}},
	} {
		got, want := script(t, name, append(same.script, server...)...), brokerlab(t, append(same.command, server...)...)
		if got != want || got.stdout == "" {
			t.Errorf("%s = %+v, want what brokerlab says, %+v", name, got, want)
		}
	}
	script(t, "kafka-client-connections.sh", append(server, "--list")...).want(t, 0, "CONNECTION-ID", "User:ANONYMOUS")
}

func TestScriptsRefuseACommandLineAsKafkaDoes(t *testing.T) {
	for name, text := range map[string]string{
		"kafka-acls.sh":     "One of --bootstrap-server or --bootstrap-controller must be specified",
		"kafka-configs.sh":  "Command must include exactly one action: --describe, --alter",
		"kafka-features.sh": "Command line error:",
	} {
		r := script(t, name, "--command-config", "/dev/null")
		r.want(t, 1, text)
		if r.stdout != "" {
			t.Errorf("%s printed %q on standard output, want it on standard error", name, r.stdout)
		}
	}
}

// Kafka's tools ignore words that belong to no flag, and people do write --cluster kafka-cluster.
func TestACLsTakeTheNameOfTheCluster(t *testing.T) {
	b := startBroker(t, authorized()...)
	server := []string{"--bootstrap-server", b.address("PLAINTEXT")}
	for _, r := range []result{
		script(t, "kafka-acls.sh", append(server, "--add", "--allow-principal", "User:alice", "--operation", "Describe", "--cluster", "kafka-cluster")...),
		brokerlab(t, append([]string{"acls", "--add", "--allow-principal", "User:bob", "--operation", "Describe", "--cluster", "kafka-cluster"}, server...)...),
	} {
		r.want(t, 0, "ResourcePattern(resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL)")
	}
	brokerlab(t, "acls", "lnt").want(t, 2, "there is no command brokerlab acls lnt: did you mean lint?")
}

func TestACLsAreKeptOverTLSAndSCRAM(t *testing.T) {
	b := startBroker(t, authorized()...)
	root := []string{"--bootstrap-server", b.address("PLAINTEXT")}
	for _, user := range []string{"admin", "bob"} {
		brokerlab(t, append([]string{"configs", "--alter", "--user", user, "--add-config", "SCRAM-SHA-512=[password=" + user + "-secret]"}, root...)...).
			want(t, 0, "Completed updating config for user "+user+".")
	}
	brokerlab(t, append([]string{"acls", "--add", "--cluster", "--allow-principal", "User:admin", "--allow-host", "127.0.0.0/8", "--operation", "Alter"}, root...)...).
		want(t, 0, "(principal=User:admin, host=127.0.0.0/8, operation=ALTER, permissionType=ALLOW)")

	acls := func(as string, args ...string) result {
		t.Helper()
		return brokerlab(t, append([]string{"acls", "--bootstrap-server", b.address("SASL_SSL"), "--command-config", as}, args...)...)
	}
	admin := b.scramProperties(t, "admin", "admin-secret")
	rule := []string{"--allow-principal", "User:alice", "--allow-host", "2001:db8::/32", "--operation", "Read", "--topic", "orders"}
	acls(admin, append([]string{"--add"}, rule...)...).want(t, 0, "host=2001:db8::/32")
	acls(admin, append([]string{"--add"}, rule...)...).want(t, 0, "already exists.")
	acls(admin, "--list", "--topic", "orders").want(t, 0, "(principal=User:alice, host=2001:db8::/32, operation=READ, permissionType=ALLOW)")

	b.restart(t)
	explain := func(host string) result {
		t.Helper()
		return brokerlab(t, "acls", "explain", "--bootstrap-server", b.address("SASL_SSL"), "--command-config", admin,
			"--principal", "User:alice", "--host", host, "--operation", "Read", "--topic", "orders")
	}
	explain("2001:db8::7").want(t, 0, "ALLOWED", "2001:db8:0:0:0:0:0:7, as Kafka prints it")
	explain("10.0.0.7").want(t, 1, "DENIED", "range of the other address family")

	acls(b.scramProperties(t, "bob", "bob-secret"), "--list").want(t, 1, "ClusterAuthorizationException")
	acls(b.scramProperties(t, "bob", "wrong"), "--list").want(t, 1, "invalid credentials with SASL mechanism SCRAM-SHA-512")
	acls(b.clientProperties(t, "SSL", false), "--list").want(t, 1)

	acls(admin, append([]string{"--remove", "--force"}, rule...)...).want(t, 0)
	if r := acls(admin, "--list", "--topic", "orders"); r.code != 0 || r.stdout != "" {
		t.Errorf("--list = exit %d %q, want 0 and nothing: the rule was removed", r.code, r.stdout)
	}
}

func TestConfigsSurviveAKill(t *testing.T) {
	needKcat(t)
	b := startBroker(t)
	configs := func(args ...string) result {
		t.Helper()
		return brokerlab(t, append([]string{"configs", "--bootstrap-server", b.address("PLAINTEXT")}, args...)...)
	}
	mustRun(t, "x\n", "kcat", b.kcat("PLAINTEXT", "-P", "-t", "orders")...)
	file := writeFile(t, b.dir, "broker.properties", "max.connections=1000\nnum.io.threads=5\n")
	configs("--alter", "--topic", "orders", "--add-config", "retention.ms=3600000,cleanup.policy=[compact,delete]").
		want(t, 0, "Completed updating config for topic orders.")
	configs("--alter", "--broker", "1", "--add-config-file", file).want(t, 0, "Completed updating config for broker 1.")
	configs("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "max.connections=2000").
		want(t, 0, "Completed updating default config for brokers in the cluster.")
	configs("--alter", "--user", "alice", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=scram-secret]").want(t, 0)
	configs("--alter", "--user", "alice", "--client", "app", "--add-config", "consumer_byte_rate=1000000").want(t, 0)
	configs("--alter", "--broker", "1", "--add-config", "node.id=2").want(t, 1, "InvalidRequestException: Cannot update these configs dynamically: [node.id]")
	configs("--alter", "--topic", "orders", "--add-config", "retention.ms=abc").want(t, 1, "InvalidConfigurationException")

	b.restart(t)
	configs("--describe", "--topic", "orders").want(t, 0, "  retention.ms=3600000 sensitive=false", "  cleanup.policy=compact,delete sensitive=false")
	configs("--describe", "--broker", "1").want(t, 0, "  num.io.threads=5 ", "DYNAMIC_BROKER_CONFIG:max.connections=1000, DYNAMIC_DEFAULT_BROKER_CONFIG:max.connections=2000")
	configs("--describe", "--user", "alice").want(t, 0, "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-512=iterations=8192")
	configs("--describe", "--user", "alice", "--client", "app").want(t, 0, "consumer_byte_rate=1000000.0")
	features := func() result {
		t.Helper()
		return brokerlab(t, "features", "describe", "--bootstrap-server", b.address("SASL_SSL"), "--command-config", b.scramProperties(t, "alice", "scram-secret"))
	}
	features().want(t, 0, "metadata.version")

	configs("--alter", "--user", "alice", "--delete-config", "SCRAM-SHA-512").want(t, 0)
	features().want(t, 1, "invalid credentials with SASL mechanism SCRAM-SHA-512")
	configs("--alter", "--broker", "1", "--delete-config", "max.connections,num.io.threads").want(t, 0)
	configs("--describe", "--broker", "1", "--all").want(t, 0, "  max.connections=2000 ", "  num.io.threads=8 ")
}

func TestAnUpgradeLetsRangesInAndStays(t *testing.T) {
	b := startBroker(t, append(authorized(), "metadata.version=4.3-IV0")...)
	features := func(args ...string) result {
		t.Helper()
		return brokerlab(t, append([]string{"features", "--bootstrap-server", b.address("PLAINTEXT")}, args...)...)
	}
	add := func() result {
		t.Helper()
		return brokerlab(t, "acls", "--bootstrap-server", b.address("PLAINTEXT"), "--add", "--allow-principal", "User:alice",
			"--allow-host", "10.0.0.0/8", "--operation", "Read", "--topic", "orders")
	}
	add().want(t, 1, "UnsupportedVersionException: CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.")
	features("upgrade", "--dry-run", "--release-version", "4.4-IV1").want(t, 0, "metadata.version can be upgraded to 32.")
	add().want(t, 1, "UnsupportedVersionException")
	features("upgrade", "--feature", "metadata.version=32").want(t, 0, "metadata.version was upgraded to 32.")
	add().want(t, 0)

	b.restart(t)
	features("describe").want(t, 0, "FinalizedVersionLevel: 4.4-IV1")
	for _, mode := range [][]string{nil, {"--unsafe"}} {
		features(append([]string{"downgrade", "--feature", "metadata.version=31"}, mode...)...).
			want(t, 1, "Could not downgrade metadata.version to 31.", "1 out of 1 operation(s) failed.")
	}
	features("upgrade", "--feature", "metadata.version=34").want(t, 1, "Local controller 1 only supports versions 7-33")
}

// Records that are null rather than none send librdkafka into a loop.
func TestARefusedConsumerIsToldSoAndEnds(t *testing.T) {
	needKcat(t)
	b := startBroker(t, authorized()...)
	mustRun(t, "x\n", "kcat", b.kcat("PLAINTEXT", "-P", "-t", "orders")...)
	brokerlab(t, "acls", "--bootstrap-server", b.address("PLAINTEXT"), "--add", "--allow-principal", "User:alice", "--operation", "Describe", "--topic", "orders").
		want(t, 0)
	args := append([]string{"20", "kcat"}, b.kcat("SASL_SSL", "-C", "-t", "orders", "-o", "beginning", "-e")...)
	run(t, "", "timeout", args...).want(t, 1, "Broker: Topic authorization failed")
	brokerlab(t, "acls", "--bootstrap-server", b.address("PLAINTEXT"), "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders").
		want(t, 0)
	run(t, "", "timeout", args...).want(t, 0, "x\n")
}
