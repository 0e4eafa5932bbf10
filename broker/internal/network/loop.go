package network

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// newConnections is the length of a loop's queue, as in Kafka.
	newConnections = 20
	// scratchSize is what a loop reads at once. It holds the largest record.
	scratchSize = 64 << 10
	// eventsAtOnce is how many sockets one look at epoll can name.
	eventsAtOnce = 256
	// interest never changes after a socket is registered.
	interest = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	// hungUp are the events after which a read tells how the client left.
	hungUp = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	// wakeSlot marks the events of the loop's own eventfd.
	wakeSlot = -1
)

type taskKind uint8

const (
	taskResume     taskKind = iota // the answer has left, and there is more to read
	taskClose                      // Conn.ending says why
	taskHandshaken                 // the handshake is over
	taskLinger                     // a client that ended its stream was given its time
	taskFlush                      // there is more to send
	taskAhead                      // there is more to read of the frame after a large one
)

// task is what another goroutine wants a loop to do with a connection.
type task struct {
	conn  *Conn
	err   error
	frame uint32
	kind  taskKind
}

// loop owns a share of a listener's connections: it alone registers, reads and
// closes them. What other goroutines want of it they post.
type loop struct {
	server    *Server
	listener  *listener
	processor int32
	idle      idleList
	incoming  chan accepted

	bytesIn, bytesOut atomic.Int64
	conns             atomic.Int64 // that are registered and not closed

	epoll    *os.File
	raw      syscall.RawConn
	epollFD  int
	wakeFD   int
	deadline int64 // of epoll's file, a moment of the server's clock; the largest is none

	// Scratch memory, of the loop's goroutine.
	events    [eventsAtOnce]unix.EpollEvent
	plain     []byte // what a read yields
	cipher    []byte // ciphertext being decrypted; nil without TLS
	record    []byte // crypto/tls's record buffer, lent while it reads
	doing     []task
	nextIndex int32
	ending    map[*Conn]struct{} // those whose client has ended its stream and awaits an answer; nil: none yet
	evicting  bool               // the last iteration had to close one that was too many

	mu       sync.Mutex // guards what follows
	tasks    []task
	parked   bool // the loop is waiting, or about to: an eventfd wakes it
	excess   bool // there may be too many connections: look before waiting
	idling   idleShare
	stopping bool
}

// newLoop makes a loop that does not run yet.
func newLoop(s *Server, l *listener, processor int32) (*loop, error) {
	lp := &loop{
		server: s, listener: l, processor: processor,
		incoming: make(chan accepted, newConnections),
		plain:    make([]byte, scratchSize),
		deadline: math.MaxInt64,
	}
	if l.Protocol.TLS() {
		lp.cipher = make([]byte, scratchSize)
		lp.record = make([]byte, recordHeader+maxRecord+1024)
	}
	lp.idling = newIdleShare(s.clock.now())
	var err error
	if lp.epollFD, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	if lp.wakeFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(lp.epollFD)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	// A non-blocking epoll descriptor is waited for by Go's own poller, so that
	// no thread is parked in epoll_wait.
	if err = unix.SetNonblock(lp.epollFD, true); err == nil {
		err = unix.EpollCtl(lp.epollFD, unix.EPOLL_CTL_ADD, lp.wakeFD,
			&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: wakeSlot})
	}
	if err != nil {
		_ = unix.Close(lp.epollFD)
		_ = unix.Close(lp.wakeFD)
		return nil, fmt.Errorf("set up epoll: %w", err)
	}
	lp.epoll = os.NewFile(uintptr(lp.epollFD), "epoll")
	if err = lp.epoll.SetReadDeadline(time.Time{}); err == nil {
		lp.raw, err = lp.epoll.SyscallConn()
	}
	if err != nil {
		lp.free()
		return nil, fmt.Errorf("wait for epoll: %w", err)
	}
	return lp, nil
}

// free gives the loop's own descriptors back.
func (l *loop) free() {
	_ = l.epoll.Close()
	_ = unix.Close(l.wakeFD)
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer l.server.running.Done()
	defer l.listener.gone(l)
	defer l.free()
	for {
		for _, event := range l.events[:l.wait()] {
			l.handle(event)
		}
		if stopping := l.work(); stopping {
			l.closeAll()
			return
		}
		l.admit()
		l.evict()
		l.expire()
	}
}

