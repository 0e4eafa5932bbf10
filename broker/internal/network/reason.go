package network

// Reason says why a connection ended. The list is closed: a new cause is a new
// line here, never a free text. It is the label of the closed-connections
// metric and an attribute of the log line.
type Reason uint8

// Every way in which a connection ends.
const (
	// ReasonNone is the zero value; no closed connection has it.
	ReasonNone Reason = iota
	// ReasonClientClosed: the client sent FIN, or close_notify over TLS.
	ReasonClientClosed
	// ReasonClientReset: the client sent RST, or vanished and TCP gave up.
	ReasonClientReset
	// ReasonIdle: nothing was sent or received for connections.max.idle.ms.
	ReasonIdle
	// ReasonEvictedConnections: closed as least recently used over max.connections.
	ReasonEvictedConnections
	// ReasonEvictedSSLConnections: the same over max.ssl.connections.
	ReasonEvictedSSLConnections
	// ReasonPerIPLimit: refused by max.connections.per.ip.
	ReasonPerIPLimit
	// ReasonPerIPRate: refused by the address's connection_creation_rate.
	ReasonPerIPRate
	// ReasonTLSFailed: the handshake failed, or a record did not decrypt later.
	ReasonTLSFailed
	// ReasonPlaintextOnTLS: the first bytes on a TLS port were not TLS.
	ReasonPlaintextOnTLS
	// ReasonTLSOnPlaintext: a ClientHello arrived on a port without TLS.
	ReasonTLSOnPlaintext
	// ReasonAuthenticationFailed: SASL refused the client.
	ReasonAuthenticationFailed
	// ReasonSessionExpired: a request came after the SASL session's lifetime.
	ReasonSessionExpired
	// ReasonOversizeFrame: the size prefix was over the limit.
	ReasonOversizeFrame
	// ReasonMalformedRequest: a negative or zero size, an unreadable header or
	// body, an unknown key or version.
	ReasonMalformedRequest
	// ReasonKilled: closed by an operator's request.
	ReasonKilled
	// ReasonListenerChanged: its listener was removed or reconfigured.
	ReasonListenerChanged
	// ReasonPrincipalNotMappable: no rule maps the certificate's name.
	ReasonPrincipalNotMappable
	// ReasonAcksZeroFailed: a produce without acknowledgement failed, which
	// only closing can tell.
	ReasonAcksZeroFailed
	// ReasonRefusedFull: refused while full, where the policy is to refuse.
	ReasonRefusedFull
	// ReasonEngineUnavailable: the data plane is elsewhere and did not answer.
	ReasonEngineUnavailable
	// ReasonFenced: refused because the broker is fenced from its cluster.
	ReasonFenced
	// ReasonShutdown: the broker stopped.
	ReasonShutdown

	reasonCount
)

// String gives the reason in snake case, as metrics and logs show it.
func (r Reason) String() string {
	names := [reasonCount]string{
		ReasonNone:                  "none",
		ReasonClientClosed:          "client_closed",
		ReasonClientReset:           "client_reset",
		ReasonIdle:                  "idle",
		ReasonEvictedConnections:    "evicted_max_connections",
		ReasonEvictedSSLConnections: "evicted_max_ssl_connections",
		ReasonPerIPLimit:            "per_ip_limit",
		ReasonPerIPRate:             "per_ip_rate",
		ReasonTLSFailed:             "tls_failed",
		ReasonPlaintextOnTLS:        "plaintext_on_tls",
		ReasonTLSOnPlaintext:        "tls_on_plaintext",
		ReasonAuthenticationFailed:  "authentication_failed",
		ReasonSessionExpired:        "session_expired",
		ReasonOversizeFrame:         "oversize_frame",
		ReasonMalformedRequest:      "malformed_request",
		ReasonKilled:                "killed",
		ReasonListenerChanged:       "listener_changed",
		ReasonPrincipalNotMappable:  "principal_not_mappable",
		ReasonAcksZeroFailed:        "acks0_failed",
		ReasonRefusedFull:           "refused_full",
		ReasonEngineUnavailable:     "engine_unavailable",
		ReasonFenced:                "fenced",
		ReasonShutdown:              "shutdown",
	}
	if int(r) >= len(names) {
		return "unknown"
	}
	return names[r]
}

// Reasons lists every reason a closed connection can have, in a fixed order.
func Reasons() []Reason {
	all := make([]Reason, 0, reasonCount-1)
	for r := ReasonNone + 1; r < reasonCount; r++ {
		all = append(all, r)
	}
	return all
}

// failure reports whether an operator wants to read of the close without
// asking for debug lines.
func (r Reason) failure() bool {
	switch r {
	case ReasonClientClosed, ReasonClientReset, ReasonIdle, ReasonShutdown, ReasonSessionExpired:
		return false
	default:
		return true
	}
}

// clientGone reports whether nobody is left to read a farewell.
func (r Reason) clientGone() bool { return r == ReasonClientClosed || r == ReasonClientReset }
