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
)

// Witness counts in the kernel, from this process, the connections of some of the broker's listeners, apart from the count that the
// broker itself asks for. So a spec has high-water marks over just the listeners that a limit is about, and can begin them anew
// when a limit changes. Connections that are there when it begins are counted.
type Witness struct {
	socket string
	ns     *os.File
	ports  []uint16
	end    func()

	mu     sync.Mutex // guards client
	client *kernelsource.Client
}

// Witness begins to count the connections of these listeners. It ends with the spec, which is skipped where the kernel cannot count
// exactly.
func (s *Stage) Witness(ctx context.Context, listeners ...string) *Witness {
	GinkgoHelper()
	s.NeedKernel(ctx)
	folder, err := os.MkdirTemp("", "brokerlab-witness-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, folder)
	w := &Witness{socket: filepath.Join(folder, "counts")}
	for _, name := range listeners {
		w.ports = append(w.ports, s.listener(name).Port)
	}
	ns, err := s.node.Netns()
	Expect(err).NotTo(HaveOccurred())
	w.ns, err = os.Open(ns.Path())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.ns.Close)

	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: w.socket, Net: "unix"})
	Expect(err).NotTo(HaveOccurred())
	counting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() {
		defer GinkgoRecover()
		Expect(kernelsource.Serve(counting, l, kernelsource.Options{})).To(Succeed())
	})
	w.end = sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		Expect(w.client.Close()).To(Succeed())
		stop()
		serving.Wait()
	})
	DeferCleanup(w.Close)
	w.client = w.dial(ctx)
	return w
}

func (w *Witness) dial(context.Context) *kernelsource.Client {
	GinkgoHelper()
	client, err := kernelsource.Dial(w.socket, w.ns) //nolint:contextcheck // bounds itself
	Expect(err).NotTo(HaveOccurred())
	Expect(client.Watch(w.ports)).To(Succeed()) //nolint:contextcheck // bounds itself
	return client
}

// Again begins the high-water marks anew, from what is served now.
func (w *Witness) Again(ctx context.Context) {
	GinkgoHelper()
	w.mu.Lock()
	defer w.mu.Unlock()
	// The marks of a port that nobody watches begin anew with the next who does.
	Expect(w.client.Close()).To(Succeed())
	w.client = w.dial(ctx)
}

// Close ends the counting, before the spec does.
func (w *Witness) Close() {
	GinkgoHelper()
	w.end()
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
