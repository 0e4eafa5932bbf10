package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// unavailableError says why a client cannot be had on this machine. Its tests are skipped with it.
type unavailableError struct{ why string }

func (e unavailableError) Error() string { return e.why }

// workshop is where programs are built: one folder a run, and one that outlives runs for what registries gave.
type workshop struct {
	ctx context.Context
	// dir is removed after the run.
	dir string
	// kept is build/clients of the tree: virtual environments, node modules.
	kept string
	// programs is the folder of the programs' sources.
	programs string

	// broker is the path of the brokerlab under test, pki what its brokers and clients trust each other by.
	broker string
	pki    kit.PKI

	goOnce sync.Once
	goErr  error

	registryOnce sync.Once
	registryErr  error
}

// tree is the root of the source tree.
func tree() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}

// run runs a command of a build, and returns what it printed. A build may have to fetch, so it gets minutes.
func (w *workshop) run(dir string, environment []string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), environment...), time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out.String())
	}
	return out.String(), nil
}

// need returns an unavailableError unless all of these commands are on the path.
func need(commands ...string) error {
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			return unavailableError{c + " is not installed"}
		}
	}
	return nil
}

// goProgram builds programs/go/<name>. The module is one of its own: what it needs is not what brokerlab needs. Arguments follow
// the program's name on its command line.
func goProgram(name string, arguments ...string) func(*workshop) ([]string, error) {
	return func(w *workshop) ([]string, error) {
		if err := need("go"); err != nil {
			return nil, err
		}
		module := filepath.Join(w.programs, "go")
		w.goOnce.Do(func() {
			out, err := w.run(module, nil, "go", "mod", "download")
			if err != nil {
				w.goErr = unavailableError{"its Go modules cannot be had: " + lastLine(out)}
			}
		})
		if w.goErr != nil {
			return nil, w.goErr
		}
		binary := filepath.Join(w.dir, name)
		if _, err := w.run(module, []string{"CGO_ENABLED=0"}, "go", "build", "-o", binary, "./"+name); err != nil {
			return nil, err
		}
		return append([]string{binary}, arguments...), nil
	}
}

// kafkaVersion is the release whose clients and tools are tried.
const kafkaVersion = "4.4.0"

// kafkaLibs returns the folder with the jar files of that release: where make kafka puts them.
func kafkaLibs() (string, error) {
	dirs := []string{filepath.Join(tree(), "build", "kafka")}
	if cache, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(cache, "brokerlab", "kafka"))
	}
	if dir := os.Getenv("BROKERLAB_KAFKA_DIR"); dir != "" {
		dirs = []string{dir}
	}
	for _, dir := range dirs {
		libs := filepath.Join(dir, kafkaVersion, "libs")
		if _, err := os.Stat(filepath.Join(libs, "kafka-clients-"+kafkaVersion+".jar")); err == nil {
			return libs, nil
		}
	}
	return "", unavailableError{"Apache Kafka " + kafkaVersion + " is not in " + strings.Join(dirs, " or ") + ": make kafka fetches it"}
}

// java are options that have a virtual machine start fast and stay small.
func java() []string {
	return []string{"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"}
}

// javaProgram compiles programs/java against a release of Kafka.
func javaProgram(w *workshop) ([]string, error) {
	if err := need("javac", "java"); err != nil {
		return nil, err
	}
	libs, err := kafkaLibs()
	if err != nil {
		return nil, err
	}
	classes := filepath.Join(w.dir, "java")
	if _, err := w.run(filepath.Join(w.programs, "java"), nil, "javac", "-d", classes, "-cp", libs+"/*", "Client.java"); err != nil {
		return nil, err
	}
	log := filepath.Join(w.programs, "java", "log4j2.properties")
	return append(java(), "-Dlog4j2.configurationFile="+log, "-cp", classes+":"+libs+"/*", "Client"), nil
}

// kafkaTools builds the program that runs Kafka's command-line tools.
func kafkaTools(w *workshop) ([]string, error) {
	if err := need("java"); err != nil {
		return nil, err
	}
	libs, err := kafkaLibs()
	if err != nil {
		return nil, err
	}
	// The archive holds what a tool loads that looks for a broker, here for one that is not there.
	archive, config := filepath.Join(w.dir, "tools.jsa"), filepath.Join(w.dir, "tools.properties")
	if err := os.WriteFile(config, []byte("default.api.timeout.ms=500\nrequest.timeout.ms=400\n"), 0o600); err != nil {
		return nil, err
	}
	command := append(java(), "-XX:ArchiveClassesAtExit="+archive, "-Xlog:disable", "-cp", libs+"/*", "org.apache.kafka.tools.TopicCommand",
		"--bootstrap-server", "127.0.0.1:1", "--command-config", config, "--list")
	if out, err := w.run(w.dir, nil, command...); err == nil {
		return nil, fmt.Errorf("kafka-topics found a broker on port 1: %s", out)
	}
	return goProgram("tools", libs, archive)(w)
}

// kcat builds the program that runs kcat.
func kcat(w *workshop) ([]string, error) {
	if need("kcat") != nil {
		return nil, unavailableError{"kcat is not installed: make deps installs it"}
	}
	return goProgram("kcat")(w)
}

// lastLine is what a tool that failed said last, which is mostly why.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// unavailable returns why err says that a client cannot be had.
func unavailable(err error) (string, bool) {
	u, ok := errors.AsType[unavailableError](err)
	return u.why, ok
}
