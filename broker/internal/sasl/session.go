package sasl

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
)

// Principal is who a session authenticated. Its type is User for every
// mechanism that is served.
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
	// RefuseState answers 34 in the shape of the request's own API, with
	// Verdict.Message where it has a place for one (a Produce with acks=0
	// gets no answer), then closes or keeps the connection as the Verdict says.
	RefuseState
	// CloseSilently closes without an answer.
	CloseSilently
)

// Reason says why a session ends a connection.
type Reason uint8

// Why a session ends a connection.
const (
	NoReason             Reason = iota
	Malformed                   // something else than the protocol allows
	AuthenticationFailed        // counted as a failed authentication, or re-authentication
	SessionExpired              // counted in expired-connections-killed-count
)

// Codes of Kafka's errors that a session answers.
const (
	codeUnsupportedMechanism int16 = 33
	codeIllegalState         int16 = 34
	codeAuthenticationFailed int16 = 58
)

// Verdict is the answer of [Session.Admit].
type Verdict struct {
	Action  Action
	Message string // of RefuseState
	Close   bool   // close after the answer, or at once when CloseSilently
	Delay   bool   // hold answer and close for connection.failed.authentication.delay.ms
	Reason  Reason // why it closes
}

// HandshakeResult answers a SaslHandshake.
type HandshakeResult struct {
	Code       int16
	Mechanisms []string // those enabled on the listener, whatever the code; shared, not to be changed
	NoAnswer   bool     // close without any answer
	Close      bool
	Delay      bool
	Reason     Reason
}

// TokenResult answers a SaslAuthenticate or a raw token.
type TokenResult struct {
	// Token is the server's message, empty and not nil when the mechanism has
	// nothing to say.
	Token []byte
	Code  int16
	// Message is "" on success, as Kafka answers.
	Message string
	// LifetimeMs is told to the client from v1 on; the session expires anyway.
	LifetimeMs int64
	// Principal is set when authentication is complete.
	Principal *Principal
	// Reauthenticated tells that it was a re-authentication that completed.
	Reauthenticated bool
	NoAnswer        bool // close without any answer
	Close           bool
	Delay           bool
	Reason          Reason
	// Err is why it failed, for the log. It may say more than the client learns.
	Err error
}

// Options is what a [Server] authenticates by.
type Options struct {
	// Mechanisms lists what each listener (upper-case name) offers; it is told in the order in which Kafka tells it.
	Mechanisms map[string][]string
	// Plain holds the users of PLAIN of each listener and their passwords.
	Plain map[string]map[string]string
	// Scram finds a credential. It must not block and is called from many
	// goroutines. Nil: no user has one.
	Scram func(mechanism, user string) (salt, storedKey, serverKey []byte, iterations int, ok bool)
	// MaxReauth is connections.max.reauth.ms of a listener and mechanism; 0 is
	// no limit. Nil: no limit anywhere.
	MaxReauth func(listener, mechanism string) time.Duration
}

// Server makes sessions. It is safe for concurrent use.
type Server struct {
	options atomic.Pointer[Options]
	scrams  map[string]*scramMechanism
}

// NewServer makes a server that authenticates by o. Mechanisms that are not
// [Supported] are not offered.
func NewServer(o Options) *Server {
	s := &Server{scrams: map[string]*scramMechanism{}}
	for name, hash := range map[string]scram.HashGeneratorFcn{ScramSHA256: scram.SHA256, ScramSHA512: scram.SHA512} {
		if m, err := newScram(hash, name, o.Scram); err == nil { // the library's signature; it has no reason to fail
			s.scrams[name] = m
		}
	}
	s.Update(o.Mechanisms, o.Plain, o.MaxReauth)
	return s
}

// Update replaces what listeners offer, who the users of PLAIN are and how long sessions live. An exchange that has
// begun ends as it began; the next, also of a session that authenticates again, goes by these.
func (s *Server) Update(mechanisms map[string][]string, plain map[string]map[string]string, maxReauth func(listener, mechanism string) time.Duration) {
	next := Options{Plain: plain, MaxReauth: maxReauth, Mechanisms: make(map[string][]string, len(mechanisms))}
	for listener, offered := range mechanisms {
		for _, m := range offered {
			if m == Plain || s.scrams[m] != nil {
				next.Mechanisms[listener] = append(next.Mechanisms[listener], m)
			}
		}
		const capacity = 16 // of a Java set
		next.Mechanisms[listener] = dynamicconfig.JavaOrder(next.Mechanisms[listener], capacity)
	}
	s.options.Store(&next)
}

