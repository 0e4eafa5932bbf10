package stage_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/runner"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A promise", Label("broken"), func() {
	It("that breaks", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"))
		stage.AllUp(s.Fleet(ctx, s.Group("10.1.0.0/24", "SSL", "alice", 5)))
		Fail("on purpose")
	}, SpecTimeout(time.Minute))
})

// Ginkgo runs once a process, so everything about a spec that fails is in one test.
func TestAFailedSpecLeavesWhatIsKnownOfItAndItsLab(t *testing.T) {
	testenv.NeedRoot(t)
	g := NewWithT(t)
	release, err := stage.Prepare(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	defer release() //nolint:errcheck // the process ends
	folder := t.TempDir()
	for _, name := range []string{stage.ReportVariable, stage.KeepVariable, stage.CaptureVariable} {
		t.Setenv(name, "") // the run sets them, and the test sets them back
	}
	r, err := runner.Run(runner.Options{Suites: []string{"broken"}, Folder: folder, Keep: true, Capture: true, Out: io.Discard})
	RegisterTestingT(t) // the run took gomega's fail handler
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Specs).To(HaveLen(1))
	spec := r.Specs[0]
	if spec.State == report.Skipped {
		t.Skip(spec.Message)
	}
	g.Expect(spec.Lab).NotTo(BeEmpty(), "%+v", spec)
	t.Cleanup(func() {
		if left := netlab.Down(context.Background(), spec.Lab, netlab.Options{}); left != nil { //nolint:usetesting // a test's context has ended when it is cleaned up
			t.Errorf("take down the lab that was kept: %v", left)
		}
	})
	g.Expect(spec.Message).To(Equal("on purpose"), "nothing else may be wrong")

	read := func(name string) []byte {
		t.Helper()
		text, unread := os.ReadFile(filepath.Join(folder, spec.Folder, name))
		g.Expect(unread).NotTo(HaveOccurred())
		return text
	}
	var rows []admin.Connection
	g.Expect(json.Unmarshal(read("connections.json"), &rows)).To(Succeed())
	principals := 0
	for i := range rows {
		if rows[i].Principal == "User:alice" {
			principals++
		}
	}
	g.Expect(principals).To(Equal(5), "the list was taken while the clients were there")
	var clients []fleet.Record
	g.Expect(json.Unmarshal(read("clients.json"), &clients)).To(Succeed())
	g.Expect(clients).To(HaveEach(HaveField("Outcome", fleet.Up)))
	g.Expect(strings.Count(string(read("sockets.txt")), "\nSSL ESTAB ")).To(Equal(5))
	g.Expect(string(read("server.properties"))).To(ContainSubstring("listeners"))
	g.Expect(read("broker.log")).NotTo(BeEmpty())
	g.Expect(string(read("kernel.json"))).To(ContainSubstring("SSL"))
	g.Expect(string(read("spec.txt"))).To(ContainSubstring("on purpose"))
	g.Expect(binary.LittleEndian.Uint32(read("broker.pcap"))).To(BeEquivalentTo(0xa1b23c4d))
	_, err = os.Stat(filepath.Join(folder, spec.Folder, "missing.txt"))
	g.Expect(err).To(MatchError(os.ErrNotExist))

	g.Expect(stage.Sweep(t.Context())).To(Succeed())
	lab, err := netlab.Open(spec.Lab, netlab.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	status, err := lab.Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status.Nodes).To(ContainElement(HaveField("State", "running")))
	g.Expect(lab.Close()).To(Succeed())
}
