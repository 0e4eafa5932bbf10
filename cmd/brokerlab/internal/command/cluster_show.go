package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func newCluster(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Which brokers a cluster has, and how each is with its metadata",
		Long: `Which brokers a cluster has, and how each is with the log of ACLs, users, configs, quotas and features
that they share.`,
		Example: "  brokerlab cluster show --bootstrap-server localhost:9092",
		Args:    cobra.NoArgs,
	}
	c.AddCommand(newClusterShow(env))
	return c
}

// clusterOptions are the flags of brokerlab cluster show.
type clusterOptions struct {
	bootstrapOptions

	hash   bool
	format format
}

func newClusterShow(env Env) *cobra.Command {
	var o clusterOptions
	c := &cobra.Command{
		Use:   "show --bootstrap-server host:port",
		Short: "Show its brokers, how far each has read the metadata log, and whether they agree",
		Long: `Show the brokers of a cluster: where clients reach each, and the levels of metadata.version that it works
with. Every broker is asked how it is with the metadata log:

  live       it has registered, and follows the log
  cut off    it answers, and does not hear of the log: it goes on with what it knows
  fenced     clients are not led to it, and it takes no new ones: it has stopped, or was cut off for
             longer than broker.session.timeout.ms
  no answer  it has registered, and does not answer

OFFSET is the next entry of the log that a broker is to apply, LAG how many entries another broker has
seen that it has not applied. HASH is of all metadata: brokers with the same offset have the same one.

Needs DESCRIBE on the cluster. Exit status: 0 when every broker answered, else 1; what the others said is
printed, and an error of each that did not, fenced ones included, goes to standard error.`,
		Example: `  brokerlab cluster show --bootstrap-server localhost:9092
  brokerlab cluster show --bootstrap-server localhost:9092 --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
				answers, err := cl.DescribeMetadata(ctx, admin.MetadataFilter{Hash: o.hash})
				return printed(env, err, func() error { return o.printCluster(env.Stdout, answers, err) })
			})
		},
	}
	addBootstrap(c, &o.bootstrapOptions)
	c.Flags().BoolVar(&o.hash, "hash", true, "have each broker hash all its metadata, which takes a second for a million ACLs")
	addFormat(c, &o.format)
	return c
}

// jsonCluster is the document of cluster show with --format json. Errors are those of brokers that did not answer.
type jsonCluster struct {
	ClusterID string              `json:"clusterId"`
	Level     int16               `json:"metadataVersion"` // finalized
	LevelName string              `json:"metadataVersionName"`
	Brokers   []jsonClusterBroker `json:"brokers"`
	Errors    []jsonError         `json:"errors"`
}

// jsonClusterBroker is one broker. What only it could have told is null when it did not answer.
type jsonClusterBroker struct {
	NodeID      int32                 `json:"nodeId"`
	State       string                `json:"state"` // live, cut off, fenced or no answer
	Rack        *string               `json:"rack"`
	Epoch       int64                 `json:"epoch"` // of its registration; -1 of a broker that shares no log
	Incarnation string                `json:"incarnation"`
	MinLevel    int16                 `json:"minMetadataVersion"`
	MaxLevel    int16                 `json:"maxMetadataVersion"`
	Listeners   []jsonClusterListener `json:"listeners"`
	Offset      *int64                `json:"offset"`
	Lag         *int64                `json:"lag"`
	Hash        *string               `json:"hash"`
	Connected   *bool                 `json:"connected"` // the log answered last time
	Since       *string               `json:"since"`     // when it last answered
}

type jsonClusterListener struct {
	Name     string `json:"name"`
	Protocol string `json:"securityProtocol"`
	Host     string `json:"host"`
	Port     int32  `json:"port"`
}

// joinAnswers makes one picture of what brokers said: who there is, by whoever has read the log furthest, and how each is.
func joinAnswers(answers []*protocol.DescribeMetadataResponse) jsonCluster {
	all := jsonCluster{Brokers: []jsonClusterBroker{}}
	if len(answers) == 0 {
		return all
	}
	newest := slices.MaxFunc(answers, func(a, b *protocol.DescribeMetadataResponse) int { return cmp.Compare(a.Offset, b.Offset) })
	end := newest.Offset
	for _, a := range answers {
		end = max(end, a.End)
	}
	all.ClusterID, all.Level, all.LevelName = newest.ClusterID, newest.Level, feature.Name(newest.Level)
	for i := range newest.Brokers {
		all.Brokers = append(all.Brokers, clusterBroker(&newest.Brokers[i], answers, end))
	}
	return all
}

func clusterBroker(b *protocol.DescribeMetadataResponseBroker, answers []*protocol.DescribeMetadataResponse, end int64) jsonClusterBroker {
	row := jsonClusterBroker{
		NodeID: b.NodeID, Rack: b.Rack, Epoch: b.Epoch, Incarnation: b.Incarnation, MinLevel: b.MinLevel, MaxLevel: b.MaxLevel,
		Listeners: []jsonClusterListener{}, State: "no answer",
	}
	for _, l := range b.Listeners {
		row.Listeners = append(row.Listeners, jsonClusterListener{Name: l.Name, Protocol: l.SecurityProtocol, Host: l.Host, Port: l.Port})
	}
	if b.Fenced {
		row.State = "fenced"
	}
	at := slices.IndexFunc(answers, func(a *protocol.DescribeMetadataResponse) bool { return a.NodeID == b.NodeID })
	if at < 0 {
		return row
	}
	a := answers[at]
	row.Offset, row.Lag, row.Hash, row.Connected, row.Since = &a.Offset, new(end-a.Offset), a.Hash, &a.Connected, timestamp(a.Since)
	switch {
	case a.Fenced || b.Fenced:
		row.State = "fenced"
	case !a.Connected:
		row.State = "cut off"
	default:
		row.State = "live"
	}
	return row
}

func (o *clusterOptions) printCluster(w io.Writer, answers []*protocol.DescribeMetadataResponse, err error) error {
	all := joinAnswers(answers)
	if o.format == formatJSON {
		all.Errors = jsonErrors(err)
		return printJSON(w, all)
	}
	if len(answers) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "cluster %s, metadata.version %s\n\n", all.ClusterID, all.LevelName)
	rows := [][]string{{"BROKER", "STATE", "LISTENERS", "RACK", "LEVELS", "OFFSET", "LAG", "HASH"}}
	for i := range all.Brokers {
		b := &all.Brokers[i]
		row := []string{
			strconv.Itoa(int(b.NodeID)), b.State, "", cell(b.Rack, shown), feature.Name(b.MinLevel) + "…" + feature.Name(b.MaxLevel),
			cell(b.Offset, digits), cell(b.Lag, digits), cell(b.Hash, short),
		}
		for j, l := range b.Listeners {
			if j > 0 {
				rows, row = append(rows, row), make([]string, len(row))
			}
			row[2] = shown(l.Name + "://" + net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		}
		rows = append(rows, row)
	}
	columns(&text, rows, 0)
	_, err = io.WriteString(w, text.String())
	return err
}

// cell is a value of a table; a dash where it is not known.
func cell[T any](v *T, text func(T) string) string {
	if v == nil {
		return unknown
	}
	return text(*v)
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }

// short is as much of a hash as tells two apart.
func short(hash string) string {
	const enough = 12
	return hash[:min(enough, len(hash))]
}
