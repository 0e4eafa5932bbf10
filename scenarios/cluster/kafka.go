package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A cluster before Apache Kafka", Label("cluster", stage.Long), stage.Needs(stage.Faces), func() {
	It("loses nothing and has nothing twice when a node of Kafka is killed, and a broker before another", func(ctx SpecContext) {
		s := three(ctx, stage.BeforeKafka(), stage.Broker("broker.session.timeout.ms=30000")) // longer than Kafka takes to elect a leader
		l := begin(ctx, s)
		before := mark(ctx, s.Broker(1), "before-the-kill")
		node := s.Part("kafka2")
		Expect(node.Kill(ctx)).To(Succeed())
		at := time.Now()
		l.flows(ctx) // its partitions have another leader now, and that has a face
		report.Attach(report.Figure{Name: "all partitions go on after the kill in", Value: time.Since(at).Seconds(), Unit: "s"})
		everywhere(ctx, s, before)
		Expect(node.Start(ctx)).To(Succeed())
		l.flows(ctx)

		Expect(s.Broker(3).Node().Kill(ctx)).To(Succeed())
		during := mark(ctx, s.Broker(1), "while-broker3-was-away")
		Expect(s.Broker(3).Node().Start(ctx)).To(Succeed())
		everywhere(ctx, s, during)
		l.finish(ctx)
	}, SpecTimeout(10*time.Minute))
})
