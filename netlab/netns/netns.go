// Package netns creates, opens and enters network namespaces. It is the only code that locks OS threads.
//
// A namespace begins with [Create], which binds it to a path, so that it lives without a process in it, and ends when that
// path is unmounted and the last socket in it has gone. [Open] gives a [Handle] on it: one goroutine locked to one OS
// thread that has entered the namespace and leaves it never. Work is handed to that thread with [Handle.Do]. A socket
// stays in the namespace where it was created, so the one thing a client needs from the thread is [Handle.Socket]:
// binding, connecting and waiting are done by anybody, outside, and no thread is held while a connection is pending.
//
// The package never changes the namespace of a thread that other goroutines will run on: a thread that entered a
// namespace ends with the goroutine that locked it.
package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	cni "github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrClosed is what a [Handle] answers after [Handle.Close].
var ErrClosed = errors.New("namespace handle is closed")

// Create makes a namespace for each path, in order, bound to that path, and calls setup (unless nil) in each of them
// as it is made. All are made by one thread, which ends with the call; call Create from several goroutines to use
// several. A path must not exist; its folder must. After an error the namespaces made so far stay, for the caller to
// unmount. Needs CAP_SYS_ADMIN.
func Create(paths []string, setup func(i int) error) error {
	return onThread(func() error {
		for i, path := range paths {
			if err := create(path); err != nil {
				return fmt.Errorf("create namespace %s: %w", path, err)
			}
			if setup == nil {
				continue
			}
			if err := setup(i); err != nil {
				return fmt.Errorf("set up namespace %s: %w", path, err)
			}
		}
		return nil
	})
}

func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// Handle is an open namespace and the thread that lives in it. Safe for concurrent use; calls run one after another.
type Handle struct {
	path  string
	ns    netns.NsHandle
	start func() error // enters on the first use; its error stays
	work  chan job
	mu    sync.RWMutex // held for reading while a job is handed over, for writing by Close
	done  bool
}

type job struct {
	run    func() error
	result chan<- error
}

// Open opens the namespace bound to path. Its thread starts with the first use of the handle.
func Open(path string) (*Handle, error) {
	if err := cni.IsNSorErr(path); err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", path, err)
	}
	return newHandle(path, ns), nil
}

// Current opens the namespace that the process was started in.
func Current() (*Handle, error) { return Open("/proc/self/ns/net") }

func newHandle(path string, ns netns.NsHandle) *Handle {
	h := &Handle{path: path, ns: ns, work: make(chan job)}
	h.start = sync.OnceValue(h.enter)
	return h
}

// enter starts the thread and waits until it is in the namespace.
func (h *Handle) enter() error {
	entered := make(chan error, 1)
	go func() {
		err := onThread(func() error {
			if err := netns.Set(h.ns); err != nil {
				return fmt.Errorf("enter namespace %s: %w", h.path, err)
			}
			entered <- nil
			for j := range h.work {
				j.result <- j.run()
			}
			return nil
		})
		if err != nil {
			entered <- err
		}
	}()
	return <-entered
}

// Do runs f on the handle's thread, inside the namespace, and returns its error. Whatever f starts elsewhere (a
// goroutine, a name lookup) runs outside. f must be short, since everybody who uses the handle waits for it, and must
// not call the handle again.
func (h *Handle) Do(f func() error) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.done {
		return fmt.Errorf("enter namespace %s: %w", h.path, ErrClosed)
	}
	if err := h.start(); err != nil {
		return err
	}
	result := make(chan error, 1)
	h.work <- job{f, result}
	return <-result
}

// Socket creates a TCP socket of family unix.AF_INET or unix.AF_INET6 in the namespace: non-blocking, close-on-exec,
// and the caller's to close.
func (h *Handle) Socket(family int) (int, error) {
	fd := -1
	err := h.Do(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		return os.NewSyscallError("socket", err)
	})
	return fd, err
}

// Cookie is the kernel's number for the namespace: unique until the machine restarts, never used again.
func (h *Handle) Cookie() (cookie uint64, err error) {
	err = h.Do(func() (err error) {
		cookie, err = ThreadCookie()
		return err
	})
	return cookie, err
}

// FD is the namespace's file, valid until [Handle.Close]; for netlink calls that move a link into it.
func (h *Handle) FD() int { return int(h.ns) }

// Path is where the namespace is bound.
func (h *Handle) Path() string { return h.path }

// Close ends the thread and lets go of the namespace. It waits for what runs, and may be called twice.
func (h *Handle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return nil
	}
	h.done = true
	close(h.work)
	return h.ns.Close()
}

// View is what a process started with [Handle.Start] sees of the machine's files.
type View struct {
	// Files take the place of others: /etc/hosts, say. What the machine does not have is not replaced.
	Files map[string]string
	// Hide is a folder whose mounts the process does not get. A process with mounts of its own holds what they
	// hold: without this, a broker of one lab would keep the namespaces of all labs alive.
	Hide string
}

// Start calls start, which starts a process, on a thread of its own in the namespace; the process has mounts of its own
// where it needs a view. The handle's own thread is free meanwhile.
func (h *Handle) Start(view View, start func() error) error {
	h.mu.RLock() // the namespace stays open
	defer h.mu.RUnlock()
	if h.done {
		return fmt.Errorf("enter namespace %s: %w", h.path, ErrClosed)
	}
	return onThread(func() error {
		if err := netns.Set(h.ns); err != nil {
			return fmt.Errorf("enter namespace %s: %w", h.path, err)
		}
		if len(view.Files) > 0 || view.Hide != "" {
			if err := view.apply(); err != nil {
				return err
			}
		}
		return start()
	})
}

// apply gives the calling thread, and what it starts, mounts of its own.
func (v View) apply() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if v.Hide != "" {
		mounts, err := MountsBelow(v.Hide)
		if err != nil {
			return err
		}
		for _, m := range mounts { // the outermost takes those below it along
			err := unix.Unmount(m, unix.MNT_DETACH)
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("hide %s: %w", m, err)
			}
		}
	}
	for over, file := range v.Files {
		target, err := filepath.EvalSymlinks(over)
		if err != nil {
			continue // a mount needs something to be put over
		}
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s over %s: %w", file, target, err)
		}
	}
	return nil
}

// ThreadCookie is the cookie of the namespace that the calling thread is in; for use inside [Handle.Do] and [Create].
func ThreadCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd) //nolint:errcheck // an unused socket: nothing can be lost
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return cookie, os.NewSyscallError("getsockopt SO_NETNS_COOKIE", err)
}
