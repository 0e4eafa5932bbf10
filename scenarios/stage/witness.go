package stage

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernelsource"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Witness counts in the kernel, from this process, the connections of some of the broker's listeners, apart from the count that the
// broker itself asks for. So a spec has high-water marks over just the listeners that a limit is about, and can begin them anew
// when a limit changes. Connections that are there when it begins are counted.
type Witness struct {
	ns    string // path of the broker's network namespace
	ports []uint16

	mu     sync.Mutex // guards what follows
	client *kernelsource.Client
	end    func()
}

// Witness begins to count the connections of these listeners. It ends with the spec, which is skipped where the kernel cannot count
// exactly.
func (s *Stage) Witness(ctx context.Context, listeners ...string) *Witness {
	GinkgoHelper()
	s.NeedKernel(ctx)
	ns, err := s.node.Netns()
	Expect(err).NotTo(HaveOccurred())
	w := &Witness{ns: ns.Path()}
	for _, name := range listeners {
		w.ports = append(w.ports, s.listener(name).Port)
	}
	DeferCleanup(w.Close)
	w.begin(ctx)
	return w
}

// begin starts the counting, which has to be exact.
func (w *Witness) begin(ctx context.Context) {
	GinkgoHelper()
	w.start(ctx)
	r, err := w.client.Report(ctx)
	Expect(err).NotTo(HaveOccurred())
	if r.Exactness != broker.KernelExact {
		skip(report.LackKernel, "the kernel's count of connections that are there already is not exact here: "+r.Why)
	}
}

// start loads programs of the witness's own: what they count begins here.
func (w *Witness) start(ctx context.Context) {
	GinkgoHelper()
	folder, err := os.MkdirTemp("", "brokerlab-witness-")
	Expect(err).NotTo(HaveOccurred())
	socket := filepath.Join(folder, "counts")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	Expect(err).NotTo(HaveOccurred())
	counting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() {
		defer GinkgoRecover()
		Expect(kernelsource.Serve(counting, l, kernelsource.Options{})).To(Succeed())
	})
	w.end = func() {
		stop()
		serving.Wait()
		Expect(os.RemoveAll(folder)).To(Succeed())
	}
	ns, err := os.Open(w.ns)
	Expect(err).NotTo(HaveOccurred())
	w.client, err = kernelsource.Dial(socket, ns) //nolint:contextcheck // bounds itself
	Expect(ns.Close()).To(Succeed())
	Expect(err).NotTo(HaveOccurred())
	Expect(w.client.Watch(w.ports)).To(Succeed()) //nolint:contextcheck // bounds itself
}

// Again begins to count anew, from what is there now.
func (w *Witness) Again(ctx context.Context) {
	GinkgoHelper()
	w.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(ctx)
}

// Close ends the counting, before the spec does.
func (w *Witness) Close() {
	GinkgoHelper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end == nil {
		return
	}
	if w.client != nil {
		Expect(w.client.Close()).To(Succeed())
	}
	w.end()
	w.client, w.end = nil, nil
}

// try is what the kernel counted, exact or not.
func (w *Witness) try(ctx context.Context) (broker.KernelReport, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client == nil {
		return broker.KernelReport{}, errNoAnswer // the spec is over
	}
	return w.client.Report(ctx)
}

// Report is what the kernel counted. It has to be exact.
func (w *Witness) Report(ctx context.Context) broker.KernelReport {
	GinkgoHelper()
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.client.Report(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(r.Exactness).To(Equal(broker.KernelExact), r.Why)
	return r
}
