package metadata

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// childEnv names the folder in which a child of the tests appends until it is killed; its output is a line for each
// change that was acknowledged.
const (
	childEnv = "METADATA_TEST_CHILD"
	limitEnv = "METADATA_TEST_FILE_LIMIT" // largest file the child may write, in bytes
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir, os.Stdout)
		return
	}
	if servers := os.Getenv(joinEnv); servers != "" {
		joinChild(strings.Split(servers, ","), os.Stdout)
		return
	}
	goleak.VerifyTestMain(m)
}

func child(dir string, stdout io.Writer) {
	if limit, err := strconv.ParseUint(os.Getenv(limitEnv), 10, 64); err == nil {
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: unix.RLIM_INFINITY}); err != nil {
			say(stdout, "setrlimit", err)
			return
		}
	}
	o := Options{}
	if stage := os.Getenv(stageEnv); stage != "" {
		o = diesAt(stage)
	}
	o.Dir, o.NodeID = dir, 1
	s, err := Open(context.Background(), o)
	if err != nil {
		say(stdout, "open", err)
		return
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name, value := fmt.Sprintf("w%d-%d", w, i), strings.Repeat("v", 100)
				err := s.Append(context.Background(),
					SetConfig{Resource: Resource{Type: ResourceBroker}, Name: name, Value: &value}, AddACL{Binding: childRule(name)})
				out.Lock()
				if err != nil {
					say(stdout, "refused", strconv.Quote(err.Error()))
					out.Unlock()
					return
				}
				say(stdout, "acked", name)
				out.Unlock()
			}
		})
	}
	wg.Wait() // the disk is full; now there is room again
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
		say(stdout, "setrlimit", err)
		return
	}
	value := "later"
	if err := s.Append(context.Background(), SetConfig{Resource: Resource{Type: ResourceBroker}, Name: value, Value: &value}); err != nil {
		say(stdout, "still refused", err)
		return
	}
	say(stdout, "acked", value)
}

// childRule is the rule that a child adds in the same change as the config of a name.
func childRule(name string) acl.Binding {
	rule := rangeRule("10.0.0.5/8")
	rule.Name = name
	return rule
}

// sameChange checks that of each change of a child both records are there, or neither.
func sameChange(t *testing.T, s *Store) {
	t.Helper()
	configs, rules := s.Image().Configs(Resource{Type: ResourceBroker}), s.ACLs()
	if rules.Len() != len(configs) {
		t.Errorf("%d rules and %d configs, want as many", rules.Len(), len(configs))
	}
	for name := range configs {
		if !rules.Has(childRule(name)) {
			t.Errorf("config %s is there without its rule", name)
		}
	}
}

// say prints a line for the parent; when the parent is gone there is nobody to tell.
func say(w io.Writer, words ...any) { _, _ = fmt.Fprintln(w, words...) }

// startChild starts a child and returns its lines.
func startChild(t *testing.T, dir string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), append(env, childEnv+"="+dir)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

func TestAcknowledgedChangesSurviveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[string]bool{}
	for round := range 3 {
		cmd, lines := startChild(t, dir)
		enough := len(acked) + 50
		for lines.Scan() {
			word, name, _ := strings.Cut(lines.Text(), " ")
			if word != "acked" {
				t.Fatalf("child says %q", lines.Text())
			}
			acked[name] = true
			if len(acked) == enough {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		s := open(t, Options{Dir: dir, NodeID: 1})
		configs := s.Image().Configs(Resource{Type: ResourceBroker})
		for name := range acked {
			if configs[name] == "" {
				t.Errorf("round %d: %s was acknowledged and is gone", round, name)
			}
		}
		sameChange(t, s)
		if err := s.Append(t.Context(), alice()); err != nil {
			t.Errorf("round %d: Append() after a kill = %v", round, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// The next round writes the same names anew: it must not lose the ones of this round either.
	}
}

func TestKillAtAnyMomentLeavesALogThatOpens(t *testing.T) {
	t.Parallel()
	for _, millis := range []int{0, 5, 10, 15, 20, 30, 50, 80} {
		after := time.Duration(millis) * time.Millisecond
		dir := t.TempDir()
		cmd, lines := startChild(t, dir)
		time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) // it lives: it appends for ever
		acked := 0
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "acked") {
				acked++
			}
		}
		_ = cmd.Wait() // killed
		s, err := Open(t.Context(), Options{Dir: dir, NodeID: 1})
		if err != nil {
			t.Fatalf("Open() after a kill at %v = %v", after, err)
		}
		if n := len(s.Image().Configs(Resource{Type: ResourceBroker})); n < acked || s.Image().Feature(MetadataVersion) == 0 {
			t.Errorf("after a kill at %v: %d of %d changes, metadata.version %d", after, n, acked, s.Image().Feature(MetadataVersion))
		}
		sameChange(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A batch that was being written when the machine stopped is not there, whatever is left of its bytes.
func TestTornTailIsCutOff(t *testing.T) {
	t.Parallel()
	for _, torn := range []struct {
		name string
		tear func(t *testing.T, f *os.File, size int64)
	}{
		{"short", func(t *testing.T, f *os.File, size int64) {
			t.Helper()
			if err := f.Truncate(size - 3); err != nil {
				t.Fatal(err)
			}
		}},
		{"garbled", func(t *testing.T, f *os.File, size int64) {
			t.Helper()
			if _, err := f.WriteAt([]byte{0xff, 0xff}, size-2); err != nil {
				t.Fatal(err)
			}
		}},
		{"zeros after the end", func(t *testing.T, f *os.File, size int64) {
			t.Helper()
			if err := f.Truncate(size + 4096); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(torn.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd, lines := startChild(t, dir)
			var acked []string
			for lines.Scan() {
				if word, name, _ := strings.Cut(lines.Text(), " "); word == "acked" {
					acked = append(acked, name)
				}
				if len(acked) == 30 {
					_ = cmd.Process.Kill() // it appends for ever
				}
			}
			_ = cmd.Wait() // killed
			segments, err := filepath.Glob(filepath.Join(dir, "partitions", "*", "*.dat"))
			if err != nil || len(segments) != 1 {
				t.Fatalf("segments = %v, %v, want one", segments, err)
			}
			f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			torn.tear(t, f, info.Size())
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			s := open(t, Options{Dir: dir, NodeID: 1})
			configs := s.Image().Configs(Resource{Type: ResourceBroker})
			const oneBatch = 8 // changes of the child's eight goroutines
			missing := 0
			for _, name := range acked {
				if configs[name] == "" {
					missing++
				}
			}
			if missing > oneBatch || len(configs) == 0 {
				t.Errorf("%d of %d changes are missing, want no more than one batch", missing, len(acked))
			}
			if err := s.Append(t.Context(), alice()); err != nil {
				t.Errorf("Append() = %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if _, ok := open(t, Options{Dir: dir, NodeID: 1}).Image().Scram("alice", ScramSHA256); !ok {
				t.Error("a change after the tear is gone")
			}
		})
	}
}

func TestNothingIsAcknowledgedThatDidNotReachTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, lines := startChild(t, dir, limitEnv+"=16384")
	var acked []string
	refused := 0
	for lines.Scan() {
		word, name, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "acked":
			acked = append(acked, name)
		case "refused":
			refused++
		default:
			t.Fatalf("child says %q", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if refused == 0 || len(acked) < 2 || acked[len(acked)-1] != "later" {
		t.Fatalf("%v acknowledged and %d refused, want some of both and one when there is room again", acked, refused)
	}
	configs := open(t, Options{Dir: dir, NodeID: 1}).Image().Configs(Resource{Type: ResourceBroker})
	for _, name := range acked {
		if configs[name] == "" {
			t.Errorf("%s was acknowledged and is gone", name)
		}
	}
}

func TestUnknownRecordStopsTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	future := []byte{0, 2, 4, 3, 1, 99, 0, 0}
	if err := s.log.append(t.Context(), [][]byte{future}); err != nil {
		t.Fatal(err)
	}
	<-s.Failed()
	if err := s.Err(); !errors.Is(err, ErrUnknownRecord) || !strings.Contains(err.Error(), "type 99") {
		t.Errorf("Err() = %v, want %v with its type", err, ErrUnknownRecord)
	}
	if err := s.Append(t.Context(), alice()); !errors.Is(err, ErrUnknownRecord) {
		t.Errorf("Append() to a stopped store = %v, want %v", err, ErrUnknownRecord)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, ErrUnknownRecord) {
		t.Errorf("Open() = %v, want %v", err, ErrUnknownRecord)
	}
}
