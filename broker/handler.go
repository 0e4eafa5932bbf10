package broker

import (
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/brokerlab/brokerlab/broker/internal/api"
	"github.com/brokerlab/brokerlab/broker/internal/network"
)

// late hands connections to a handler that is made after the sockets are bound: it has to know their
// ports. Nothing arrives before the network is started.
type late struct{ handler atomic.Pointer[api.Server] }

// Open passes a connection on.
func (l *late) Open(c *network.Conn, state *tls.ConnectionState) { l.handler.Load().Open(c, state) }

// Frame passes a request on.
func (l *late) Frame(c *network.Conn, frame []byte) { l.handler.Load().Frame(c, frame) }

// Closed passes a connection's end on.
func (l *late) Closed(c *network.Conn, reason network.Reason) { l.handler.Load().Closed(c, reason) }

func resolver() *net.Resolver { return net.DefaultResolver }
