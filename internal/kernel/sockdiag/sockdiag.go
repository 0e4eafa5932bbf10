// Package sockdiag asks the kernel for its TCP sockets over netlink, as ss(8) does. It needs no privileges.
//
// A [Conn] belongs to one network namespace: the one of the thread that opened it. A dump is a walk, not a snapshot: a socket
// that opens or closes meanwhile may be in it or not.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// State is a TCP state.
type State uint8

// States, as the kernel numbers them.
const (
	Established State = iota + 1
	SynSent
	SynRecv
	FinWait1
	FinWait2
	TimeWait
	Close
	CloseWait
	LastAck
	Listen
	Closing
	NewSynRecv
)

// String is the state as ss(8) prints it.
func (s State) String() string {
	switch s {
	case Established:
		return "ESTAB"
	case SynSent:
		return "SYN-SENT"
	case SynRecv, NewSynRecv:
		return "SYN-RECV"
	case FinWait1:
		return "FIN-WAIT-1"
	case FinWait2:
		return "FIN-WAIT-2"
	case TimeWait:
		return "TIME-WAIT"
	case Close:
		return "UNCONN"
	case CloseWait:
		return "CLOSE-WAIT"
	case LastAck:
		return "LAST-ACK"
	case Listen:
		return "LISTEN"
	case Closing:
		return "CLOSING"
	}
	return "UNKNOWN"
}

// States is a set of states.
type States uint32

// Set returns the set of these states.
func Set(states ...State) States {
	var set States
	for _, s := range states {
		set |= 1 << s
	}
	return set
}

// Connected is every state between the end of the handshake and the end of the socket.
func Connected() States { return Set(Established, CloseWait, FinWait1, FinWait2, Closing, LastAck) }

// Ending is every state in which this side has closed or shut down and TCP has not ended yet.
func Ending() States { return Set(FinWait1, FinWait2, Closing, LastAck) }

// Has tells whether state is one of s.
func (s States) Has(state State) bool { return s&Set(state) != 0 }

// Socket is one TCP socket.
type Socket struct {
	Local, Remote netip.AddrPort // IPv4 as such, on a dual-stack socket too
	State         State
	Cookie        uint64 // SO_COOKIE
	Inode         uint32 // 0: no file belongs to it (yet): it is in an accept queue, or was closed

	// Of a listener: connections that wait to be accepted, the most that may, and those dropped because of that.
	Queue, Backlog, Drops uint32

	// As ss(8) shows them: the end of a stream counts as one byte.
	BytesIn, BytesOut uint64
	RTT               time.Duration
}

// Conn is an open netlink socket. Safe for concurrent use; dumps run one after another.
type Conn struct {
	mu  sync.Mutex
	fd  int
	seq uint32
}

// answerTimeout bounds the wait for the kernel's next message.
const answerTimeout = 10 * time.Second

// Open opens a connection in the network namespace of the calling thread.
func Open() (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open sock_diag: %w", err)
	}
	tv := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, errors.Join(fmt.Errorf("open sock_diag: %w", err), unix.Close(fd))
	}
	return &Conn{fd: fd}, nil
}

// Close closes the connection. It may be called twice.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return unix.Close(fd)
}

// Layout of the messages; see linux/inet_diag.h and linux/netlink.h.
const (
	requestLen = unix.SizeofNlMsghdr + 56 // inet_diag_req_v2
	answerLen  = 72                       // inet_diag_msg
	bufferLen  = 1 << 16

	attrInfo    = 2 // INET_DIAG_INFO: struct tcp_info
	attrMemory  = 7 // INET_DIAG_SKMEMINFO: an array of u32
	memoryDrops = 8 // SK_MEMINFO_DROPS
	infoRTT     = 68
	infoAcked   = 120
	infoRecv    = 128
)

// Dump returns the sockets in one of the states whose local port is port; 0 is every port. IPv4 and IPv6 are asked one after
// the other.
func (c *Conn) Dump(port uint16, states States) ([]Socket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return nil, fmt.Errorf("dump sockets: %w", unix.EBADF)
	}
	var sockets []Socket
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		var err error
		if sockets, err = c.dump(sockets, family, port, states); err != nil {
			return nil, fmt.Errorf("dump sockets: %w", err)
		}
	}
	return sockets, nil
}

