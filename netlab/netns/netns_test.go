package netns

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/internal/testenv"
)

// created makes n namespaces that end with the test.
func created(t *testing.T, n int, setup func(i int) error) []string {
	t.Helper()
	testenv.NeedRoot(t)
	folder := t.TempDir()
	paths := make([]string, n)
	for i := range paths {
		paths[i] = filepath.Join(folder, fmt.Sprintf("ns%d", i))
	}
	t.Cleanup(func() {
		for _, p := range paths {
			if err := unix.Unmount(p, unix.MNT_DETACH); err != nil {
				t.Errorf("Unmount(%s) = %v, want nil", p, err)
			}
		}
	})
	if err := Create(paths, setup); err != nil {
		t.Fatalf("Create = %v, want nil", err)
	}
	return paths
}

func opened(t *testing.T, path string) *Handle {
	t.Helper()
	h, err := Open(path)
	if err != nil {
		t.Fatalf("Open = %v, want nil", err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
	return h
}

// inode is the number of the namespace that the calling thread is in.
func inode(path string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return st.Ino, err
}

func TestEachNamespaceIsAnotherAndSetUpInside(t *testing.T) {
	inside := make([]uint64, 3)
	paths := created(t, 3, func(i int) (err error) {
		inside[i], err = inode("/proc/thread-self/ns/net")
		return err
	})
	host, err := inode("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{host: true}
	cookies := map[uint64]bool{}
	for i, p := range paths {
		if seen[inside[i]] {
			t.Errorf("namespace %d is one that was there before", i)
		}
		seen[inside[i]] = true
		h := opened(t, p)
		var got uint64
		if err := h.Do(func() (err error) { got, err = inode("/proc/thread-self/ns/net"); return err }); err != nil || got != inside[i] {
			t.Errorf("Do runs in namespace %d, %v, want %d", got, err, inside[i])
		}
		cookie, err := h.Cookie()
		if err != nil || cookies[cookie] {
			t.Errorf("Cookie = %d, %v, want one of its own", cookie, err)
		}
		cookies[cookie] = true
	}
	if now, err := inode("/proc/self/ns/net"); err != nil || now != host {
		t.Errorf("the process is in namespace %d, %v, want %d as before", now, err, host)
	}
}

func TestGoroutinesStayInTheProcessNamespace(t *testing.T) {
	h := opened(t, created(t, 1, nil)[0])
	host, err := inode("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := h.Do(func() error { return nil }); err != nil {
				t.Errorf("Do = %v, want nil", err)
			}
			if here, err := inode("/proc/thread-self/ns/net"); err != nil || here != host {
				t.Errorf("after Do in namespace %d, %v, want %d", here, err, host)
			}
		})
	}
	all.Wait()
}

func TestSocketBelongsToTheNamespace(t *testing.T) {
	h := opened(t, created(t, 1, nil)[0])
	want, err := h.Cookie()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		fd, err := h.Socket(family)
		if err != nil {
			t.Fatalf("Socket(%d) = %v, want nil", family, err)
		}
		got, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		if err != nil || got != want {
			t.Errorf("cookie of the socket = %d, %v, want %d", got, err, want)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}

func TestClosedHandleSaysSo(t *testing.T) {
	h, err := Open(created(t, 1, nil)[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
	if err := h.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Do = %v, want %v", err, ErrClosed)
	}
	if _, err := h.Socket(unix.AF_INET); !errors.Is(err, ErrClosed) {
		t.Errorf("Socket = %v, want %v", err, ErrClosed)
	}
	if err := h.Start(View{}, func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Start = %v, want %v", err, ErrClosed)
	}
}

func TestOpenRefusesWhatIsNoNamespace(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, plain + ".none"} {
		if h, err := Open(path); err == nil {
			t.Errorf("Open(%s) = %v, want an error", path, h)
		}
	}
}

func TestCreateNamesTheStepThatFailed(t *testing.T) {
	testenv.NeedRoot(t)
	path := filepath.Join(t.TempDir(), "ns")
	broken := errors.New("broken")
	err := Create([]string{path}, func(int) error { return broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), path) {
		t.Errorf("Create = %v, want %v with the path", err, broken)
	}
	if err := Create([]string{path}, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("Create of what is there = %v, want %v", err, os.ErrExist)
	}
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
}

func TestStartedProcessSeesItsViewOnly(t *testing.T) {
	paths := created(t, 2, nil)
	h := opened(t, paths[0])
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("192.0.2.1 view\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	view := View{Files: map[string]string{"/etc/hosts": hosts, "/etc/there is no such file": hosts}, Hide: filepath.Dir(paths[0])}
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "cat /etc/hosts /proc/self/mountinfo; readlink /proc/self/ns/net")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := h.Start(view, cmd.Start); err != nil {
		t.Fatalf("Start = %v, want nil", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	ns, err := inode(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"192.0.2.1 view", fmt.Sprintf("net:[%d]", ns)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the process does not see %q", want)
		}
	}
	if strings.Contains(out.String(), paths[1]) {
		t.Errorf("the process has the mount %s, which would keep that namespace alive", paths[1])
	}
	if text, err := os.ReadFile("/etc/hosts"); err != nil || strings.Contains(string(text), "192.0.2.1 view") {
		t.Errorf("/etc/hosts of the machine = %s, %v, want it unchanged", text, err)
	}
	if mounts, err := MountsBelow(filepath.Dir(paths[0])); err != nil || len(mounts) != 2 {
		t.Errorf("MountsBelow = %v, %v, want both namespaces still", mounts, err)
	}
}

func TestListenersOfOneNamespaceAreNotInAnother(t *testing.T) {
	h := opened(t, created(t, 1, nil)[0])
	var l net.Listener
	err := h.Do(func() (err error) {
		var config net.ListenConfig
		l, err = config.Listen(t.Context(), "tcp", ":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port))
	if err == nil {
		t.Errorf("dial from outside = %v, want an error", c.Close())
	}
}

func TestMountPathsAreUnescaped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`/a`: "/a", `/a\040b`: "/a b", `/a\011b\134`: "/a\tb\\", `/a\04`: `/a\04`, `/a\999`: `/a\999`, `\`: `\`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}
