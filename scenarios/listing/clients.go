package listing

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// counted is a client of connections clients --format json.
type counted struct {
	ClientID string
	Role     string
	Actual   int
	Bound    int
	Excess   int
}

// oneSeed is where these clients look for their cluster: who is given several may keep a connection to each.
const oneSeed = "broker1:9094"

// everyBroker has a producer write to each of three partitions, which three brokers lead.
func everyBroker(ctx context.Context, s *stage.Stage, id string, address int) {
	GinkgoHelper()
	p := s.Client("10.1.0.0/24", fmt.Sprintf("10.1.0.%d", address), "SASL_PLAINTEXT", "alice",
		kgo.ClientID(id), kgo.SeedBrokers(oneSeed), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for partition := range int32(3) {
		Expect(p.ProduceSync(ctx, &kgo.Record{Partition: partition, Value: []byte(id)}).FirstErr()).NotTo(HaveOccurred())
	}
}

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing, stage.Faces), func() {
	It("of three brokers tells of each producer and consumer how many connections it has, may have, and has too many", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Brokers(3), stage.Subnet("10.1.0.0/24"))
		s.CreateTopic(ctx, "orders", 3)
		producers, consumers := stage.Scale(90), stage.Scale(4) // 900 and 40 where somebody first asked
		for i := range producers {
			everyBroker(ctx, s, fmt.Sprintf("producer-%d", i), 10+i%200)
		}
		for i := range consumers {
			s.Client("10.1.0.0/24", fmt.Sprintf("10.1.0.%d", 220+i%20), "SASL_PLAINTEXT", "bob",
				kgo.ClientID(fmt.Sprintf("consumer-%d", i)), kgo.SeedBrokers(oneSeed), kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("billing"))
		}
		const twin = "producer-0" // somebody started it twice
		everyBroker(ctx, s, twin, 10)

		var answer struct{ Clients []counted }
		var seen map[string]counted
		connections := 0
		Eventually(func() int { // consumers join their group in their own time
			answer.Clients, seen, connections = nil, map[string]counted{}, 0
			out := s.Command(ctx, "connections", "clients", "--format", "json", "--bootstrap-server", s.Bootstrap("PLAINTEXT"))
			Expect(json.Unmarshal([]byte(out), &answer)).To(Succeed(), out)
			members := 0
			for _, c := range answer.Clients {
				if c.Role == "consumer" {
					members++
				}
				if strings.HasPrefix(c.ClientID, "producer-") || strings.HasPrefix(c.ClientID, "consumer-") {
					seen[c.ClientID] = c
					connections += c.Actual
				}
			}
			return members
		}).WithContext(ctx).WithTimeout(time.Minute).WithPolling(time.Second).Should(Equal(consumers), "members of the group")
		report.Attach(report.Figure{Name: "clients", Value: float64(len(seen))})
		report.Attach(report.Figure{Name: "connections of theirs", Value: float64(connections)})
		Expect(seen).To(HaveLen(producers + consumers))
		Expect(answer.Clients[0].ClientID).To(Equal(twin), "the greatest excess comes first: %v", answer.Clients[0])
		Expect(answer.Clients[0].Excess).To(And(BeNumerically(">", 0), Equal(answer.Clients[0].Actual-answer.Clients[0].Bound)))
		for id, c := range seen {
			Expect(c.Role).To(Equal(strings.SplitN(id, "-", 2)[0]), id)
			if c.Role == "producer" {
				Expect(c.Actual).To(BeNumerically(">=", 3), "%s is connected to every broker", id)
			}
			if id != twin {
				Expect(c.Excess).To(BeZero(), "%s has %d connections, and may have %d", id, c.Actual, c.Bound)
			}
		}
	}, SpecTimeout(3*time.Minute))
})
