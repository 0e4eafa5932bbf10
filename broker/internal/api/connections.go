package api

import (
	"net/netip"
	"strings"

	"github.com/brokerlab/brokerlab/broker/internal/network"
)

// who is the principal that a listing shows for a connection: that of the last completed
// authentication, ANONYMOUS on a listener without SASL, also while TLS is not done yet, and nothing
// where there is none yet or no rule maps the certificate's name.
func who(c *network.Conn) (full, kind string) {
	id := c.Identity()
	if id != nil && id.Type != "" {
		return id.Type + ":" + id.Name, id.Type
	}
	return nobodyYet(c.Listener(), c.State() != nil)
}

// whoWas is who for a connection that has ended.
func whoWas(c *network.Closed) (full, kind string) {
	switch {
	case c.Type != "":
		return c.Type + ":" + c.Name, c.Type
	case c.Refused:
		return "", ""
	}
	return nobodyYet(c.Listener, c.Opened)
}

// nobodyYet is the principal of a connection that has no identity; opened is whether it is through its TLS handshake.
func nobodyYet(l *network.Listener, opened bool) (full, kind string) {
	if l.Protocol.SASL() || opened {
		return "", ""
	}
	return userType + ":" + anonymous, userType
}

// filter lets connections pass; a nil part lets all. It looks only at what costs nothing to look at.
type filter struct {
	principal *string
	address   *netip.Prefix
	nowhere   bool // the address asked for is none: nothing passes
	listener  *string
	protocol  *string
	software  *string
}

func (f *filter) passes(c *network.Conn) bool {
	if !f.passesAt(c.Remote().Addr(), c.Listener()) {
		return false
	}
	if f.software != nil {
		if id := c.Identity(); id == nil || id.Software != *f.software {
			return false
		}
	}
	if f.principal != nil {
		if full, _ := who(c); full != *f.principal {
			return false
		}
	}
	return true
}

// passesAt is the part of passes that is about the place of a connection.
func (f *filter) passesAt(remote netip.Addr, l *network.Listener) bool {
	if f.nowhere || f.address != nil && !f.address.Contains(remote.WithZone("")) {
		return false
	}
	return (f.listener == nil || l.Name == *f.listener) && (f.protocol == nil || l.Protocol.String() == *f.protocol)
}

// passesClosed is passes for a connection that has ended.
func (f *filter) passesClosed(c *network.Closed) bool {
	if !f.passesAt(c.Remote.Addr(), c.Listener) || f.software != nil && c.Software != *f.software {
		return false
	}
	full, _ := whoWas(c)
	return f.principal == nil || full == *f.principal
}

// upper is a filter on names that are written in capitals.
func upper(s *string) *string {
	if s == nil {
		return nil
	}
	u := strings.ToUpper(*s)
	return &u
}

// address reads an address filter in any spelling; ok is false for a text that is no address.
func address(text string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), true
}
