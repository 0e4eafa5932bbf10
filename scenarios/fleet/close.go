package fleet

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// How is the way in which a client ends its connection.
type How string

const (
	// FIN closes as a well-behaved client does; a TLS client sends close_notify first.
	FIN How = "fin"
	// RST resets the connection.
	RST How = "rst"
	// Vanish ends the client's side without a packet, as a pulled cable does. It needs CAP_NET_ADMIN.
	Vanish How = "vanish"
)

// prepare sets up s so that the close that follows is of this kind. If it returns an error the close is a FIN.
func (h How) prepare(s *sock) error {
	switch h {
	case RST:
		if err := unix.SetsockoptLinger(s.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
			return fmt.Errorf("set SO_LINGER: %w", err)
		}
	case Vanish:
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
			return fmt.Errorf("set TCP_REPAIR: %w", err)
		}
	case FIN:
	}
	return nil
}