func (c *Conn) dump(sockets []Socket, family uint8, port uint16, states States) ([]Socket, error) {
	c.seq++
	request := make([]byte, requestLen)
	e := binary.NativeEndian
	e.PutUint32(request[0:], requestLen)
	e.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	e.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	e.PutUint32(request[8:], c.seq)
	body := request[unix.SizeofNlMsghdr:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	body[2] = 1<<(attrInfo-1) | 1<<(attrMemory-1)
	e.PutUint32(body[4:], uint32(states))
	binary.BigEndian.PutUint16(body[8:], port)
	if err := unix.Sendto(c.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	buf := make([]byte, bufferLen)
	for {
		n, _, err := unix.Recvfrom(c.fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var done bool
		if sockets, done, err = parse(sockets, buf[:n], c.seq); err != nil || done {
			return sockets, err
		}
	}
}

var errTruncated = errors.New("truncated netlink message")

// parse appends the sockets in a batch of messages; done tells that it was the last one of the dump numbered seq.
func parse(sockets []Socket, b []byte, seq uint32) (_ []Socket, done bool, _ error) {
	e := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(e.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return sockets, false, errTruncated
		}
		kind, body := e.Uint16(b[4:]), b[unix.SizeofNlMsghdr:size]
		fresh := e.Uint32(b[8:]) == seq // else it belongs to a dump that was given up
		b = b[min(align(size), len(b)):]
		if !fresh {
			continue
		}
		switch kind {
		case unix.NLMSG_DONE:
			return sockets, true, nil
		case unix.NLMSG_ERROR:
			if len(body) < 4 {
				return sockets, false, errTruncated
			}
			if code := int32(e.Uint32(body)); code != 0 {
				return sockets, false, unix.Errno(-code)
			}
		case unix.SOCK_DIAG_BY_FAMILY:
			s, whole, err := parseSocket(body)
			if err != nil {
				return sockets, false, err
			}
			if whole {
				sockets = append(sockets, s)
			}
		}
	}
	return sockets, false, nil
}

func align(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// parseSocket reads one message. whole is false for what is left of a connection that ended: the kernel shows those in TIME-WAIT
// under the state that they ended in, FIN-WAIT-2, but they have no socket any more.
func parseSocket(b []byte) (s Socket, whole bool, _ error) {
	if len(b) < answerLen {
		return s, false, errTruncated
	}
	e := binary.NativeEndian
	s.State = State(b[1])
	s.Local = address(b[0], b[8:24], b[4:6])
	s.Remote = address(b[0], b[24:40], b[6:8])
	s.Cookie = uint64(e.Uint32(b[44:])) | uint64(e.Uint32(b[48:]))<<32
	s.Queue, s.Backlog, s.Inode = e.Uint32(b[56:]), e.Uint32(b[60:]), e.Uint32(b[68:])
	if s.State != Listen {
		s.Queue, s.Backlog = 0, 0 // bytes there
	}
	for b = b[answerLen:]; len(b) >= unix.SizeofNlAttr; {
		size := int(e.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			return s, false, errTruncated
		}
		value := b[unix.SizeofNlAttr:size]
		switch e.Uint16(b[2:]) {
		case attrInfo:
			whole = true
			if len(value) >= infoRecv+8 {
				s.RTT = time.Duration(e.Uint32(value[infoRTT:])) * time.Microsecond
				s.BytesOut, s.BytesIn = e.Uint64(value[infoAcked:]), e.Uint64(value[infoRecv:])
			}
		case attrMemory:
			if len(value) >= 4*(memoryDrops+1) && s.State == Listen {
				s.Drops = e.Uint32(value[4*memoryDrops:])
			}
		}
		b = b[min(align(size), len(b)):]
	}
	return s, whole || s.State != FinWait2, nil
}

func address(family uint8, addr, port []byte) netip.AddrPort {
	ip := netip.AddrFrom16([16]byte(addr)).Unmap()
	if family == unix.AF_INET {
		ip = netip.AddrFrom4([4]byte(addr[:4]))
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port))
}
