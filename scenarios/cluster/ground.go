package cluster

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// three is a stage of three brokers that ask their rules and notice soon that one of them is gone. Alice may write, and bob read.
func three(ctx SpecContext, options ...stage.Option) *stage.Stage {
	GinkgoHelper()
	s := stage.New(ctx, append([]stage.Option{
		stage.Brokers(3), stage.Subnet(office), stage.Authorizer(),
		stage.Broker("broker.heartbeat.interval.ms=500", "broker.session.timeout.ms=3000"),
	}, options...)...)
	rules := []string{"allow alice WRITE Topic:" + topic, "allow alice DESCRIBE Topic:" + topic, "allow bob READ Topic:" + topic, "allow bob READ Group:" + groups + "*"}
	s.Grant(ctx, rules...)
	for _, rule := range rules {
		everywhere(ctx, s, rule)
	}
	return s
}

// everywhere waits until every broker knows a rule.
func everywhere(ctx context.Context, s *stage.Stage, rule string) {
	GinkgoHelper()
	for _, b := range s.All() {
		Eventually(func() bool { return b.HasRule(ctx, rule) }).WithContext(ctx).WithTimeout(patience).WithPolling(10*time.Millisecond).
			Should(BeTrue(), "%s knows %q", b.Name(), rule)
	}
}

// mark creates a rule that tells of a moment, and returns it.
func mark(ctx context.Context, s *stage.Stage, what string) string {
	GinkgoHelper()
	rule := "allow carol READ Topic:" + what
	s.Grant(ctx, rule)
	return rule
}
