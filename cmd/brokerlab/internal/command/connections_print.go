package command

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// unknown is printed for what a broker does not know.
const unknown = "-"

// jsonList is the document of --format json. Errors are those of brokers that did not answer.
type jsonList[T any] struct {
	Connections []T         `json:"connections"`
	Total       *int        `json:"total,omitempty"` // connections before --limit, where that has left some out
	Errors      []jsonError `json:"errors"`
}

// jsonConnection is one connection of ListClientConnections; what the broker does not know is null.
type jsonConnection struct {
	NodeID           int32   `json:"nodeId"`
	ConnectionID     string  `json:"connectionId"`
	Principal        *string `json:"principal"`
	PrincipalType    *string `json:"principalType"`
	ClientAddress    string  `json:"clientAddress"`
	ClientPort       int32   `json:"clientPort"`
	ListenerName     string  `json:"listenerName"`
	SecurityProtocol string  `json:"securityProtocol"`
	SoftwareName     *string `json:"softwareName"`
	SoftwareVersion  *string `json:"softwareVersion"`
	ConnectedSince   *string `json:"connectedSince"`
}

// printList prints the list of KIP-1329; where more than one broker was asked, with a column before it that names the broker, but for
// the script, whose table is the KIP's.
func (o *connectionsOptions) printList(env Env, rows []admin.ClientConnection, total int, err error) error {
	if o.format == formatJSON {
		list := jsonList[jsonConnection]{Connections: make([]jsonConnection, len(rows)), Total: cutTotal(len(rows), total), Errors: jsonErrors(err)}
		for i := range rows {
			list.Connections[i] = jsonOf(&rows[i])
		}
		return printJSON(env.Stdout, list)
	}
	const gap = 2 // spaces between the widest value of a column and the next column
	w := tabwriter.NewWriter(env.Stdout, 0, 0, gap, ' ', 0)
	cells := []string{"CONNECTION-ID", "PRINCIPAL", "CLIENT-ADDRESS", "PORT", "LISTENER", "PROTOCOL", "SOFTWARE", "CONNECTED-SINCE"}
	if len(rows) == 0 && err != nil {
		return nil //nolint:nilerr // the errors say all that there is
	}
	several := !o.script && (err != nil || slices.ContainsFunc(rows, func(r admin.ClientConnection) bool { return r.NodeID != rows[0].NodeID }))
	node := "NODE"
	for i := -1; i < len(rows); i++ {
		if i >= 0 {
			r := &rows[i]
			node = strconv.Itoa(int(r.NodeID))
			cells = []string{
				shown(r.ConnectionID), shown(r.Principal), shown(r.ClientAddress), strconv.Itoa(int(r.ClientPort)),
				shown(r.ListenerName), shown(r.SecurityProtocol), software(r.SoftwareName, r.SoftwareVersion), since(r.ConnectedSince),
			}
		}
		if several {
			cells = slices.Insert(cells, 0, node)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return noteCut(env, len(rows), total, "connections")
}

func jsonOf(r *admin.ClientConnection) jsonConnection {
	return jsonConnection{
		NodeID:           r.NodeID,
		ConnectionID:     r.ConnectionID,
		Principal:        orNull(r.Principal),
		PrincipalType:    orNull(r.PrincipalType),
		ClientAddress:    r.ClientAddress,
		ClientPort:       r.ClientPort,
		ListenerName:     r.ListenerName,
		SecurityProtocol: r.SecurityProtocol,
		SoftwareName:     orNull(r.SoftwareName),
		SoftwareVersion:  orNull(r.SoftwareVersion),
		ConnectedSince:   timestamp(r.ConnectedSince),
	}
}

// jsonWide is one connection of DescribeConnections: what KIP-1329 has, and what each source adds.
type jsonWide struct {
	jsonConnection

	LocalAddress string      `json:"localAddress"`
	LocalPort    int32       `json:"localPort"`
	ClientID     *string     `json:"clientId"`
	State        string      `json:"state"`
	LastActive   *string     `json:"lastActive"`
	IdleMillis   int64       `json:"idleMs"`
	BytesIn      int64       `json:"bytesIn"`
	BytesOut     int64       `json:"bytesOut"`
	SocketCookie uint64      `json:"socketCookie"`
	TLS          *jsonTLS    `json:"tls"`
	SASL         *jsonSASL   `json:"sasl"`
	Kernel       *jsonKernel `json:"kernel"`
	KernelSource string      `json:"kernelSource"`
	KernelWhy    string      `json:"kernelWhy"`

	Config *jsonConfigLink `json:"config"` // null where the broker keeps none of its client
}

type jsonTLS struct {
	Version      string  `json:"version"`
	CipherSuite  string  `json:"cipherSuite"`
	ServerName   string  `json:"serverName"`
	PeerSubject  string  `json:"peerSubject"`
	PeerSerial   string  `json:"peerSerial"`
	PeerNotAfter *string `json:"peerNotAfter"`
}

type jsonSASL struct {
	Mechanism          string  `json:"mechanism"`
	AuthenticatedSince *string `json:"authenticatedSince"`
}

type jsonKernel struct {
	State     string `json:"state"`
	Protocol  string `json:"protocol"`
	RTTMicros int64  `json:"rttMicros"`
	BytesIn   uint64 `json:"bytesIn"`
	BytesOut  uint64 `json:"bytesOut"`
}

// printWide prints all that is known of each connection, one block each.
func (o *connectionsOptions) printWide(env Env, rows []admin.Connection, links configLinks, total int, err error) error {
	if o.format == formatJSON {
		list := jsonList[jsonWide]{Connections: make([]jsonWide, len(rows)), Total: cutTotal(len(rows), total), Errors: jsonErrors(err)}
		for i := range rows {
			list.Connections[i] = jsonWideOf(&rows[i])
			list.Connections[i].Config = links.json(&rows[i])
		}
		return printJSON(env.Stdout, list)
	}
	w := bufio.NewWriter(env.Stdout)
	for i := range rows {
		writeBlock(w, &rows[i], links.text(&rows[i]))
	}
	if err := w.Flush(); err != nil { // remembers the first error
		return err
	}
	return noteCut(env, len(rows), total, "connections")
}

// listedOf is a connection in the shape of KIP-1329.
func listedOf(r *admin.Connection) admin.ClientConnection {
	return admin.ClientConnection{
		NodeID: r.NodeID,
		ListClientConnectionsResponseConnection: protocol.ListClientConnectionsResponseConnection{
			ConnectionID: r.ConnectionID, Principal: r.Principal, PrincipalType: r.PrincipalType, ClientAddress: r.ClientAddress,
			ClientPort: r.ClientPort, ListenerName: r.ListenerName, SecurityProtocol: r.SecurityProtocol,
			SoftwareName: r.SoftwareName, SoftwareVersion: r.SoftwareVersion, ConnectedSince: r.ConnectedSince,
		},
	}
}

// wideColumns are what --wide can be sorted by.
func wideColumns() []column[admin.Connection] {
	return append(
		listColumns(listedOf),
		by("client-id", func(r *admin.Connection) string {
			if r.ClientID == nil {
				return ""
			}
			return *r.ClientID
		}),
		by("state", func(r *admin.Connection) string { return r.State }),
		by("idle", func(r *admin.Connection) int64 { return r.IdleMillis }),
		by("in", func(r *admin.Connection) int64 { return r.BytesIn }),
		by("out", func(r *admin.Connection) int64 { return r.BytesOut }),
		by("rtt", func(r *admin.Connection) int64 {
			if r.Kernel == nil {
				return 0
			}
			return r.Kernel.RTTMicros
		}),
		by("certificate-until", func(r *admin.Connection) int64 {
			if r.TLS == nil {
				return 0
			}
			return r.TLS.PeerNotAfter
		}),
	)
}

func jsonWideOf(r *admin.Connection) jsonWide {
	listed := listedOf(r)
	row := jsonWide{
		jsonConnection: jsonOf(&listed),
		LocalAddress:   r.LocalAddress, LocalPort: r.LocalPort, ClientID: r.ClientID, State: r.State,
		LastActive: timestamp(r.LastActive), IdleMillis: r.IdleMillis, BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		SocketCookie: r.SocketCookie, KernelSource: r.KernelSource, KernelWhy: r.KernelWhy,
	}
	if t := r.TLS; t != nil {
		row.TLS = &jsonTLS{
			Version: t.ProtocolVersion, CipherSuite: t.CipherSuite, ServerName: t.ServerName,
			PeerSubject: t.PeerSubject, PeerSerial: t.PeerSerial, PeerNotAfter: timestamp(t.PeerNotAfter),
		}
	}
	if s := r.SASL; s != nil {
		row.SASL = &jsonSASL{Mechanism: s.Mechanism, AuthenticatedSince: timestamp(s.AuthenticatedSince)}
	}
	if k := r.Kernel; k != nil {
		row.Kernel = &jsonKernel{State: k.State, Protocol: k.Protocol, RTTMicros: k.RTTMicros, BytesIn: k.BytesIn, BytesOut: k.BytesOut}
	}
	return row
}

// writeBlock writes one connection: a line that names it, then a line for each source with what that source knows. The
// writer keeps the first error for Flush.
func writeBlock(w *bufio.Writer, r *admin.Connection, config string) {
	line := func(source string, facts ...string) {
		w.WriteString(pad(source, 10) + strings.Join(facts, "  ") + "\n") //nolint:errcheck // Flush returns it
	}
	line("node "+strconv.Itoa(int(r.NodeID)), shown(r.ConnectionID), shown(r.Principal))
	client := unknown
	if r.ClientID != nil {
		client = shown(*r.ClientID)
	}
	line("  broker", shown(r.State), shown(r.ListenerName)+" ("+shown(r.SecurityProtocol)+")",
		"software "+software(r.SoftwareName, r.SoftwareVersion), "client-id "+client)
	line("", "since "+since(r.ConnectedSince), "idle "+(time.Duration(r.IdleMillis)*time.Millisecond).String(),
		"in "+byteCount(uint64(max(r.BytesIn, 0))), "out "+byteCount(uint64(max(r.BytesOut, 0))))
	if t := r.TLS; t != nil {
		line("  tls", shown(t.ProtocolVersion), shown(t.CipherSuite), "server-name "+shown(t.ServerName))
		if t.PeerSubject != "" {
			line("", "peer "+shown(t.PeerSubject), "serial "+shown(t.PeerSerial), "until "+since(t.PeerNotAfter))
		}
	}
	if s := r.SASL; s != nil {
		line("  sasl", shown(s.Mechanism), "since "+since(s.AuthenticatedSince))
	}
	if config != "" {
		line("  config", config)
	}
	switch k := r.Kernel; {
	case k != nil:
		rtt := unknown
		if k.RTTMicros > 0 {
			rtt = (time.Duration(k.RTTMicros) * time.Microsecond).String()
		}
		line("  kernel", shown(k.State), "carries "+shown(k.Protocol), "rtt "+rtt, "in "+byteCount(k.BytesIn),
			"out "+byteCount(k.BytesOut), "("+shown(r.KernelSource)+")")
	case r.KernelWhy != "":
		line("  kernel", unknown, "("+shown(r.KernelWhy)+")")
	default:
		line("  kernel", unknown, "("+shown(r.KernelSource)+")")
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 1))
}

// shown is a value as it may be printed: what could steer a terminal or hide text is escaped, for clients choose their
// names; nothing at all becomes "-".
func shown(s string) string {
	if s == "" {
		return unknown
	}
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		i += n
	}
	return b.String()
}

func software(name, version string) string {
	switch {
	case name == "":
		return unknown
	case version == "":
		return shown(name)
	}
	return shown(name) + "/" + shown(version)
}

// since prints milliseconds since 1970 to the second, as KIP-1329's table does; 0 is not known.
func since(millis int64) string {
	if millis == 0 {
		return unknown
	}
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05Z")
}

// timestamp is since for programs: to the millisecond, and nil when not known.
func timestamp(millis int64) *string {
	if millis == 0 {
		return nil
	}
	return new(time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z"))
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// byteCount prints a number of bytes in three digits or so.
func byteCount(n uint64) string {
	const step = 1024
	if n < step {
		return strconv.FormatUint(n, 10) + " B"
	}
	f := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if f /= step; f < step {
			return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
		}
	}
	return strconv.FormatFloat(f/step, 'f', 1, 64) + " TiB"
}
