package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

const (
	routerName = "router" // topology reserves it
	uplink     = "eth0"   // the one link of a node or subnet
	linkGroup  = 0x6272   // of all the router's links, so that one request deletes them
	loopback   = 1        // the index of lo
	firstIndex = 1000     // of links that we make: above whatever the kernel puts into a new namespace by itself
)

// Addresses inside a lab. Every link uses the same ones, since no link sees another.
func routerV4() netip.Addr     { return netip.MustParseAddr("169.254.0.1") }
func routerV6() netip.Addr     { return netip.MustParseAddr("fd00:6c61:62:ffff::1") } // the router as a client
func memberV4() netip.Addr     { return netip.MustParseAddr("169.254.0.2") }          // next hop of the router
func routerLinkV6() netip.Addr { return netip.MustParseAddr("fe80::1") }
func memberLinkV6() netip.Addr { return netip.MustParseAddr("fe80::2") }
func routerMAC() []byte        { return net.HardwareAddr{2, 0x62, 0x6c, 0, 0, 1} }
func memberMAC() []byte        { return net.HardwareAddr{2, 0x62, 0x6c, 0, 0, 2} }

// member is a namespace of the lab other than the router.
type member struct {
	name     string
	prefixes []netip.Prefix // what the router sends there
	subnet   bool           // prefixes are local as a whole
	cookie   uint64         // set by build
}

func members(lab *topology.Lab) []member {
	var all []member
	for i := range lab.Nodes {
		m := member{name: lab.Nodes[i].Name}
		for _, a := range lab.Nodes[i].Addresses {
			m.prefixes = append(m.prefixes, netip.PrefixFrom(a, a.BitLen()))
		}
		all = append(all, m)
	}
	for i := range lab.Subnets {
		all = append(all, member{name: lab.Subnets[i].Name, prefixes: lab.Subnets[i].Prefixes, subnet: true})
	}
	return all
}

// IPv6 tells why this machine has no IPv6 for a lab; nil when it has.
func IPv6() error {
	text, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	if err != nil {
		return errors.New("this kernel has no IPv6 (built without it, or started with ipv6.disable=1)")
	}
	if len(text) > 0 && text[0] == '1' {
		return errors.New("IPv6 is disabled on this machine (net.ipv6.conf.all.disable_ipv6=1)")
	}
	return nil
}

// network builds namespaces and links below h and sets the members' cookies. The folder for namespaces is mounted.
// progress is told of each finished member, from several goroutines.
func (h home) network(ctx context.Context, all []member, v6 bool, progress func()) error {
	err := netns.Create([]string{h.netns(routerName)}, func(int) error { return setUpRouter(v6) })
	if err != nil {
		return err
	}
	router, err := netns.Open(h.netns(routerName))
	if err != nil {
		return err
	}
	defer router.Close() //nolint:errcheck // the thread ends either way
	workers := min(2*runtime.NumCPU(), 8, max(len(all), 1))
	tasks, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		var mine []int
		for i := w; i < len(all); i += workers {
			mine = append(mine, i)
		}
		tasks.Go(func() error {
			b := builder{router: router, v6: v6}
			if err := router.Do(b.openRouter); err != nil {
				return err
			}
			defer b.routes.Close()
			paths := make([]string, len(mine))
			for k, i := range mine {
				paths[k] = h.netns(all[i].name)
			}
			return netns.Create(paths, func(k int) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				err := b.member(mine[k], &all[mine[k]])
				progress()
				return err
			})
		})
	}
	return tasks.Wait()
}

// sysctl writes a setting of the calling thread's namespace. Settings that this kernel lacks are left out.
func sysctl(name, value string) error {
	err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("set net/%s=%s: %w", name, value, err)
	}
	return nil
}

// setting is a sysctl below net and its value.
type setting struct{ name, value string }

func apply(settings []setting) error {
	for _, s := range settings {
		if err := sysctl(s.name, s.value); err != nil {
			return err
		}
	}
	return nil
}

// quietV6 are the settings that keep a link from talking by itself. They come before the link does.
func quietV6() []setting {
	return []setting{
		{"ipv6/conf/all/disable_ipv6", "0"},
		{"ipv6/conf/default/disable_ipv6", "0"},
		{"ipv6/conf/default/accept_dad", "0"},
		{"ipv6/conf/default/addr_gen_mode", "1"},
		{"ipv6/conf/default/accept_ra", "0"},
		{"ipv6/route/max_size", "2147483647"},
	}
}

func setUpRouter(v6 bool) error {
	settings := []setting{{"ipv4/ip_forward", "1"}, {"ipv4/conf/all/rp_filter", "0"}, {"ipv4/conf/default/rp_filter", "0"}}
	if v6 {
		settings = append(settings, quietV6()...)
		settings = append(settings, setting{"ipv6/conf/all/forwarding", "1"}, setting{"ipv6/conf/default/forwarding", "1"})
	}
	if err := apply(settings); err != nil {
		return err
	}
	here, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer here.Close()
	if err := here.LinkSetUp(lo()); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	addresses := []netip.Addr{routerV4()}
	if v6 {
		addresses = append(addresses, routerV6())
	}
	return addAddresses(here, loopback, addresses)
}

func lo() netlink.Link { return &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: loopback}} }

// builder makes members. Used by one goroutine, on a thread that is inside the member's namespace.
type builder struct {
	router *netns.Handle
	routes *netlink.Handle // in the router's namespace
	v6     bool
}

