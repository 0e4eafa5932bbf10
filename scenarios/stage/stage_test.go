package stage

import (
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/reconcile"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

func TestScaleMultipliesAndNeverReachesZero(t *testing.T) {
	for _, test := range []struct {
		factor  string
		n, want int
	}{{"", 10, 10}, {"0.5", 10, 5}, {"0.001", 10, 1}, {"3", 10, 30}, {"-1", 10, 10}, {"x", 10, 10}} {
		t.Setenv(ScaleVariable, test.factor)
		if got := Scale(test.n); got != test.want {
			t.Errorf("Scale(%d) at %q = %d, want %d", test.n, test.factor, got, test.want)
		}
	}
}

func TestBeExplainedShowsTheConnectionsBehindADifference(t *testing.T) {
	g := NewWithT(t)
	fine := reconcile.Result{Listener: "SSL", Kernel: 3, Broker: 2, AcceptQueue: 1}
	socket := broker.KernelSocket{Remote: netip.MustParseAddrPort("10.1.0.9:4711"), State: "ESTAB", Cookie: 42}
	bad := reconcile.Result{Listener: "PLAINTEXT", Kernel: 1, KernelOnly: 1, KernelSockets: []broker.KernelSocket{socket}}

	g.Expect([]reconcile.Result{fine}).To(BeExplained())
	g.Expect([]reconcile.Result(nil)).To(BeExplained(), "a kernel that does not count has nothing to explain")
	g.Expect([]reconcile.Result{fine, bad}).NotTo(BeExplained())
	message := BeExplained().FailureMessage([]reconcile.Result{fine, bad})
	g.Expect(message).To(And(ContainSubstring("1 in the accept queue"), ContainSubstring("10.1.0.9:4711"), ContainSubstring("cookie 42")))
	_, err := BeExplained().Match("a string")
	g.Expect(err).To(HaveOccurred())
}

func TestALeftGoroutineAndFileAreSeen(t *testing.T) {
	g := NewWithT(t)
	before := lookAround()
	f, err := fleet.New(0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(openFiles()).To(BeNumerically(">", before.files))
	g.Eventually(func() map[string]string { // a goroutine shows whose it is once it has begun
		left := ours()
		for id := range before.goroutines {
			delete(left, id)
		}
		return left
	}, time.Minute, time.Millisecond).ShouldNot(BeEmpty())
	g.Expect(f.Close()).To(Succeed())
	g.Expect(openFiles()).To(Equal(before.files))
}

func TestOwnConnectionsAreThoseFromTheStagesSubnet(t *testing.T) {
	for address, want := range map[string]bool{"192.0.2.1": true, "::ffff:192.0.2.3": true, "192.0.2.77": false, "10.1.0.1": false, "": false, "fd00::1": false} {
		if got := own(address); got != want {
			t.Errorf("own(%q) = %v, want %v", address, got, want)
		}
	}
}

func TestCountByClientCountsAddresses(t *testing.T) {
	g := NewWithT(t)
	one, two := netip.MustParseAddrPort("10.1.0.1:1"), netip.MustParseAddrPort("10.1.0.1:2")
	g.Expect(CountByClient([]fleet.Record{{Local: one}, {Local: two}})).To(Equal(map[netip.Addr]int64{one.Addr(): 2}))
}
