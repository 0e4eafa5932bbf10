package network

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// JavaAddr prints an address as Java's InetAddress.getHostAddress does, which
// is how Kafka's connection ids, logs and ACL hosts have it: an IPv6 address as
// eight groups of hexadecimal digits, never shortened (0:0:0:0:0:0:0:1), with
// its zone behind a percent sign; an IPv4 address, also a mapped one, in
// dotted form. The zero Addr gives "".
func JavaAddr(addr netip.Addr) string {
	var text [64]byte
	return string(appendJavaAddr(text[:0], addr))
}

func appendJavaAddr(dst []byte, addr netip.Addr) []byte {
	if !addr.IsValid() {
		return dst
	}
	zone := addr.Zone()
	addr = addr.Unmap()
	if addr.Is4() {
		return addr.AppendTo(dst)
	}
	groups := addr.As16()
	for b := groups[:]; len(b) > 0; b = b[2:] {
		if len(b) < len(groups) {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(binary.BigEndian.Uint16(b)), 16)
	}
	if zone != "" {
		dst = append(dst, '%')
		dst = append(dst, zone...)
	}
	return dst
}

// connectionID is Kafka's ServerConnectionId:
// localHost:localPort-remoteHost:remotePort-processorId-index.
func connectionID(local, remote netip.AddrPort, processor, index int32) string {
	var text [128]byte
	return string(appendConnectionID(text[:0], local, remote, processor, index))
}

func appendConnectionID(dst []byte, local, remote netip.AddrPort, processor, index int32) []byte {
	dst = appendJavaAddr(dst, local.Addr())
	dst = append(dst, ':')
	dst = strconv.AppendUint(dst, uint64(local.Port()), 10)
	dst = append(dst, '-')
	dst = appendJavaAddr(dst, remote.Addr())
	dst = append(dst, ':')
	dst = strconv.AppendUint(dst, uint64(remote.Port()), 10)
	dst = append(dst, '-')
	dst = strconv.AppendInt(dst, int64(processor), 10)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, int64(index), 10)
}