func (b *builder) openRouter() (err error) {
	b.routes, err = netlink.NewHandle(unix.NETLINK_ROUTE)
	return err
}

// member sets up the namespace that the calling thread is in as the i-th of the lab.
func (b *builder) member(i int, m *member) error {
	var err error
	if m.cookie, err = netns.ThreadCookie(); err != nil {
		return err
	}
	// The host's choice of rp_filter is inherited.
	settings := []setting{{"ipv4/conf/all/rp_filter", "0"}, {"ipv4/conf/default/rp_filter", "0"}}
	if b.v6 {
		settings = append(settings, quietV6()...)
	}
	if m.subnet {
		// Many connections from few addresses: all ports, and ports in TIME_WAIT again.
		settings = append(settings, setting{"ipv4/ip_local_port_range", "1024 65535"}, setting{"ipv4/tcp_tw_reuse", "1"})
		if b.v6 {
			settings = append(settings, setting{"ipv6/ip_nonlocal_bind", "1"})
		}
	}
	err = apply(settings)
	if err != nil {
		return err
	}
	here, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer here.Close()
	if err := here.LinkSetUp(lo()); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	index := firstIndex + 1 + i
	if err := link(b.router.FD(), routerLink(i), index); err != nil {
		return fmt.Errorf("link to the router: %w", err)
	}
	far := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}
	if err := b.routes.LinkSetUp(far); err != nil {
		return fmt.Errorf("link of the router up: %w", err)
	}
	if err := memberRoutes(here, m); err != nil {
		return err
	}
	return b.routerRoutes(index, m)
}

// memberRoutes gives the member its addresses and the way out.
func memberRoutes(here *netlink.Handle, m *member) error {
	var addresses []netip.Addr
	families := map[bool]bool{} // by Is6
	for _, p := range m.prefixes {
		first := !families[p.Addr().Is6()]
		families[p.Addr().Is6()] = true
		if !m.subnet {
			addresses = append(addresses, p.Addr())
			continue
		}
		local := &netlink.Route{LinkIndex: loopback, Dst: ipNet(p), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}
		if p.Addr().Is6() {
			local.Scope = netlink.SCOPE_UNIVERSE
		}
		if err := here.RouteAdd(local); err != nil {
			return fmt.Errorf("make %s local: %w", p, err)
		}
		if first {
			addresses = append(addresses, defaultSource(p))
		}
	}
	if err := addAddresses(here, firstIndex, addresses); err != nil {
		return err
	}
	for v6 := range families {
		if err := hop(here, firstIndex, everything(v6), nextHop(v6, true), routerMAC()); err != nil {
			return fmt.Errorf("default route: %w", err)
		}
	}
	return nil
}

// defaultSource is the address of a subnet that programs use which do not choose one.
func defaultSource(p netip.Prefix) netip.Addr {
	if p.IsSingleIP() {
		return p.Addr()
	}
	return p.Addr().Next()
}

// routerRoutes tells the router the way to the member.
func (b *builder) routerRoutes(index int, m *member) error {
	for _, p := range m.prefixes {
		if err := hop(b.routes, index, p, nextHop(p.Addr().Is6(), false), memberMAC()); err != nil {
			return fmt.Errorf("route to %s: %w", p, err)
		}
	}
	return nil
}

func nextHop(v6, toRouter bool) netip.Addr {
	switch {
	case v6 && toRouter:
		return routerLinkV6()
	case v6:
		return memberLinkV6()
	case toRouter:
		return routerV4()
	}
	return memberV4()
}

func everything(v6 bool) netip.Prefix {
	if v6 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// hop routes a prefix over a link to a neighbour whose hardware address is written down, so that nobody is ever asked.
func hop(in *netlink.Handle, index int, to netip.Prefix, via netip.Addr, mac net.HardwareAddr) error {
	neighbour := &netlink.Neigh{LinkIndex: index, IP: via.AsSlice(), HardwareAddr: mac, State: netlink.NUD_PERMANENT}
	if err := in.NeighSet(neighbour); err != nil {
		return fmt.Errorf("neighbour %s: %w", via, err)
	}
	return in.RouteAdd(&netlink.Route{LinkIndex: index, Dst: ipNet(to), Gw: via.AsSlice(), Flags: int(netlink.FLAG_ONLINK)})
}

func addAddresses(in *netlink.Handle, index int, addresses []netip.Addr) error {
	on := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: index}}
	for _, a := range addresses {
		address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, a.BitLen()))}
		if a.Is6() {
			address.Flags = unix.IFA_F_NODAD
		}
		if err := in.AddrAdd(on, address); err != nil {
			return fmt.Errorf("add address %s: %w", a, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// link makes the pair of links between the calling thread's namespace, where it is up, and the router's, in one request:
// the library's own call can give neither an index nor a state.
func link(router int, name string, index int) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	near := nl.NewIfInfomsg(unix.AF_UNSPEC)
	near.Index, near.Flags, near.Change = firstIndex, unix.IFF_UP, unix.IFF_UP
	req.AddData(near)
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(uplink)))
	req.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, memberMAC()))
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("veth"))
	peer := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	far := nl.NewIfInfomsgChild(peer, unix.AF_UNSPEC)
	far.Index = int32(index) // it cannot be up before it has a peer
	peer.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name))
	peer.AddRtAttr(unix.IFLA_ADDRESS, routerMAC())
	peer.AddRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(linkGroup))
	peer.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(router)))
	req.AddData(info)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}
