package stage

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/internal/kernelsource"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Alone is for a spec that needs no lab: it checks, when the spec ends, that nothing is left.
func Alone() {
	GinkgoHelper()
	before := lookAround()
	DeferCleanup(before.expectAsBefore)
}

// Program is a server that is not ours: it accepts whatever connects and never says a word.
type Program struct {
	// Addr is where it listens.
	Addr netip.AddrPort

	mu   sync.Mutex // guards what follows
	held map[net.Conn]bool
	seen int
}

// Listen starts a program at address, such as "127.0.0.1:0", "[::1]:0" or ":0" for both families. It ends with the spec.
func Listen(ctx context.Context, address string) *Program {
	GinkgoHelper()
	var config net.ListenConfig
	l, err := config.Listen(context.WithoutCancel(ctx), "tcp", address)
	Expect(err).NotTo(HaveOccurred())
	p := &Program{Addr: netip.MustParseAddrPort(l.Addr().String()), held: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() { p.serve(l, &running) })
	DeferCleanup(func() {
		Expect(l.Close()).To(Succeed())
		p.mu.Lock()
		for c := range p.held {
			_ = c.Close()
		}
		p.mu.Unlock()
		running.Wait()
	})
	return p
}

func (p *Program) serve(l net.Listener, running *sync.WaitGroup) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.held[c], p.seen = true, p.seen+1
		p.mu.Unlock()
		running.Go(func() {
			var scratch [512]byte
			for {
				if _, err := c.Read(scratch[:]); err != nil {
					break
				}
			}
			p.mu.Lock()
			delete(p.held, c)
			p.mu.Unlock()
			_ = c.Close()
		})
	}
}

// Port is the program's port.
func (p *Program) Port() uint16 { return p.Addr.Port() }

// Held is how many connections the program holds.
func (p *Program) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// Seen is how many connections the program has accepted.
func (p *Program) Seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// Need skips the spec where the kernel does not have a feature, or where it is forced off.
func Need(ctx context.Context, f kernel.Feature) {
	GinkgoHelper()
	off, err := kernel.FromEnv()
	Expect(err).NotTo(HaveOccurred())
	if err := kernel.Require(ctx, f, off); err != nil {
		skip(report.LackKernel, err.Error())
	}
}

// Counter counts in the kernel, from this process and for this machine, whatever listens.
type Counter struct{ source broker.KernelSource }

// Attach starts counting the ports of programs that may be at work already. It ends with the spec, which is skipped
// where the kernel cannot count exactly.
func Attach(ctx context.Context, programs ...*Program) *Counter {
	GinkgoHelper()
	source, err := kernelsource.Local(kernelsource.Auto, kernelsource.Options{})
	if err != nil {
		skip(report.LackKernel, fmt.Sprintf("the kernel does not count here: %v", err))
	}
	DeferCleanup(source.Close)
	ports := make([]uint16, len(programs))
	for i, p := range programs {
		ports[i] = p.Port()
	}
	Expect(source.Watch(ports)).To(Succeed())
	c := &Counter{source}
	if r := c.Report(ctx); r.Mode != broker.KernelModeFull {
		skip(report.LackKernel, fmt.Sprintf("the kernel's count is not exact here: %s (%s): %s", r.Exactness, r.Mode, r.Why))
	}
	return c
}

// Report is what the kernel counted.
func (c *Counter) Report(ctx context.Context) broker.KernelReport {
	GinkgoHelper()
	r, err := c.source.Report(ctx)
	Expect(err).NotTo(HaveOccurred())
	return r
}

// Port is what the kernel counted for one program.
func (c *Counter) Port(ctx context.Context, p *Program) broker.KernelPort {
	GinkgoHelper()
	ports := c.Report(ctx).Ports
	i := slices.IndexFunc(ports, func(k broker.KernelPort) bool { return k.Port == p.Port() })
	Expect(i).To(BeNumerically(">=", 0), "no count for port "+strconv.Itoa(int(p.Port())))
	return ports[i]
}

// Sockets are the program's sockets as the kernel lists them.
func (c *Counter) Sockets(ctx context.Context, p *Program) []broker.KernelSocket {
	GinkgoHelper()
	sockets, err := c.source.Sockets(ctx, p.Port())
	Expect(err).NotTo(HaveOccurred())
	return sockets
}
