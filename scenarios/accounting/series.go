package accounting

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The broker's metrics", Label("accounting"), stage.Needs(stage.Metrics), func() {
	It("have no series for each of 1,000 client ids and addresses, and a hundred for 1,000 software names", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/16"), stage.Broker("socket.listen.backlog.size=4096"))
		group := func(i int) fleet.Group {
			g := s.Group("10.1.0.0/16", "PLAINTEXT", stage.Nobody, 1)
			g.Source = s.Network("10.1.0.0/16").At(fmt.Sprintf("10.1.%d.%d", i/250, i%250+1))
			g.ClientID, g.Software, g.SoftwareVersion = fmt.Sprintf("id-%d", i), fmt.Sprintf("tool-%d", i), fmt.Sprintf("%d.0", i)
			return g
		}
		one := s.Fleet(ctx, group(0))
		stage.AllUp(one)
		before := s.Metrics(ctx)
		Expect(before).NotTo(BeEmpty())
		groups := make([]fleet.Group, 0, stage.Scale(1000))
		for i := range stage.Scale(1000) {
			groups = append(groups, group(i+1))
		}
		many := s.Fleet(ctx, groups...)
		stage.AllUp(many)
		after := s.Metrics(ctx)
		const software = 100 // and one for all others
		Expect(len(after)-len(before)).To(BeNumerically("<=", software+8), "new series: those of software, and of a first time, such as a reason or an API")
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
