package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

type clientsShowOptions struct {
	clientsOptions

	all bool
}

func newClientsShow(env Env) *cobra.Command {
	var o clientsShowOptions
	c := &cobra.Command{
		Use:   "show --bootstrap-server host:port",
		Short: "Show the configurations of clients: what differs from the defaults, or all of it",
		Long: `Show the configurations that clients have pushed: the keys that somebody set, or with --all those that have their
default as well. What looks like a secret is redacted by the broker, whatever the client sent.

Needs DESCRIBE on the cluster. Exit status: 0, or 1 when a broker did not answer or no such client has pushed.`,
		Example: `  brokerlab clients show --bootstrap-server localhost:9092 --client-id orders-1
  brokerlab clients show --bootstrap-server localhost:9092 --principal User:alice --all`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, env, true, func(rows []pusher, asked error) error {
				if err := o.print(env, rows, asked); err != nil {
					return err
				}
				if len(rows) == 0 && asked == nil {
					return &ExitError{Code: 1, Err: errors.New("no such client has pushed its configuration (brokerlab clients list shows those that have)")}
				}
				return nil
			})
		},
	}
	o.add(c)
	c.Flags().BoolVar(&o.all, "all", false, "with the keys that have their default")
	return c
}

func (o *clientsShowOptions) print(env Env, rows []pusher, asked error) error {
	if o.format == formatJSON {
		return printJSON(env.Stdout, jsonOfClients(rows, asked))
	}
	for i := range rows {
		r := &rows[i]
		if err := printHanging(env.Stdout, "", r.title()); err != nil {
			return err
		}
		if r.ambiguous() {
			text := fmt.Sprintf("AMBIGUOUS: %s came from clients that look the same", plural(len(r.Configurations)+int(r.More), "configuration"))
			if _, err := fmt.Fprintf(env.Stdout, "  %s\n", text); err != nil {
				return err
			}
		}
		for j := range r.Configurations {
			if err := o.printOne(env.Stdout, r, &r.Configurations[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// title names a client.
func (p *pusher) title() string {
	return fmt.Sprintf("node %d  %s  client-id %s  %s  %s (%s)  software %s", p.node, shown(p.Principal), shown(p.ClientID), shown(p.ClientAddress),
		shown(p.ListenerName), shown(p.SecurityProtocol), software(p.SoftwareName, p.SoftwareVersion))
}

func (o *clientsShowOptions) printOne(w io.Writer, r *pusher, k *protocol.DescribeClientConfigsResponseConfiguration) error {
	state := "connection closed"
	if k.Open {
		state = "connection open"
	}
	_, err := fmt.Fprintf(w, "  pushed %s ago, %s, %s\n", age(time.Duration(r.now-k.LastPushed)*time.Millisecond), plural(int(k.Pushes), "time"), state)
	if err != nil {
		return err
	}
	var table [][]string
	left := 0
	for _, e := range k.Entries {
		if e.Default && !o.all {
			left++
			continue
		}
		by := "set"
		if e.Default {
			by = "default"
		}
		table = append(table, []string{"   ", shown(e.Key), shown(e.Value), typeName(e.Type), by})
	}
	slices.SortFunc(table, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	const key, value = 1, 2
	err = printTable(w, table, key, value)
	if err == nil && left > 0 {
		_, err = fmt.Fprintf(w, "    %s as by default (--all shows them)\n", plural(left, "key"))
	}
	return err
}

// typeName is a type as DescribeConfigs numbers it; other numbers are shown as they are.
func typeName(t int8) string {
	names := [...]string{"unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password"}
	if t < 0 || int(t) >= len(names) {
		return "type " + strconv.Itoa(int(t))
	}
	return names[t]
}
