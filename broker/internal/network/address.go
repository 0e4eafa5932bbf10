package network

import (
	"net/netip"
	"strconv"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// JavaAddr prints an address as Java's InetAddress.getHostAddress does, which
// is how Kafka's connection ids, logs and ACL hosts have it; see [acl.HostText].
func JavaAddr(addr netip.Addr) string { return acl.HostText(addr) }

// connectionID is Kafka's ServerConnectionId:
// localHost:localPort-remoteHost:remotePort-processorId-index.
func connectionID(local, remote netip.AddrPort, processor, index int32) string {
	var text [128]byte
	return string(appendConnectionID(text[:0], local, remote, processor, index))
}

func appendConnectionID(dst []byte, local, remote netip.AddrPort, processor, index int32) []byte {
	dst = acl.AppendHostText(dst, local.Addr())
	dst = append(dst, ':')
	dst = strconv.AppendUint(dst, uint64(local.Port()), 10)
	dst = append(dst, '-')
	dst = acl.AppendHostText(dst, remote.Addr())
	dst = append(dst, ':')
	dst = strconv.AppendUint(dst, uint64(remote.Port()), 10)
	dst = append(dst, '-')
	dst = strconv.AppendInt(dst, int64(processor), 10)
	dst = append(dst, '-')
	return strconv.AppendInt(dst, int64(index), 10)
}
