package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Protocol is a listener's security protocol, by Kafka's name.
type Protocol string

// The four security protocols.
const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// TLS tells whether clients of p begin with a TLS handshake.
func (p Protocol) TLS() bool { return p == SSL || p == SASLSSL }

// SASL tells whether clients of p authenticate by SASL.
func (p Protocol) SASL() bool { return p == SASLPlaintext || p == SASLSSL }

func (p Protocol) valid() bool {
	return p == Plaintext || p == SSL || p == SASLPlaintext || p == SASLSSL
}

// Behaviour is what a client does with its connection.
type Behaviour string

const (
	// Idle sends ApiVersions, authenticates where the protocol asks for it, and then waits.
	Idle Behaviour = "idle"
	// Metadata is Idle, with a Metadata request every [Group.Every].
	Metadata Behaviour = "metadata"
	// Produce is Idle, with one record to [Group.Topic] every [Group.Every].
	Produce Behaviour = "produce"
	// Silent connects and says nothing at all, not even a ClientHello.
	Silent Behaviour = "silent"
	// HalfHello sends the first half of a ClientHello, whatever the protocol, and waits.
	HalfHello Behaviour = "half-hello"
	// HalfSASL goes as far as the SASL mechanism (after TLS, if any) and waits with its credentials unsaid.
	HalfSASL Behaviour = "half-sasl"
	// Raw sends [Group.Payload] as it is, in segments of [Group.Segment] bytes, and waits. No TLS, no Kafka.
	Raw Behaviour = "raw"
)

func (b Behaviour) valid() bool {
	switch b {
	case Idle, Metadata, Produce, Silent, HalfHello, HalfSASL, Raw:
		return true
	}
	return false
}

// SASL mechanisms that clients can use.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// What clients call themselves if their group does not say.
const (
	DefaultSoftware        = "brokerlab-fleet"
	DefaultSoftwareVersion = "1.0"
)

// TLS is what a group's clients present and trust. All text is PEM.
type TLS struct {
	// CA is what the broker's certificate must lead to. Empty: any certificate is taken, which is also the cheapest.
	CA string `json:"ca,omitempty"`
	// Pin, instead of CA, is the certificate that the broker must present, byte by byte: for thousands of clients of a broker whose
	// certificate was verified once.
	Pin string `json:"pin,omitempty"`
	// Certificate (with its chain) and Key are the client's own, for mutual TLS. Both or neither.
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	// ServerName is verified and sent as SNI; empty: the target's address.
	ServerName string `json:"serverName,omitempty"`
	// MinVersion and MaxVersion bound the version, as crypto/tls counts them; 0: TLS 1.2 and 1.3.
	MinVersion uint16 `json:"minVersion,omitempty"`
	MaxVersion uint16 `json:"maxVersion,omitempty"`
}

// Group is a number of clients of one kind.
type Group struct {
	// Name is repeated in each record.
	Name string `json:"name"`
	// Count is the number of connections.
	Count int `json:"count"`
	// Target is the listener that the clients connect to.
	Target netip.AddrPort `json:"target"`
	// Protocol decides on TLS and SASL.
	Protocol Protocol `json:"protocol"`
	// Source makes the sockets and names their addresses; nil: this machine's own, unbound.
	Source Source `json:"-"`
	// From describes Source to a worker process, which makes its own of it.
	From *SourceSpec `json:"from,omitempty"`

	// Username, Password and Mechanism are SASL credentials; Mechanism empty: PLAIN.
	Username  string `json:"username,omitempty"`
	Password  string `json:"password,omitempty"`
	Mechanism string `json:"mechanism,omitempty"`
	// NoReauth lets SASL sessions end (connections.max.reauth.ms), as clients do that know nothing of KIP-368. All others authenticate
	// again in time, without being told to.
	NoReauth bool `json:"noReauth,omitempty"`
	// TLS is used by the protocols that have it.
	TLS TLS `json:"tls,omitzero"`

	// ClientID is sent in every request header; empty: null.
	ClientID string `json:"clientId,omitempty"`
	// Software and SoftwareVersion are sent by ApiVersions v3, as they are; both empty: [DefaultSoftware] and
	// [DefaultSoftwareVersion]. (To send an empty name, send none by HelloVersion and then [Fleet.Call].)
	Software        string `json:"software,omitempty"`
	SoftwareVersion string `json:"softwareVersion,omitempty"`
	// HelloVersion is the version of ApiVersions: 0 means 3, and -1 that none is sent.
	HelloVersion int16 `json:"helloVersion,omitempty"`

	// Principal is what the broker should take the clients for. The fleet only repeats it in the records.
	Principal string `json:"principal,omitempty"`
	// Listener is the name of the target listener. The fleet only repeats it in the records.
	Listener string `json:"listener,omitempty"`

	// Behaviour of each client; empty: Idle.
	Behaviour Behaviour `json:"behaviour,omitempty"`
	// Every is the time between two requests of a Metadata or Produce client. The clients of a group are spread over it.
	Every time.Duration `json:"every,omitempty"`
	// Topic is where Produce clients write, at partition 0, and what Metadata clients ask about (empty: brokers only).
	Topic string `json:"topic,omitempty"`
	// Push is what each client pushes of its configuration (KIP-1324) as soon as it is authenticated, whether the broker lists the
	// API or not; none: it pushes nothing.
	Push []Config `json:"push,omitempty"`
	// Payload and Segment are for Raw clients; Segment 0: one write.
	Payload []byte `json:"payload,omitempty"`
	Segment int    `json:"segment,omitempty"`
}

