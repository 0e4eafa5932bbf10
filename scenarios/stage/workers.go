package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/fleet/crew"
)

// Where the workers of [Stage.Workers] wait, as TOPIC@HOST:PORT[,HOST:PORT], and the client.properties for that cluster. Empty: they
// are processes that the stage starts.
const (
	WorkersVariable       = "BROKERLAB_WORKERS"
	WorkersConfigVariable = "BROKERLAB_WORKERS_CONFIG"
)

// ParseWorkers takes TOPIC@HOST:PORT[,HOST:PORT] apart.
func ParseWorkers(text string) (topic string, seeds []string, err error) {
	topic, servers, ok := strings.Cut(text, "@")
	if !ok || topic == "" || servers == "" {
		return "", nil, fmt.Errorf("%q: want TOPIC@HOST:PORT, such as fleet@localhost:9092", text)
	}
	return topic, strings.Split(servers, ","), nil
}

// Workers opens each plan in a process of its own, and ends them with the spec. With [WorkersVariable] the processes are workers that
// wait at a topic; they must be able to enter this machine's network namespaces.
func (s *Stage) Workers(ctx context.Context, plans ...fleet.Plan) *fleet.Workers {
	GinkgoHelper()
	w, err := openWorkers(ctx, plans)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.Close)
	DeferCleanup(s.evidence) // before they are closed
	return w
}

func openWorkers(ctx context.Context, plans []fleet.Plan) (*fleet.Workers, error) {
	if place := os.Getenv(WorkersVariable); place != "" {
		return openAt(ctx, place, plans)
	}
	binary, err := Binary(ctx)
	if err != nil {
		return nil, err
	}
	return fleet.OpenWorkers(ctx, plans, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, "fleet-worker")
		cmd.Stderr = GinkgoWriter
		return cmd
	})
}

// FindWorkers has an error unless workers wait at a place, TOPIC@HOST:PORT[,HOST:PORT], now; config is the client.properties for its
// cluster, or "".
func FindWorkers(ctx context.Context, place, config string) error {
	o, err := workersAt(place, config)
	if err != nil {
		return err
	}
	const patience = 20 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	names, err := crew.Waiting(ctx, o)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("workers at %s: %w", place, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("workers at %s: %w", place, err)
	case len(names) == 0:
		_, servers, _ := strings.Cut(place, "@")
		return fmt.Errorf("workers at %s: none waits there; start some: brokerlab fleet worker --bootstrap-server %s --topic %s", place, servers, o.Topic)
	}
	return nil
}

// workersAt is how a place is reached.
func workersAt(place, config string) (crew.Options, error) {
	topic, seeds, err := ParseWorkers(place)
	if err != nil {
		return crew.Options{}, err
	}
	options := []kgo.Opt{kgo.SeedBrokers(seeds...)}
	if config != "" {
		security, err := admin.ClientOptions(config)
		if err != nil {
			return crew.Options{}, err
		}
		options = append(options, security...)
	}
	return crew.Options{
		Topic: topic, Client: options, Name: fmt.Sprintf("suites/%d", os.Getpid()),
		Say: func(line string) { _, _ = fmt.Fprintln(GinkgoWriter, line) },
	}, nil
}

// openAt gives plans out to the workers at a topic.
func openAt(ctx context.Context, place string, plans []fleet.Plan) (*fleet.Workers, error) {
	const most = time.Minute // for workers to be there
	o, err := workersAt(place, os.Getenv(WorkersConfigVariable))
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("waited for %v", most))
	defer cancel()
	c, err := crew.Gather(bounded, o, 1)
	if err != nil {
		return nil, fmt.Errorf("workers at %s: %w", place, err)
	}
	DeferCleanup(c.Close) // after what Give returns
	w, _, err := c.Give(bounded, len(plans))
	if err != nil {
		return nil, fmt.Errorf("workers at %s: %w", place, err)
	}
	if err := w.Add(ctx, plans, nil); err != nil {
		return nil, errors.Join(err, w.Close()) //nolint:contextcheck // it bounds itself
	}
	return w, nil
}