// wait returns how many events there are: at once when there is other work,
// else when there is something to do.
func (l *loop) wait() int {
	n := 0
	var err error
	look := func(fd uintptr) bool {
		n, err = unix.EpollWait(int(fd), l.events[:], 0)
		return n != 0 || !errors.Is(err, unix.EINTR) && err != nil
	}
	l.mu.Lock()
	l.parked = len(l.tasks) == 0 && len(l.incoming) == 0 && !l.excess && !l.stopping
	park := l.parked
	if park {
		l.idling.begin(l.server.clock.now())
	}
	l.mu.Unlock()
	if !park {
		look(uintptr(l.epollFD))
		return max(n, 0)
	}
	// A deadline error just means that a connection may have expired.
	_ = l.raw.Read(look)
	return max(n, 0)
}

// wake makes the loop look at its queues, unless it is going to.
func (l *loop) wake() {
	l.mu.Lock()
	parked := l.parked
	l.parked = false
	l.mu.Unlock()
	if parked {
		l.ring()
	}
}

// ring writes to the eventfd. Its counter cannot overflow: a loop is rung once
// for each time it parks.
func (l *loop) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(l.wakeFD, one[:])
}

// post hands the loop a task.
func (l *loop) post(t task) {
	l.mu.Lock()
	l.tasks = append(l.tasks, t)
	parked := l.parked
	l.parked = false
	l.mu.Unlock()
	if parked {
		l.ring()
	}
}

// stop makes the loop close all its connections and end.
func (l *loop) stop() {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	l.wake()
}

// handle takes one event of epoll.
func (l *loop) handle(event unix.EpollEvent) {
	if event.Fd == wakeSlot {
		var count [8]byte
		_, _ = unix.Read(l.wakeFD, count[:])
		return
	}
	c := l.server.table.find(event.Fd, uint32(event.Pad))
	if c == nil || c.phase == phaseClosed {
		return // closed earlier in this round
	}
	if event.Events&unix.EPOLLOUT != 0 {
		l.flush(c)
	}
	if event.Events&^uint32(unix.EPOLLOUT) == 0 || c.phase == phaseClosed {
		return
	}
	l.idle.touch(c, l.server.clock.now())
	c.drained = false
	c.hungUp = c.hungUp || event.Events&hungUp != 0
	if c.phase == phaseHandshake {
		c.session.wake()
		return
	}
	if c.run.CompareAndSwap(runIdle, runBusy) {
		l.serve(c)
		return
	}
	c.run.CompareAndSwap(runBusy, runPending)
	if !c.run.CompareAndSwap(runIdle, runBusy) {
		l.hangUp(c, event.Events)
		l.readAhead(c)
		return
	}
	l.serve(c) // the answer left between the two
}

// work does what others posted, and reports whether the loop is to end.
func (l *loop) work() (stopping bool) {
	l.mu.Lock()
	l.parked, l.excess = false, false
	l.idling.end(l.server.clock.now())
	l.doing, l.tasks = l.tasks, l.doing[:0]
	stopping = l.stopping
	l.mu.Unlock()
	for i, t := range l.doing {
		l.do(t)
		l.doing[i] = task{}
	}
	if cap(l.doing) > 4096 {
		l.doing = nil
	}
	return stopping
}

func (l *loop) do(t task) {
	c := t.conn
	if c.phase == phaseClosed {
		return
	}
	switch t.kind {
	case taskClose:
		l.close(c, Reason(c.ending.Load()), t.err)
	case taskHandshaken:
		l.handshaken(c, t.err)
	case taskLinger:
		l.linger(c, t.frame)
	case taskFlush:
		l.flush(c)
	case taskAhead:
		l.readAhead(c)
	case taskResume:
		c.run.Store(runBusy)
		l.serve(c)
	}
}

// expire closes every connection that has been idle for too long, and sets the
// moment at which the loop looks again if nothing happens before.
func (l *loop) expire() {
	now := l.server.clock.now()
	at := int64(math.MaxInt64)
	if timeout := int64(l.listener.IdleTimeout); timeout > 0 {
		due, next, ok := l.idle.due(now - timeout)
		for _, c := range due {
			l.close(c, ReasonIdle, nil)
		}
		if ok {
			at = next + timeout
		}
	}
	if l.evicting {
		at = min(at, now+int64(evictEvery))
	}
	switch {
	case at == l.deadline, l.deadline > now && l.deadline <= at && at != math.MaxInt64:
		return // it wakes early enough, and looks again
	case at == math.MaxInt64:
		_ = l.epoll.SetReadDeadline(time.Time{})
	default:
		_ = l.epoll.SetReadDeadline(l.server.clock.time(at))
	}
	l.deadline = at
}
