package stage

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab"
)

// labName is the name of a spec's lab: the process that made it, and a count.
func labName(pid int, n int64) string { return fmt.Sprintf("spec-%d-%d", pid, n) }

// Sweep removes labs of specs whose process was killed before it could. Those that were left standing on purpose stay. It is
// called when the turn is taken.
func Sweep(ctx context.Context) error {
	return sweep(ctx, func(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
}

// sweep removes the labs of specs of the processes that are over, but for those that were kept.
func sweep(ctx context.Context, over func(pid int) bool) error {
	names, err := netlab.List(netlab.Options{})
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		match := regexp.MustCompile(`^spec-(\d+)-\d+$`).FindStringSubmatch(name)
		if match == nil {
			continue
		}
		pid, err := strconv.Atoi(match[1])
		if err != nil || !over(pid) {
			continue
		}
		if lab, err := netlab.Open(name, netlab.Options{}); err == nil && isKept(lab.Folder()) {
			continue
		}
		if err := netlab.Down(ctx, name, netlab.Options{}); err != nil && !errors.Is(err, netlab.ErrNoLab) {
			errs = append(errs, fmt.Errorf("remove lab %s of a run that is over: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
