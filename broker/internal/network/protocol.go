package network

import "fmt"

// Protocol is a Kafka security protocol: what a listener speaks before the
// first request.
type Protocol uint8

// The four protocols, under Kafka's ids.
const (
	Plaintext     Protocol = 0
	SSL           Protocol = 1
	SASLPlaintext Protocol = 2
	SASLSSL       Protocol = 3
)

// String gives Kafka's name, such as SASL_SSL.
func (p Protocol) String() string {
	switch p {
	case Plaintext:
		return "PLAINTEXT"
	case SSL:
		return "SSL"
	case SASLPlaintext:
		return "SASL_PLAINTEXT"
	case SASLSSL:
		return "SASL_SSL"
	default:
		return fmt.Sprintf("Protocol(%d)", uint8(p))
	}
}

// TLS reports whether the protocol starts with a TLS handshake.
func (p Protocol) TLS() bool { return p == SSL || p == SASLSSL }

// SASL reports whether the first requests authenticate the client.
func (p Protocol) SASL() bool { return p == SASLPlaintext || p == SASLSSL }

// ParseProtocol reads Kafka's name of a protocol, in capital letters as Kafka
// wants them.
func ParseProtocol(name string) (Protocol, error) {
	for p := Plaintext; p <= SASLSSL; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("unknown security protocol %q", name)
}
