// Package network is the broker's front door: sockets, TLS and frames, and the
// table of who is connected.
//
// A listener is one acceptor and a fixed number of epoll loops, as in Kafka,
// because Kafka's limits are made of them. The life of a connection: the
// acceptor takes it from the kernel, takes its slot from the limits (which may
// block, or want the socket closed, at once or after a while), and puts it into
// a loop's queue; the loop registers it with epoll once, enters it in the table
// and owns it from then on. On a TLS listener the loop collects the whole
// ClientHello, then a short-lived goroutine runs the handshake. Then frame after
// frame is read, handed to the [Handler] and answered, one at a time; the next is
// read only when the answer has left, but for one after a large one, which is
// read already and handed over then. At its end it is taken out of epoll,
// closed, and only then its slot given back.
// While there are more connections than there may be, each loop ends its least
// recently active one once in each of its iterations.
//
// An idle connection holds no goroutine and no buffer. Nothing is allocated
// because a peer claims a length: buffers grow as bytes arrive, but for a
// bounded credit (large.go). Nothing here knows a Kafka API; whatever a request
// means is the handler's.
//
// Locks, in the order in which they may be taken: [Conn].mu (one connection's
// socket, TLS state and output), then a loop's or the table's own mutex. The
// handler is called with none of them held.
package network

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// Listener is what a broker asks of one listener. It is not changed after
// [Server.Listen].
type Listener struct {
	// Name is the listener's name in capitals, as Kafka normalises it.
	Name     string
	Protocol Protocol
	// Host is an IP address, a name that resolves to one, or "" for all
	// addresses of both families on one dual-stack socket (0.0.0.0 is IPv4 only).
	Host string
	// Port 0 lets the kernel choose.
	Port int
	// Backlog is socket.listen.backlog.size; 0 means 50.
	Backlog int
	// Threads is num.network.threads, the number of epoll loops; 0 means 3.
	Threads int
	// MaxFrame is socket.request.max.bytes; 0 means 100 MiB.
	MaxFrame int
	// MaxAuthFrame is sasl.server.max.receive.size, which bounds frames on a
	// SASL listener before [Conn.SetAuthenticated]; 0 means 512 KiB.
	MaxAuthFrame int
	// IdleTimeout is connections.max.idle.ms; 0 or less disables expiry.
	IdleTimeout time.Duration
	// FailureDelay is connection.failed.authentication.delay.ms: how long an
	// oversize frame (or TLS bytes) on a SASL_PLAINTEXT or SASL_SSL listener is
	// left unanswered before its connection closes, while not authenticated.
	FailureDelay time.Duration
	// TLS is asked for the configuration at each handshake. Needed where
	// Protocol.TLS().
	TLS func() *tls.Config
}

// Handler is who answers requests. Open, Frame and Closed of one connection
// are all called on its loop's goroutine, one after another; none may block.
type Handler interface {
	// Open tells of a connection that is registered and, on a TLS listener,
	// through its handshake (state is nil on a plaintext one). The handler sets
	// identity and its own state here. state and its certificates may be kept,
	// at their cost in memory; the connection itself keeps none of them.
	Open(c *Conn, state *tls.ConnectionState)
	// Frame hands over one request without its size prefix. The next frame is
	// handed over only after exactly one of Reply, NoReply, ReplyThenClose or Close.
	// The memory of frame is the handler's until that answer and must not be
	// touched after it.
	Frame(c *Conn, frame []byte)
	// Closed comes once for each connection that was opened, after its socket
	// is closed and its slot given back. An answer that comes later is dropped.
	Closed(c *Conn, reason Reason)
}

// Options are what a [Server] needs from its broker.
type Options struct {
	// NodeID is the broker's id, for log lines.
	NodeID  int32
	Handler Handler
	// Log may be nil.
	Log *slog.Logger
	// Limits decides whether a connection may exist; nil: it may. The server
	// tells it of its listeners, takes a slot for each socket before a byte is
	// read or written, and gives it back after close(2). It is one server's.
	Limits *quota.Connections
	// Fenced, when set, tells whether the listener of a name takes no new
	// connection. It is asked for each socket before anything else, and must not
	// wait.
	Fenced func(listener string) bool
	// BeforeListen, when set, is called with the port of a socket that is bound
	// and does not listen yet, so that a counter can be attached that misses no
	// connection.
	BeforeListen func(port int) error
	// Subject prints a client certificate's name for [TLSInfo]; nil means
	// RFC 2253 as crypto/x509 prints it.
	Subject func(*x509.Certificate) string
	// MaxFiles is the number of file descriptors at which the server stops
	// accepting until some are closed. 0 means a little below RLIMIT_NOFILE,
	// whose soft limit Go has raised to the hard one at start.
	MaxFiles int

	// renamedTLSFields makes a test's server do as if a Go release had renamed
	// the fields of crypto/tls that it knows.
	renamedTLSFields bool
}
