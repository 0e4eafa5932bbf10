package command

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func newClientsList(env Env) *cobra.Command {
	var o clientsOptions
	c := &cobra.Command{
		Use:   "list --bootstrap-server host:port",
		Short: "List who pushed a configuration",
		Long: `List the clients that have pushed a configuration to a broker of the cluster, those that have gone included, as far as
the broker keeps them.

CONNS is how many connections the client has open now, CONFIGS how many configurations came from clients that look like
it: more than one is ambiguous. Needs DESCRIBE on the cluster. Exit status: 0, or 1 when a broker did not answer.`,
		Example: `  brokerlab clients list --bootstrap-server localhost:9092
  brokerlab clients list --bootstrap-server localhost:9092 --client-address 10.0.0.0/8
  brokerlab clients list --bootstrap-server localhost:9092 --ambiguous --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, env, false, func(rows []pusher, asked error) error { return o.printList(env, rows, asked) })
		},
	}
	o.add(c)
	return c
}

// jsonClients is the document of clients list and show with --format json.
type jsonClients struct {
	Clients []jsonClient `json:"clients"`
	Errors  []jsonError  `json:"errors"`
}

type jsonClient struct {
	NodeID           int32        `json:"nodeId"`
	ID               int64        `json:"id"`
	Principal        string       `json:"principal"`
	ClientAddress    string       `json:"clientAddress"`
	ClientID         string       `json:"clientId"`
	ListenerName     string       `json:"listenerName"`
	SecurityProtocol string       `json:"securityProtocol"`
	SoftwareName     *string      `json:"softwareName"`
	SoftwareVersion  *string      `json:"softwareVersion"`
	Connections      *int32       `json:"connections"` // null where the broker does not know
	Ambiguous        bool         `json:"ambiguous"`
	More             int32        `json:"more"` // configurations that are not kept
	Configurations   []jsonPushed `json:"configurations"`
}

type jsonPushed struct {
	Bytes        int32       `json:"bytes"`
	FirstPushed  *string     `json:"firstPushed"`
	LastPushed   *string     `json:"lastPushed"`
	Pushes       int64       `json:"pushes"`
	ConnectionID string      `json:"connectionId"`
	Open         bool        `json:"open"`
	Entries      []jsonEntry `json:"entries,omitempty"`
}

type jsonEntry struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Type     string `json:"type"`
	Default  bool   `json:"default"`
	Redacted bool   `json:"redacted"`
}

func jsonOfClients(rows []pusher, asked error) jsonClients {
	doc := jsonClients{Clients: make([]jsonClient, len(rows)), Errors: jsonErrors(asked)}
	for i := range rows {
		r := &rows[i]
		one := jsonClient{
			NodeID: r.node, ID: r.ID, Principal: r.Principal, ClientAddress: r.ClientAddress, ClientID: r.ClientID,
			ListenerName: r.ListenerName, SecurityProtocol: r.SecurityProtocol,
			SoftwareName: orNull(r.SoftwareName), SoftwareVersion: orNull(r.SoftwareVersion),
			Ambiguous: r.ambiguous(), More: r.More, Configurations: make([]jsonPushed, len(r.Configurations)),
		}
		if r.Connections >= 0 {
			one.Connections = &r.Connections
		}
		for j := range r.Configurations {
			k := &r.Configurations[j]
			pushed := jsonPushed{
				Bytes: k.Bytes, FirstPushed: timestamp(k.FirstPushed), LastPushed: timestamp(k.LastPushed), Pushes: k.Pushes,
				ConnectionID: k.ConnectionID, Open: k.Open,
			}
			for _, e := range k.Entries {
				pushed.Entries = append(pushed.Entries, jsonEntry{e.Key, e.Value, typeName(e.Type), e.Default, e.Redacted})
			}
			one.Configurations[j] = pushed
		}
		doc.Clients[i] = one
	}
	return doc
}

func (o *clientsOptions) printList(env Env, rows []pusher, asked error) error {
	if o.format == formatJSON {
		return printJSON(env.Stdout, jsonOfClients(rows, asked))
	}
	if len(rows) == 0 && asked != nil {
		return nil //nolint:nilerr // the errors say all that there is
	}
	table := [][]string{{"NODE", "PRINCIPAL", "CLIENT-ID", "ADDRESS", "LISTENER", "SOFTWARE", "CONNS", "CONFIGS", "BYTES", "PUSHED"}}
	for i := range rows {
		r := &rows[i]
		latest := r.latest()
		table = append(table, []string{
			strconv.Itoa(int(r.node)), shown(r.Principal), shown(r.ClientID), shown(r.ClientAddress), shown(r.ListenerName),
			software(r.SoftwareName, r.SoftwareVersion), openCount(r.Connections), r.configurations(),
			byteCount(uint64(max(latest.Bytes, 0))), age(time.Duration(r.now-latest.LastPushed)*time.Millisecond) + " ago",
		})
	}
	const principal, clientID, address, listener, name = 1, 2, 3, 4, 5
	return printTable(env.Stdout, table, principal, clientID, address, listener, name)
}

func openCount(n int32) string {
	if n < 0 {
		return unknown
	}
	return strconv.Itoa(int(n))
}

// configurations is how many there are; a + says that not all are kept.
func (p *pusher) configurations() string {
	n := strconv.Itoa(len(p.Configurations))
	if p.More > 0 {
		n += "+"
	}
	return n
}
