package listing

import (
	"encoding/json"
	"io"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// closedRow is what the command line tells of a connection that has ended.
type closedRow struct {
	Principal, ClientAddress, ListenerName, Reason string
	ClientPort                                     uint16
	BytesIn, LifetimeMs                            int64
}

var _ = Describe("The list of closed connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("tells of each client that left or was sent away who it was and why it ended", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"), stage.Broker("connection.failed.authentication.delay.ms=0"))
		leaving := s.Fleet(ctx, s.Group("10.1.0.0/24", "SSL", "alice", 10), s.Group("fd00:1::/64", "SASL_SSL", "bob", 10))
		resetting := s.Fleet(ctx, s.Group("10.1.0.0/24", "SASL_PLAINTEXT", "alice", 10), s.Group("fd00:1::/64", "PLAINTEXT", stage.Nobody, 10))
		stage.AllUp(leaving)
		stage.AllUp(resetting)
		want := map[netip.AddrPort][3]string{} // principal, listener, reason
		expect := func(records []fleet.Record, reason string) {
			for i := range records {
				want[records[i].Local] = [3]string{records[i].Principal, records[i].Listener, reason}
			}
		}
		expect(leaving.Up(), "client_closed")
		expect(resetting.Up(), "client_reset")
		_, err := leaving.CloseWhere(nil, fleet.FIN)
		Expect(err).NotTo(HaveOccurred())
		_, err = resetting.CloseWhere(nil, fleet.RST)
		Expect(err).NotTo(HaveOccurred())

		By("clients that the broker sends away")
		send := func(port, text, listener, reason string) {
			GinkgoHelper()
			c, err := s.Network("10.1.0.0/24").Dialer(netip.MustParseAddr("10.1.0.77"))(ctx, "tcp", "broker:"+port)
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = c.Close() }()
			want[netip.MustParseAddrPort(c.LocalAddr().String())] = [3]string{stage.Anonymous, listener, reason}
			Expect(c.SetDeadline(time.Now().Add(time.Minute))).To(Succeed())
			_, err = io.WriteString(c, text)
			Expect(err).NotTo(HaveOccurred())
			_, _ = io.Copy(io.Discard, c) // until the broker closes
		}
		send("9092", "\xff\xff\xff\xff", "PLAINTEXT", "malformed_request")
		send("9092", "\x7f\xff\xff\xff", "PLAINTEXT", "oversize_frame")
		send("9093", "GET / HTTP/1.1\r\n\r\n", "SSL", "plaintext_on_tls")
		wrong := s.Group("10.1.0.0/24", "SASL_PLAINTEXT", "bob", 3)
		wrong.Password, wrong.Principal = "wrong", ""
		refused := s.Open(ctx, fleet.Plan{Groups: []fleet.Group{wrong}})
		expect(refused.Records(), "authentication_failed")

		got := map[netip.AddrPort][3]string{}
		list := func() map[netip.AddrPort][3]string {
			GinkgoHelper()
			var doc struct{ Connections []closedRow }
			out := s.Command(ctx, "connections", "list", "--bootstrap-server", "broker:9092", "--closed", "--format", "json")
			Expect(json.Unmarshal([]byte(out), &doc)).To(Succeed())
			for i := range doc.Connections {
				c := &doc.Connections[i]
				addr, err := netip.ParseAddr(c.ClientAddress)
				Expect(err).NotTo(HaveOccurred())
				client := netip.AddrPortFrom(addr, c.ClientPort)
				if _, ours := want[client]; ours {
					Expect(c.BytesIn).To(BeNumerically(">", 0), "%+v", c)
					got[client] = [3]string{c.Principal, c.ListenerName, c.Reason}
				}
			}
			return got
		}
		Eventually(list).WithContext(ctx).WithTimeout(30 * time.Second).Should(Equal(want))

		By("one reason of them as a table")
		table := s.Command(ctx, "connections", "list", "--bootstrap-server", "broker:9092", "--closed", "--reason", "authentication_failed")
		Expect(strings.Split(strings.TrimSpace(table), "\n")).To(HaveLen(1 + 3))
	}, SpecTimeout(2*time.Minute))
})
