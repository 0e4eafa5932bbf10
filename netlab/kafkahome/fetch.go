package kafkahome

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrNoRelease is in the error of [Fetch] for a version that no repository has that Maven asks.
var ErrNoRelease = errors.New("no such release in the repositories that Maven asks")

// ErrNoMaven is in the error of [Fetch] where there is no Maven.
var ErrNoMaven = errors.New("Maven (mvn) is not on this machine") //nolint:staticcheck // a name

// log4jVersion is that of what Kafka 4 logs with: a release has it beside Kafka's jars, Kafka's own artifacts leave it out.
const log4jVersion = "2.25.1"

// project asks Maven for Kafka's server, its tools, and what they need.
const project = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>brokerlab</groupId>
  <artifactId>kafka-home</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>%[1]s</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>%[1]s</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>%[2]s</version></dependency>
  </dependencies>
</project>
`

// Fetch makes the home of a version in dir, by Maven, which asks whatever repositories its settings name. A home that is
// there is taken as it is. It is put there in one step, so that nobody finds half of one; several may fetch the same one at
// once. progress, unless nil, is told what happens, from this call. Under sudo Maven runs as who called it, and the home is
// theirs.
func Fetch(ctx context.Context, dir, version string, progress func(string)) (Home, error) {
	if err := CheckVersion(version); err != nil {
		return Home{}, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, err
	}
	h, err := findIn(dir, version)
	if !errors.Is(err, ErrNotFetched) {
		return h, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	if err = fetch(ctx, dir, version, progress); err != nil {
		return Home{}, fmt.Errorf("fetch Kafka %s: %w", version, err)
	}
	return findIn(dir, version)
}

func fetch(ctx context.Context, dir, version string, progress func(string)) (err error) {
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("%w: install it (Debian: apt-get install maven), or unpack a release of Kafka and name its folder (home: in a lab file)", ErrNoMaven)
	}
	who, err := caller()
	if err != nil {
		return err
	}
	err = who.makeFolder(dir)
	if err != nil {
		return err
	}
	removeRemains(dir)
	temp, err := os.MkdirTemp(dir, ".fetch-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	home := filepath.Join(temp, version)
	pom := filepath.Join(temp, "pom.xml")
	err = errors.Join(
		os.Chmod(temp, 0o755), //nolint:gosec // jars that everybody may have
		os.Mkdir(home, 0o755), //nolint:gosec // as above
		os.WriteFile(pom, fmt.Appendf(nil, project, version, log4jVersion), 0o644), //nolint:gosec // as above
		who.give(temp), who.give(home))
	if err != nil {
		return err
	}
	progress("asking Maven for Kafka " + version)
	seen := &downloads{version: version, progress: progress}
	cmd := exec.CommandContext(ctx, maven, "-B", "-C", "-f", pom, "dependency:copy-dependencies", //nolint:gosec // the program that fetches
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(home, "libs"))
	cmd.Dir = temp
	who.become(cmd)
	cmd.Stdout, cmd.Stderr = seen, seen
	err = run(ctx, cmd)
	if err != nil && unknown(seen.errors.String(), version) {
		return fmt.Errorf("%w (https://kafka.apache.org/downloads lists what there is)", ErrNoRelease)
	}
	if err != nil {
		return fmt.Errorf("maven: %w%s", err, said(seen.why()))
	}
	if _, err = At(home); err != nil {
		return fmt.Errorf("what Maven gave is not Kafka: %w", err)
	}
	err = os.Rename(home, filepath.Join(dir, version))
	if _, there := findIn(dir, version); there == nil {
		return nil // ours, or somebody else's who fetched it meanwhile
	}
	return err
}

// removeRemains removes what was left of fetches that were killed, long ago: the others may go on.
func removeRemains(dir string) {
	const long = 24 * time.Hour
	remains, _ := filepath.Glob(filepath.Join(dir, ".fetch-*")) // only a malformed pattern is an error: nothing to remove
	for _, folder := range remains {
		if info, err := os.Lstat(folder); err == nil && time.Since(info.ModTime()) > long {
			_ = os.RemoveAll(folder) // somebody else's may stay
		}
	}
}

// downloads reads Maven's log as it is written.
type downloads struct {
	version  string
	progress func(string)
	rest     []byte
	files    int
	errors   bytes.Buffer // the lines that say why it failed
	other    bytes.Buffer // those of whatever is not Maven itself, such as the script that starts it
}

// why is what says best why Maven failed.
func (d *downloads) why() []byte {
	if d.errors.Len() > 0 {
		return d.errors.Bytes()
	}
	return append(d.other.Bytes(), d.rest...)
}

// Write takes a part of the log.
func (d *downloads) Write(part []byte) (int, error) {
	d.rest = append(d.rest, part...)
	for {
		line, rest, whole := bytes.Cut(d.rest, []byte{'\n'})
		if !whole {
			return len(part), nil
		}
		d.rest = rest
		d.line(string(line))
	}
}

func (d *downloads) line(line string) {
	line = escapes.ReplaceAllString(line, "") // it clears colours even where it has none
	for _, level := range []string{"[ERROR] ", "[FATAL] "} {
		text, ok := strings.CutPrefix(line, level)
		if !ok {
			continue
		}
		text, _, _ = strings.Cut(text, " -> [Help")
		if useful(text) {
			d.errors.WriteString(text + "\n")
		}
		return
	}
	if fields := strings.Fields(line); len(fields) > 3 && strings.Contains(line, "Downloaded from") {
		i := slices.IndexFunc(fields, func(f string) bool { return strings.Contains(f, "://") })
		if i < 0 || !strings.HasSuffix(fields[i], ".jar") {
			return
		}
		d.files++
		d.progress(fmt.Sprintf("fetching Kafka %s: %d jars, the last %s", d.version, d.files, path.Base(fields[i])))
		return
	}
	if !strings.HasPrefix(line, "[") {
		d.other.WriteString(line + "\n")
	}
}

// escapes are how a terminal is told of colours.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// unknown tells whether Maven asked its repositories for Kafka's server in a version, and they do not have it.
func unknown(errs, version string) bool {
	server := "org.apache.kafka:kafka_2.13:jar:" + version
	return strings.Contains(errs, "Could not find artifact "+server+" in ") || strings.Contains(errs, server+" was not found in ")
}

// useful tells whether a line of Maven's is about what went wrong rather than about Maven.
func useful(text string) bool {
	return !slices.ContainsFunc([]string{"To see the full stack trace", "Re-run Maven", "For more information about the errors", "[Help 1] http"},
		func(about string) bool { return strings.HasPrefix(text, about) })
}

// owner is who gets what is fetched; nobody in particular when uid is -1.
type owner struct {
	uid, gid int
	home     string
}

// caller is who called sudo.
func caller() (owner, error) {
	none := owner{uid: -1}
	uid, errU := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, errG := strconv.Atoi(os.Getenv("SUDO_GID"))
	if os.Geteuid() != 0 || errU != nil || errG != nil || uid == 0 {
		return none, nil //nolint:nilerr // nobody called sudo
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return none, fmt.Errorf("find who called sudo: %w", err)
	}
	return owner{uid, gid, u.HomeDir}, nil
}

// give hands a file over.
func (o owner) give(file string) error {
	if o.uid < 0 {
		return nil
	}
	return os.Lchown(file, o.uid, o.gid)
}

// makeFolder makes a folder and those above it that are missing, and gives them away.
func (o owner) makeFolder(dir string) error {
	var missing []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // jars that everybody may have
		return err
	}
	for _, m := range missing {
		if err := o.give(m); err != nil {
			return err
		}
	}
	return nil
}

// become makes cmd run as o.
func (o owner) become(cmd *exec.Cmd) {
	if o.uid < 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}}
	cmd.Env = append(os.Environ(), "HOME="+o.home)
}

var _ io.Writer = (*downloads)(nil)
