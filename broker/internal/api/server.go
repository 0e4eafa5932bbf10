package api

import (
	"context"
	"crypto/tls"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/keystore"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
	"github.com/brokerlab/brokerlab/broker/internal/wire"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Endpoint is an address as clients are told it.
type Endpoint struct {
	Host string
	Port int32
}

// Listener is what the front door knows of a listener beyond its sockets.
type Listener struct {
	Advertised Endpoint
	Protocol   string       // by Kafka's name
	Principals *sasl.Mapper // of client certificates; nil without TLS
}

// Options is what a [Server] answers with. Everything is set before the first connection and not
// changed after it.
type Options struct {
	NodeID    int32
	ClusterID string
	Rack      string

	Engine   *engine.Engine
	Metadata *metadata.Store
	SASL     *sasl.Server // of the listeners that have it
	// Connections walks the broker's connections, those in a TLS handshake too.
	Connections func() iter.Seq[*network.Conn]
	Counts      func() []network.ListenerCounts
	// AcceptQueue is who waits in the kernel to be accepted by a listener.
	AcceptQueue func(listener string) (network.AcceptQueue, error)
	// Limits are asked for what they are and how far they are used; nil: there are none.
	Limits Limits
	// Closed copies what is remembered of the connections that ended after that of a sequence number.
	Closed func(after uint64) (all []network.Closed, latest uint64, complete time.Time)
	// Unsent is how many bytes of answers clients have not taken yet.
	Unsent func() int64
	Kernel Kernel // nil: the kernel counts nothing
	// Authorizer decides who may do what; nil: everybody may do everything.
	Authorizer *acl.Authorizer
	// AuthorizerLog gets a line for each decision, as Kafka's kafka.authorizer.logger.
	AuthorizerLog *slog.Logger
	Log           *slog.Logger

	// ConfigPolicy is given the configurations that clients push; nil: PushConfig is not advertised, and refused. The
	// server does not close it.
	ConfigPolicy        configpush.Policy
	ConfigPolicyTimeout time.Duration // client.config.policy.timeout.ms; 0: the default

	// Hidden tells of topics that clients see nothing of; nil hides none.
	Hidden func(topic string) bool
	// SupportedLevel is the highest metadata.version that this broker works with; 0: all that it knows.
	SupportedLevel int16

	Workers          int           // num.io.threads
	Queued           int           // queued.max.requests; 0: any number
	FailedAuthDelay  time.Duration // connection.failed.authentication.delay.ms
	AutoCreateTopics bool
	NumPartitions    int32
	Replication      int16 // replicas of a topic that is created because it was asked for; -1: the data plane's default
	OwnAPIs          bool  // brokerlab.apis.enable
	Keys             protocol.Keys
	Properties       Properties
}

// Server is the network's handler. Safe for concurrent use.
type Server struct {
	o Options
	// listeners are what the front door knows of them, by upper-case name; the map is never changed.
	listeners atomic.Pointer[map[string]Listener]
	static    map[string]string // Properties.Static, and what Kafka makes of it
	offer     atomic.Pointer[offer]
	pool      *pool
	metrics   *metrics
	// authorizations is nil without an authorizer.
	authorizations *authorizerMetrics
	ctx            context.Context
	cancel         context.CancelFunc
	following      sync.WaitGroup
	quotas         sync.Once // says once that client quotas are not enforced

	closedFor closers // for whom connections were closed on request

	fetches atomic.Int64 // that the data plane is to answer
	held    atomic.Int64 // bytes of requests that wait for it to come back
	frames  wire.Buffers // of large answers

	subscriptions subscriptions
	members       members

	pushes *pushes // nil without a policy for them

	incarnation int64          // names this run of the broker: positions in its listings mean nothing to the next
	altering    sync.Mutex     // held while broker configs are altered
	inForce     *brokerConfigs // as they were put to work last; guarded by altering
	changed     chan struct{}  // full when the metadata may have others
	large       sync.Mutex     // held while a large request is decoded and passed on
}

var _ network.Handler = (*Server)(nil)

// New makes a server; Close ends its workers.
func New(ctx context.Context, o Options) *Server {
	s := &Server{o: o, metrics: newMetrics(), incarnation: time.Now().UnixNano(), changed: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.Renew()
	if o.Authorizer != nil {
		s.authorizations = newAuthorizerMetrics(o.Authorizer)
	}
	s.pool = newPool(max(o.Workers, 1), o.Queued)
	s.pushes = newPushes(s.ctx, &o) //nolint:contextcheck // Close ends it, as all that the server does
	s.listeners.Store(&map[string]Listener{})
	s.static = maps.Clone(o.Properties.Static)
	if id, given := s.static["node.id"]; given {
		s.static["broker.id"] = id // the old name has the same value
	}
	return s
}

// offer is what is served at a time. It is not changed.
type offer struct {
	rows   map[int16]*row
	ranges []kmsg.ApiVersionsResponseApiKey // what ApiVersions answers, in order of key
}

// Renew makes what is served what the data plane has now.
func (s *Server) Renew() {
	rows := serveable(table(s.o), s.o.Engine.Versions())
	s.offer.Store(&offer{rows: rows, ranges: rangesOf(rows)})
}

// Start puts the dynamic configs to work that were stored earlier, and follows those of other brokers from then on. It is called
// once, before anybody is served.
func (s *Server) Start() {
	s.altering.Lock()
	defer s.altering.Unlock()
	s.applyStored()
	s.following.Go(s.follow)
}

// SetListeners replaces what is known of listeners; the map is not changed after it.
func (s *Server) SetListeners(listeners map[string]Listener) { s.listeners.Store(&listeners) }

// Close waits until no request is being worked on. The network is shut down before it, so that none
// arrives any more.
func (s *Server) Close() {
	s.cancel()
	s.following.Wait()
	s.pool.close()
	if s.pushes != nil {
		s.pushes.close()
	}
}

// ClusterID is the id that clients are told.
func (s *Server) ClusterID() string { return s.o.ClusterID }

// session is a connection's state of this package. The loop and the worker of the connection's one
// request take turns with it; only Closed may come at any time, hence mu.
type session struct {
	sasl       *sasl.Session // nil on listeners without SASL
	unmappable string        // the certificate's subject, where no mapping rule fits it
	// shares are the share sessions of this connection, by shareKey.
	shares map[string]*shareSession
	gaps   *gaps // nil where there are none; touched by the request in flight alone

	reauthenticating atomic.Bool // between a second SaslHandshake and its end
	closing          atomic.Bool // the last answer is on its way or held back

	nextPush time.Time // until when a connection has used up its pushes of a configuration, see mayPush
	tooLarge int       // pushes that were refused for their size

	mu     sync.Mutex
	engine *engine.Client // made by the first request that needs it; guarded by mu
	closed bool           // guarded by mu
}

// Open gives a connection its principal, or the means to earn one.
func (s *Server) Open(c *network.Conn, state *tls.ConnectionState) {
	l := c.Listener()
	ss := &session{}
	id := &network.Identity{Type: userType, Name: anonymous}
	switch {
	case l.Protocol.SASL():
		ss.sasl = s.o.SASL.Session(l.Name)
		id = &network.Identity{}
	case state != nil && len(state.PeerCertificates) > 0:
		dn := keystore.DistinguishedName(state.PeerCertificates[0])
		name, err := s.principalName(l.Name, dn)
		if err != nil {
			ss.unmappable, name = dn, ""
			id.Type = ""
		}
		id.Name = intern(name)
	}
	c.SetState(ss)
	c.SetIdentity(id)
	c.SetAuthenticated(ss.sasl == nil)
}

// principalName maps a certificate's subject by the listener's rules; without any it is the name.
func (s *Server) principalName(listener, dn string) (string, error) {
	rules := (*s.listeners.Load())[listener].Principals
	if rules == nil {
		return dn, nil
	}
	return rules.Map(dn)
}

// Closed gives back what the connection held in the data plane.
func (*Server) Closed(c *network.Conn, _ network.Reason) {
	ss, ok := c.State().(*session)
	if !ok {
		return
	}
	ss.mu.Lock()
	client := ss.engine
	ss.closed, ss.engine = true, nil
	ss.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// Frame admits one request and hands it to the workers. What is refused here costs no more than its
// header.
func (s *Server) Frame(c *network.Conn, frame []byte) {
	ss := c.State().(*session)
	if ss.unmappable != "" {
		s.o.Log.Warn("failed to map name based on SSL principal mapping rules", slog.String("connection", c.ID()), slog.String("dn", ss.unmappable))
		c.Close(network.ReasonPrincipalNotMappable)
		return
	}
	q := &call{server: s, conn: c, session: ss, received: time.Now(), ctx: s.ctx}
	if ss.sasl != nil && ss.sasl.Raw() {
		q.body, q.do = frame, (*call).rawToken
		s.pool.admit(q)
		return
	}
	header, body, err := wire.ParseHeader(frame, s.flexible)
	if err != nil {
		s.malformed(c, err)
		return
	}
	q.header, q.body = header, body
	q.row = s.offer.Load().rows[header.Key]
	served := q.row != nil && q.row.min <= header.Version && header.Version <= q.row.max
	if ss.sasl != nil {
		if !q.admit(served || header.Key == keyAPIVersions) {
			return
		}
	} else if !served && header.Key != keyAPIVersions {
		s.unsupported(c, header)
		return
	}
	if q.do == nil {
		q.do = (*call).serve
	}
	s.pool.admit(q)
}

// malformed closes a connection that sent something which is no request.
func (s *Server) malformed(c *network.Conn, err error) {
	s.o.Log.Debug("closing connection after a malformed request", slog.String("connection", c.ID()), slog.Any("error", err))
	c.Close(network.ReasonMalformedRequest)
}

// unsupported closes a connection that sent an unknown key or a version that is not served, at once
// and unanswered, as Kafka does.
func (s *Server) unsupported(c *network.Conn, h wire.Header) {
	s.o.Log.Debug("closing connection after an unsupported request", slog.String("connection", c.ID()),
		slog.Int("key", int(h.Key)), slog.Int("version", int(h.Version)))
	c.Close(network.ReasonMalformedRequest)
}

// flexible tells whether a request has header v2. A version beyond those served is still parsed by
// the newest header, so that it can be refused by name.
func (s *Server) flexible(key, version int16) bool {
	r := s.offer.Load().rows[key]
	return r != nil && version >= r.flexible
}

// engineClient is the connection's door to the data plane; nil when the connection is closed.
func (q *call) engineClient() *engine.Client {
	ss := q.session
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed {
		return nil
	}
	id := ""
	if q.header.ClientID != nil {
		id = *q.header.ClientID
	}
	if ss.engine == nil {
		ss.engine = q.server.o.Engine.Client(q.conn.Remote(), id)
	} else {
		ss.engine.SetClientID(id)
	}
	return ss.engine
}

// principal is the caller as Kafka prints it, for log lines.
func principal(id *network.Identity) string {
	if id == nil || id.Type == "" {
		return ""
	}
	return id.Type + ":" + id.Name
}

const (
	userType  = "User"
	anonymous = "ANONYMOUS"
)