// Session is a new connection's authentication on a SASL listener.
func (s *Server) Session(listener string) *Session { return &Session{server: s, listener: listener} }

func (s *Server) exchange(o *Options, listener, mechanism string) exchange {
	if mechanism == Plain {
		return plainExchange{users: o.Plain[listener]}
	}
	return &scramExchange{mechanism: s.scrams[mechanism]}
}

// state is where a session stands.
type state uint8

const (
	stateInitial      state = iota // ApiVersions or SaslHandshake
	stateVersioned                 // ApiVersions succeeded: SaslHandshake only
	stateAuthenticate              // tokens
	stateComplete
	stateRehandshake  // Admit let a SaslHandshake through that begins a re-authentication
	stateBadMechanism // a re-authentication by another mechanism: what comes next ends it
	stateFailed
)

// Session is the authentication of one connection. It is owned by the goroutine
// that reads the connection's requests.
//
// The life of one: [Session.Admit] is asked about each frame (unless
// [Session.Raw] says that the frame is a bare token); what it hands over goes
// to the methods for the three requests of authentication; when a TokenResult
// has a Principal, Admit serves what comes, until the session expires.
type Session struct {
	server   *Server
	listener string
	state    state
	raw      bool // tokens come without headers: SaslHandshake was v0

	mechanism string        // of the exchange under way, or by which user authenticated
	exchange  exchange      // nil unless in stateAuthenticate
	lifetime  time.Duration // what the exchange under way leads to; 0: for ever
	user      string        // authenticated, also while it re-authenticates
	expires   time.Time
	began     time.Time // start of the latest re-authentication
}

// API keys of the requests that authentication is made of.
const (
	keyHandshake    int16 = 17
	keyVersions     int16 = 18
	keyAuthenticate int16 = 36
)

// minReauthInterval is how far apart re-authentications may start.
const minReauthInterval = time.Second

// Raw tells whether the next frame is a token without a header, as after a
// SaslHandshake v0: then it goes to [Session.Token] whole and is answered raw.
func (x *Session) Raw() bool { return x.raw && x.state == stateAuthenticate }

// Authenticated tells whether requests are served. It is false during a
// re-authentication.
func (x *Session) Authenticated() bool { return x.state == stateComplete }

// Expires is when the session's lifetime ends; the zero time is never.
func (x *Session) Expires() time.Time { return x.expires }

func (x *Session) reauthenticating() bool { return x.user != "" && x.state != stateComplete }

// Admit says what to do with a request before it is decoded. served tells
// whether the broker serves that version of that key. What cannot be decoded
// afterwards is the caller's to close; only an ApiVersions of an unknown version
// is still handed over, for it has an answer.
func (x *Session) Admit(key, _ int16, served bool, now time.Time) Verdict {
	silently := Verdict{Action: CloseSilently, Close: true, Reason: Malformed}
	if !served && key != keyVersions {
		x.exchange, x.state = nil, stateFailed
		return silently
	}
	switch x.state {
	case stateInitial:
		if key == keyVersions || key == keyHandshake {
			return Verdict{Action: Authenticate}
		}
	case stateVersioned:
		if key == keyHandshake {
			return Verdict{Action: Authenticate}
		}
	case stateAuthenticate:
		if key == keyAuthenticate {
			return Verdict{Action: Authenticate}
		}
		x.state = stateFailed
		x.exchange = nil
		return Verdict{
			Action: RefuseState, Message: "Unexpected Kafka request of type " + requestName(key) + " during SASL authentication.",
			Close: true, Delay: true, Reason: AuthenticationFailed,
		}
	case stateBadMechanism:
		x.state = stateFailed
		return Verdict{Action: CloseSilently, Close: true, Delay: true, Reason: AuthenticationFailed}
	case stateComplete:
		return x.admitAuthenticated(key, now)
	case stateRehandshake, stateFailed:
	}
	x.exchange, x.state = nil, stateFailed
	return silently
}

