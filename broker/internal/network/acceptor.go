package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// recheckFiles is how often an acceptor that lacks file descriptors looks
	// again.
	recheckFiles = 100 * time.Millisecond
	// pauseLogEvery keeps a broker that stays near its limit from filling the log.
	pauseLogEvery = time.Minute
)

// listener is a listen socket with its acceptor, its loops and its counters.
// The acceptor holds at most one socket that is in no loop's queue: the one for
// which it waits for a slot or for room; those that are throttled have none and
// want none.
type listener struct {
	Listener
	server *Server
	bound  netip.AddrPort
	socket *os.File
	raw    syscall.RawConn
	loops  atomic.Pointer[[]*loop] // those that take new connections; the slice is never changed
	// throttled are sockets of addresses that connect too often.
	throttled throttled
	ctx       context.Context //nolint:containedctx // the life of the acceptor, which outlives the call that starts it
	cancel    context.CancelFunc
	// removed: it is in no count any more, that of its limits included.
	removed atomic.Bool

	mu        sync.Mutex // guards what follows
	leaving   []*loop    // still have connections, take no new ones
	pastBytes [2]uint64  // in and out, of the loops that are gone

	established, handshaking, queued, held atomic.Int64
	accepted, admitted, ended, filePauses  atomic.Uint64
	handshakes, handshakeFailures          atomic.Uint64
	refused, closed                        [reasonCount]atomic.Uint64
	complaints                             [reasonCount]Complaint
	// The acceptor's own.
	next        int // counts up; the remainder is the loop whose turn it is
	pauseLogged time.Time
}

// bind makes the socket and binds it; it does not listen yet.
func (l *listener) bind() error {
	addr, dual, err := resolve(l.Host)
	if err != nil {
		return err
	}
	fd, err := boundSocket(netip.AddrPortFrom(addr, uint16(l.Port)), dual)
	if errors.Is(err, unix.EAFNOSUPPORT) && l.Host == "" {
		fd, err = boundSocket(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(l.Port)), false)
	}
	if err != nil {
		return err
	}
	l.socket = os.NewFile(uintptr(fd), "listen")
	if l.raw, err = l.socket.SyscallConn(); err == nil {
		l.bound, err = socketName(fd)
	}
	if err != nil {
		_ = l.socket.Close()
		return fmt.Errorf("read bound address: %w", err)
	}
	return nil
}

// listen lets the kernel complete connections.
func (l *listener) listen() error {
	var err error
	if controlErr := l.raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), l.Backlog) }); controlErr != nil {
		err = controlErr
	}
	if err != nil {
		return fmt.Errorf("listen on %v: %w", l.bound, err)
	}
	return nil
}

// accept is the acceptor's goroutine.
func (l *listener) accept(ctx context.Context) {
	defer l.server.running.Done()
	defer l.drain()
	defer l.throttled.closeAll()
	for {
		fd, sa, err := l.take()
		switch {
		case err == nil:
			l.held.Store(1)
			l.admit(ctx, fd, unmapped(addrPort(sa)))
			l.held.Store(0)
			l.throttled.inspect()
			if fd >= l.server.options.MaxFiles {
				l.pause(ctx, nil)
			}
		case ctx.Err() != nil:
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
			l.pause(ctx, err)
		case errors.Is(err, os.ErrClosed):
			return
		default:
			// The client was gone before it was accepted (ECONNABORTED), or the
			// network told of an error that is its own.
			l.server.log.DebugContext(ctx, "accept", slog.String("listener", l.Name), slog.String("error", err.Error()))
		}
	}
}

// drain closes what a loop that has ended cannot take any more.
func (l *listener) drain() {
	for _, lp := range *l.loops.Load() {
		lp.discardLate()
	}
}

// endReason is why connections that the listener can take no more are closed.
func (l *listener) endReason() Reason {
	if l.server.ctx.Err() != nil {
		return ReasonShutdown
	}
	return ReasonListenerChanged
}

