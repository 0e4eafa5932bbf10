package quota

import "strings"

// Limit names one limit; the zero value is none.
type Limit uint8

// The limits, in no order that matters.
const (
	None                   Limit = iota
	MaxConnections               // connections of the broker
	ListenerMaxConnections       // connections of one listener
	MaxSSLConnections            // TLS connections of the broker (KIP-1015)
	MaxConnectionsPerIP          // connections of one address
	ConnectionRate               // new connections a second of the broker
	ListenerConnectionRate       // new connections a second of one listener
	IPConnectionRate             // new connections a second of one address, a client quota
)

// String is Kafka's key, without the prefix that a listener's has; "none" for
// [None].
func (l Limit) String() string {
	switch l {
	case MaxConnections, ListenerMaxConnections:
		return "max.connections"
	case MaxSSLConnections:
		return "max.ssl.connections"
	case MaxConnectionsPerIP:
		return "max.connections.per.ip"
	case ConnectionRate, ListenerConnectionRate:
		return "max.connection.creation.rate"
	case IPConnectionRate:
		return "connection_creation_rate"
	default:
		return "none"
	}
}

// Key is the property that sets the limit: a listener's own begins with
// listener.name. and the lower-case name of the listener.
func (l Limit) Key(listener string) string {
	if l == ListenerMaxConnections || l == ListenerConnectionRate {
		return "listener.name." + strings.ToLower(listener) + "." + l.String()
	}
	return l.String()
}
