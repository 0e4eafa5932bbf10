package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// kind is a library of Kafka clients.
type kind string

// The kinds of clients that a load has.
const (
	franzGo    kind = "franz-go"
	java       kind = "Java"
	librdkafka kind = "librdkafka"
)

// everyKind are the kinds of a load, those first that take longest to start.
func everyKind() []kind { return []kind{java, librdkafka, franzGo} }

// group is the consumer group of a kind's clients.
func (k kind) group() string { return groups + strings.ToLower(string(k)) }

// programs are the clients that are processes: Load.java says what they print.
//
//go:embed programs
var programs embed.FS

func source(name string) []byte {
	text, err := programs.ReadFile("programs/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return text
}

// command is the command line of a kind's program, whose arguments are to follow; an error says why there is none on this machine.
func (k kind) command(ctx context.Context) ([]string, error) {
	switch k {
	case java:
		return javaProgram(ctx)
	case librdkafka:
		return pythonProgram(ctx)
	case franzGo:
	}
	return nil, nil
}

// smallJava are options that have a virtual machine start fast and stay small.
func smallJava() []string {
	return []string{"-Xmx128m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData"}
}

// javaProgram is Load.java, compiled against the clients of a release of Apache Kafka. What was compiled is kept for the next time,
// with an archive of the classes that it loads: each stage starts one, and none should wait for it.
func javaProgram(ctx context.Context) ([]string, error) {
	home, err := kafkahome.Find(stage.EngineVersion)
	if err != nil {
		return nil, err
	}
	for _, tool := range []string{"java", "javac", "jar"} {
		if _, err = exec.LookPath(jdk(tool)); err != nil {
			return nil, fmt.Errorf("a client of Java has to be compiled: %w (install a JDK of 17 or later, such as Debian's openjdk-17-jdk-headless)", err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	b := javaBuild{
		libs:   filepath.Join(home.Folder, "libs", "kafka-clients-"+home.Version+".jar"),
		folder: filepath.Join(cache, "brokerlab-load", fmt.Sprintf("%s-%x", home.Version, sha256.Sum256(append([]byte(home.Folder), source("Load.java")...)))),
	}
	if b.logging, err = filepath.Glob(filepath.Join(home.Folder, "libs", "slf4j-api-*.jar")); err != nil {
		return nil, err
	}
	if _, err = os.Stat(b.archive()); err != nil {
		err = b.make(ctx)
	}
	if err != nil {
		return nil, err
	}
	return b.load("-XX:SharedArchiveFile=" + b.archive()), nil
}

// javaBuild is where Load.java is compiled to, and against what.
type javaBuild struct {
	folder, libs string
	logging      []string
}

func (b javaBuild) archive() string { return filepath.Join(b.folder, "load.jsa") }
func (b javaBuild) jar() string     { return filepath.Join(b.folder, "load.jar") }

// load is the command line of the program, without its arguments.
func (b javaBuild) load(options ...string) []string {
	path := strings.Join(append([]string{b.jar(), b.libs}, b.logging...), ":")
	line := append([]string{jdk("java")}, smallJava()...)
	return append(append(line, options...), "-cp", path, "Load")
}

// make compiles the program, and runs it once where there is no broker, for the archive.
func (b javaBuild) make(ctx context.Context) error {
	const nowhere = "127.0.0.1:1"
	text, classes, nothing := filepath.Join(b.folder, "Load.java"), filepath.Join(b.folder, "classes"), filepath.Join(b.folder, "none.properties")
	if err := errors.Join(os.RemoveAll(filepath.Dir(b.folder)), os.MkdirAll(classes, 0o700)); err != nil { // builds of another Load.java
		return err
	}
	if err := errors.Join(os.WriteFile(text, source("Load.java"), 0o600), os.WriteFile(nothing, nil, 0o600)); err != nil {
		return err
	}
	for _, line := range [][]string{
		{jdk("javac"), "-d", classes, "-cp", b.libs, text},
		{jdk("jar"), "--create", "--file", b.jar(), "-C", classes, "."},
	} {
		if err := run(ctx, line); err != nil {
			return err
		}
	}
	// The program fails, as there is no broker: what counts is that it leaves the archive.
	err := run(ctx, append(b.load("-XX:ArchiveClassesAtExit="+b.archive()), nothing, nothing, nowhere, nowhere, topic, "1", "nobody", "5"))
	if _, missing := os.Stat(b.archive()); missing != nil {
		return errors.Join(missing, err)
	}
	return nil
}

// jdk is a program of Java's.
func jdk(name string) string { return kafkahome.Program(name, os.Getenv) }

// pythonProgram is load.py, for a Python that has confluent-kafka: that of scripts/clients.sh, or the one that is in the path.
func pythonProgram(ctx context.Context) ([]string, error) {
	var whys []error
	for _, python := range pythons() {
		err := run(ctx, []string{python, "-c", "import confluent_kafka"})
		if err == nil {
			return []string{python, "-c", string(source("load.py"))}, nil
		}
		whys = append(whys, err)
	}
	return nil, fmt.Errorf("no Python has confluent-kafka (scripts/clients.sh installs it): %w", errors.Join(whys...))
}

// pythons are the Pythons to try: build/clients/venv of this folder or one above it, and the one that is in the path.
func pythons() []string {
	all := []string{"python3"}
	here, err := os.Getwd()
	if err != nil {
		return all
	}
	for {
		python := filepath.Join(here, "build", "clients", "venv", "bin", "python3")
		if _, err := os.Stat(python); err == nil {
			return append([]string{python}, all...)
		}
		if here == filepath.Dir(here) {
			return all
		}
		here = filepath.Dir(here)
	}
}

// run runs a command that says nothing unless it fails.
func run(ctx context.Context, line []string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, line[0], line[1:]...) //nolint:gosec // programs of our own choice
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%s: %w: %s", line[0], err, lines[len(lines)-1])
	}
	return nil
}
