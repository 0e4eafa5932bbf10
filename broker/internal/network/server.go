package network

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Server holds the listeners and connections of one broker. Its methods are
// safe for concurrent use.
type Server struct {
	options   Options
	log       *slog.Logger
	clock     clock
	table     table
	ended     closedRing
	buffers   bufferPool
	credit    atomic.Int64 // bytes of memory that frames hold which are not whole
	turnstile turnstile
	fields    tlsFields
	nobody    *Identity

	unsent atomic.Int64 // bytes of the answers that have not left

	// running counts acceptors, loops and handshakes.
	running sync.WaitGroup
	ctx     context.Context //nolint:containedctx // the life of the acceptors, which outlives the call that starts them
	cancel  context.CancelFunc

	// excessive are the listeners whose loops evict; the slice is never changed.
	excessive atomic.Pointer[[]*listener]

	mu         sync.Mutex // guards what follows
	listeners  []*listener
	removed    []*listener // that still have connections, until Remove's finish
	processors int32
	started    bool
	stopped    bool
}

// New makes a server without listeners.
func New(options Options) *Server {
	s := &Server{
		options:   options,
		log:       options.Log,
		clock:     clock{base: time.Now()},
		turnstile: turnstile{free: runtime.GOMAXPROCS(0)},
		nobody:    &Identity{},
	}
	if s.options.Limits != nil {
		s.options.Limits.OnExcess(s.lookForExcess)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.options.Subject == nil {
		s.options.Subject = func(cert *x509.Certificate) string { return cert.Subject.String() }
	}
	if s.options.MaxFiles <= 0 {
		s.options.MaxFiles = maxFiles()
	}
	var err error
	if s.fields, err = findTLSFields(); s.options.renamedTLSFields {
		s.fields = tlsFields{}
	}
	if err != nil {
		s.log.Warn("idle TLS connections cost more memory than they need", slog.String("error", err.Error()))
	}
	return s
}

// Listen binds a listener and lets the kernel complete connections; they are
// served from [Server.Start] on, or at once when it was called. Loops are
// numbered through all listeners in the order of the calls.
func (s *Server) Listen(l Listener) (netip.AddrPort, error) {
	bound, err := s.Bind(l)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return bound.Addr(), bound.Serve()
}

func (s *Server) bind(l Listener) (*listener, error) {
	l.Backlog = cmp.Or(l.Backlog, 50)
	l.Threads = cmp.Or(l.Threads, 3)
	l.MaxFrame = cmp.Or(l.MaxFrame, 100<<20)
	l.MaxAuthFrame = cmp.Or(l.MaxAuthFrame, 512<<10)
	if l.Protocol.TLS() && l.TLS == nil {
		return nil, errNoTLSConfig
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, errStopped
	}
	added := &listener{Listener: l, server: s}
	added.loops.Store(&[]*loop{})
	added.throttled.listener = added
	if err := added.bind(); err != nil {
		return nil, err
	}
	if err := added.prepare(); err != nil {
		added.discardAll()
		return nil, err
	}
	added.ctx, added.cancel = context.WithCancel(s.ctx)
	return added, nil
}

// moreLoops makes n loops, numbered on. s.mu is held.
func (l *listener) moreLoops(n int) ([]*loop, error) {
	var loops []*loop
	for i := range n {
		lp, err := newLoop(l.server, l, l.server.processors+int32(i))
		if err != nil {
			for _, made := range loops {
				made.free()
			}
			return nil, err
		}
		loops = append(loops, lp)
	}
	l.server.processors += int32(n)
	return loops, nil
}

// prepare makes the loops and starts to listen. s.mu is held.
func (l *listener) prepare() error {
	loops, err := l.moreLoops(l.Threads)
	if err != nil {
		return err
	}
	l.loops.Store(&loops)
	if before := l.server.options.BeforeListen; before != nil {
		if err := before(int(l.bound.Port())); err != nil {
			return fmt.Errorf("before listening on port %d: %w", l.bound.Port(), err)
		}
	}
	return l.listen()
}

// start runs loops and acceptor. s.mu is held.
func (l *listener) start() {
	for _, lp := range *l.loops.Load() {
		l.server.running.Add(1)
		go lp.run()
	}
	l.server.running.Add(1)
	go l.accept(l.ctx)
}

// discardAll frees a listener that was never started.
func (l *listener) discardAll() {
	_ = l.socket.Close()
	for _, lp := range *l.loops.Load() {
		lp.free()
	}
}

// Start serves the listeners that are bound.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.stopped {
		return
	}
	s.started = true
	for _, l := range s.listeners {
		l.start()
	}
}

// Shutdown closes all listen sockets, then all connections, and waits until no
// goroutine of the server is left. When ctx ends first it returns its error,
// and the rest goes on behind it. Further calls wait as well.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shut down network: %w", ctx.Err())
	}
}

func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	s.cancel()
	for _, l := range slices.Concat(s.listeners, s.removed) {
		if !s.started {
			l.discardAll()
			continue
		}
		_ = l.socket.Close() // a removed one's is closed
		l.stopLoops()
	}
}

// Connections walks over all registered connections, those in their TLS
// handshake included, without a lock. What opens or closes meanwhile may be
// seen or not. A socket that the acceptor holds or that waits in a loop's queue
// is no connection yet.
func (s *Server) Connections() iter.Seq[*Conn] { return s.table.all() }

// Unsent is how many bytes of memory the answers hold that clients have not
// taken yet.
func (s *Server) Unsent() int64 { return s.unsent.Load() }

// Connection finds a connection by its id; nil when there is none.
func (s *Server) Connection(id string) *Conn {
	parts := strings.Split(id, "-")
	if len(parts) < 4 {
		return nil
	}
	processor, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return nil
	}
	index, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil {
		return nil
	}
	for c := range s.table.all() {
		if int(c.index) == index && int(c.loop.processor) == processor && c.ID() == id {
			return c
		}
	}
	return nil
}

// Close ends the connection with this id for [ReasonKilled], soon. It reports
// whether there was one; what ends already keeps its reason.
func (s *Server) Close(id string) bool {
	c := s.Connection(id)
	if c != nil {
		c.Close(ReasonKilled)
	}
	return c != nil
}

// filesLeft reports whether the next descriptor would be below the limit.
func (s *Server) filesLeft() bool {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return fd < s.options.MaxFiles
}

// maxFiles raises the soft limit of open files to the hard one, and leaves some
// for everything that is no client.
func maxFiles() int {
	const unlimited = 1 << 30
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return unlimited
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) == nil {
			limit = raised
		}
	}
	files := int(min(limit.Cur, unlimited))
	return files - max(64, files/64)
}
