package netlab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a folder of the unified hierarchy.
type cgroup string

// cgroupRoot finds where cgroup v2 is mounted; hybrid machines have it beside v1.
func cgroupRoot() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); ok && strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4], nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", errors.New("no cgroup v2 is mounted: a lab needs it to end its processes (mount -t cgroup2 none /sys/fs/cgroup)")
}

// node is the cgroup of one node; names of nodes cannot begin with a dot, so the lab's own have one.
func (c cgroup) node(name string) cgroup { return cgroup(filepath.Join(string(c), name)) }

// The cgroups of a lab that are no node's.
const (
	ownerCgroup = ".owner"
	execCgroup  = ".exec" // programs of lab exec
)

// make creates the cgroup and the ones above it.
func (c cgroup) make() error {
	err := fs.ErrNotExist
	for try := 0; try < 100 && errors.Is(err, fs.ErrNotExist); try++ { // another lab that ends may remove the ones above
		err = os.MkdirAll(string(c), 0o755) //nolint:gosec // cgroups are for everybody to see
	}
	if err != nil {
		return fmt.Errorf("create cgroup: %w", err)
	}
	return nil
}

func (c cgroup) exists() bool {
	_, err := os.Stat(string(c))
	return err == nil
}

// makeIn creates the cgroup, but not the ones above it: those of a lab that is going down stay away.
func (c cgroup) makeIn() error {
	if err := os.Mkdir(string(c), 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as in make
		return fmt.Errorf("create cgroup: %w", err)
	}
	return nil
}

// file opens the cgroup for a process to be born in.
func (c cgroup) file() (*os.File, error) { return os.Open(string(c)) }

// all lists the cgroup and those below it, the deepest first.
func (c cgroup) all() ([]cgroup, error) {
	var all []cgroup
	err := filepath.WalkDir(string(c), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			all = append([]cgroup{cgroup(path)}, all...)
		}
		return err
	})
	return all, err
}

// pids lists the processes in the cgroup and below it.
func (c cgroup) pids() ([]int, error) {
	all, err := c.all()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, one := range all {
		text, err := os.ReadFile(filepath.Join(string(one), "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(line); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// kill ends every process in the cgroup and below it, and returns when none is left. A cgroup that does not exist
// has none.
func (c cgroup) kill(ctx context.Context) error {
	if !c.exists() {
		return nil
	}
	err := os.WriteFile(filepath.Join(string(c), "cgroup.kill"), []byte("1"), 0)
	oneByOne := errors.Is(err, fs.ErrNotExist) // before Linux 5.14
	if err != nil && !oneByOne {
		return fmt.Errorf("kill the processes of %s: %w", c, err)
	}
	return until(ctx, func() (bool, error) {
		pids, err := c.pids()
		if oneByOne {
			for _, pid := range pids {
				if killed := unix.Kill(pid, unix.SIGKILL); killed != nil && !errors.Is(killed, unix.ESRCH) {
					return false, fmt.Errorf("kill process %d: %w", pid, killed)
				}
			}
		}
		return len(pids) == 0, err
	})
}

// remove deletes the cgroup and those below it, which must have no processes.
func (c cgroup) remove(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		all, err := c.all()
		if err != nil {
			return false, err
		}
		for _, one := range all {
			err := os.Remove(string(one))
			if errors.Is(err, unix.EBUSY) {
				return false, nil // its last process is still on its way out
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, fmt.Errorf("remove cgroup: %w", err)
			}
		}
		return true, nil
	})
}

// until asks done again and again, ever more slowly, until it says yes or fails or ctx ends.
func until(ctx context.Context, done func() (bool, error)) error {
	const slowest = 50 * time.Millisecond
	for pause := time.Millisecond; ; pause = min(2*pause, slowest) {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
