package accounting

import (
	"crypto/tls"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// kafkaRequest is the beginning of an ApiVersions request.
func kafkaRequest() []byte {
	return []byte{0, 0, 0, 40, 0, 18, 0, 3, 0, 0, 0, 1, 0, 4, 't', 'e', 's', 't'}
}

var _ = Describe("The kernel's count", Label("accounting"), func() {
	It("tells TLS from plaintext by the first bytes, whatever the port claims and however they are cut", func(ctx SpecContext) {
		stage.Alone()
		v4, both := stage.Listen(ctx, "127.0.0.1:0"), stage.Listen(ctx, "[::]:0")
		counter := stage.Attach(ctx, v4, both)
		hello, err := fleet.ClientHello(&tls.Config{ServerName: "broker", MinVersion: tls.VersionTLS12})
		Expect(err).NotTo(HaveOccurred())

		say := func(p *stage.Program, host string, what []byte, segment, count int) {
			GinkgoHelper()
			g := fleet.Group{
				Count: count, Target: netip.AddrPortFrom(netip.MustParseAddr(host), p.Port()), Protocol: fleet.Plaintext,
				Behaviour: fleet.Raw, Payload: what, Segment: segment,
			}
			if what == nil {
				g.Behaviour = fleet.Silent
			}
			stage.AllUp(stage.NewFleet(ctx, g))
		}
		verdicts := func(p *stage.Program) func() [4]int64 {
			return func() [4]int64 {
				k := counter.Port(ctx, p)
				return [4]int64{k.TLS, k.Plaintext, k.Undecided, k.Unknown}
			}
		}
		for _, target := range []struct {
			program *stage.Program
			hosts   []string
		}{{v4, []string{"127.0.0.1"}}, {both, []string{"127.0.0.1", "::1"}}} {
			for _, host := range target.hosts {
				say(target.program, host, hello, 0, 10)
				say(target.program, host, hello, 1, 3)                      // each byte a segment
				say(target.program, host, hello[:len(hello)/2], 0, 5)       // half a hello is one all the same
				say(target.program, host, kafkaRequest(), 0, 7)             // to a port that might claim TLS
				say(target.program, host, kafkaRequest(), 1, 2)             //
				say(target.program, host, []byte{22, 3, 1, 0, 80, 2}, 0, 1) // a TLS record, but no ClientHello
				say(target.program, host, hello[:3], 0, 4)                  // may still become either
				say(target.program, host, nil, 0, 6)
			}
			n := int64(len(target.hosts))
			Eventually(verdicts(target.program)).WithContext(ctx).WithTimeout(20*time.Second).
				Should(Equal([4]int64{18 * n, 10 * n, 10 * n, 0}), "TLS, plaintext, undecided, unknown")
			Expect(counter.Port(ctx, target.program).Established).To(Equal(38 * n))
		}
		Expect(counter.Report(ctx).Exactness).To(Equal(broker.KernelExact))
	}, SpecTimeout(stage.Within(2*time.Minute)))

	It("agrees with the security protocol of each listener of a broker", Label("kafka"), func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
		s.NeedKernel(ctx)
		var groups []fleet.Group
		users := map[string]string{"PLAINTEXT": stage.Nobody, "SSL": "alice", "SASL_PLAINTEXT": "bob", "SASL_SSL": "alice"}
		for listener, user := range users {
			groups = append(groups, s.Group("10.1.0.0/24", listener, user, 10), s.Group("fd00:1::/64", listener, user, 15))
		}
		f := s.Fleet(ctx, groups...)
		stage.AllUp(f)
		for listener := range users {
			k, own := s.Port(ctx, listener), s.Own(ctx, listener)
			spoken, other := k.Gauge.Plaintext, k.Gauge.TLS
			if fleet.Protocol(listener).TLS() {
				spoken, other = other, spoken
			}
			Expect(spoken-own).To(BeEquivalentTo(25), listener)
			Expect(other).To(BeZero(), listener)
			Expect(k.Gauge.Undecided).To(BeZero(), listener)
			Expect(k.Gauge.Served-own).To(BeEquivalentTo(25), "%s: each has been answered", listener)
		}
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
