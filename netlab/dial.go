package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/netns"
)

// dial connects from a namespace. Only socket(2) runs inside; a pending connection holds no thread.
// A zero source lets the kernel choose one.
func dial(ctx context.Context, in *netns.Handle, source netip.Addr, dest netip.AddrPort) (net.Conn, error) {
	dest = netip.AddrPortFrom(dest.Addr().Unmap(), dest.Port())
	family := unix.AF_INET
	if dest.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := in.Socket(family)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "tcp")
	defer f.Close() //nolint:errcheck // the connection, if any, has a descriptor of its own
	if source.IsValid() {
		// The port is chosen at connect, by destination: a bind that chose it would run out of ports sooner.
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
			return nil, os.NewSyscallError("setsockopt IP_BIND_ADDRESS_NO_PORT", err)
		}
		if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(source.Unmap(), 0))); err != nil {
			return nil, fmt.Errorf("bind %s: %w", source, err)
		}
	}
	if err := connect(ctx, f, dest); err != nil { // as net.Dial has it: clients look whether to try again
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(dest), Err: err}
	}
	return net.FileConn(f)
}

// connect waits for a non-blocking connect outside the namespace.
func connect(ctx context.Context, f *os.File, dest netip.AddrPort) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) }) // ends the wait below
	defer stop()
	started := false
	var result error
	err = raw.Write(func(fd uintptr) bool { // until it says yes, each time that the socket is writable
		if !started {
			started = true
			result = os.NewSyscallError("connect", unix.Connect(int(fd), sockaddr(dest)))
			return !errors.Is(result, unix.EINPROGRESS)
		}
		var ended bool
		ended, result = connected(int(fd))
		return ended
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, result)
}

// connected tells whether a pending connect has ended, and how.
func connected(fd int) (ended bool, err error) {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return true, os.NewSyscallError("getsockopt SO_ERROR", err)
	}
	if code != 0 {
		return true, os.NewSyscallError("connect", unix.Errno(code))
	}
	_, err = unix.Getpeername(fd)
	return err == nil, nil // no peer yet: woken too early
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}
}