// requestName is the name of a request in Kafka's texts.
func requestName(key int16) string {
	name := strings.NewReplacer("ACLs", "Acls", "SASL", "Sasl", "SCRAM", "Scram", "ISR", "Isr", "IDs", "Ids", "ID", "Id",
		"PartitionAssignments", "PartitionReassignments").Replace(kmsg.NameForKey(key))
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

func (x *Session) admitAuthenticated(key int16, now time.Time) Verdict {
	if key == keyHandshake && !x.expires.IsZero() && (x.began.IsZero() || now.Sub(x.began) >= minReauthInterval) {
		x.began = now
		x.state = stateRehandshake
		return Verdict{Action: Authenticate}
	}
	if x.expired(now) {
		x.state = stateFailed
		return Verdict{Action: CloseSilently, Close: true, Reason: SessionExpired}
	}
	switch key {
	case keyHandshake:
		return Verdict{Action: RefuseState, Message: "SaslHandshake request received after successful authentication"}
	case keyAuthenticate:
		return Verdict{Action: RefuseState, Message: "SaslAuthenticate request received after successful authentication"}
	}
	return Verdict{Action: Serve}
}

func (x *Session) expired(now time.Time) bool { return !x.expires.IsZero() && now.After(x.expires) }

// APIVersions notes that an ApiVersions which Admit handed over was answered
// with code. Only a successful one changes the state.
func (x *Session) APIVersions(code int16) {
	if code == 0 && x.state == stateInitial {
		x.state = stateVersioned
	}
}

// Handshake answers a SaslHandshake that Admit handed over.
func (x *Session) Handshake(version int16, mechanism string, _ time.Time) HandshakeResult {
	options := x.server.options.Load()
	mechanisms := options.Mechanisms[x.listener]
	again := x.state == stateRehandshake
	if x.state != stateInitial && x.state != stateVersioned && !again {
		x.state = stateFailed
		return HandshakeResult{Code: codeIllegalState, NoAnswer: true, Close: true, Reason: Malformed}
	}
	if !slices.Contains(mechanisms, mechanism) {
		x.state = stateFailed
		return HandshakeResult{
			Code: codeUnsupportedMechanism, Mechanisms: mechanisms,
			NoAnswer: again, Close: true, Delay: !again, Reason: AuthenticationFailed,
		}
	}
	x.raw = version == 0
	if again && mechanism != x.mechanism {
		x.state = stateBadMechanism
		return HandshakeResult{Mechanisms: mechanisms}
	}
	x.mechanism = mechanism
	x.exchange = x.server.exchange(options, x.listener, mechanism)
	x.lifetime = 0
	if options.MaxReauth != nil {
		x.lifetime = options.MaxReauth(x.listener, mechanism)
	}
	x.state = stateAuthenticate
	return HandshakeResult{Mechanisms: mechanisms}
}

// Token answers a SaslAuthenticate of that version that Admit handed over, or a
// raw token (version -1). A raw token that fails has no answer.
func (x *Session) Token(_ int16, token []byte, now time.Time) TokenResult {
	if x.state != stateAuthenticate {
		x.state = stateFailed
		return TokenResult{Code: codeIllegalState, NoAnswer: true, Close: true, Reason: Malformed}
	}
	answer, user, done, err := x.exchange.step(token)
	again := x.reauthenticating()
	if err == nil && done && again && user != x.user {
		err = denied("Cannot change principals during re-authentication from User.%s: User.%s", x.user, user)
	}
	if err != nil {
		return x.fail(err, again)
	}
	r := TokenResult{Token: answer}
	if !done {
		return r
	}
	x.user, x.exchange, x.state = user, nil, stateComplete
	x.expires = time.Time{}
	if x.lifetime > 0 {
		r.LifetimeMs = x.lifetime.Milliseconds()
		x.expires = now.Add(x.lifetime)
	}
	r.Principal = &Principal{Type: "User", Name: user, Mechanism: x.mechanism}
	r.Reauthenticated = again
	return r
}

func (x *Session) fail(err error, again bool) TokenResult {
	x.exchange, x.state = nil, stateFailed
	r := TokenResult{Code: codeAuthenticationFailed, NoAnswer: x.raw, Close: true, Delay: true, Reason: AuthenticationFailed, Err: err}
	if told, ok := errors.AsType[*deniedError](err); ok {
		r.Message = told.text
		return r
	}
	// What SCRAM itself refuses closes a client of raw tokens at once.
	r.Delay = !x.raw
	during := "authentication"
	if again {
		during = "re-authentication"
	}
	r.Message = "Authentication failed during " + during + " due to invalid credentials with SASL mechanism " + x.mechanism
	return r
}
