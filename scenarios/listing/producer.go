package listing

import (
	"fmt"
	"net/netip"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A producer that is idle for too long", Label("listing"), stage.Needs(stage.Listing), func() {
	It("loses its connection with the reason idle, and its next record comes over a new one", func(ctx SpecContext) {
		const idle = 1500 * time.Millisecond
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"), stage.Broker(fmt.Sprintf("connections.max.idle.ms=%d", idle.Milliseconds())))
		s.CreateTopic(ctx, "slow", 1)
		producer, err := kgo.NewClient(
			kgo.SeedBrokers("broker:9092"), kgo.DefaultProduceTopic("slow"),
			kgo.Dialer(s.Network("10.1.0.0/24").Dialer(netip.MustParseAddr("10.1.0.77"))),
		)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(producer.Close)
		produce := func(text string) {
			GinkgoHelper()
			Expect(producer.ProduceSync(ctx, kgo.StringRecord(text)).FirstErr()).NotTo(HaveOccurred())
		}
		produce("first")
		before := s.Connections(ctx)
		Expect(before).NotTo(BeEmpty())
		begin := time.Now()
		Eventually(s.Connections).WithContext(ctx).WithTimeout(30 * time.Second).Should(BeEmpty())
		Expect(time.Since(begin)).To(BeNumerically(">", idle/2), "it is not closed at once")
		Expect(s.Closed(ctx)).To(HaveKeyWithValue("idle", BeNumerically(">=", len(before))))
		produce("second")
		for _, row := range s.Connections(ctx) {
			Expect(row.ClientAddress).To(Equal("10.1.0.77"))
			Expect(ids(before)).NotTo(ContainElement(row.ConnectionID), "a new connection")
		}
		offsets, err := s.EndOffset(ctx, "slow", 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(offsets).To(BeEquivalentTo(2), "each record once")
	}, SpecTimeout(time.Minute))
})
