// Tools are Apache Kafka's command-line tools as a program of the tests of clients: the classes that Kafka's scripts start. Its
// arguments are the folder with Kafka's jar files and an archive of classes, made of them, that has a virtual machine start sooner.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/e2e/clients/programs/go/internal/contract"
	"github.com/brokerlab/brokerlab/e2e/clients/programs/go/internal/pipe"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: tools LIBS ARCHIVE")
		return
	}
	dir, err := os.MkdirTemp("", "kafka-tools-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	t := tools{libs: os.Args[1], archive: os.Args[2], dir: dir}
	contract.Main(contract.Client{
		Name: "Apache Kafka's tools", Version: t.version(),
		Metadata: t.metadata, Admin: t.admin, Produce: t.produce, Consume: t.consume, Open: t.open, Describe: describe,
		Transact: func(context.Context, contract.Request) (contract.Fields, error) {
			return nil, contract.UnsupportedError{Why: "the console producer has no transactions"}
		},
	})
}

type tools struct{ libs, archive, dir string }

func (t tools) version() string {
	found, err := filepath.Glob(t.libs + "/kafka-tools-*.jar")
	if err != nil {
		return ""
	}
	for _, path := range found {
		if m := regexp.MustCompile(`kafka-tools-(\d[^/]*)\.jar$`).FindStringSubmatch(path); m != nil {
			return m[1]
		}
	}
	return ""
}

// logging is what Kafka's own file for its tools says: warnings, to standard error.
const logging = `status=error
appender.stderr.type=Console
appender.stderr.name=stderr
appender.stderr.target=SYSTEM_ERR
appender.stderr.layout.type=PatternLayout
appender.stderr.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=warn
rootLogger.appenderRef.stderr.ref=stderr
`

// properties writes a client.properties.
func (t tools) properties(r contract.Request, more ...string) (string, error) {
	lines := append([]string{"security.protocol=" + r.Protocol, "client.id=" + r.ClientID}, more...)
	if r.Encrypted() {
		lines = append(lines, "ssl.truststore.type=PEM", "ssl.truststore.location="+r.CA)
		if r.Cert != "" {
			store := filepath.Join(t.dir, "client.pem")
			key, err := os.ReadFile(r.Key)
			if err != nil {
				return "", err
			}
			chain, err := os.ReadFile(r.Cert)
			if err != nil {
				return "", err
			}
			//nolint:gosec // a folder of its own
			if err := os.WriteFile(store, append(key, chain...), 0o600); err != nil {
				return "", err
			}
			lines = append(lines, "ssl.keystore.type=PEM", "ssl.keystore.location="+store)
		}
	}
	if r.Authenticated() {
		module := "scram.ScramLoginModule"
		if r.Mechanism == "PLAIN" {
			module = "plain.PlainLoginModule"
		}
		lines = append(lines, "sasl.mechanism="+r.Mechanism, "sasl.jaas.config=org.apache.kafka.common.security."+module+
			` required username="`+r.User+`" password="`+r.Password+`";`)
	}
	path := filepath.Join(t.dir, "client.properties")
	return path, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// command makes the command line of a tool, with options that have it start fast.
func (t tools) command(class string, r contract.Request, args ...string) ([]string, error) {
	path, err := t.properties(r)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(t.dir, "log4j2.properties")
	if err := os.WriteFile(log, []byte(logging), 0o600); err != nil {
		return nil, err
	}
	return append([]string{
		"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-XX:SharedArchiveFile=" + t.archive, "-Xlog:disable", "-Dlog4j2.configurationFile=" + log,
		"-cp", t.libs + "/*", "org.apache.kafka.tools." + class, "--bootstrap-server", r.Bootstrap, "--command-config", path,
	}, args...), nil
}

func (t tools) run(ctx context.Context, stdin, class string, r contract.Request, args ...string) (string, error) {
	c, err := t.command(class, r, args...)
	if err != nil {
		return "", err
	}
	out, said, err := pipe.Run(ctx, stdin, told, c...)
	if err == nil && said != "" && out == "" {
		err = errors.New(said) // some end with 0 whatever happens
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", class[strings.LastIndexByte(class, '.')+1:], err)
	}
	return out, nil
}

var exception = regexp.MustCompile(`(?:org\.apache\.kafka|java)\.[\w.]*\.(\w+Exception: .*)`)

// told finds the exception, or the error, in what a tool says. The last is the cause.
func told(text string) string {
	found, warned := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch m := exception.FindStringSubmatch(line); {
		case m != nil:
			found = m[1]
		case strings.Contains(line, "] ERROR "), strings.HasPrefix(line, "Error"):
			if found == "" {
				found = line
			}
		case strings.Contains(line, "] WARN ") && !strings.Contains(line, "deprecat"):
			warned = line
		}
	}
	if found == "" {
		return warned
	}
	return found
}

