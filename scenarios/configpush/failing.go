package configpush

import (
	"context"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// forever is longer than a spec, in milliseconds.
const forever = "3600000"

// fated is a configuration by which a client picks what the policy of [newFaulty] does with its push.
func fated(fate string) fleet.Config {
	return fleet.Config{Key: "fate", Value: fate, Type: protocol.ConfigTypeString}
}

// newFaulty is a stage whose broker has the policy fault.
func newFaulty(ctx SpecContext, properties ...string) *stage.Stage {
	GinkgoHelper()
	return newGround(ctx, append([]string{
		policy + "fault", "client.config.fault.panic=fate=panic", "client.config.fault.fail=fate=fail", "client.config.fault.sleep=fate=sleep",
	}, properties...)...)
}

var _ = Describe("A policy that fails", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("costs the client that pushed an error and nobody anything else, over each protocol, whether it panics or says so", func(ctx SpecContext) {
		s := newFaulty(ctx)
		others, failures := bystanders(ctx, s)
		begun := s.Metrics(ctx)["process_start_time_seconds"]
		for _, p := range protocols() {
			By(p.listener)
			f := in(ctx, s, one(s, p.listener, p.user, fated("panic")), one(s, p.listener, p.user, fated("fail")), one(s, p.listener, p.user, fated("none")))
			for i, want := range []int16{unknownServerError, unknownServerError, 0} {
				Expect(f.Records()[i].Push).To(Equal(want))
			}
			Expect(textOf(repush(ctx, f, fated("panic")).ErrorMessage)).To(Equal("The policy for client configurations failed."))
			Expect(repush(ctx, f, fated("none")).ErrorCode).To(BeZero(), "the connection goes on")
			stage.AllUp(f)
		}
		n := len(protocols())
		Expect(counted(ctx, s, "policy_panic")).To(Equal(2 * n))
		Expect(counted(ctx, s, "policy_error")).To(Equal(n))
		Expect(counted(ctx, s, "accepted")).To(Equal(2 * n))
		Expect(s.Metrics(ctx)["process_start_time_seconds"]).To(Equal(begun), "it is the same process")
		Expect(s.LogText()).To(And(ContainSubstring("panic: runtime error"), ContainSubstring("asked to fail")))
		stage.AllUp(others)
		Expect(failures()).To(BeZero())
	}, SpecTimeout(2*time.Minute))

	It("by sleeping is answered when the client's time is up, and goes on when it wakes, over each protocol", func(ctx SpecContext) {
		s := newFaulty(ctx, "client.config.policy.timeout.ms=400", "client.config.fault.sleep.ms=900")
		others, failures := bystanders(ctx, s)
		for _, p := range protocols() {
			By(p.listener)
			f := in(ctx, s, one(s, p.listener, p.user, fated("sleep")))
			Expect(f.Records()[0].Push).To(BeEquivalentTo(unknownServerError))
			Expect(textOf(repush(ctx, f, fated("sleep")).ErrorMessage)).To(Equal("The policy for client configurations took longer than 400ms."))
			Eventually(func() int16 { return repush(ctx, f, fated("none")).ErrorCode }).WithContext(ctx).WithTimeout(patience).Should(BeZero())
		}
		Expect(counted(ctx, s, "timeout")).To(BeNumerically(">=", 2*len(protocols())))
		Expect(counted(ctx, s, "policy_error")).To(BeZero())
		stage.AllUp(others)
		Expect(failures()).To(BeZero())
	}, SpecTimeout(2*time.Minute))

	It("by sleeping for ever holds up who pushes, and nobody else; what they leave behind when they close is nothing, over each protocol", func(ctx SpecContext) {
		const each = 5 // of four protocols: more than the policy is given at a time
		s := newFaulty(ctx, "max.connections=40", "client.config.policy.timeout.ms="+forever, "client.config.fault.sleep.ms="+forever)
		others, failures := bystanders(ctx, s)
		groups := make([]fleet.Group, 0, len(protocols()))
		for _, p := range protocols() {
			groups = append(groups, s.Group(clientNet, p.listener, p.user, each))
		}
		sleepers := in(ctx, s, groups...)
		count := len(sleepers.Records())
		Expect(s.Connections(ctx)).To(HaveLen(count + len(others.Records()))) // over a connection of its own, which stays
		before := s.Metrics(ctx)
		files := s.BrokerFiles(ctx)
		answers := make(chan error, count)
		for i := range count {
			begin(ctx, sleepers, i, answers, fated("sleep"))
		}
		Eventually(func() float64 { return s.Metrics(ctx)["brokerlab_config_push_queue"] }).WithContext(ctx).WithTimeout(patience).
			Should(BeEquivalentTo(count-4), "four sleep, and the others wait")

		// Whoever does not push is served by the same broker.
		for _, p := range protocols() {
			c := client(s, p.listener, p.user, &recorder{})
			Expect(c.Ping(ctx)).To(Succeed())
			c.Close()
		}
		served := others.Stats().Requests
		Eventually(func() int64 { return others.Stats().Requests }).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">", served+100))
		Expect(answers).NotTo(Receive(), "those who push wait")

		By("closing those that wait, by FIN and by RST")
		half := func(r fleet.Record) bool { return r.ID%2 == 0 }
		_, err := sleepers.CloseWhere(half, fleet.FIN)
		Expect(err).NotTo(HaveOccurred())
		_, err = sleepers.CloseWhere(nil, fleet.RST)
		Expect(err).NotTo(HaveOccurred())
		Expect(sleepers.UpCount()).To(BeZero())
		for range count {
			Eventually(answers).WithContext(ctx).WithTimeout(patience).Should(Receive(HaveOccurred()))
		}
		Eventually(func() int {
			return len(s.Connections(ctx))
		}).WithContext(ctx).WithTimeout(patience).Should(Equal(len(others.Records())), "none of them is listed")
		Eventually(s.CloseWait).WithContext(ctx).WithTimeout(patience).Should(BeZero())
		Eventually(func() int { return s.BrokerFiles(ctx) }).WithContext(ctx).WithTimeout(patience).Should(BeNumerically("<", files-count/2), "theirs are closed; those of others come and go")
		Eventually(func() float64 { return s.Metrics(ctx)["go_goroutines"] }).WithContext(ctx).WithTimeout(patience).
			Should(BeNumerically("<", before["go_goroutines"]+float64(count)), "one each would be more; some are workers that begin with their first work")
		Expect(s.Metrics(ctx)["brokerlab_config_push_queue"]).To(BeNumerically("<=", count-4))
		for range 2 { // their slots are free: twice as many would not fit beside them
			f := in(ctx, s, groups...)
			_, err = f.CloseWhere(nil, fleet.FIN)
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() int { return len(s.Connections(ctx)) }).WithContext(ctx).WithTimeout(patience).Should(Equal(len(others.Records())))
		}
		stage.AllUp(others)
		Expect(failures()).To(BeZero())
	}, SpecTimeout(3*time.Minute))

	It("by sleeping is answered for those whom it has no room to let wait, over each protocol", func(ctx SpecContext) {
		const wait = 4
		big := make([]fleet.Config, 500) // 15 MB: four of them wait, and with a fifth it would be more than 64 MiB
		for i := range big {
			big[i] = fleet.Config{Key: strconv.Itoa(i), Value: strings.Repeat("v", 30_000)} // longer texts are none to Kafka
		}
		s := newFaulty(ctx, "client.config.max.bytes=20000000", "client.config.policy.timeout.ms="+forever, "client.config.fault.sleep.ms="+forever)
		others, failures := bystanders(ctx, s)
		asleep := in(ctx, s, s.Group(clientNet, "PLAINTEXT", stage.Nobody, 4+wait))
		answers := make(chan error, 4+wait)
		for i := range 4 { // as many as it is given at a time
			begin(ctx, asleep, i, answers, fated("sleep"))
		}
		Eventually(func() float64 { return s.Metrics(ctx)["brokerlab_config_push_bytes_total"] }).WithContext(ctx).WithTimeout(patience).
			Should(BeEquivalentTo(4 * len("fatesleep")))
		Eventually(func() float64 { return s.Metrics(ctx)["brokerlab_config_push_queue"] }).WithContext(ctx).WithTimeout(patience).Should(BeZero())
		for i := range wait {
			begin(ctx, asleep, 4+i, answers, big...)
			Eventually(func() float64 { return s.Metrics(ctx)["brokerlab_config_push_queue"] }).WithContext(ctx).WithTimeout(patience).Should(BeEquivalentTo(i + 1))
		}
		for _, p := range protocols() {
			By(p.listener)
			f := in(ctx, s, s.Group(clientNet, p.listener, p.user, 1))
			answer := repush(ctx, f, big...)
			Expect(answer.ErrorCode).To(BeEquivalentTo(unknownServerError))
			Expect(textOf(answer.ErrorMessage)).To(Equal("The policy for client configurations has too much to do."))
			Expect(lists(ctx, f)).To(BeTrue(), "the connection goes on")
		}
		Expect(counted(ctx, s, "overload")).To(Equal(len(protocols())))
		Expect(answers).NotTo(Receive(), "those who were there before wait on")
		stage.AllUp(others)
		Expect(failures()).To(BeZero())
		Expect(asleep.Close()).To(Succeed())
	}, SpecTimeout(3*time.Minute))
})

// bystanders ask for metadata all the time, over each protocol and from another subnet; failures is how many requests have
// failed.
func bystanders(ctx context.Context, s *stage.Stage) (others *fleet.Fleet, failures func() int64) {
	GinkgoHelper()
	groups := make([]fleet.Group, 0, len(protocols()))
	for _, p := range protocols() {
		g := s.Group(otherNet, p.listener, p.user, 2)
		g.Behaviour, g.Every = fleet.Metadata, 50*time.Millisecond
		groups = append(groups, g)
	}
	others = in(ctx, s, groups...)
	return others, func() int64 { return others.Stats().Failures }
}

// begin sends a push over a client's connection and returns. What becomes of it comes to answers.
func begin(ctx context.Context, f *fleet.Fleet, id int, answers chan<- error, configs ...fleet.Config) {
	go func() {
		_, err := f.Call(ctx, id, fleet.PushRequest(configs, id))
		answers <- err
	}()
}
