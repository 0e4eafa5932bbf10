package engine

import (
	"errors"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// spliceFrom is from how many bytes on a pipe is worth its calls.
	spliceFrom = 64 << 10
	// pipeSize is what a pipe is to hold: the most that Linux gives to everybody (fs.pipe-max-size).
	pipeSize = 1 << 20
	// maxIdlePipes bounds the pipes that wait for an answer; each holds two files open.
	maxIdlePipes = 16
)

// pipe carries bytes from one socket to another inside the kernel: they are not copied.
type pipe struct{ out, in int }

// fill moves up to n bytes of conn into the pipe, which is empty. It waits for them.
func (p *pipe) fill(conn *net.TCPConn, n int) (moved int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var spliceErr error
	err = raw.Read(func(fd uintptr) bool {
		var k int64
		k, spliceErr = unix.Splice(int(fd), nil, p.in, nil, n, unix.SPLICE_F_NONBLOCK)
		moved = int(max(k, 0))
		return !errors.Is(spliceErr, unix.EAGAIN) && !errors.Is(spliceErr, unix.EINTR)
	})
	switch {
	case err != nil:
		return 0, err
	case spliceErr == nil && moved == 0:
		return 0, io.ErrUnexpectedEOF
	}
	return moved, spliceErr
}

// read reads what is in the pipe, all of it.
func (p *pipe) read(into []byte) error {
	for len(into) > 0 {
		n, err := unix.Read(p.out, into)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		into = into[max(n, 0):]
	}
	return nil
}

func (p *pipe) close() {
	_ = unix.Close(p.out)
	_ = unix.Close(p.in)
}

// pipes keeps pipes for reuse. The zero value is ready; safe for concurrent use.
type pipes struct {
	mu     sync.Mutex
	idle   []*pipe
	closed bool
}

// get returns an empty pipe, or nil where the kernel gives none.
func (p *pipes) get() *pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		one := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return one
	}
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC) != nil {
		return nil
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize) // else it is smaller
	return &pipe{out: fds[0], in: fds[1]}
}

// put takes back a pipe, which must be empty.
func (p *pipes) put(one *pipe) {
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < maxIdlePipes
	if keep {
		p.idle = append(p.idle, one)
	}
	p.mu.Unlock()
	if !keep {
		one.close()
	}
}

func (p *pipes) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, one := range idle {
		one.close()
	}
}
