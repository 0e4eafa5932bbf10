package acl

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// known are those of the questions that the target knows.
func known(all ...question) []question {
	return slices.DeleteFunc(all, func(q question) bool {
		_, list := q.request.(*protocol.ListClientConnectionsRequest)
		return list && !stage.Has(stage.Listing)
	})
}

// listing is a question for ListClientConnections (KIP-1329), which needs DESCRIBE on the cluster.
func listing() question {
	return question{protocol.NewPtrListClientConnectionsRequest(), answerOf(func(r *protocol.ListClientConnectionsResponse) int16 { return r.ErrorCode })}
}

var _ = Describe("The list of connections", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("is for those who may describe the cluster, from where they may: others get code 31 and an empty list", stage.Needs(stage.Listing), func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		both := []string{"10.1.7.0", "10.1.8.0"}
		var d decisions
		defer d.attach()
		for _, test := range []struct {
			name  string
			rules []string
			want  []string
		}{
			{"nothing", nil, nil},
			{"DESCRIBE", []string{"allow alice DESCRIBE Cluster"}, both},
			{"DESCRIBE for a range", []string{"allow alice DESCRIBE Cluster from 10.1.7.0/24"}, []string{"10.1.7.0"}},
			{"ALTER implies it", []string{"allow alice ALTER Cluster from 10.1.8.0/24"}, []string{"10.1.8.0"}},
			{"ALL", []string{"allow alice ALL Cluster"}, both},
			{"DENY DESCRIBE beats ALTER", []string{"allow alice ALTER Cluster", "deny alice DESCRIBE Cluster from 10.1.7.0/24"}, []string{"10.1.8.0"}},
			{"DENY ALTER leaves DESCRIBE", []string{"allow alice DESCRIBE Cluster", "deny alice ALTER Cluster"}, both},
			{"CREATE does not imply it", []string{"allow alice CREATE Cluster"}, nil},
			{"DESCRIBE for somebody else", []string{"allow bob DESCRIBE Cluster"}, nil},
		} {
			if test.rules != nil {
				s.Grant(ctx, test.rules...)
			}
			d.check(ctx, test.name, p, listing(), test.want...)
			for id, address := range p.addresses {
				answer, err := p.fleet.Call(ctx, id, listing().request)
				Expect(err).NotTo(HaveOccurred())
				list := answer.(*protocol.ListClientConnectionsResponse) //nolint:forcetypeassert // the answer to the request
				if list.ErrorCode != 0 {
					Expect(list.ErrorCode).To(BeEquivalentTo(clusterRefused), "%s from %s", test.name, address)
					Expect(list.Connections).To(BeEmpty(), "%s from %s", test.name, address)
					continue
				}
				Expect(len(list.Connections)).To(BeNumerically(">=", 2), "%s from %s", test.name, address)
			}
			s.RevokeAll(ctx)
		}
	}, SpecTimeout(stage.Within(time.Minute)))

	It("and everything else is for a super user, whatever rules say and wherever they are", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Broker("super.users=User:admin; "+stage.Anonymous), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx, "deny * ALL Topic:* from 0.0.0.0/0", "deny admin ALL Topic:orders", "deny * ALL Cluster", "deny * ALL Group:*", "deny * ALL TransactionalId:*",
			"allow alice ALL Topic:orders")
		admin, alice := from(ctx, s, net4, "admin", "10.1.7.0", "10.1.8.0"), from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		for _, q := range everyQuestion() {
			Expect(admin.allowed(ctx, q)).To(Equal(admin.addresses))
			Expect(alice.allowed(ctx, q)).To(BeEmpty())
		}
	}, SpecTimeout(stage.Within(time.Minute)))
})
