package fleet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Outcome is how a client stands, or how it ended, from its own point of view.
type Outcome string

const (
	// Opening is between socket() and its first rest.
	Opening Outcome = "opening"
	// Up is connected, and as far as its behaviour goes.
	Up Outcome = "up"
	// ClosedByClient was ended by the fleet, see [Record.How].
	ClosedByClient Outcome = "closed by client"
	// ClosedByBroker got the broker's FIN, or TLS's close_notify.
	ClosedByBroker Outcome = "closed by broker"
	// Reset got the broker's RST.
	Reset Outcome = "reset by broker"
	// Refused got a RST as the answer to its SYN.
	Refused Outcome = "refused"
	// TimedOut got no answer within the plan's timeout.
	TimedOut Outcome = "timed out"
	// Unreachable had no route, or got an ICMP error.
	Unreachable Outcome = "unreachable"
	// TLSFailed got an alert, or a certificate that it does not trust.
	TLSFailed Outcome = "tls failed"
	// SASLFailed was told by the broker that its credentials are wrong.
	SASLFailed Outcome = "authentication failed"
	// ReauthFailed was up and did not get through a re-authentication, whether the broker refused it, ended the connection or did not answer.
	ReauthFailed Outcome = "re-authentication failed"
	// BadAnswer got something that is not the answer.
	BadAnswer Outcome = "bad answer"
	// Shortage ran out of ports, file descriptors or memory on its own side. It says nothing about the broker.
	Shortage Outcome = "client shortage"
	// Abandoned was still opening when the fleet was stopped.
	Abandoned Outcome = "abandoned"
)

// Phase is the step in which a client is, or was when it ended.
type Phase string

// The phases in their order. From Held a client comes to Reauthenticating, and back.
const (
	Connecting     Phase = "connect"
	Handshaking    Phase = "tls"
	Greeting       Phase = "hello"
	Authenticating Phase = "sasl"
	Pushing        Phase = "push"
	Held           Phase = "held"

	Reauthenticating Phase = "reauth"
)

// Record is what one client saw. Times are since [Record.Started]; 0 means that the step was not reached.
type Record struct {
	ID        int    `json:"id"`
	Group     string `json:"group"`
	Index     int    `json:"index"` // within the group
	Principal string `json:"principal,omitempty"`
	Listener  string `json:"listener,omitempty"`

	Protocol Protocol `json:"protocol"`
	ClientID string   `json:"clientId,omitempty"`
	// Software and SoftwareVersion are what the broker took from ApiVersions, empty while it took nothing.
	Software        string `json:"software,omitempty"`
	SoftwareVersion string `json:"softwareVersion,omitempty"`

	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`

	Started time.Time     `json:"started"`
	Connect time.Duration `json:"connect"`          // TCP established
	TLS     time.Duration `json:"tls,omitempty"`    // handshake done
	First   time.Duration `json:"first,omitempty"`  // first response of any kind
	SASL    time.Duration `json:"sasl,omitempty"`   // authenticated
	Pushed  time.Duration `json:"pushed,omitempty"` // configuration pushed, and answered
	Ready   time.Duration `json:"ready,omitempty"`  // as far as the behaviour goes

	// Hello is the error code in the answer to ApiVersions; the connection may be up all the same.
	Hello int16 `json:"hello,omitempty"`

	// Push is the error code in the answer to a pushed configuration; the connection is up all the same.
	Push int16 `json:"push,omitempty"`

	Outcome Outcome   `json:"outcome"`
	Phase   Phase     `json:"phase"`
	Ended   time.Time `json:"ended,omitzero"`
	How     How       `json:"how,omitempty"`   // of ClosedByClient
	Error   string    `json:"error,omitempty"` // the detail behind Outcome

	Requests int64 `json:"requests"` // answered
	Failures int64 `json:"failures"` // answered with an error code
	// Reauths is how often the client has authenticated again. The requests for it are not among Requests.
	Reauths int64 `json:"reauthentications,omitempty"`
}

// Err is nil for a client that is up or that the fleet closed, and a [*ClientError] for every other.
func (r *Record) Err() error {
	switch r.Outcome {
	case Opening, Up, ClosedByClient:
		return nil
	default:
		return &ClientError{Outcome: r.Outcome, Phase: r.Phase, Detail: r.Error}
	}
}

// ClientError is why a client is not connected.
type ClientError struct {
	Outcome Outcome
	Phase   Phase
	Detail  string
}

func (e *ClientError) Error() string {
	s := fmt.Sprintf("%s (%s)", e.Outcome, e.Phase)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// saslError is a refusal that the broker put into words.
type saslError struct {
	code    int16
	message string
}

func (e *saslError) Error() string {
	return fmt.Sprintf("error code %d: %s", e.code, e.message)
}

// badAnswerError is an answer that is none.
type badAnswerError struct{ text string }

func (e *badAnswerError) Error() string { return e.text }

// errAbandoned wakes a client that waits when its fleet is stopped or closes it.
var errAbandoned = errors.New("the fleet was stopped")

// classify names err as an outcome, for a client in phase.
func classify(err error, phase Phase) Outcome {
	if errors.Is(err, errAbandoned) {
		return Abandoned
	}
	if phase == Reauthenticating {
		return ReauthFailed
	}
	if _, ok := errors.AsType[*saslError](err); ok {
		return SASLFailed
	}
	if _, ok := errors.AsType[*badAnswerError](err); ok {
		return BadAnswer
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return TLSFailed // crypto/tls's way to say that the peer sent an alert
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return classifyErrno(errno)
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ClosedByBroker
	case errors.Is(err, os.ErrDeadlineExceeded):
		return TimedOut
	case phase == Handshaking:
		return TLSFailed
	}
	return BadAnswer
}

func classifyErrno(errno unix.Errno) Outcome {
	switch errno {
	case unix.EADDRNOTAVAIL, unix.EADDRINUSE, unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EAGAIN:
		return Shortage
	case unix.ECONNREFUSED:
		return Refused
	case unix.ECONNRESET, unix.EPIPE, unix.ECONNABORTED:
		return Reset
	case unix.ETIMEDOUT:
		return TimedOut
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EHOSTDOWN, unix.EACCES, unix.EPERM:
		return Unreachable
	default:
		return BadAnswer
	}
}
