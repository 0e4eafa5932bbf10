package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
)

// What a broker that has none of our requests can be seen to do from outside: the kernel counts in its namespace, for this process,
// as a [Witness] does, and /proc tells what the broker's process has done with each connection.

// taken is a connection that the broker's process has accepted.
type taken struct {
	Listener string
	Local    netip.AddrPort
	Remote   netip.AddrPort
	// Threaded is set once a network thread looks after it: it waits for the socket, or has sent something. (Java takes a socket out of
	// the epoll instance while its request is worked on.) Until then it is in the acceptor's hand, or held back by a rate.
	Threaded bool
}

// outside is how a stage sees such a broker. nil: it can be asked.
type outside struct{ witness *Witness }

// watchFromOutside begins to count all of the broker's connections.
func (s *Stage) watchFromOutside(ctx context.Context) {
	GinkgoHelper()
	w := &Witness{}
	ns, err := s.node.Netns()
	Expect(err).NotTo(HaveOccurred())
	w.ns = ns.Path()
	for _, l := range s.node.Listeners {
		w.ports = append(w.ports, l.Port)
	}
	DeferCleanup(w.Close)
	w.start(ctx)
	s.outside = &outside{w}
}

// taken are the connections that the broker's process has accepted and neither side has ended, as far as the broker is concerned: one
// that its client has closed is still there until the broker closes it.
func (s *Stage) taken(ctx context.Context) ([]taken, error) {
	pid, err := s.running(ctx)
	if err != nil {
		return nil, err
	}
	files, err := filesOf(pid)
	if err != nil {
		return nil, err
	}
	var all []taken
	for _, l := range s.node.Listeners {
		sockets, err := s.sockets(l.Port, sockdiag.Set(sockdiag.Established, sockdiag.CloseWait))
		if err != nil {
			return nil, err
		}
		for i := range sockets {
			k := &sockets[i]
			if waited, accepted := files[k.Inode]; accepted {
				all = append(all, taken{l.Name, k.Local, k.Remote, waited || k.BytesOut > 0})
			}
		}
	}
	return all, nil
}

// filesOf are the inodes of a process's sockets, and whether an epoll instance of the process waits for each.
func filesOf(pid int) (map[uint32]bool, error) {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list the broker's files: %w", err)
	}
	sockets, waited := map[string]uint32{}, map[string]bool{}
	for _, name := range names {
		target, err := os.Readlink(filepath.Join(folder, name.Name()))
		if err != nil {
			continue // it was closed meanwhile
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			n, _ := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 32) // the kernel prints no other
			sockets[name.Name()] = uint32(n)
			continue
		}
		if target != "anon_inode:[eventpoll]" {
			continue
		}
		if err := eachWaited(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, name.Name()), func(fd string) { waited[fd] = true }); err != nil {
			return nil, err
		}
	}
	inodes := make(map[uint32]bool, len(sockets))
	for fd, inode := range sockets {
		inodes[inode] = waited[fd]
	}
	return inodes, nil
}

// eachWaited tells which descriptors an epoll instance has, from its file in fdinfo (see proc(5)).
func eachWaited(path string, tell func(fd string)) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was closed meanwhile
	}
	if err != nil {
		return fmt.Errorf("read what the broker's threads wait for: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "tfd:" {
			tell(fields[1])
		}
	}
	return lines.Err()
}

// running is the broker's process.
func (s *Stage) running(ctx context.Context) (int, error) {
	status, err := s.node.Status(ctx)
	if err != nil {
		return 0, err
	}
	if status.PID == 0 {
		return 0, fmt.Errorf("%w: %s %s", errNoAnswer, status.State, status.Reason)
	}
	return status.PID, nil
}

// kernelFromOutside is what a broker of ours would answer to DescribeKernel. Of the broker's own side only Listed and Held are known.
func (s *Stage) kernelFromOutside(ctx context.Context) (*protocol.DescribeKernelResponse, error) {
	r, err := s.outside.witness.try(ctx)
	if err != nil {
		return nil, err
	}
	there, err := s.taken(ctx)
	if err != nil {
		return nil, err
	}
	resp := r.Message()
	byPort := resp.Ports
	resp.Ports = nil
	for _, l := range s.node.Listeners {
		i := slices.IndexFunc(byPort, func(p protocol.DescribeKernelResponsePort) bool { return p.Port == int32(l.Port) })
		if i < 0 {
			continue
		}
		port := byPort[i]
		port.ListenerName, port.Broker = l.Name, brokersSide(l.Name, there)
		resp.Ports = append(resp.Ports, port)
	}
	return resp, nil
}

// brokersSide is how many connections of a listener there are that a network thread looks after, and that wait for one.
func brokersSide(listener string, there []taken) *protocol.DescribeKernelResponseBroker {
	side := &protocol.DescribeKernelResponseBroker{}
	for i := range there {
		switch {
		case there[i].Listener != listener:
		case there[i].Threaded:
			side.Listed++
		default:
			side.Held++
		}
	}
	return side
}

// listFromOutside is the connections that the broker's network threads look after, with the listener and the client's
// address and port alone.
func (s *Stage) listFromOutside(ctx context.Context) ([]admin.ClientConnection, error) {
	there, err := s.taken(ctx)
	if err != nil {
		return nil, err
	}
	var rows []admin.ClientConnection
	for i := range there {
		if t := &there[i]; t.Threaded {
			var row admin.ClientConnection
			row.ListenerName, row.ClientAddress, row.ClientPort = t.Listener, t.Remote.Addr().String(), int32(t.Remote.Port())
			rows = append(rows, row)
		}
	}
	return rows, nil
}
