package netlab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/netns"
)

// teardown removes everything the journal and the folder know of. The caller holds the lab's lock.
func (h home) teardown(ctx context.Context) error {
	steps, err := h.journal()
	if err != nil {
		return err
	}
	var groups []cgroup
	for _, s := range steps {
		if s.Do == stepCgroup {
			groups = append(groups, cgroup(s.Path))
		}
	}
	for _, g := range groups { // processes first: they would go on making things
		err = g.kill(ctx)
		if err != nil {
			return err
		}
	}
	h.unlink()
	err = h.unmount()
	if err != nil {
		return err
	}
	for _, g := range groups {
		err = g.remove(ctx)
		if err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(string(g))) // the last lab takes the cgroup of all labs with it
	}
	return h.removeFiles()
}

// unmount takes away everything that is mounted in the lab's folder.
func (h home) unmount() error {
	mounts, err := netns.MountsBelow(string(h))
	if err != nil {
		return err
	}
	for _, m := range mounts { // the outermost takes all below it along
		err = unix.Unmount(m, unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	return nil
}

// removeFiles removes the folder. The journal goes last, so that a kill in between leaves a lab that can be removed.
func (h home) removeFiles() error {
	entries, err := os.ReadDir(string(h))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name() == "journal" {
			continue
		}
		err = os.RemoveAll(h.path(e.Name()))
		if err != nil {
			return err
		}
	}
	return os.RemoveAll(string(h))
}

// unlink deletes all links of the lab at once. Without it they would go with their namespaces, some time later, and a
// namespace that a lingering socket keeps alive would keep its link.
func (h home) unlink() {
	router, err := netns.Open(h.netns(routerName))
	if err != nil {
		return // it was never made
	}
	defer router.Close()         //nolint:errcheck // the thread ends either way
	_ = router.Do(func() error { // the namespaces take what is left along
		req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(linkGroup)))
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

// Leaks lists what is left of a lab of that name: files, mounts, cgroups, processes. After [Down] it is empty.
func Leaks(name string, o Options) ([]string, error) {
	h := o.home(name)
	var leaks []string
	for _, path := range []string{string(h), h.lockPath()} {
		if _, err := os.Lstat(path); err == nil {
			leaks = append(leaks, "file "+path)
		}
	}
	mounts, err := netns.MountsBelow(string(h))
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		leaks = append(leaks, "mount "+m)
	}
	group, err := o.cgroup(name)
	if err != nil {
		return nil, err
	}
	if group.exists() {
		leaks = append(leaks, "cgroup "+string(group))
	}
	pids, err := processesOf(h)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		leaks = append(leaks, "process "+pid)
	}
	return leaks, nil
}

// processesOf finds processes that have the lab's folder in their command line or a cgroup of the lab.
func processesOf(h home) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []string
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // gone meanwhile: no leak
		group, _ := os.ReadFile("/proc/" + e.Name() + "/cgroup")
		args := strings.ReplaceAll(string(line), "\x00", " ") + " "
		if len(line) == 0 {
			continue // a zombie, whose parent has not looked yet, or a thread of the kernel
		}
		if strings.Contains(args, string(h)+"/") || strings.Contains(args, string(h)+" ") || strings.Contains(string(group), h.cgroupSuffix()+"/") {
			pids = append(pids, e.Name()+": "+strings.TrimSpace(args))
		}
	}
	return pids, nil
}

// cgroupSuffix is the end of the lab's cgroup, wherever the hierarchy is mounted.
func (h home) cgroupSuffix() string { return "/" + filepath.Base(h.root()) + "/" + h.name() }
