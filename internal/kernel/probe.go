package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/bpf/sockacct"
	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
)

// wantFiles is how many open files a fleet of the size that the suites use needs.
const wantFiles = 20000

func probeSockDiag(context.Context) error {
	c, err := sockdiag.Open()
	if err != nil {
		return err
	}
	_, err = c.Dump(0, sockdiag.Set(sockdiag.Listen))
	return errors.Join(err, c.Close())
}

func probeBTF(context.Context) error {
	_, err := btf.LoadKernelSpec()
	return err
}

func probeBPF(context.Context) error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return err
	}
	return m.Close()
}

func probeCgroup2(context.Context) error {
	_, err := sockacct.Cgroup2()
	return err
}

func probeAccounting(context.Context) error {
	c, err := sockacct.Load(sockacct.Options{NoSeeding: true, NoListing: true})
	if err != nil {
		return err
	}
	return c.Close()
}

func probeListing(context.Context) error {
	c, err := sockacct.Load(sockacct.Options{NoSeeding: true})
	if err != nil {
		return err
	}
	return errors.Join(c.Listing(), c.Close())
}

// probeSeeding seeds a connection of its own: kernels exist that load the program and refuse what it does.
func probeSeeding(ctx context.Context) error {
	c, err := sockacct.Load(sockacct.Options{NoListing: true})
	if err != nil {
		return err
	}
	return errors.Join(seedOne(ctx, c), c.Close())
}

func seedOne(ctx context.Context, c *sockacct.Counter) error {
	if err := c.Seeding(); err != nil {
		return err
	}
	lc := net.ListenConfig{}
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("try it on a connection: %w", err)
	}
	defer l.Close() //nolint:errcheck // nobody else knows it
	d := net.Dialer{}
	conn, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return fmt.Errorf("try it on a connection: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	return seedPort(c, l.Addr())
}

// seedPort seeds the one connection of a port.
func seedPort(c *sockacct.Counter, addr net.Addr) error {
	netns, err := sockacct.NetnsCookie()
	if err != nil {
		return err
	}
	tcp, _ := addr.(*net.TCPAddr)
	port := uint16(tcp.Port)
	err = c.Watch(netns, port, 0)
	if err == nil {
		err = c.Seed(func(f func() error) error { return f() })
	}
	if err != nil {
		return err
	}
	counted, err := c.Port(netns, port)
	if err != nil {
		return err
	}
	if counted.Seeded != 1 {
		return errors.New("the kernel does not let an iterator follow a socket")
	}
	return nil
}

// probeNamespaces starts a process that does nothing in a namespace of its own.
func probeNamespaces(ctx context.Context) error {
	c := exec.CommandContext(ctx, "true")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	return c.Run()
}

func probeRepair(context.Context) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1)
	return errors.Join(err, unix.Close(fd))
}

func probeFiles(context.Context) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < wantFiles {
		return fmt.Errorf("this process may open %d files", limit.Max)
	}
	return nil
}

// capability is one that something needs.
type capability uint

// Capabilities.
const (
	capBPF      capability = unix.CAP_BPF
	capPerfmon  capability = unix.CAP_PERFMON
	capNetAdmin capability = unix.CAP_NET_ADMIN
	capSysAdmin capability = unix.CAP_SYS_ADMIN
)

func (c capability) String() string {
	switch c {
	case capBPF:
		return "CAP_BPF"
	case capPerfmon:
		return "CAP_PERFMON"
	case capNetAdmin:
		return "CAP_NET_ADMIN"
	default:
		return "CAP_SYS_ADMIN"
	}
}

// lacking names those that this process does not have.
func lacking(need []capability) []string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil
	}
	has := func(c capability) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	var lacks []string
	for _, c := range need {
		// Before Linux 5.8 there were no CAP_BPF and CAP_PERFMON: CAP_SYS_ADMIN included them, and it does still.
		if !has(c) && (c == capNetAdmin || !has(capSysAdmin)) {
			lacks = append(lacks, c.String())
		}
	}
	return lacks
}
