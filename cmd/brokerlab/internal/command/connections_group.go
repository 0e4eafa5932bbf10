package command

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// What --group-by takes.
const (
	groupPrincipal = "principal"
	groupSubnet    = "subnet"
	groupSoftware  = "software"
	groupListener  = "listener"
)

// groupWindow is the time whose openings and closings --group-by counts.
const groupWindow = time.Minute

// group is the connections that have one thing in common.
type group struct {
	name           string
	connections    int
	opened, closed int             // within groupWindow
	lifetimes      []time.Duration // of those that closed within it
}

// median is the lifetime of the closed; ok is false when none was.
func (g *group) median() (d time.Duration, ok bool) {
	if len(g.lifetimes) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(g.lifetimes))
	return sorted[len(sorted)/2], true
}

// addGrouping gives c the flags --group-by and --subnet-prefix.
func addGrouping(c *cobra.Command, o *connectionsOptions, groupBy string) {
	f := c.Flags()
	f.StringVar(&o.groupBy, "group-by", groupBy, "count by `WHAT`: principal, subnet, software or listener, the fullest first")
	f.StringVar(&o.subnetPrefix, "subnet-prefix", "", "`bits` of a subnet with --group-by subnet: of IPv4, then of IPv6\n"+
		"(default the subnets of the lab, where the bootstrap is a lab's; else 24,64)")
}

// grouping reads --group-by and --subnet-prefix into the function that names a connection's group.
func (o *connectionsOptions) grouping() (func(*admin.ClientConnection) string, error) {
	switch o.groupBy {
	case groupPrincipal:
		return func(r *admin.ClientConnection) string { return r.Principal }, nil
	case groupSoftware:
		return func(r *admin.ClientConnection) string {
			if r.SoftwareName == "" || r.SoftwareVersion == "" {
				return r.SoftwareName
			}
			return r.SoftwareName + "/" + r.SoftwareVersion
		}, nil
	case groupListener:
		return func(r *admin.ClientConnection) string { return r.ListenerName }, nil
	case groupSubnet:
	default:
		return nil, fmt.Errorf("--group-by: %q is none of principal, subnet, software, listener", o.groupBy)
	}
	bits := [2]int{prefixBits4, prefixBits6}
	if o.subnetPrefix == "" {
		known := labSubnets(o.servers)
		return func(r *admin.ClientConnection) string { return subnetIn(r.ClientAddress, known, bits) }, nil
	}
	parts := strings.Split(o.subnetPrefix, ",")
	if len(parts) > len(bits) {
		return nil, fmt.Errorf("--subnet-prefix: %q is more than a number of bits for IPv4 and one for IPv6", o.subnetPrefix)
	}
	for i, part := range parts {
		most := [2]int{32, 128}[i]
		n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(part), "/"))
		if err != nil || n < 0 || n > most {
			return nil, fmt.Errorf("--subnet-prefix: %q is not a number of bits between 0 and %d", part, most)
		}
		bits[i] = n
	}
	return func(r *admin.ClientConnection) string { return subnetOf(r.ClientAddress, bits) }, nil
}

// labSubnet is a client subnet of a lab.
type labSubnet struct {
	name     string
	prefixes []netip.Prefix
}

// subnetIn is the prefix and name of the lab's subnet that an address is in, else as subnetOf.
func subnetIn(address string, known []labSubnet, bits [2]int) string {
	if a, err := netip.ParseAddr(address); err == nil {
		a = a.Unmap().WithZone("")
		for _, s := range known {
			for _, p := range s.prefixes {
				if p.Contains(a) {
					return p.String() + " " + s.name
				}
			}
		}
	}
	return subnetOf(address, bits)
}

// subnetOf is the prefix that an address is in; what is no address is its own.
func subnetOf(address string, bits [2]int) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	a = a.Unmap().WithZone("")
	n := bits[1]
	if a.Is4() {
		n = bits[0]
	}
	p, err := a.Prefix(n)
	if err != nil {
		return address
	}
	return p.String()
}

// groups counts connections by name: those that are open, and those that opened and closed within groupWindow of each
// broker's own time. The fullest come first. lower is whether brokers have forgotten some of what closed in that time.
func groups(
	name func(*admin.ClientConnection) string, open []admin.ClientConnection, closed []*protocol.DescribeClosedConnectionsResponse,
) (all []group, lower bool) {
	found := map[string]*group{}
	of := func(r *admin.ClientConnection) *group {
		n := name(r)
		g := found[n]
		if g == nil {
			g = &group{name: n}
			found[n] = g
		}
		return g
	}
	now := map[int32]int64{}
	for _, answer := range closed {
		now[answer.NodeID] = answer.Time
		begin := answer.Time - groupWindow.Milliseconds()
		lower = lower || answer.CompleteSince > begin
		for i := range answer.Connections {
			c := &answer.Connections[i]
			if c.ConnectionID == "" || c.ClosedAt < begin {
				continue // refused, or too long ago
			}
			e := endedOf(answer, i)
			row := e.listed()
			g := of(&row)
			g.closed++
			g.lifetimes = append(g.lifetimes, e.lifetime())
			if c.ConnectedSince >= begin {
				g.opened++
			}
		}
	}
	for i := range open {
		g := of(&open[i])
		g.connections++
		if t, ok := now[open[i].NodeID]; ok && open[i].ConnectedSince >= t-groupWindow.Milliseconds() {
			g.opened++
		}
	}
	for _, g := range found {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.connections, a.connections), cmp.Compare(b.opened, a.opened), cmp.Compare(a.name, b.name))
	})
	return all, lower
}

