package fleet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sock is a socket as a [net.Conn] for crypto/tls. It blocks by waiting for the fleet's epoll loop, so that it costs
// no goroutine between two calls. It belongs to whoever holds its client; only interrupt may be called by others.
type sock struct {
	fd          int
	ready       chan struct{} // of capacity 1: something happened at the socket
	deadline    time.Time
	block       bool // whether Read and Write wait, or return errWouldBlock
	interrupted atomic.Bool
	sent        bool // something was written
}

var _ net.Conn = (*sock)(nil)

// errWouldBlock is temporary in the sense of [net.Error], which keeps crypto/tls from ending the connection for it.
var errWouldBlock error = wouldBlockError{}

type wouldBlockError struct{}

func (wouldBlockError) Error() string   { return "nothing there yet" }
func (wouldBlockError) Timeout() bool   { return true }
func (wouldBlockError) Temporary() bool { return true }

// wake tells a waiting owner, or the next one that waits, to look again.
func (s *sock) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// interrupt makes a waiting owner give up.
func (s *sock) interrupt() {
	s.interrupted.Store(true)
	s.wake()
}

// wait returns when the socket may be ready. Spurious returns happen.
func (s *sock) wait() error {
	if s.interrupted.Load() {
		return errAbandoned
	}
	left := time.Until(s.deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-s.ready:
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
	if s.interrupted.Load() {
		return errAbandoned
	}
	return nil
}

func (s *sock) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(s.fd, b)
		switch {
		case err == nil && n == 0:
			return 0, io.EOF
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN):
			return 0, os.NewSyscallError("read", err)
		case !s.block:
			return 0, errWouldBlock
		default:
			if err := s.wait(); err != nil {
				return 0, err
			}
		}
	}
}

func (s *sock) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.SendmsgN(s.fd, b[done:], nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == nil:
			done += n
			s.sent = true
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EAGAIN):
			return done, os.NewSyscallError("write", err)
		case !s.block:
			return done, errWouldBlock
		default:
			if err := s.wait(); err != nil {
				return done, err
			}
		}
	}
	return done, nil
}

// connect binds to source (unless it is invalid) and connects. registered is called once the kernel has begun, to watch the socket.
func (s *sock) connect(source netip.Addr, target netip.AddrPort, registered func() error) error {
	if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt TCP_NODELAY", err)
	}
	if source.IsValid() {
		// Without this option bind itself looks for a port that is free towards every target, slowly, and runs out early.
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
			return os.NewSyscallError("setsockopt IP_BIND_ADDRESS_NO_PORT", err)
		}
		if err := unix.Bind(s.fd, sockaddr(netip.AddrPortFrom(source, 0))); err != nil {
			return fmt.Errorf("bind to %v: %w", source, err)
		}
	}
	err := unix.Connect(s.fd, sockaddr(target))
	for errors.Is(err, unix.EINTR) {
		err = unix.Connect(s.fd, sockaddr(target))
	}
	if err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EALREADY) {
		return os.NewSyscallError("connect", err)
	}
	if err := registered(); err != nil {
		return err
	}
	return s.connected()
}

// connected waits for the answer to the SYN.
func (s *sock) connected() error {
	for {
		code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return os.NewSyscallError("getsockopt SO_ERROR", err)
		}
		if code != 0 {
			return os.NewSyscallError("connect", unix.Errno(code))
		}
		_, err = unix.Getpeername(s.fd)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.ENOTCONN) {
			return os.NewSyscallError("getpeername", err)
		}
		if err := s.wait(); err != nil {
			return err
		}
	}
}

// local is the socket's own address, valid once it is connecting.
func (s *sock) local() netip.AddrPort {
	sa, err := unix.Getsockname(s.fd)
	if err != nil {
		return netip.AddrPort{}
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Close is only there for [net.Conn]: a client ends by [How], not by crypto/tls.
func (*sock) Close() error { return nil }

// LocalAddr and RemoteAddr are only there for [net.Conn].
func (s *sock) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(s.local()) }

// RemoteAddr is not used by crypto/tls.
func (*sock) RemoteAddr() net.Addr { return nil }

// SetDeadline bounds all waiting from now on.
func (s *sock) SetDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

// SetReadDeadline is SetDeadline.
func (s *sock) SetReadDeadline(t time.Time) error { return s.SetDeadline(t) }

// SetWriteDeadline is SetDeadline.
func (s *sock) SetWriteDeadline(t time.Time) error { return s.SetDeadline(t) }
