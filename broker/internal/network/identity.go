package network

import "time"

// Identity is who a connection belongs to, as far as is known. It is immutable
// once handed to [Conn.SetIdentity]; a change is a new value. Strings that many
// connections share should be interned (unique.Make), since one Identity is
// held per connection.
type Identity struct {
	// Type and Name are the two halves of a principal, such as User and alice.
	// Type "" means that there is none yet or that none can be made.
	Type, Name string
	// Software and SoftwareVersion are what ApiVersions told, "" before.
	Software, SoftwareVersion string
	// ClientID is that of the latest request.
	ClientID string
	// Mechanism is the SASL mechanism, "" without SASL.
	Mechanism string
	// AuthenticatedAt is when the present session began.
	AuthenticatedAt time.Time
}

// TLSInfo is what is kept of a TLS handshake.
type TLSInfo struct {
	Version, CipherSuite uint16
	// ServerName is the SNI that the client sent, if any.
	ServerName string
	// Resumed tells that the session came from a ticket.
	Resumed bool
	// Subject, Serial (decimal) and NotAfter are of the client's certificate;
	// empty when it sent none.
	Subject, Serial string
	NotAfter        time.Time
}
