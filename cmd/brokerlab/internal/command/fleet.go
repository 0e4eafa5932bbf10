//go:build linux

package command

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/fleet/crew"
)

func newFleet(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Drive thousands of clients from several machines",
		Long: `Drive thousands of clients from several machines: workers wait at a topic of any Kafka cluster, take their share of the
clients from it, and report into it. docs/distributed.md shows it.

Who may write into the topic can have workers connect anywhere, and who may read it reads the credentials of the clients.
Workers and coordinator need CREATE, DESCRIBE, READ and WRITE on the topics TOPIC and TOPIC-reports, and READ on the groups
TOPIC-workers and TOPIC-coordinator.`,
		Example: `  brokerlab fleet worker --bootstrap-server localhost:9092 --topic fleet
  brokerlab fleet run --bootstrap-server localhost:9092 --topic fleet --target localhost:9092`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(newFleetWait(env), newFleetRun(env))
	return c
}

// meetingOptions are the flags of who comes to a topic.
type meetingOptions struct {
	bootstrapOptions

	topic string
	name  string
}

func (o *meetingOptions) flags(c *cobra.Command) {
	addBootstrap(c, &o.bootstrapOptions)
	f := c.Flags()
	f.Lookup("bootstrap-server").Usage = "`host:port` of one or more brokers of the topic's cluster, separated by commas"
	f.StringVar(&o.topic, "topic", "", "the `topic` where workers and coordinator meet; made where it is missing")
	f.StringVar(&o.name, "name", "", "the `name` of this process in reports (default host/pid)")
	if err := c.MarkFlagRequired("topic"); err != nil {
		panic(err) // the flag was added above
	}
}

// topicName is what Kafka takes for a topic, short enough for what is put behind it.
var topicName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$`)

// meeting makes a crew's options of the flags; say is told what goes on.
func (o *meetingOptions) meeting(env Env, say func(string)) (crew.Options, error) {
	if !topicName.MatchString(o.topic) {
		return crew.Options{}, usage(fmt.Sprintf("--topic: %q is no name of a topic", o.topic))
	}
	seeds, config, err := loadClient(env, o.servers, o.config)
	if err != nil {
		return crew.Options{}, err
	}
	if o.name == "" {
		host, err := os.Hostname()
		if err != nil {
			return crew.Options{}, errors.Join(errors.New("this machine has no name: give --name"), err)
		}
		o.name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	options := append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.SoftwareNameAndVersion(softwareName, softwareVersion)}, config.Options...)
	return crew.Options{Topic: o.topic, Client: options, Name: o.name, Say: say}, nil
}
