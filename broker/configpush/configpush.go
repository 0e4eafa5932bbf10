// Package configpush is what a broker does with the configurations that its clients push to it (KIP-1324).
//
// A client tells once, after it has authenticated and before its first other request, what it is configured with. The
// broker measures that, takes out of it what looks like a secret, and hands it to the one [Policy] that
// client.config.policy.class.name names; only then the client is answered. Without a policy there is no such request.
//
// Three policies come with the broker: log (package configpush/log) writes each push to the broker's log, store (package
// configpush/store) keeps the latest one of each client, and fault (package configpush/fault) fails as clients are to be tested
// with. A program with a broker of its own adds others by [Register].
//
// What a client pushes is what it says of itself. Nothing here believes it, interprets it or acts on it.
package configpush

import (
	"context"
	"iter"
	"net/netip"
	"time"
)

// DefaultMaxBytes is client.config.max.bytes unless it is set: more bytes than that, by [Size], are refused. The proposal
// says 10 KB.
const DefaultMaxBytes = 10240

// Entry is one configuration of a client, as the client sent it. Key and Value may hold anything: control characters and
// invalid UTF-8 too. [Printable] makes them fit to be shown.
type Entry struct {
	Key      string
	Value    string // [Redacted] where the entry is
	Type     int8   // the byte that was sent; package protocol names those that mean something
	Default  bool   // the client's user has not set it
	Redacted bool   // the value was taken out because it looked like a secret
}

// Push is one push. It is not changed once a policy has it, and may be kept.
type Push struct {
	Context
	Entries  []Entry // in the order in which they came
	Bytes    int     // their [Size], before anything was taken out
	Received time.Time
	Deadline time.Time // when its client is answered that the policy took too long; zero: never
}

// Context is who pushed, and over which connection. Unlike the entries it is what the broker knows of the connection; but
// ClientID and Software are the client's own words, too.
type Context struct {
	Listener        string // in upper case
	Protocol        string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Principal       string // type and name, as in User:alice
	Address         netip.Addr
	ClientID        string // that the connection used last, "" when it never sent one
	CorrelationID   int32
	Version         int16  // of the request
	Software        string // "" when the client has not named itself
	SoftwareVersion string
	ConnectionID    string    // unique for this broker's life
	Connected       time.Time // when that connection was accepted
}

// Identity is what tells one client from another: a push carries no id of its sender. Two clients that have all of it in
// common cannot be told apart.
type Identity struct {
	Principal       string
	ClientID        string
	Address         netip.Addr
	Listener        string
	Software        string
	SoftwareVersion string
}

// Identity is the part of a connection's context that other connections of the same client share.
func (c *Context) Identity() Identity {
	return Identity{
		Principal: c.Principal, ClientID: c.ClientID, Address: c.Address, Listener: c.Listener,
		Software: c.Software, SoftwareVersion: c.SoftwareVersion,
	}
}

// Policy is what is done with pushes. The broker makes one when it starts, calls Configure once before anything else, and
// Close once after the last Process. Process is called by several goroutines at a time, and Reconfigure beside it.
type Policy interface {
	// Configure gets the broker's properties, log.dirs and client.config.* always among them. An error fails the start.
	Configure(properties map[string]string) error
	// Reconfigure gets the properties that hold after a dynamic change. An error is logged, and the change stands.
	Reconfigure(properties map[string]string) error
	// Process takes one push. The client waits for it, and nobody else does; after client.config.policy.timeout.ms ctx ends
	// and the client is answered that it failed, as it is after an error or a panic.
	Process(ctx context.Context, p *Push) error
	Close() error
}

// Batcher is a policy to which several pushes at a time are cheaper than one after the other. Where there are more pushes
// than workers, it is given all that wait, up to a bound, instead of one by Process.
type Batcher interface {
	Policy
	// ProcessAll takes pushes in the order in which they came, and returns as many errors, nil for a push that was taken. One
	// that fails must not fail others. ctx ends with the broker and when the last of the deadlines is over; a push whose
	// own deadline is over need not be taken, as its client has been answered. A panic is the answer to all of them.
	ProcessAll(ctx context.Context, pushes []*Push) []error
}

// Observer is a policy that asks which connections are open. Observe is called once, after Configure. What it gets walks
// the connections that are authenticated, those of one identity or (nil) all, whenever it is asked until Close; they have
// neither CorrelationID nor Version.
type Observer interface {
	Policy
	Observe(open func(of *Identity) iter.Seq[Context])
}

// Size is what client.config.max.bytes bounds: the bytes of all keys and values, those of keys that come twice counted
// twice. The framing of the request does not count.
func Size(entries []Entry) int {
	n := 0
	for i := range entries {
		n += len(entries[i].Key) + len(entries[i].Value)
	}
	return n
}
