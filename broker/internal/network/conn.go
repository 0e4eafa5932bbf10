package network

import (
	"net/netip"
	"time"
)

// Conn is one connection. Its methods are safe for concurrent use.
type Conn struct {
	listener *Listener
	identity *Identity
	state    any
}

// ID is Kafka's connection id.
func (c *Conn) ID() string { return "" }

// Local is the broker's end.
func (c *Conn) Local() netip.AddrPort { return netip.AddrPort{} }

// Remote is the client's end.
func (c *Conn) Remote() netip.AddrPort { return netip.AddrPort{} }

// Listener is where it came in.
func (c *Conn) Listener() *Listener { return c.listener }

// Since is when it was admitted.
func (c *Conn) Since() time.Time { return time.Time{} }

// LastActive is when bytes last moved.
func (c *Conn) LastActive() time.Time { return time.Time{} }

// Cookie is the kernel's socket cookie.
func (c *Conn) Cookie() uint64 { return 0 }

// BytesIn counts bytes read off the socket.
func (c *Conn) BytesIn() int64 { return 0 }

// BytesOut counts bytes the kernel took.
func (c *Conn) BytesOut() int64 { return 0 }

// Identity is who it belongs to; never nil.
func (c *Conn) Identity() *Identity { return c.identity }

// SetIdentity replaces the identity.
func (c *Conn) SetIdentity(id *Identity) { c.identity = id }

// TLS is what is known of the handshake; nil before or without one.
func (c *Conn) TLS() *TLSInfo { return nil }

// State is the handler's own value.
func (c *Conn) State() any { return c.state }

// SetState sets the handler's own value.
func (c *Conn) SetState(state any) { c.state = state }

// SetAuthenticated lifts the limit on frames to MaxFrame, or lowers it again.
func (c *Conn) SetAuthenticated(bool) {}

// Reply answers the outstanding frame.
func (c *Conn) Reply([]byte) {}

// NoReply goes on reading without an answer.
func (c *Conn) NoReply() {}

// ReplyThenClose answers after delay, then closes.
func (c *Conn) ReplyThenClose(frame []byte, delay time.Duration, reason Reason) {
	_, _, _ = frame, delay, reason
}

// Close ends the connection.
func (c *Conn) Close(Reason) {}
