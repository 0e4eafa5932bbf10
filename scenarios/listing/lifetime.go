package listing

import (
	"context"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// authenticate sends PLAIN credentials in a version of SaslAuthenticate on a client that has chosen its mechanism, and returns how
// long the broker says that they hold.
func authenticate(ctx context.Context, f *fleet.Fleet, id int, version int16, user string) time.Duration {
	GinkgoHelper()
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = version, []byte("\x00"+user+"\x00"+user+"-secret")
	answer, err := f.Call(ctx, id, req)
	Expect(err).NotTo(HaveOccurred())
	resp, ok := answer.(*kmsg.SASLAuthenticateResponse)
	Expect(ok).To(BeTrue())
	Expect(resp.ErrorCode).To(BeZero())
	return time.Duration(resp.SessionLifetimeMillis) * time.Millisecond
}

// handshake chooses PLAIN again, as re-authentication begins.
func handshake(ctx context.Context, f *fleet.Fleet, id int) {
	GinkgoHelper()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, fleet.Plain
	answer, err := f.Call(ctx, id, req)
	Expect(err).NotTo(HaveOccurred())
	resp, ok := answer.(*kmsg.SASLHandshakeResponse)
	Expect(ok).To(BeTrue())
	Expect(resp.ErrorCode).To(BeZero())
}

// ask sends Metadata every 50 ms until the broker ends the connection or the time is over, and returns how often it was answered.
func ask(ctx context.Context, f *fleet.Fleet, id int, until time.Time) (answers int) {
	GinkgoHelper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(until) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 7
		if _, err := f.Call(ctx, id, req); err != nil {
			return answers
		}
		answers++
		select {
		case <-tick.C:
		case <-ctx.Done():
			return answers
		}
	}
	return answers
}

var _ = Describe("A row of the list", Label("listing"), stage.Needs(stage.Listing), func() {
	It("goes at each lifetime of a client that cannot re-authenticate (SaslAuthenticate v0), and stays with one that can", func(ctx SpecContext) {
		const lifetimes, lifetime = 5, 1500 * time.Millisecond
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"), stage.Broker("connections.max.reauth.ms=1500"))
		group := s.Group("10.1.0.0/24", "SASL_PLAINTEXT", "alice", 1)
		group.Behaviour = fleet.HalfSASL
		able := s.Fleet(ctx, group)
		stage.AllUp(able)
		ableID := able.Records()[0].ID
		Expect(authenticate(ctx, able, ableID, 2, "alice")).To(And(BeNumerically(">", 0), BeNumerically("<=", lifetime)))
		table := report.Table{
			Name:    "A client of SaslAuthenticate v0 that asks 20 times a second",
			Columns: []string{"connection", "told lifetime", "lived", "answers", "how it ended"},
		}
		for i := range lifetimes {
			old := s.Fleet(ctx, group)
			stage.AllUp(old)
			id := old.Records()[0].ID
			begin := time.Now()
			told := authenticate(ctx, old, id, 0, "alice")
			Expect(told).To(BeZero(), "v0 has no word for it")
			Expect(s.Connections(ctx)).To(HaveLen(2))
			answers := ask(ctx, old, id, begin.Add(10*lifetime))
			lived := time.Since(begin)
			r := old.Records()[0]
			Expect(r.Outcome).To(Or(Equal(fleet.ClosedByBroker), Equal(fleet.Reset)), "%+v", r)
			Expect(lived).To(BeNumerically(">=", lifetime), "connection %d", i+1)
			Expect(answers).To(BeNumerically(">", 3))
			table.Rows = append(table.Rows, []string{
				strconv.Itoa(i + 1), "none", fmt.Sprintf("%d ms", lived.Milliseconds()), strconv.Itoa(answers), string(r.Outcome),
			})
			handshake(ctx, able, ableID)
			Expect(authenticate(ctx, able, ableID, 2, "alice")).To(BeNumerically(">", 0))
			Eventually(s.Connections).WithContext(ctx).WithTimeout(10 * time.Second).Should(HaveLen(1))
		}
		report.Attach(table)
		stage.AllUp(able)
		Expect(s.Closed(ctx)).To(HaveKeyWithValue("session_expired", lifetimes), "one disconnect a lifetime")
	}, SpecTimeout(time.Minute))
})