func (t tools) metadata(ctx context.Context, r contract.Request) (contract.Fields, error) {
	out, err := t.run(ctx, "", "BrokerApiVersionsCommand", r)
	if err != nil {
		return nil, err
	}
	return contract.Fields{"brokers": strings.Count(out, " -> (")}, nil
}

// admin takes each tool for administrators once: it makes a topic with a config, a rule and a limit, looks at each, and takes
// all away again.
func (t tools) admin(ctx context.Context, r contract.Request) (contract.Fields, error) {
	for _, step := range []struct {
		class, want string
		args        []string
	}{
		{"TopicCommand", "Created topic " + r.Topic, []string{"--create", "--topic", r.Topic, "--partitions", "1"}},
		{"ConfigCommand", "Completed updating config for topic " + r.Topic, []string{"--alter", "--topic", r.Topic, "--add-config", "retention.ms=60000"}},
		{"ConfigCommand", "retention.ms=60000", []string{"--describe", "--topic", r.Topic}},
		{"AclCommand", "operation=READ, permissionType=ALLOW", []string{
			"--add", "--allow-principal", "User:tool", "--allow-host", "10.0.0.0/8", "--operation", "Read", "--topic", r.Topic + "-x",
		}},
		{"AclCommand", "host=10.0.0.0/8", []string{"--list", "--topic", r.Topic + "-x"}},
		{"AclCommand", "", []string{"--remove", "--force", "--topic", r.Topic + "-x"}},
		{"TopicCommand", "PartitionCount: 1", []string{"--describe", "--topic", r.Topic}},
		{"consumer.group.ConsumerGroupCommand", "", []string{"--list"}},
		{"TopicCommand", "", []string{"--delete", "--topic", r.Topic}},
	} {
		out, err := t.run(ctx, "", step.class, r, step.args...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.args[0], err)
		}
		if !strings.Contains(out, step.want) {
			return nil, fmt.Errorf("%s %s printed %q, not %q", step.class, step.args[0], out, step.want)
		}
	}
	return nil, nil
}

func (t tools) produce(ctx context.Context, r contract.Request) (contract.Fields, error) {
	var b strings.Builder
	for i := range r.Count {
		fmt.Fprintf(&b, "%s\n", r.Value(i))
	}
	limit := strconv.Itoa(max(1000, r.TimeoutMS-3000))
	c, err := t.command("ConsoleProducer", r, "--topic", r.Topic, "--sync", "--max-block-ms", limit, "--command-property", "delivery.timeout.ms="+limit,
		"--command-property", "linger.ms=0", "--request-timeout-ms", limit)
	if err != nil {
		return nil, err
	}
	// It ends with 0 whatever becomes of the records, and says so on standard error.
	p, err := pipe.Start(c...)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	_ = p.Write(strings.TrimSuffix(b.String(), "\n"))
	p.End()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if said := told(p.Said()); said != "" {
		return nil, fmt.Errorf("ConsoleProducer: %s", said)
	}
	return contract.Fields{"produced": r.Count, "idempotent": true}, nil
}

func (t tools) consume(ctx context.Context, r contract.Request) (contract.Fields, error) {
	out, err := t.run(ctx, "", "consumer.ConsoleConsumer", r, "--topic", r.Topic, "--group", r.Group, "--from-beginning", "--isolation-level", "read_committed",
		"--max-messages", strconv.Itoa(r.Count), "--timeout-ms", strconv.Itoa(max(1000, r.TimeoutMS-3000)))
	if err != nil {
		return nil, err
	}
	read := strings.Count(out, r.ClientID)
	if read < r.Count {
		return nil, fmt.Errorf("it read %d records, want %d", read, r.Count)
	}
	return contract.Fields{"consumed": read, "aborted": strings.Count(out, contract.Aborted)}, nil
}

func (t tools) open(_ context.Context, r contract.Request) (contract.Session, error) {
	producer, err := t.command("ConsoleProducer", r, "--topic", r.Topic, "--sync")
	if err != nil {
		return nil, err
	}
	consumer, err := t.command("consumer.ConsoleConsumer", r, "--topic", r.Topic, "--group", r.Group, "--from-beginning")
	if err != nil {
		return nil, err
	}
	return pipe.Open(producer, consumer, told)
}

func describe(err error) (string, *bool) {
	if m := regexp.MustCompile(`(\w+Exception): `).FindStringSubmatch(err.Error()); m != nil {
		return m[1], nil
	}
	return "", nil
}
