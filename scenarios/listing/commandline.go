package listing

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The command line", Label("listing"), stage.Needs(stage.Listing), func() {
	It("prints the list that a Go program gets, and finds nothing unexplained", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
		f := s.Fleet(ctx,
			s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 5), s.Group("fd00:1::/64", "SSL", "alice", 5),
			s.Group("10.1.0.0/24", "SASL_SSL", "bob", 5), s.Group("fd00:1::/64", "SASL_PLAINTEXT", "alice", 5),
		)
		stage.AllUp(f)

		By("connections list")
		out := s.Command(ctx, "connections", "list", "--bootstrap-server", "broker:9092")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		Expect(strings.Fields(lines[0])).To(Equal([]string{
			"CONNECTION-ID", "PRINCIPAL", "CLIENT-ADDRESS", "PORT", "LISTENER", "PROTOCOL", "SOFTWARE", "CONNECTED-SINCE",
		}))
		for _, row := range s.Connections(ctx) {
			Expect(lines).To(ContainElement(And(
				HavePrefix(row.ConnectionID+" "), ContainSubstring(" %s ", row.Principal), ContainSubstring(" %s ", row.ClientAddress),
				ContainSubstring(" %d ", row.ClientPort), ContainSubstring(" %s ", row.SecurityProtocol),
				HaveSuffix(time.UnixMilli(row.ConnectedSince).UTC().Format("2006-01-02T15:04:05Z")),
			)))
		}
		for _, r := range f.Up() {
			Expect(out).To(ContainSubstring(fmt.Sprintf(" %d ", r.Local.Port())))
		}

		By("connections list with filters")
		out = s.Command(ctx, "connections", "list", "--bootstrap-server", "broker:9092", "--principal", "User:bob", "--listener", "sasl_ssl")
		Expect(strings.Split(strings.TrimSpace(out), "\n")).To(HaveLen(6))

		By("connections list --format json")
		var answer struct {
			Connections []struct{ ConnectionID string }
			Errors      []any
		}
		Expect(json.Unmarshal([]byte(s.Command(ctx, "connections", "list", "--bootstrap-server", "broker:9092", "--format", "json")), &answer)).To(Succeed())
		Expect(len(answer.Connections)).To(BeNumerically(">=", 20))
		Expect(answer.Errors).To(BeEmpty())

		By("kernel reconcile")
		if s.KernelExact(ctx) {
			Expect(s.Command(ctx, "kernel", "reconcile", "--bootstrap-server", "broker:9092")).To(ContainSubstring("SASL_SSL"))
			Expect(s.Command(ctx, "kernel", "show", "--bootstrap-server", "broker:9092")).To(ContainSubstring("SASL_SSL"))
		}
	}, SpecTimeout(time.Minute))
})
