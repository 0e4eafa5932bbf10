package acl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// IsCIDR tells whether a host is meant as a range: whatever has a slash.
func IsCIDR(host string) bool { return strings.Contains(host, "/") }

// ParseCIDR reads a range as Kafka 4.4 does and masks it: host bits may be set, octets are decimal whatever their leading
// zeros, an IPv6 side may have brackets and a zone, which count for nothing. An IPv4-mapped range is refused. The error is
// Kafka's reason, which follows "Invalid CIDR notation '<host>': ". Refused here but not by Kafka are digits that are not
// ASCII and zones that are names: nothing is ever resolved. (KIP-1276; commons-net SubnetUtils and SubnetUtils6.)
func ParseCIDR(host string) (netip.Prefix, error) {
	if strings.Contains(host, ":") {
		return parseCIDR6(host)
	}
	return parseCIDR4(host)
}

func parseCIDR4(host string) (netip.Prefix, error) {
	address, length, found := strings.Cut(host, "/")
	octets := strings.Split(address, ".")
	wellFormed := found && len(octets) == 4 && isDigits(length, 2)
	for _, o := range octets {
		wellFormed = wellFormed && isDigits(o, 3)
	}
	if !wellFormed {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s]", host) //nolint:staticcheck // ST1005: Kafka's text
	}
	var b [4]byte
	for i, o := range octets {
		n, err := inRange(o, 255)
		if err != nil {
			return netip.Prefix{}, err
		}
		b[i] = byte(n)
	}
	bits, err := inRange(length, 32)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(netip.AddrFrom4(b), bits).Masked(), nil
}

// isDigits tells whether s is one to longest ASCII digits.
func isDigits(s string, longest int) bool {
	if s == "" || len(s) > longest {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func inRange(digits string, most int) (int, error) {
	n, err := strconv.Atoi(digits)
	if err != nil || n > most {
		return 0, fmt.Errorf("Value [%d] not in range [0,%d]", n, most) //nolint:staticcheck // ST1005: Kafka's text
	}
	return n, nil
}

func parseCIDR6(host string) (netip.Prefix, error) {
	address, length, _ := strings.Cut(host, "/")
	bits, err := parseJavaInt(length)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s] - invalid prefix length", host) //nolint:staticcheck // ST1005: Kafka's text
	}
	if bits < 0 || bits > 128 {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s] - prefix length must be between 0 and 128", host) //nolint:staticcheck // ST1005: Kafka's text
	}
	a, ok := ParseJavaIPv6(address)
	if !ok {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s]", address) //nolint:staticcheck // ST1005: Kafka's text
	}
	if a.Is4In6() {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s] - not an IPv6 address", address) //nolint:staticcheck // ST1005: Kafka's text
	}
	return netip.PrefixFrom(a, bits).Masked(), nil
}

var errNotJavaInt = errors.New("not an int")

// parseJavaInt reads what Integer.parseInt reads: at most one sign, then digits, in 32 bits.
func parseJavaInt(s string) (int, error) {
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || !isDigits(digits, len(digits)) {
		return 0, errNotJavaInt
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n), err
}

// ParseJavaIPv6 reads a literal as Java's InetAddress.getByName does (IPAddressUtil.textToNumericFormatV6): groups of any
// number of leading zeros, one "::", a dotted end, brackets around it all, a numeric zone, which an IPv4-mapped address must not
// have. The zone is dropped.
func ParseJavaIPv6(s string) (netip.Addr, bool) {
	if strings.HasPrefix(s, "[") {
		if len(s) <= 2 || !strings.HasSuffix(s, "]") {
			return netip.Addr{}, false
		}
		s = s[1 : len(s)-1]
	}
	if address, zone, found := strings.Cut(s, "%"); found {
		if _, err := strconv.ParseUint(zone, 10, 31); err != nil {
			return netip.Addr{}, false
		}
		a, ok := parseGroups(address)
		return a, ok && !a.Is4In6()
	}
	return parseGroups(s)
}

// parseGroups reads an address that has neither brackets nor a zone.
func parseGroups(s string) (netip.Addr, bool) {
	head, tail, gap := strings.Cut(s, "::")
	front, ok := groups(head, !gap)
	if !ok {
		return netip.Addr{}, false
	}
	var b [16]byte
	if !gap {
		if len(front) != len(b) {
			return netip.Addr{}, false
		}
		copy(b[:], front)
		return netip.AddrFrom16(b), true
	}
	back, ok := groups(tail, true)
	// A gap stands for one group at least.
	if !ok || len(front)+len(back) > len(b)-2 {
		return netip.Addr{}, false
	}
	copy(b[:], front)
	copy(b[len(b)-len(back):], back)
	return netip.AddrFrom16(b), true
}

// groups reads what stands on one side of the gap; last says that a dotted end may close it.
func groups(s string, last bool) ([]byte, bool) {
	if s == "" {
		return nil, true
	}
	var b []byte
	parts := strings.Split(s, ":")
	for i, part := range parts {
		if strings.Contains(part, ".") {
			quad, ok := dottedEnd(part)
			if !ok || !last || i != len(parts)-1 {
				return nil, false
			}
			return append(b, quad...), true
		}
		n, ok := group(part)
		if !ok || len(b) == 16 {
			return nil, false
		}
		b = binary.BigEndian.AppendUint16(b, n)
	}
	return b, true
}

// group reads hexadecimal digits, however many, whose value is at most ffff.
func group(s string) (uint16, bool) {
	significant := strings.TrimLeft(s, "0")
	if s == "" || len(significant) > 4 {
		return 0, false
	}
	if significant == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(significant, 16, 16)
	return uint16(n), err == nil
}

// dottedEnd reads the IPv4 address that may end an IPv6 one: four decimal octets in at most 15 characters.
func dottedEnd(s string) ([]byte, bool) {
	octets := strings.Split(s, ".")
	if len(s) > 15 || len(octets) != 4 {
		return nil, false
	}
	b := make([]byte, 0, 4)
	for _, o := range octets {
		if !isDigits(o, 15) {
			return nil, false
		}
		n, err := inRange(o, 255)
		if err != nil {
			return nil, false
		}
		b = append(b, byte(n))
	}
	return b, true
}
