package netlab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// defaultRoot is the folder of all labs.
const defaultRoot = "/run/brokerlab"

// home is a lab's folder.
type home string

func (h home) name() string { return filepath.Base(string(h)) }
func (h home) root() string { return filepath.Dir(string(h)) }
func (h home) path(part ...string) string {
	return filepath.Join(append([]string{string(h)}, part...)...)
}
func (h home) netns(name string) string { return h.path("netns", name) }

// lockPath is beside the folder, not in it: the lock outlives what it protects.
func (h home) lockPath() string { return string(h) + ".lock" }

// exists tells whether anything of the lab is there.
func (h home) exists() bool {
	_, err := os.Lstat(string(h))
	return err == nil
}

// state is what up decided, written before anything is made.
type state struct {
	Lab     *topology.Lab `json:"lab"`    // as it is built
	Asked   *topology.Lab `json:"asked"`  // as the file says: differs from Lab where IPv6 is missing
	Binary  string        `json:"binary"` // runs brokers
	Cgroup  cgroup        `json:"cgroup"`
	Since   time.Time     `json:"since"`
	Skipped []Skipped     `json:"skipped,omitempty"`
}

// Skipped is a part of the file that this machine cannot have.
type Skipped struct {
	Name string `json:"name"` // of the node or subnet
	What string `json:"what"` // the address or prefix
	Why  string `json:"why"`
}

func (h home) writeState(s *state) error { return writeJSON(h.path("state.json"), s) }

func (h home) readState() (*state, error) {
	text, err := os.ReadFile(h.path("state.json"))
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read %s: %w", h.path("state.json"), err)
	}
	return &s, nil
}

// writeJSON replaces a file at once: a reader sees the old text or the new one.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// step is a line of the journal: something that will exist outside the lab's folder, or must be undone before the
// folder can be removed.
type step struct {
	Do   string `json:"do"` // cgroup, mount
	Path string `json:"path"`
}

const (
	stepCgroup = "cgroup"
	stepMount  = "mount"
)

// note writes a step into the journal, before the step is made. One write, so a kill leaves a whole line or none that
// matters.
func (h home) note(s step) error {
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(h.path("journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	err = errors.Join(err, f.Close())
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// journal reads the steps that were begun, in order.
func (h home) journal() ([]step, error) {
	f, err := os.Open(h.path("journal"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var steps []step
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s step
		if json.Unmarshal(lines.Bytes(), &s) != nil {
			continue // half a line: its step was never made
		}
		steps = append(steps, s)
	}
	return steps, lines.Err()
}

// lock waits until nobody else builds, changes or removes the lab; waiting (unless nil) is called once if there is
// somebody. The lock ends with the process. remove tells whether the lock's file goes too.
func (h home) lock(ctx context.Context, waiting func()) (unlock func(remove bool) error, err error) {
	var f *os.File
	err = until(ctx, func() (done bool, err error) {
		f, err = h.tryLock()
		if errors.Is(err, unix.EWOULDBLOCK) {
			if waiting != nil {
				waiting()
				waiting = nil
			}
			return false, nil
		}
		return f != nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("lock lab %s: %w", h.name(), err)
	}
	return func(remove bool) error {
		var err error
		if remove {
			err = os.Remove(h.lockPath())
		}
		err = errors.Join(err, f.Close())
		if remove {
			_ = os.Remove(h.root()) // the last lab takes the folder with it; others keep it
		}
		return err
	}, nil
}

// tryLock takes the lock. It gives EWOULDBLOCK while somebody has it, and nothing at all when the file went away
// meanwhile: try again.
func (h home) tryLock() (*os.File, error) {
	if err := os.MkdirAll(h.root(), 0o755); err != nil { //nolint:gosec // exposed labs are used by everybody
		return nil, err
	}
	f, err := os.OpenFile(h.lockPath(), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the last lab took the folder with it
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && same(f, h.lockPath()) {
		return f, nil
	}
	if errors.Is(err, unix.EINTR) {
		err = nil
	}
	return nil, errors.Join(err, f.Close()) // without an error: whoever had the lock removed its file
}

// same tells whether f is the file at path.
func same(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// owned tells whether the lab's owner is alive: it holds a lock as long as it lives.
func (h home) owned() bool {
	f, err := os.Open(h.path("owner.lock"))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only looked at
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// own takes the lock that [home.owned] looks at, for the life of the process.
func (h home) own() (*os.File, error) {
	f, err := os.OpenFile(h.path("owner.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lab %s has an owner already: %w", h.name(), err), f.Close())
	}
	return f, nil
}

// homes lists the labs below root, also those of which only a lock is left.
func homes(root string) ([]home, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []home
	for _, e := range entries {
		all = append(all, home(filepath.Join(root, strings.TrimSuffix(e.Name(), ".lock"))))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