// Plan is a whole fleet.
type Plan struct {
	Groups []Group `json:"groups"`
	// Rate is how many connections are begun a second; 0 is a storm, as fast as the machine can.
	Rate float64 `json:"rate,omitempty"`
	// Parallel bounds the clients that are between socket() and their first rest; 0: 256.
	Parallel int `json:"parallel,omitempty"`
	// Timeout bounds each step of a client (connect, TLS, each request); 0: 30 s.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Validate returns all that is wrong with the plan, joined.
func (p *Plan) Validate() error {
	var errs []error
	if p.Rate < 0 || p.Parallel < 0 || p.Timeout < 0 {
		errs = append(errs, errors.New("rate, parallel and timeout may not be negative"))
	}
	for i := range p.Groups {
		g := &p.Groups[i]
		if err := errors.Join(g.validateTarget(), g.validateCredentials(), g.validateBehaviour()); err != nil {
			errs = append(errs, fmt.Errorf("group %q: %w", g.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (g *Group) validateTarget() error {
	var errs []error
	if g.Count < 0 {
		errs = append(errs, fmt.Errorf("count %d is negative", g.Count))
	}
	if !g.Target.IsValid() || g.Target.Port() == 0 {
		errs = append(errs, fmt.Errorf("target %v is not an address and port", g.Target))
	}
	if !g.Protocol.valid() {
		errs = append(errs, fmt.Errorf("protocol %q is not one of Kafka's four", g.Protocol))
	}
	return errors.Join(errs...)
}

func (g *Group) validateCredentials() error {
	var errs []error
	switch g.mechanism() {
	case Plain, ScramSHA256, ScramSHA512:
	default:
		errs = append(errs, fmt.Errorf("SASL mechanism %q is not supported", g.Mechanism))
	}
	if (g.TLS.Certificate == "") != (g.TLS.Key == "") {
		errs = append(errs, errors.New("a client certificate and its key come together"))
	}
	if g.HelloVersion < -1 || g.HelloVersion > 4 {
		errs = append(errs, fmt.Errorf("ApiVersions v%d: use 1 to 4, 0 for 3 or -1 for none", g.HelloVersion))
	}
	return errors.Join(errs...)
}

func (g *Group) validateBehaviour() error {
	b := g.behaviour()
	switch {
	case !b.valid():
		return fmt.Errorf("behaviour %q is not known", b)
	case (b == Metadata || b == Produce) && g.Every <= 0:
		return fmt.Errorf("behaviour %s needs a time between requests", b)
	case b == Produce && g.Topic == "":
		return fmt.Errorf("behaviour %s needs a topic", b)
	case b == HalfSASL && !g.Protocol.SASL():
		return fmt.Errorf("behaviour %s needs a SASL protocol, not %s", b, g.Protocol)
	case b == Raw && len(g.Payload) == 0:
		return fmt.Errorf("behaviour %s needs a payload", b)
	}
	return nil
}

// Connections is the number of connections the plan opens.
func (p *Plan) Connections() int {
	n := 0
	for i := range p.Groups {
		n += p.Groups[i].Count
	}
	return n
}

func (p *Plan) timeout() time.Duration {
	if p.Timeout == 0 {
		return 30 * time.Second
	}
	return p.Timeout
}

func (p *Plan) parallel() int {
	if p.Parallel == 0 {
		return 256
	}
	return p.Parallel
}

func (g *Group) behaviour() Behaviour {
	if g.Behaviour == "" {
		return Idle
	}
	return g.Behaviour
}

func (g *Group) mechanism() string {
	if g.Mechanism == "" {
		return Plain
	}
	return g.Mechanism
}
