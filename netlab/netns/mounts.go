package netns

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// MountsBelow lists the mount points that the calling thread sees at or below folder, a mount before those that are in it.
func MountsBelow(folder string) ([]string, error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var below []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if point == folder || strings.HasPrefix(point, strings.TrimSuffix(folder, "/")+"/") {
			below = append(below, point)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return below, nil
}

// unescape undoes the kernel's \ooo for space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
