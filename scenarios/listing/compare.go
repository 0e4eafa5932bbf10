package listing

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// end is a client's end of a connection: a port may be used at the same time towards several listeners.
type end struct {
	from     netip.AddrPort
	listener string
}

func (e end) String() string { return fmt.Sprintf("%v at %s", e.from, e.listener) }

// differences tells how the broker's list differs from what the clients that are up recorded, one line each: clients that are not
// listed, rows of nobody, rows twice, and fields that disagree.
func differences(clients []fleet.Record, rows []admin.ClientConnection) []string {
	var out []string
	missing := map[end]*fleet.Record{}
	for i := range clients {
		missing[end{clients[i].Local, clients[i].Listener}] = &clients[i]
	}
	seen := map[end]bool{}
	for i := range rows {
		row := &rows[i]
		address, err := remote(row)
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		from := end{address, row.ListenerName}
		if seen[from] {
			out = append(out, fmt.Sprintf("%v is listed twice", from))
		}
		seen[from] = true
		client, ok := missing[from]
		if !ok {
			out = append(out, fmt.Sprintf("%v is listed as %s but no client of ours", from, row.ConnectionID))
			continue
		}
		delete(missing, from)
		for _, d := range fieldDifferences(client, row) {
			out = append(out, fmt.Sprintf("%v (%s): %s", from, client.Group, d))
		}
	}
	for from, client := range missing {
		out = append(out, fmt.Sprintf("%v (%s) is up but not listed", from, client.Group))
	}
	slices.Sort(out)
	return out
}

func fieldDifferences(client *fleet.Record, row *admin.ClientConnection) []string {
	var out []string
	field := func(name, got, want string) {
		if got != want {
			out = append(out, fmt.Sprintf("%s = %q, want %q", name, got, want))
		}
	}
	field("principal", row.Principal, client.Principal)
	field("protocol", row.SecurityProtocol, string(client.Protocol))
	field("software name", row.SoftwareName, client.Software)
	field("software version", row.SoftwareVersion, client.SoftwareVersion)
	// Admission is between the client's SYN and its first rest. Both clocks are this machine's.
	since := time.UnixMilli(row.ConnectedSince)
	earliest, latest := client.Started.Add(-time.Second), client.Started.Add(client.Ready+time.Second)
	if since.Before(earliest) || since.After(latest) {
		out = append(out, fmt.Sprintf("since = %v, want between %v and %v", since, earliest, latest))
	}
	return out
}

// remote is the client's address as the row has it.
func remote(row *admin.ClientConnection) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(row.ClientAddress)
	if err != nil || row.ClientPort <= 0 || row.ClientPort > 65535 {
		return netip.AddrPort{}, fmt.Errorf("%s: %q, port %d is not an address", row.ConnectionID, row.ClientAddress, row.ClientPort)
	}
	return netip.AddrPortFrom(addr, uint16(row.ClientPort)), nil
}

// ports are the rows' client addresses and ports, sorted.
func ports(rows []admin.ClientConnection) []netip.AddrPort {
	all := make([]netip.AddrPort, 0, len(rows))
	for i := range rows {
		if from, err := remote(&rows[i]); err == nil {
			all = append(all, from)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// locals are the clients' own addresses and ports, sorted.
func locals(clients []fleet.Record) []netip.AddrPort {
	all := make([]netip.AddrPort, len(clients))
	for i := range clients {
		all[i] = clients[i].Local
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return all
}

// where is the records that match.
func where(clients []fleet.Record, match func(*fleet.Record) bool) []fleet.Record {
	var out []fleet.Record
	for i := range clients {
		if match(&clients[i]) {
			out = append(out, clients[i])
		}
	}
	return out
}

// ids are the rows' connection ids.
func ids(rows []admin.ClientConnection) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].ConnectionID
	}
	return all
}
