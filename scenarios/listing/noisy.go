package listing

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Grouping the list", Label("listing"), stage.Needs(stage.Listing), func() {
	It("names who has opened 500 sockets too many, by subnet, principal or software, in one command each", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24", "fd00:1::/64"),
			stage.Broker("socket.listen.backlog.size=4096"))
		columns := regexp.MustCompile(` {2,}`) // a subnet of a lab has its name behind one space
		group := func(by string) [][]string {
			GinkgoHelper()
			out := s.Command(ctx, "connections", "list", "--bootstrap-server", "broker:9092", "--group-by", by, "--limit", "3")
			var rows [][]string
			for line := range strings.Lines(out) {
				rows = append(rows, columns.Split(strings.TrimSpace(line), -1))
			}
			return rows
		}
		usual := s.Fleet(ctx,
			s.Group("10.1.0.0/24", "SSL", "alice", stage.Scale(200)),
			s.Group("10.2.0.0/24", "PLAINTEXT", stage.Nobody, stage.Scale(100)),
			s.Group("fd00:1::/64", "SASL_SSL", "alice", stage.Scale(100)),
		)
		stage.AllUp(usual)
		Expect(group("subnet")[1][:2]).To(Equal([]string{"10.1.0.0/24 clients-1", strconv.Itoa(stage.Scale(200))}))

		By("500 extra sockets")
		noise := s.Group("10.3.0.0/24", "SASL_PLAINTEXT", "bob", stage.Scale(500))
		noise.Software, noise.SoftwareVersion = "leaky-pool", "0.1"
		noisy := s.Fleet(ctx, noise)
		stage.AllUp(noisy)
		for by, name := range map[string]string{"subnet": "10.3.0.0/24 clients-3", "principal": "User:bob", "software": "leaky-pool/0.1", "listener": "SASL_PLAINTEXT"} {
			rows := group(by)
			Expect(rows[0]).To(Equal([]string{strings.ToUpper(by), "CONNECTIONS", "OPENED/MIN", "CLOSED/MIN", "MEDIAN-LIFETIME"}))
			Expect(rows[1][:2]).To(Equal([]string{name, strconv.Itoa(stage.Scale(500))}))
			Expect(len(rows)).To(BeNumerically("<=", 4))
		}

		By("the same for sockets that do not stay")
		_, err := noisy.CloseWhere(nil, fleet.FIN)
		Expect(err).NotTo(HaveOccurred())
		var doc struct {
			Exactness string
			Groups    []struct {
				Group                                           string
				Connections, OpenedLastMinute, ClosedLastMinute int
				MedianLifetimeMs                                *int
			}
		}
		Eventually(func(g Gomega) {
			out := s.Command(ctx, "connections", "list", "--bootstrap-server", "broker:9092", "--group-by", "subnet", "--sort", "closed:desc", "--format", "json")
			g.Expect(json.Unmarshal([]byte(out), &doc)).To(Succeed())
			g.Expect(doc.Groups[0].Group).To(Equal("10.3.0.0/24 clients-3"))
			g.Expect(doc.Groups[0].ClosedLastMinute).To(Equal(stage.Scale(500)))
			g.Expect(doc.Groups[0].Connections).To(BeZero())
		}).WithContext(ctx).WithTimeout(30 * time.Second).Should(Succeed())
		Expect(doc.Exactness).To(Equal("exact"))
		Expect(doc.Groups[0].MedianLifetimeMs).NotTo(BeNil())
	}, SpecTimeout(2*time.Minute))
})
