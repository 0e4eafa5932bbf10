package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
)

// How a command asks all brokers of a cluster. Package admin asks those that the cluster names at the same time, and returns what
// they said beside a joined error of those that did not answer. A command shows the first, names the others on standard error and in
// its JSON, and ends with exit status 1.

// addNodes gives c the flag --node, which narrows a question to some brokers.
func addNodes(c *cobra.Command, nodes *[]int32) {
	c.Flags().Int32SliceVar(nodes, "node", nil, "ask only the broker of this `id`; may be repeated")
	c.Flags().Lookup("node").DefValue = "" // all
}

// nobody tells whether no broker could be asked at all, so that there is nothing to show beside the error.
func nobody(asked error) bool { return asked != nil && len(admin.BrokerErrors(asked)) == 0 }

// printed prints what brokers answered, then their errors. When no broker could be asked at all, only that is said.
func printed(env Env, asked error, show func() error) error {
	if nobody(asked) {
		return asked
	}
	if err := show(); err != nil {
		return err
	}
	return brokerErrors(env, asked)
}

// brokerErrors prints each broker's own error on a line of standard error. It returns what the command ends with: exit
// status 1 with nothing more to say after such errors, and any other error as it is.
func brokerErrors(env Env, err error) error {
	if err == nil || nobody(err) {
		return err
	}
	for _, b := range admin.BrokerErrors(err) {
		if _, err = fmt.Fprintf(env.Stderr, "brokerlab: %v\n", b); err != nil {
			return err
		}
	}
	return &ExitError{Code: 1}
}

// jsonError is a broker that did not answer, and why.
type jsonError struct {
	NodeID  int32  `json:"nodeId"`
	Address string `json:"address"`
	Error   string `json:"error"`
}

func jsonErrors(err error) []jsonError {
	all := []jsonError{} // an empty list, not null
	for _, b := range admin.BrokerErrors(err) {
		all = append(all, jsonError{NodeID: b.NodeID, Address: b.Addr, Error: b.Err.Error()})
	}
	return all
}

// beside asks a second question of those brokers that, by err, answered a first one, so that one that hangs is waited for once.
// The errors of both are joined; not to have the second question's request is none.
func beside(ctx context.Context, cl *admin.Client, nodes []int32, err error, ask func(nodes []int32) error) error {
	all := []error{err}
	answering, failed := cl.Answering(ctx, nodes, err)
	if failed == nil && (answering == nil || len(answering) > 0) {
		failed = ask(answering)
	}
	if nobody(failed) && err == nil {
		return failed // else there is what those said that answered the first
	}
	for _, b := range admin.BrokerErrors(failed) {
		if !errors.Is(b, admin.ErrNotOffered) {
			all = append(all, b)
		}
	}
	return errors.Join(all...)
}

// watching is a question that is asked again and again.
type watching struct {
	env      Env
	interval time.Duration
	count    int // looks; 0 until interrupted
	missing  map[int32]string
}

// patience is how long a watch waits for a broker, so that one that hangs does not hold up what the others say for long.
const patience = 5 * time.Second

// bounds are the options of a client that watches: those of the properties file are for a single question.
func (w *watching) bounds(timeout time.Duration) []kgo.Opt {
	d := min(max(w.interval, patience), timeout)
	return []kgo.Opt{kgo.RequestTimeoutOverhead(max(d, 100*time.Millisecond)), kgo.DialTimeout(d)}
}

// run looks until it was done count times or ctx ends, which is no error. ask asks all brokers once and tells whether any answered;
// show prints what they said. It ends with exit status 1 if a broker did not answer the last time.
func (w *watching) run(ctx context.Context, ask func(context.Context) (answered bool, err error), show func(asked error) error) error {
	err := again(ctx, w.interval, w.count, func() error {
		answered, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // interrupted, which is no error
		case err != nil && !answered:
			return brokerErrors(w.env, err)
		}
		if failed := w.note(err); failed != nil {
			return failed
		}
		return show(err)
	})
	if err == nil && len(w.missing) > 0 {
		return &ExitError{Code: 1}
	}
	return err
}

// note names brokers on standard error when they begin not to answer, for another reason than before, and when they answer again.
func (w *watching) note(err error) error {
	missing := map[int32]string{}
	var lines []string
	for _, b := range admin.BrokerErrors(err) {
		missing[b.NodeID] = b.Error()
		if w.missing[b.NodeID] != b.Error() {
			lines = append(lines, b.Error())
		}
	}
	for node := range w.missing {
		if _, still := missing[node]; !still {
			lines = append(lines, fmt.Sprintf("broker %d: answers again", node))
		}
	}
	if w.missing = missing; nobody(err) {
		lines = append(lines, err.Error())
	}
	slices.Sort(lines)
	for _, line := range lines {
		if _, err := fmt.Fprintf(w.env.Stderr, "brokerlab: %s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// again looks once every interval: count times, or until ctx ends where count is 0.
func again(ctx context.Context, interval time.Duration, count int, look func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		if err := look(); err != nil {
			return err
		}
		if n == count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
