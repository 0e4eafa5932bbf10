package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab"
)

// Prepare is to be called before a run: it takes the turn ([TakeTurn]) and removes what killed runs left ([Sweep]). Without the
// privileges for labs there is nothing to prepare. release gives the turn up, and removes labs that specs of this process left.
func Prepare(ctx context.Context, waiting func()) (release func() error, err error) {
	if netlab.Privileges() != nil {
		return func() error { return nil }, nil //nolint:nilerr // each spec tells why it is skipped
	}
	giveUp, err := TakeTurn(ctx, waiting)
	if err != nil {
		return nil, err
	}
	if err := Sweep(ctx); err != nil {
		return nil, errors.Join(err, giveUp())
	}
	return func() error {
		// A second interrupt ends a spec without its clean-up.
		err := sweep(context.WithoutCancel(ctx), func(pid int) bool { return pid == os.Getpid() })
		return errors.Join(err, giveUp())
	}, nil
}

// TakeTurn waits until no other process of this user runs scenarios, and returns what gives the turn up: suites that run
// at the same time, as `go test ./...` has it, would measure each other. waiting (unless nil) is called once if there is somebody.
func TakeTurn(ctx context.Context, waiting func()) (release func() error, err error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("brokerlab-stage-%d.lock", os.Getuid()))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take turns with other runs: %w", err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("take turns with other runs: %w", err), f.Close())
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another run: %w", context.Cause(ctx)), f.Close())
		}
	}
}
