package fleet

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Source is where a group's clients come from: it makes their sockets and names their addresses. Both methods are called from many
// goroutines at once.
type Source interface {
	// Socket makes a non-blocking, close-on-exec TCP socket of family (unix.AF_INET or unix.AF_INET6). The fleet
	// closes it. Where it is made decides in which network namespace it lives.
	Socket(family int) (fd int, err error)
	// Addr is the source address of the i-th client of a group; it may repeat. An invalid address leaves the choice to
	// the kernel.
	Addr(i int) netip.Addr
}

// PortRanger is implemented by sources that know the ephemeral ports of their network namespace. Without it those of
// the calling thread's are assumed.
type PortRanger interface {
	PortRange() (first, last int, err error)
}

// SourceSpec describes a source to a worker process.
type SourceSpec struct {
	// Namespace is the path of a network namespace; empty: the process's own.
	Namespace string `json:"namespace,omitempty"`
	// Prefix holds the source addresses; invalid: left to the kernel.
	Prefix netip.Prefix `json:"prefix,omitzero"`
}

// Loopback is a source in the process's own namespace: prefix is a part of 127.0.0.0/8, or ::1/128. The zero prefix
// leaves the address to the kernel.
func Loopback(prefix netip.Prefix) Source { return loopback{prefix} }

type loopback struct{ prefix netip.Prefix }

func (loopback) Socket(family int) (int, error) { return Socket(family) }

func (l loopback) Addr(i int) netip.Addr { return Nth(l.prefix, i) }

// Socket makes a socket as a [Source] must, in the calling thread's network namespace.
func Socket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, fmt.Errorf("make a TCP socket: %w", err)
	}
	return fd, nil
}

// Nth is the i-th client address of prefix, counted from its second address and wrapping before its last (so that .0
// and .255 of a /24 stay unused); a prefix of one or two addresses uses all of them. At most 2^20 different ones.
func Nth(prefix netip.Prefix, i int) netip.Addr {
	if !prefix.IsValid() {
		return netip.Addr{}
	}
	base := prefix.Masked().Addr()
	bits := min(base.BitLen()-prefix.Bits(), 20)
	n, first := 1<<bits, 0
	if n > 2 {
		n, first = n-2, 1
	}
	off := first + i%n
	b := base.AsSlice()
	for k := len(b) - 1; off > 0; k-- {
		sum := int(b[k]) + off
		b[k], off = byte(sum), sum>>8
	}
	addr, _ := netip.AddrFromSlice(b)
	return addr
}
