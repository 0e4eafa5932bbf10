package connbench

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// jcmdTimeout bounds a collection and the question after it.
const jcmdTimeout = 30 * time.Second

// liveHeap lets a Java process collect its garbage and returns what is left in its heap. All its threads stop meanwhile.
func (p process) liveHeap(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, jcmdTimeout)
	defer cancel()
	if _, err := p.jcmd(ctx, "GC.run"); err != nil {
		return 0, err
	}
	text, err := p.jcmd(ctx, "GC.heap_info")
	if err != nil {
		return 0, err
	}
	used, ok := heapUsed(text)
	if !ok {
		return 0, fmt.Errorf("jcmd GC.heap_info of process %d says nothing of the heap's use: %.200q", p, text)
	}
	return used, nil
}

func (p process) jcmd(ctx context.Context, what string) (string, error) {
	out, err := exec.CommandContext(ctx, "jcmd", strconv.Itoa(int(p)), what).CombinedOutput() //nolint:gosec // a number and a word of ours
	if err != nil {
		return "", fmt.Errorf("jcmd %d %s: %w: %.200s", p, what, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// heapUsed adds up the generations of GC.heap_info; what Java calls metaspace is not of the heap.
func heapUsed(text string) (bytes int64, ok bool) {
	use := regexp.MustCompile(`\bused (\d+)([KMG]?)`)
	for line := range strings.Lines(text) {
		name := strings.ToLower(strings.TrimSpace(line))
		if strings.HasPrefix(name, "metaspace") || strings.HasPrefix(name, "class space") {
			continue
		}
		m := use.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			continue
		}
		bytes, ok = bytes+n<<map[string]int{"": 0, "K": 10, "M": 20, "G": 30}[m[2]], true
	}
	return bytes, ok
}

// heapMax is the most that a Java process's heap may grow to, by its command line; 0: not given there.
func heapMax(commandLine []string) int64 {
	size := int64(0)
	for _, arg := range commandLine {
		for _, prefix := range []string{"-Xmx", "-XX:MaxHeapSize="} {
			if text, found := strings.CutPrefix(arg, prefix); found {
				if n, err := ParseSize(text); err == nil {
					size = n // the last one counts
				}
			}
		}
	}
	return size
}

// ParseSize reads a size such as 8GiB, 512m or 1073741824, in powers of 1024. GB and G are GiB.
func ParseSize(text string) (int64, error) {
	trimmed := strings.ToLower(strings.TrimSpace(text))
	unit := strings.TrimLeft(trimmed, "0123456789.")
	n, err := strconv.ParseFloat(strings.TrimSuffix(trimmed, unit), 64)
	shift, ok := map[string]int{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.TrimSpace(unit)]
	const most = 1 << 50
	if bytes := n * float64(int64(1)<<shift); err == nil && ok && bytes >= 1 && bytes < most {
		return int64(bytes), nil
	}
	return 0, fmt.Errorf("%q is no size such as 8GiB", text)
}
