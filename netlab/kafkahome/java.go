package kafkahome

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Main classes of Kafka.
const (
	Server  = "kafka.Kafka"             // kafka-server-start.sh
	storage = "kafka.tools.StorageTool" // kafka-storage.sh
)

// What Java is told unless the environment says otherwise. The heap is smaller than in Kafka's scripts (1 GB), since
// several brokers run on one machine; the rest is theirs.
const (
	defaultHeap        = "-Xms128m -Xmx512m"
	defaultPerformance = "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 " +
		"-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true"
	// A tool that lives for a second is not worth compiling much.
	toolOptions = "-Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -Djava.awt.headless=true"
)

// Options are Java's options for a server, from the variables that Kafka's own scripts read: KAFKA_HEAP_OPTS,
// KAFKA_JVM_PERFORMANCE_OPTS, KAFKA_LOG4J_OPTS and KAFKA_OPTS, in this order. Words are separated by blanks.
func Options(getenv func(string) string) []string {
	var all []string
	for _, text := range []string{
		cmp.Or(getenv("KAFKA_HEAP_OPTS"), defaultHeap),
		cmp.Or(getenv("KAFKA_JVM_PERFORMANCE_OPTS"), defaultPerformance),
		getenv("KAFKA_LOG4J_OPTS"),
		getenv("KAFKA_OPTS"),
	} {
		all = append(all, strings.Fields(text)...)
	}
	return all
}

// Java is the command line that runs a class of this home: java, the [Options] of the process's environment, the class
// path, main, args.
func (h Home) Java(main string, args ...string) []string {
	return h.JavaWith(Options(os.Getenv), main, args...)
}

// JavaWith is [Home.Java] with other options.
func (h Home) JavaWith(options []string, main string, args ...string) []string {
	line := append([]string{Program("java", os.Getenv)}, options...)
	line = append(line, "-cp", filepath.Join(h.Folder, "libs", "*"), main)
	return append(line, args...)
}

// Program is a program of Java to run, such as java: that of JAVA_HOME, as Kafka's scripts have it, or whichever is in the path.
func Program(name string, getenv func(string) string) string {
	if home := getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", name)
	}
	return name
}

// CheckJava tells whether there is a Java on this machine, and how to get one. It does not start it.
func CheckJava() error { return CheckProgram(Program("java", os.Getenv)) }

// CheckProgram is [CheckJava] for one that [Program] has named.
func CheckProgram(java string) error {
	if _, err := exec.LookPath(java); err != nil {
		return fmt.Errorf("Kafka needs Java 17 or later: %w (install one, such as Debian's openjdk-17-jre-headless, or set JAVA_HOME)", err) //nolint:staticcheck // a name
	}
	return nil
}

// FormatCommand is the command line that formats the folders of a server.properties for a new cluster, as
// kafka-storage.sh format does. What is formatted already stays. release is the level of metadata.version, such as 4.3 or
// 4.4-IV1; "" is the latest that this version has for production. more goes to the tool as it is.
func (h Home) FormatCommand(properties, clusterID, release string, more ...string) []string {
	args := []string{"format", "--ignore-formatted", "--cluster-id", clusterID, "--config", properties}
	if release != "" {
		args = append(args, "--release-version", release)
	}
	return h.JavaWith(strings.Fields(toolOptions), storage, append(args, more...)...)
}

// Format runs [Home.FormatCommand]. The error has what the tool said. Cancelled, it kills the tool.
func (h Home) Format(ctx context.Context, properties, clusterID, release string) error {
	if err := CheckJava(); err != nil {
		return err
	}
	line := h.FormatCommand(properties, clusterID, release)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...) //nolint:gosec // Kafka's own tool
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := run(ctx, cmd); err != nil {
		return fmt.Errorf("format the storage of %s: %w%s", properties, err, said(out.Bytes()))
	}
	return nil
}

// run runs a program; when ctx ends it is killed with all that it has started.
func run(ctx context.Context, cmd *exec.Cmd) error {
	const wait = 5 * time.Second // for pipes that a child still has
	cmd.WaitDelay = wait
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mvn is a script, and Java its child
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// said is the part of a tool's output that tells why it failed, for the end of an error.
func said(out []byte) string {
	const most = 8 // lines
	var lines []string
	for line := range strings.SplitSeq(string(out), "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "at ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return ":\n  " + strings.Join(lines[max(0, len(lines)-most):], "\n  ")
}
