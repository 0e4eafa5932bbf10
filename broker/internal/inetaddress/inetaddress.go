// Package inetaddress reads the hosts of limits as Java's InetAddress.getByName reads them: literals of both families in
// all of their spellings, and names, of which the first IPv4 address counts, or the first there is. What is no host is
// the error; the addresses that come of it have no zone, and are never IPv4 addresses in IPv6 clothes.
package inetaddress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// patience bounds one look-up of a name.
const patience = 5 * time.Second

// ErrUnknownHost is a host that is no address and has none.
var ErrUnknownHost = errors.New("unknown host")

// Parse reads a literal: an IPv4 address of one to four decimal parts (127.1 is 127.0.0.1), or an IPv6 address, with
// brackets or without. Empty is the loopback.
func Parse(host string) (netip.Addr, bool) {
	if host == "" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	if a, ok := parseV4(host); ok {
		return a, true
	}
	a, ok := acl.ParseJavaIPv6(host)
	return a.Unmap(), ok
}

// Resolve is [Parse] for literals and asks for the address of everything else. The error wraps [ErrUnknownHost] and
// names the host.
func Resolve(ctx context.Context, host string) (netip.Addr, error) {
	if a, ok := Parse(host); ok {
		return a, nil
	}
	unknown := fmt.Errorf("%w: %s", ErrUnknownHost, host)
	if strings.ContainsAny(host, "[]:/* ") {
		return netip.Addr{}, unknown
	}
	lookup, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(lookup, "ip", host)
	if err != nil || len(all) == 0 {
		return netip.Addr{}, unknown
	}
	for _, a := range all {
		if a = a.Unmap(); a.Is4() {
			return a, nil
		}
	}
	return all[0].WithZone(""), nil
}

// parseV4 reads up to four decimal parts, of which the last fills all the bytes that are left
// (IPAddressUtil.textToNumericFormatV4).
func parseV4(s string) (netip.Addr, bool) {
	const longest = len("255.255.255.255")
	parts := strings.Split(s, ".")
	if len(s) > longest || len(parts) > net.IPv4len {
		return netip.Addr{}, false
	}
	var b [net.IPv4len]byte
	for i, part := range parts {
		n, ok := decimal(part)
		last := i == len(parts)-1
		if !ok || !last && n > 0xff || last && n >= 1<<(8*(net.IPv4len-i)) {
			return netip.Addr{}, false
		}
		if !last {
			b[i] = byte(n)
			continue
		}
		for at := len(b) - 1; at >= i; at-- {
			b[at] = byte(n)
			n >>= 8
		}
	}
	return netip.AddrFrom4(b), true
}

// decimal reads digits and nothing else; their number is bounded by the caller.
func decimal(s string) (n uint64, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, s != ""
}
