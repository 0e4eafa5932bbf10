package netlab

import (
	"encoding/binary"
	"fmt"
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/netns"
)

// listening tells which TCP ports have a listener in a namespace. It asks the kernel instead of connecting: a probe's
// connection would be counted with the clients'.
func listening(in *netns.Handle) (map[uint16]bool, error) {
	ports := map[uint16]bool{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		var dump [][]byte
		err := in.Do(func() (err error) {
			req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
			req.AddData(diagRequest{family})
			dump, err = req.Execute(unix.NETLINK_SOCK_DIAG, 0)
			return err
		})
		if err != nil {
			if family == unix.AF_INET6 && os.IsNotExist(err) {
				continue // a kernel without IPv6
			}
			return nil, fmt.Errorf("list listeners: %w", err)
		}
		for _, m := range dump {
			if len(m) >= 6 { // struct inet_diag_msg: family, state, timer, retrans, source port
				ports[binary.BigEndian.Uint16(m[4:])] = true
			}
		}
	}
	return ports, nil
}

// diagRequest is struct inet_diag_req_v2 for TCP sockets in LISTEN.
type diagRequest struct{ family uint8 }

// Len is the size of the struct.
func (diagRequest) Len() int { return 56 }

// Serialize lays the struct out.
func (d diagRequest) Serialize() []byte {
	b := make([]byte, 56)
	b[0], b[1] = d.family, unix.IPPROTO_TCP
	const stateListen = 10 // TCP_LISTEN
	binary.NativeEndian.PutUint32(b[4:], 1<<stateListen)
	return b
}
