package fleet

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// poller is the one epoll loop of a fleet. It holds ids, not pointers or file descriptors, so that an event of a closed
// socket can at worst wake a client for nothing.
type poller struct {
	epoll int
	wake  int // an eventfd that ends the loop
	done  sync.WaitGroup
}

// newPoller starts the loop; event is called on its goroutine and must not block.
func newPoller(event func(id int32)) (*poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll instance: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make an eventfd: %w", err), unix.Close(epoll))
	}
	p := &poller{epoll: epoll, wake: wake}
	if err := p.ctl(wake, -1, unix.EPOLLIN); err != nil {
		return nil, errors.Join(err, unix.Close(wake), unix.Close(epoll))
	}
	p.done.Go(func() { p.loop(event) })
	return p, nil
}

// add registers fd once and for all: edge-triggered, both ways.
func (p *poller) add(fd int, id int32) error {
	return p.ctl(fd, id, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET)
}

func (p *poller) ctl(fd int, id int32, events uint32) error {
	e := unix.EpollEvent{Events: events, Fd: id}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("watch a socket: %w", err)
	}
	return nil
}

// remove takes fd out before it is closed: while another thread waits in epoll, close alone does not end a socket at once.
func (p *poller) remove(fd int) {
	_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil) // it may never have been added
}

func (p *poller) loop(event func(id int32)) {
	events := make([]unix.EpollEvent, 512)
	for {
		n, err := unix.EpollWait(p.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for i := range max(n, 0) {
			if events[i].Fd < 0 {
				return
			}
			event(events[i].Fd)
		}
	}
}

// stop ends the loop and returns when it is gone.
func (p *poller) stop() error {
	_, err := unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	p.done.Wait()
	return errors.Join(err, unix.Close(p.wake), unix.Close(p.epoll))
}
