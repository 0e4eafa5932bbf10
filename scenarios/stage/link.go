package stage

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// linksDown takes down all links but loopback of the network namespace that the calling thread is in.
func linksDown() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list the subnet's links: %w", err)
	}
	n := 0
	for _, l := range links {
		if l.Attrs().Flags&net.FlagLoopback != 0 {
			continue
		}
		if err := netlink.LinkSetDown(l); err != nil {
			return fmt.Errorf("take down %s: %w", l.Attrs().Name, err)
		}
		n++
	}
	if n == 0 {
		return errNoLink
	}
	return nil
}
