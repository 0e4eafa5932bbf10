package acl

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Fifty rules for single hosts", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("can be one rule for their range, and none of the fifty, nor anybody outside, sees a difference", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		var old, clients []string
		for i := range 50 {
			clients = append(clients, fmt.Sprintf("10.1.7.%d", 65+i))
			old = append(old, "allow alice READ Topic:orders from "+clients[i])
		}
		const folded = "allow alice READ Topic:orders from 10.1.7.64/26"
		outside := []string{"10.1.7.63", "10.1.7.128", "10.1.6.65", "10.2.7.65"}[:3]
		p := from(ctx, s, net4, "alice", append(clients, outside...)...)
		stranger := from(ctx, s, net4, "bob", clients...)
		questions := known(read("orders"), write("orders"), describe("orders"), create("orders"), join("g"), idempotent(), listing())
		matrix := func() []map[string]int16 {
			GinkgoHelper()
			var all []map[string]int16
			for _, q := range questions {
				all = append(all, p.codes(ctx, q), stranger.codes(ctx, q))
			}
			return all
		}
		s.Grant(ctx, old...)
		before := matrix()
		Expect(p.allowed(ctx, read("orders"))).To(Equal(clients))
		s.Grant(ctx, folded)
		s.Revoke(ctx, old...)
		Expect(matrix()).To(Equal(before))
		Expect(p.allowed(ctx, read("orders"))).To(Equal(clients))
		asked(2*len(questions)*(len(p.addresses)+len(stranger.addresses)), "the whole matrix, before and after")
	}, SpecTimeout(stage.Within(time.Minute)))
})
