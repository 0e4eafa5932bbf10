package network

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AcceptQueue is who is connected for the kernel and waits to be accepted.
type AcceptQueue struct {
	Length  int64 // connections
	Backlog int64 // how many the kernel keeps; it lets in one more
}

// AcceptQueue asks the kernel for the queue of a listener, exactly and without
// any privilege: tcp_info of a listening socket has its length in the place of
// what is not acknowledged, and its limit in that of what is
// (net/ipv4/tcp.c, tcp_get_info). A name that is none is an error.
func (s *Server) AcceptQueue(name string) (AcceptQueue, error) {
	l := s.listenerNamed(name)
	if l == nil {
		return AcceptQueue{}, fmt.Errorf("no listener %s", name)
	}
	var info *unix.TCPInfo
	var err error
	if controlErr := l.raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); controlErr != nil {
		err = controlErr
	}
	if err != nil {
		return AcceptQueue{}, fmt.Errorf("ask the kernel for the accept queue of %s: %w", name, err)
	}
	return AcceptQueue{Length: int64(info.Unacked), Backlog: int64(info.Sacked)}, nil
}

func (s *Server) listenerNamed(name string) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if l.Name == name {
			return l
		}
	}
	return nil
}
