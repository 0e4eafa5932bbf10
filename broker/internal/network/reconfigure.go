package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

var (
	errStopped    = errors.New("server is shut down")
	errNoListener = errors.New("no such listener")
)

// Bound is a listener whose socket the kernel completes connections for, and
// that nobody serves yet. Exactly one of Serve and Discard ends it; a second
// call of either does nothing.
type Bound struct {
	listener *listener
	done     bool
}

// Bind does all of [Server.Listen] that can fail.
func (s *Server) Bind(l Listener) (*Bound, error) {
	added, err := s.bind(l)
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", l.Name, err)
	}
	return &Bound{listener: added}, nil
}

// Addr is where the socket is bound.
func (b *Bound) Addr() netip.AddrPort { return b.listener.bound }

// Serve serves the listener from [Server.Start] on, or at once when that was
// called. The error says that the server was shut down meanwhile; then the
// listener is discarded.
func (b *Bound) Serve() error {
	s := b.listener.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.done {
		return nil
	}
	b.done = true
	if s.stopped {
		b.listener.discardAll()
		return errStopped
	}
	s.setListeners(append(slices.Clone(s.listeners), b.listener))
	if limits := s.options.Limits; limits != nil {
		limits.AddListener(b.listener.Name, b.listener.Protocol.TLS())
	}
	if s.started {
		b.listener.start()
		s.lookForExcess() // which listener is protected may have changed
	}
	return nil
}

// Discard gives the socket back. Whoever has connected to it gets a reset.
func (b *Bound) Discard() {
	if !b.done {
		b.done = true
		b.listener.cancel()
		b.listener.discardAll()
	}
}

// setListeners replaces the listeners. s.mu is held.
func (s *Server) setListeners(all []*listener) {
	s.listeners = all
	s.excessive.Store(&all)
}

// Remove takes a listener away: from now on nobody can connect to it, it is in
// no count and its name and port are free. Its connections stay until finish
// closes them, with [ReasonListenerChanged].
func (s *Server) Remove(name string) (finish func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.listeners, func(l *listener) bool { return l.Name == name })
	if i < 0 || s.stopped {
		return nil, fmt.Errorf("remove listener %s: %w", name, errNoListener)
	}
	l := s.listeners[i]
	s.setListeners(slices.Delete(slices.Clone(s.listeners), i, i+1))
	l.removed.Store(true)
	defer func() {
		if limits := s.options.Limits; limits != nil {
			limits.RemoveListener(name) // after whoever waits at it has been told to give up
			s.lookForExcess()           // it may have been what made another one protected
		}
	}()
	if !s.started {
		l.cancel()
		l.discardAll()
		return func() {}, nil
	}
	s.removed = append(s.removed, l)
	l.cancel()
	_ = l.socket.Close()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.removed = slices.DeleteFunc(slices.Clone(s.removed), func(o *listener) bool { return o == l })
		l.stopLoops()
	}, nil
}

// stopLoops ends all loops and their connections.
func (l *listener) stopLoops() {
	l.mu.Lock()
	all := slices.Concat(*l.loops.Load(), l.leaving)
	l.mu.Unlock()
	for _, lp := range all {
		lp.stop()
	}
}

// Resize changes a listener's number of loops, num.network.threads. Those that
// are too many take no new connections any more; finish ends them and closes the
// connections that they have, as Kafka does. finish is never nil.
func (s *Server) Resize(name string, threads int) (finish func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.listeners, func(l *listener) bool { return l.Name == name })
	if i < 0 || s.stopped || threads < 1 {
		return func() {}, fmt.Errorf("resize listener %s to %d threads: %w", name, threads, errNoListener)
	}
	l := s.listeners[i]
	loops := *l.loops.Load()
	if threads >= len(loops) {
		more, err := l.moreLoops(threads - len(loops))
		if err != nil {
			return func() {}, fmt.Errorf("resize listener %s: %w", name, err)
		}
		if s.started {
			for _, lp := range more {
				s.running.Add(1)
				go lp.run()
			}
		}
		all := slices.Concat(loops, more)
		l.loops.Store(&all)
		return func() {}, nil
	}
	kept, leaving := slices.Clone(loops[:threads]), loops[threads:]
	if !s.started {
		l.loops.Store(&kept)
		for _, lp := range leaving {
			lp.free()
		}
		return func() {}, nil
	}
	l.mu.Lock()
	l.loops.Store(&kept)
	l.leaving = append(l.leaving, leaving...)
	l.mu.Unlock()
	return func() {
		for _, lp := range leaving {
			lp.stop()
		}
	}, nil
}

// gone notes that a loop has ended: its bytes stay in the listener's count.
func (l *listener) gone(lp *loop) {
	l.mu.Lock()
	i := slices.Index(l.leaving, lp)
	if i >= 0 {
		l.leaving = slices.Delete(l.leaving, i, i+1)
		l.pastBytes[0] += uint64(lp.bytesIn.Load())
		l.pastBytes[1] += uint64(lp.bytesOut.Load())
	}
	l.mu.Unlock()
}
