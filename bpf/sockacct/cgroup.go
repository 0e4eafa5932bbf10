package sockacct

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoCgroup2 says that no cgroup2 hierarchy is mounted.
var ErrNoCgroup2 = errors.New("no cgroup2 hierarchy is mounted: mount one with `mount -t cgroup2 none /sys/fs/cgroup`")

// Cgroup2 returns the directory where the root of the cgroup2 hierarchy is mounted, wherever that is: beside the older
// hierarchies it is often not /sys/fs/cgroup.
func Cgroup2() (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup2: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var found string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		dir, root, ok := cgroup2Mount(lines.Text())
		if !ok || !isCgroup2(dir) {
			continue
		}
		if root == "/" {
			return dir, nil
		}
		if found == "" {
			found = dir // a part of the hierarchy is better than none
		}
	}
	if found == "" {
		return "", ErrNoCgroup2
	}
	return found, nil
}

// cgroup2Mount reads a line of mountinfo: where a cgroup2 is mounted, and which of its directories.
func cgroup2Mount(line string) (dir, root string, ok bool) {
	mount, fs, ok := strings.Cut(line, " - ")
	if !ok || !strings.HasPrefix(fs, "cgroup2 ") {
		return "", "", false
	}
	fields := strings.Fields(mount)
	if len(fields) < 5 {
		return "", "", false
	}
	return unescape(fields[4]), unescape(fields[3]), true
}

// unescape undoes how mountinfo writes blanks.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func isCgroup2(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && int64(st.Type) == unix.CGROUP2_SUPER_MAGIC //nolint:unconvert // its width is the architecture's
}
