//go:build linux

package command

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// mostNodes is how many nodes an engine has at most.
const mostNodes = 1000

// check has an error for flags that cannot be meant.
func (o *engineOptions) check() error {
	if o.cfg.Nodes < 1 || o.cfg.Nodes > mostNodes {
		return usage(fmt.Sprintf("--nodes %d: use 1 to %d", o.cfg.Nodes, mostNodes))
	}
	host, first, err := o.address("--listen", o.cfg.Listen)
	if err != nil {
		return err
	}
	last := first + o.cfg.Nodes
	if last >= 1<<16 {
		return usage(fmt.Sprintf("--listen %s: the nodes have the %d ports after it, which there are not", o.cfg.Listen, o.cfg.Nodes))
	}
	if o.cfg.Metadata == "" {
		return nil
	}
	other, port, err := o.address("--metadata", o.cfg.Metadata)
	if err == nil && other == host && first != 0 && port >= first && port <= last {
		err = usage(fmt.Sprintf("--metadata %s: --listen has the ports %d to %d, one more than nodes", o.cfg.Metadata, first, last))
	}
	return err
}

// address takes host:port of a flag apart. Brokers must be able to connect to it.
func (o *engineOptions) address(flag, text string) (host string, port int, err error) {
	host, name, err := net.SplitHostPort(text)
	if err == nil {
		var number uint64
		number, err = strconv.ParseUint(name, 10, 16)
		port = int(number)
	}
	if err != nil {
		return "", 0, usage(fmt.Sprintf("%s: %q is not host:port (an IPv6 address stands in brackets: [::1]:9192)", flag, text))
	}
	if ip, failed := netip.ParseAddr(host); o.cfg.Advertised == "" && (host == "" || failed == nil && ip.IsUnspecified()) {
		return "", 0, usage(fmt.Sprintf("%s %s: brokers cannot connect to every address; say by --advertised what they connect to", flag, text))
	}
	return host, port, nil
}
