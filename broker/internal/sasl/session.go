package sasl

import "time"

// Principal is who a session authenticated: always of type User for the
// mechanisms that are served.
type Principal struct {
	Type, Name string
	Mechanism  string
}

// Action is what a connection does with a request that has arrived.
type Action uint8

// What [Session.Admit] may say.
const (
	// Serve passes the request on: the session is authenticated.
	Serve Action = iota
	// Authenticate hands an ApiVersions, SaslHandshake or SaslAuthenticate to
	// [Session.APIVersions], [Session.Handshake] or [Session.Token].
	Authenticate
	// RefuseState answers 34 in the shape of the request's own API with
	// Verdict.Message, then closes after the delay (Verdict.Close) or keeps
	// the connection.
	RefuseState
	// CloseSilently closes at once without an answer.
	CloseSilently
)

// Reason says why a session ends a connection.
type Reason uint8

// Why a session ends a connection.
const (
	NoReason Reason = iota
	Malformed
	AuthenticationFailed
	SessionExpired
)

// Verdict is the answer of [Session.Admit].
type Verdict struct {
	Action  Action
	Message string // of RefuseState
	Close   bool   // of RefuseState: close after the answer
	Delay   bool   // hold answer and close for connection.failed.authentication.delay.ms
	Reason  Reason // why it closes
}

// HandshakeResult answers a SaslHandshake.
type HandshakeResult struct {
	Code       int16
	Mechanisms []string // those enabled on the listener, whatever the code
	NoAnswer   bool     // close without any answer
	Close      bool
	Delay      bool
	Reason     Reason
}

// TokenResult answers a SaslAuthenticate or a raw token.
type TokenResult struct {
	Token           []byte
	Code            int16
	Message         string // "" on success, as Kafka answers
	LifetimeMs      int64
	Principal       *Principal // set when authentication is complete
	Reauthenticated bool       // it was a re-authentication that completed
	NoAnswer        bool       // close without any answer
	Close           bool
	Delay           bool
	Reason          Reason
}

// Options is what a [Server] authenticates by.
type Options struct {
	// Mechanisms lists what each listener (upper-case name) offers, in order.
	Mechanisms map[string][]string
	// Plain holds the users of PLAIN of each listener and their passwords.
	Plain map[string]map[string]string
	// Scram finds a credential. It must not block and is called from many
	// goroutines.
	Scram func(mechanism, user string) (salt, storedKey, serverKey []byte, iterations int, ok bool)
	// MaxReauth is connections.max.reauth.ms of a listener and mechanism; 0 is
	// no limit. Nil: no limit anywhere.
	MaxReauth func(listener, mechanism string) time.Duration
}

// Server makes sessions. It is safe for concurrent use.
type Server struct{ o Options }

// NewServer makes a server that authenticates by o.
func NewServer(o Options) *Server { return &Server{o: o} }

// Session is a new connection's authentication on a SASL listener.
func (s *Server) Session(listener string) *Session { return &Session{server: s, listener: listener} }

// Session is the authentication of one connection. It is owned by the goroutine
// that reads the connection's requests.
type Session struct {
	server   *Server
	listener string
}

// Raw tells whether the next frame is a token without a header, as after a
// SaslHandshake v0: then it goes to [Session.Token] whole and is answered raw.
func (x *Session) Raw() bool { return false }

// Authenticated tells whether requests are served.
func (x *Session) Authenticated() bool { return false }

// Admit says what to do with a request before it is decoded. versionOK tells
// whether the broker serves that version of that key.
func (x *Session) Admit(key, version int16, versionOK bool, now time.Time) Verdict {
	return Verdict{Action: CloseSilently, Reason: Malformed}
}

// APIVersions notes that an ApiVersions was answered with code; only a
// successful one changes the state.
func (x *Session) APIVersions(code int16) {}

// Handshake answers a SaslHandshake that Admit let through.
func (x *Session) Handshake(version int16, mechanism string, now time.Time) HandshakeResult {
	return HandshakeResult{}
}

// Token answers a SaslAuthenticate of that version, or a raw token (version -1).
func (x *Session) Token(version int16, token []byte, now time.Time) TokenResult { return TokenResult{} }
