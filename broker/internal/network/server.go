package network

import (
	"context"
	"iter"
	"net/netip"
)

// Server holds the listeners and connections of one broker.
type Server struct{ options Options }

// New makes a server without listeners.
func New(options Options) *Server { return &Server{options: options} }

// Listen binds.
func (s *Server) Listen(Listener) (netip.AddrPort, error) { return netip.AddrPort{}, nil }

// Start serves.
func (s *Server) Start() {}

// Shutdown closes everything.
func (s *Server) Shutdown(context.Context) error { return nil }

// Connections walks the table.
func (s *Server) Connections() iter.Seq[*Conn] { return func(func(*Conn) bool) {} }

// Connection finds by id.
func (s *Server) Connection(string) *Conn { return nil }

// Counts has the counters of each listener.
func (s *Server) Counts() []ListenerCounts { return nil }

// ListenerCounts are one listener's gauges and counters at one moment.
type ListenerCounts struct {
	Listener *Listener
	Bound    netip.AddrPort
	// Established counts registered connections, those in handshake included.
	Established int64
	// Handshaking counts those that are not through their TLS handshake.
	Handshaking int64
	// Accepted counts sockets taken from the kernel, Refused those that Limits
	// did not admit.
	Accepted, Refused uint64
	// Queued counts accepted sockets that no loop has registered yet.
	Queued int64
	// Held is 1 while the acceptor waits for a slot with a socket in its hand.
	Held int64
	// FilePauses counts the times that accepting paused for want of file
	// descriptors.
	FilePauses uint64
	// Handshakes and HandshakeFailures count finished TLS handshakes.
	Handshakes, HandshakeFailures uint64
	// Closed counts by reason; index it with a [Reason].
	Closed []uint64
	// BytesIn and BytesOut are of closed and open connections together.
	BytesIn, BytesOut uint64
}