// take waits for a connection and takes it from the kernel.
func (l *listener) take() (fd int, sa unix.Sockaddr, err error) {
	waitErr := l.raw.Read(func(listening uintptr) bool {
		for {
			fd, sa, err = unix.Accept4(int(listening), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if waitErr != nil {
		return -1, nil, waitErr
	}
	return fd, sa, err
}

// pause waits until there are file descriptors again. cause is the error that
// said so; nil when the process has come near its limit.
func (l *listener) pause(ctx context.Context, cause error) {
	l.filePauses.Add(1)
	defer l.awaitFiles(ctx)
	now := time.Now()
	if now.Sub(l.pauseLogged) < pauseLogEvery {
		return
	}
	l.pauseLogged = now
	attrs := []slog.Attr{slog.String("listener", l.Name), slog.Int("max_files", l.server.options.MaxFiles)}
	if cause != nil {
		attrs = append(attrs, slog.String("error", cause.Error()))
	}
	l.server.log.LogAttrs(ctx, slog.LevelWarn, "accepting pauses: too few file descriptors are left", attrs...)
}

func (l *listener) awaitFiles(ctx context.Context) {
	ticker := time.NewTicker(recheckFiles)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if l.server.filesLeft() {
			return
		}
	}
}

// localOf is the broker's end of a socket.
func (l *listener) localOf(fd int) netip.AddrPort {
	if !l.bound.Addr().IsUnspecified() {
		return unmapped(l.bound)
	}
	local, err := socketName(fd)
	if err != nil {
		return l.bound
	}
	return unmapped(local)
}

// resolve reads a listener's host. dual: one socket for both families.
func resolve(host string) (addr netip.Addr, dual bool, err error) {
	if host == "" {
		return netip.IPv6Unspecified(), true, nil
	}
	if addr, err = netip.ParseAddr(host); err == nil {
		return addr, addr == netip.IPv6Unspecified(), nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, false, fmt.Errorf("resolve listener host: %w", err)
	}
	for _, a := range addrs {
		if a.Unmap().Is4() {
			return a.Unmap(), false, nil
		}
	}
	return addrs[0], false, nil
}

// boundSocket makes a non-blocking stream socket and binds it. Accepted sockets
// inherit its options.
func boundSocket(addr netip.AddrPort, dual bool) (fd int, err error) {
	family := unix.AF_INET
	if addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, fmt.Errorf("create socket: %w", err)
	}
	if err = setUp(fd, family, addr, dual); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// setUp sets a socket's options and binds it.
func setUp(fd, family int, addr netip.AddrPort, dual bool) error {
	type option struct{ level, name, value int }
	options := []option{
		{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	}
	if family == unix.AF_INET6 {
		only := option{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1}
		if dual {
			only.value = 0
		}
		options = append(options, only)
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fmt.Errorf("set socket option %d: %w", o.name, err)
		}
	}
	sa, err := sockaddr(addr)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("bind %v: %w", addr, err)
	}
	return nil
}

func sockaddr(addr netip.AddrPort) (unix.Sockaddr, error) {
	if addr.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}, nil
	}
	sa := &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	if zone := addr.Addr().Zone(); zone != "" {
		if index, err := strconv.ParseUint(zone, 10, 32); err == nil {
			sa.ZoneId = uint32(index)
			return sa, nil
		}
		link, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, fmt.Errorf("zone of %v: %w", addr, err)
		}
		sa.ZoneId = uint32(link.Index)
	}
	return sa, nil
}

func socketName(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("get socket name: %w", err)
	}
	return addrPort(sa), nil
}

// addrPort reads the kernel's address. A zone is numeric, as Java prints it.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 {
			addr = addr.WithZone(strconv.FormatUint(uint64(sa.ZoneId), 10))
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port))
	default:
		return netip.AddrPort{}
	}
}
