package acl

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
)

// AnyHost is the host of a rule that holds wherever a client connects from.
const AnyHost = "*"

// HostText is an address as Java's InetAddress.getHostAddress prints it, which is what an exact host of a rule is compared
// with: an IPv6 address in eight groups, lower case, never shortened (0:0:0:0:0:0:0:1), its zone behind a percent sign; an
// IPv4 address, also a mapped one, dotted. The zero Addr gives "".
func HostText(a netip.Addr) string {
	var text [64]byte
	return string(AppendHostText(text[:0], a))
}

// AppendHostText appends what [HostText] returns.
func AppendHostText(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return dst
	}
	zone := a.Zone()
	a = a.Unmap()
	if a.Is4() {
		return a.AppendTo(dst)
	}
	b := a.As16()
	for i := 0; i < len(b); i += 2 {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(binary.BigEndian.Uint16(b[i:])), 16)
	}
	if zone != "" {
		dst = append(dst, '%')
		dst = append(dst, zone...)
	}
	return dst
}

// plain is a client's address without what ranges do not look at: unmapped, no zone.
func plain(client netip.Addr) netip.Addr { return client.Unmap().WithZone("") }

// Matches tells whether a rule's host covers a client's address: it is "*", the address as Java prints it, or a range of the
// same family that contains it. What does not parse covers nothing.
func Matches(host string, client netip.Addr) bool {
	if host == AnyHost || host == HostText(client) {
		return true
	}
	if !IsCIDR(host) {
		return false
	}
	p, err := ParseCIDR(host)
	return err == nil && p.Contains(plain(client))
}

// exactAddr is the address whose text a host without a slash is; ok is false where no client's address reads like that.
func exactAddr(host string) (a netip.Addr, ok bool) {
	a, err := netip.ParseAddr(host)
	return a, err == nil && HostText(a) == host
}

// looseAddr reads an address however it is written: shortened, in capitals, in brackets, mapped, with leading zeros.
func looseAddr(text string) (netip.Addr, bool) {
	if strings.Contains(text, ":") {
		a, ok := ParseJavaIPv6(text)
		return a, ok
	}
	b, ok := dottedEnd(text)
	if !ok {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b)), true
}
