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
	switch {
	case id != nil && id.Type != "":
		return id.Type + ":" + id.Name, id.Type
	case c.Listener().Protocol.SASL():
		return "", ""
	case c.State() == nil: // not through its TLS handshake
		return userType + ":" + anonymous, userType
	}
	return "", ""
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
	if f.nowhere {
		return false
	}
	if f.address != nil && !f.address.Contains(c.Remote().Addr().WithZone("")) {
		return false
	}
	l := c.Listener()
	if f.listener != nil && l.Name != *f.listener || f.protocol != nil && l.Protocol.String() != *f.protocol {
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
