package accounting

import (
	"crypto/tls"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// An observer that breaks what it observes is worse than none; one in the kernel once broke TLS over IPv6
// (https://github.com/grafana/beyla/issues/2293).
var _ = Describe("The kernel's count", Label("accounting"), func() {
	It("leaves TLS clients of both families as they are without it", func(ctx SpecContext) {
		// serve returns how many clients of each kind are served with these kernel features forced off.
		serve := func(off string) map[string]int {
			GinkgoT().Setenv(kernel.EnvOff, off)
			s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
			if off == "" {
				s.NeedKernel(ctx)
			}
			var groups []fleet.Group
			for _, prefix := range []string{"10.1.0.0/24", "fd00:1::/64"} {
				for _, listener := range []string{"SSL", "SASL_SSL"} {
					for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
						g := s.Group(prefix, listener, "alice", stage.Scale(50))
						g.Name = fmt.Sprintf("%s over %s, %s", listener, prefix, tls.VersionName(version))
						g.TLS.MaxVersion = version
						groups = append(groups, g)
					}
				}
			}
			f := s.Fleet(ctx, groups...)
			stage.AllUp(f)
			served := map[string]int{}
			for _, r := range f.Up() {
				served[r.Group]++
			}
			return served
		}
		Expect(serve("")).To(Equal(serve("bpf")))
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
