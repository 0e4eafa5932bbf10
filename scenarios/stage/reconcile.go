package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/brokerlab/brokerlab/internal/reconcile"
)

// Reconcile compares the broker's list of connections with the kernel's count, listener by listener, the stage's own
// connections included. A difference without a name is looked at again, and only what is still there is kept. Where the
// kernel does not count at all, or the target keeps no list, there is nothing to compare: no result.
func (s *Stage) Reconcile(ctx context.Context) []reconcile.Result {
	GinkgoHelper()
	if s.outside != nil {
		return nil
	}
	const readings = 2
	brokers, err := reconcile.Cluster(ctx, s.admin, readings, 0)
	i := slices.IndexFunc(brokers, func(b reconcile.Broker) bool { return len(s.brokers) == 1 || b.Node == s.id })
	Expect(i).To(BeNumerically(">=", 0), "%s did not answer: %v", s.node.Name, err)
	return brokers[i].Listeners
}

// BeExplained succeeds when every difference between broker and kernel has a name.
func BeExplained() types.GomegaMatcher { return explained{} }

type explained struct{}

// Match takes what [Stage.Reconcile] returned.
func (explained) Match(actual any) (bool, error) {
	results, ok := actual.([]reconcile.Result)
	if !ok {
		return false, fmt.Errorf("BeExplained takes the result of Reconcile, not a %T", actual)
	}
	return !slices.ContainsFunc(results, func(r reconcile.Result) bool { return !r.Explained() }), nil
}

// FailureMessage shows all listeners.
func (explained) FailureMessage(actual any) string {
	return "Expected every difference between broker and kernel to have a name:\n" + Explain(actual.([]reconcile.Result)) //nolint:forcetypeassert // Match looked
}

// NegatedFailureMessage shows all listeners.
func (explained) NegatedFailureMessage(actual any) string {
	return "Expected a difference without a name:\n" + Explain(actual.([]reconcile.Result)) //nolint:forcetypeassert // Match looked
}

// Explain prints results one a line, with the connections behind what is not explained.
func Explain(results []reconcile.Result) string {
	var b strings.Builder
	for i := range results {
		r := &results[i]
		fmt.Fprintln(&b, r.String())
		for _, k := range r.KernelSockets {
			fmt.Fprintf(&b, "    kernel only: %v %s cookie %d\n", k.Remote, k.State, k.Cookie)
		}
		for _, c := range r.BrokerConns {
			fmt.Fprintf(&b, "    broker only: %s cookie %d\n", c.ID, c.Cookie)
		}
	}
	return b.String()
}
