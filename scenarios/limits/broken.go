package limits

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A broker that is broken on purpose by one slot", Label("limits"), func() {
	It("is caught by the kernel's mark, whichever limit it is and whatever its own counts say", func(ctx SpecContext) {
		const n = 20
		g := newGround(ctx, "listener.name.internal.max.connections=1000")
		for _, limit := range []struct {
			key       string
			listeners []string
			groups    []fleet.Group
			beside    int // of the stage's own, which count too
		}{
			{"max.ssl.connections", []string{ssl, saslSSL}, []fleet.Group{g.Group(clientNet, ssl, "", 30), g.Group(otherNet, saslSSL, "alice", 30)}, 0},
			{"listener.name.sasl_plaintext.max.connections", []string{saslPlain}, []fleet.Group{g.Group(clientNet, saslPlain, "bob", 60)}, 0},
			{"max.connections", []string{plain, ssl, saslPlain, saslSSL}, []fleet.Group{g.Group(clientNet, plain, "", 30), g.Group(otherNet, saslSSL, "alice", 30)}, int(g.own(ctx))},
		} {
			if limit.key == "max.ssl.connections" && !stage.Has(stage.MaxSSL) {
				continue
			}
			for _, slots := range []int{n, n + 1} {
				By(fmt.Sprintf("%s: %d slots where there may be %d", limit.key, slots, n))
				g.Set(ctx, limit.key+"="+text(slots+limit.beside))
				w := g.watch(ctx, n, limit.listeners...)
				crowd := g.come(ctx, fleet.Plan{Groups: limit.groups})
				admitted(ctx, crowd, slots)
				leave(crowd, 5, fleet.RST)
				admitted(ctx, crowd, slots)
				if slots == n {
					Expect(w.findings(ctx)).To(BeEmpty())
				} else {
					Expect(w.findings(ctx)).To(ContainElement(fmt.Sprintf("served: the kernel saw %d at one instant over a limit of %d", n+1, n)))
				}
				w.over()
				w.witness.Close()
				Expect(crowd.Close()).To(Succeed(), "those that wait too")
				g.Unset(ctx, limit.key)
				g.atRest(ctx)
			}
		}
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