func groupColumns() []column[group] {
	return []column[group]{
		by("group", func(g *group) string { return g.name }),
		by("connections", func(g *group) int { return g.connections }),
		by("opened", func(g *group) int { return g.opened }),
		by("closed", func(g *group) int { return g.closed }),
		by("lifetime", func(g *group) time.Duration { d, _ := g.median(); return d }),
	}
}

func (o *connectionsOptions) runGroups(c *cobra.Command, env Env) error {
	name, err := o.grouping()
	if err != nil {
		return usage(err.Error())
	}
	order, err := arrange(&o.orderOptions, groupColumns())
	if err != nil {
		return err
	}
	f := o.filter(c)
	return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
		open, closed, err := openAndClosed(ctx, cl, f, closedFilter(f))
		if nobody(err) {
			return err
		}
		all, lower := groups(name, open, closed)
		total := len(all)
		all = order(all)
		count := tallied{known: len(closed) > 0, lower: lower}
		return printed(env, err, func() error {
			if o.format == formatJSON {
				return printJSON(env.Stdout, jsonGroupsOf(o.groupBy, all, count, cutTotal(len(all), total), err))
			}
			if err := printTable(env.Stdout, groupRows(o.groupBy, all, count), 0); err != nil {
				return err
			}
			return noteCut(env, len(all), total, "groups")
		})
	})
}

// openConnections asks for open connections by KIP-1329's request, or by brokerlab's own where a filter needs that.
func openConnections(ctx context.Context, cl *admin.Client, f admin.DescribeFilter) ([]admin.ClientConnection, error) {
	if f.Protocol == nil && f.Software == nil && (f.Address == nil || !strings.Contains(*f.Address, "/")) {
		return cl.ListClientConnections(ctx, admin.ListFilter{Principal: f.Principal, ClientAddress: f.Address, Listener: f.Listener, Nodes: f.Nodes})
	}
	f.PageSize = widePage
	described, err := cl.DescribeConnections(ctx, f)
	rows := make([]admin.ClientConnection, len(described))
	for i := range described {
		rows[i] = listedOf(&described[i])
	}
	return rows, err
}

// openAndClosed asks for open connections, and those brokers that answered for the closed ones beside them.
func openAndClosed(ctx context.Context, cl *admin.Client, f admin.DescribeFilter, since admin.ClosedFilter) (
	open []admin.ClientConnection, closed []*protocol.DescribeClosedConnectionsResponse, err error,
) {
	open, err = openConnections(ctx, cl, f)
	if nobody(err) {
		return nil, nil, err
	}
	err = beside(ctx, cl, f.Nodes, err, func(nodes []int32) (failed error) {
		since.Nodes = nodes
		closed, failed = cl.DescribeClosedConnections(ctx, since)
		return failed
	})
	return open, closed, err
}

// tallied is how far numbers of openings and closings may be trusted.
type tallied struct{ known, lower bool }

func (c tallied) number(n int) string {
	switch {
	case !c.known:
		return unknown
	case c.lower:
		return "≥" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

func (c tallied) exactness() string {
	switch {
	case !c.known:
		return "unavailable"
	case c.lower:
		return "lower bound"
	}
	return "exact"
}

func groupRows(by string, all []group, count tallied) [][]string {
	rows := [][]string{{strings.ToUpper(by), "CONNECTIONS", "OPENED/MIN", "CLOSED/MIN", "MEDIAN-LIFETIME"}}
	for i := range all {
		g := &all[i]
		lifetime := unknown
		if d, ok := g.median(); ok {
			lifetime = d.String()
		}
		rows = append(rows, []string{shown(g.name), strconv.Itoa(g.connections), count.number(g.opened), count.number(g.closed), lifetime})
	}
	return rows
}

// jsonGroups is the document of --group-by with --format json.
type jsonGroups struct {
	GroupBy   string      `json:"groupBy"`
	Exactness string      `json:"exactness"` // of what opened and closed: exact, lower bound or unavailable
	Groups    []jsonGroup `json:"groups"`
	Total     *int        `json:"total,omitempty"` // groups before --limit
	Errors    []jsonError `json:"errors"`
}

type jsonGroup struct {
	Group            *string `json:"group"`
	Connections      int     `json:"connections"`
	OpenedLastMinute *int    `json:"openedLastMinute"`
	ClosedLastMinute *int    `json:"closedLastMinute"`
	MedianLifetimeMs *int64  `json:"medianLifetimeMs"` // of those that closed in the last minute
}

func jsonGroupsOf(by string, all []group, count tallied, total *int, err error) jsonGroups {
	doc := jsonGroups{GroupBy: by, Exactness: count.exactness(), Groups: make([]jsonGroup, len(all)), Total: total, Errors: jsonErrors(err)}
	for i := range all {
		g := &all[i]
		row := jsonGroup{Group: orNull(g.name), Connections: g.connections}
		if count.known {
			row.OpenedLastMinute, row.ClosedLastMinute = &g.opened, &g.closed
		}
		if d, ok := g.median(); ok {
			row.MedianLifetimeMs = new(d.Milliseconds())
		}
		doc.Groups[i] = row
	}
	return doc
}
