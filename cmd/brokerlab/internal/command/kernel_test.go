package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/internal/kernelsource"
	"github.com/brokerlab/brokerlab/internal/reconcile"
	"github.com/brokerlab/brokerlab/internal/testenv"
)

func needSeeding(t *testing.T) {
	t.Helper()
	testenv.NeedRoot(t)
	if err := kernel.Require(t.Context(), kernel.Seeding, nil); err != nil {
		t.Skip(err)
	}
}

// foreign is a program that is not ours: it has accepted two clients, of which one has spoken.
func foreign(t *testing.T) (port string) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for i := range 2 {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = conn.Close()
			_ = server.Close()
		})
		if i > 0 {
			continue
		}
		if _, err := conn.Write([]byte("before")); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 6)); err != nil { // has arrived
			t.Fatal(err)
		}
	}
	return port
}

func decoded[T any](t *testing.T, got ran) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(got.out), &v); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	return v
}

func TestKernelShowCountsAForeignProgramsPort(t *testing.T) {
	needSeeding(t)
	port := foreign(t)
	got := run(t, "brokerlab", "kernel", "show", "--port", port, "--format", "json")
	counts := decoded[[]kernelCounts](t, got)
	if got.code != 0 || len(counts) != 1 {
		t.Fatalf("show = %+v, want one count", got)
	}
	c := counts[0]
	if c.StartUpGap == nil || *c.StartUpGap != 0 || c.Report.Mode != broker.KernelModeFull || c.Report.Exactness != broker.KernelExact {
		t.Errorf("count = %+v, want it exact, with a start-up gap of 0", c)
	}
	p := c.Report.Ports[0]
	if p.Established != 2 || p.Unknown != 1 || p.Undecided != 1 || p.Seeded != 2 || p.Backlog == 0 {
		t.Errorf("port = %+v, want two seeded: one that has spoken, one that has not", p)
	}
	if len(c.Prefixes) != 1 || c.Prefixes[0].Prefix.String() != "127.0.0.0/24" || c.Prefixes[0].Count != 2 {
		t.Errorf("prefixes = %v, want two of 127.0.0.0/24", c.Prefixes)
	}
	got = run(t, "brokerlab", "kernel", "show", "--port", port)
	if got.code != 0 || !strings.Contains(got.out, "counted in the kernel by BPF programs: exact, start-up gap 0\n") {
		t.Errorf("show = %+v, want its source first", got)
	}
}

func TestKernelShowWithoutBPFSaysAtEveryNumberThatItIsALowerBound(t *testing.T) {
	t.Setenv(kernel.EnvOff, "bpf")
	port := foreign(t)
	got := run(t, "brokerlab", "kernel", "show", "--port", port)
	if got.code != 0 || !strings.HasPrefix(got.out, "polled from the kernel's socket table: lower bound (") {
		t.Fatalf("show = %+v, want its source first", got)
	}
	var rows [][]string
	for l := range strings.Lines(got.out) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "-" && f[1] == port {
			rows = append(rows, f)
		}
	}
	now, gone := []string{"-", port, "≥2", "-", "-", "-", "-", "-", "-"}, []string{"-", port, "≥0", "≥0"}
	if len(rows) != 2 || !slices.Equal(rows[0], now) || !slices.Equal(rows[1][:len(gone)], gone) {
		t.Errorf("rows = %v, want %v and %v …", rows, now, gone)
	}
	if !strings.Contains(got.out, "≥2\n") {
		t.Errorf("show = %s, want the prefix's count as a lower bound", got.out)
	}
}

func TestKernelShowSaysThatNobodyListens(t *testing.T) {
	t.Setenv(kernel.EnvOff, "bpf")
	got := run(t, "brokerlab", "kernel", "show", "--port", "1")
	if got.code != 0 || !strings.Contains(got.out, "nobody listens on port 1 in this network namespace") {
		t.Errorf("show = %+v, want it to say that nobody listens", got)
	}
}

func TestKernelCommandsRefuseWhatTheyCannotDo(t *testing.T) {
	for _, args := range [][]string{
		{"show"},
		{"show", "--port", "9092", "--bootstrap-server", "localhost:9092"},
		{"show", "--port", "0"},
		{"show", "--port", "65536"},
		{"watch", "--port", "9092", "--interval", "0s"},
		{"watch", "--port", "9092", "--count", "-1"},
		{"reconcile", "--bootstrap-server", "localhost:9092", "--reads", "1"},
		{"reconcile", "--bootstrap-server", "127.0.0.1:1"},
	} {
		if got := run(t, append([]string{"brokerlab", "kernel"}, args...)...); got.code != 2 || got.out != "" || got.errout == "" {
			t.Errorf("%v = %+v, want exit status 2 and why", args, got)
		}
	}
	t.Setenv(kernel.EnvOff, "everything")
	for _, args := range [][]string{{"kernel", "show", "--port", "1"}, {"doctor"}} {
		if got := run(t, append([]string{"brokerlab"}, args...)...); got.code == 0 || !strings.Contains(got.errout, kernel.EnvOff) {
			t.Errorf("%v = %+v, want an error that names %s", args, got, kernel.EnvOff)
		}
	}
}

func TestKernelWatchPrintsALineACount(t *testing.T) {
	t.Setenv(kernel.EnvOff, "bpf")
	port := foreign(t)
	got := run(t, "brokerlab", "kernel", "watch", "--port", port, "--count", "3", "--interval", "1ms")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != 0 || len(lines) != 3 {
		t.Fatalf("watch = %+v, want three lines", got)
	}
	for _, l := range lines {
		if !strings.Contains(l, "port="+port+" total=≥2 tls=- ") || !strings.HasSuffix(l, `source=sock_diag exactness="lower bound"`) {
			t.Errorf("line = %q, want a lower bound of two", l)
		}
	}
	got = run(t, "brokerlab", "kernel", "watch", "--port", port, "--count", "2", "--interval", "1ms", "--format", "json")
	lines = strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != 0 || len(lines) != 2 || !json.Valid([]byte(lines[0])) {
		t.Errorf("watch as JSON = %+v, want two documents on two lines", got)
	}
}

func TestKernelWatchRefreshesATerminalInPlace(t *testing.T) {
	t.Setenv(kernel.EnvOff, "bpf")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	var errout bytes.Buffer
	args := []string{"brokerlab", "kernel", "watch", "--port", "1", "--count", "2", "--interval", "1ms"}
	code := Run(t.Context(), args, Env{Stdout: terminal, Stderr: &errout})
	if err = terminal.Close(); code != 0 || err != nil {
		t.Fatalf("watch = %d, %q, %v", code, errout.String(), err)
	}
	shown := make([]byte, 1<<16)
	n, err := master.Read(shown)
	if err != nil || !strings.HasPrefix(string(shown[:n]), refresh+"polled from") {
		t.Errorf("terminal shows %q, %v, want a cleared screen and the counts", shown[:n], err)
	}
}

func TestKernelWatchEndsWellWhenInterrupted(t *testing.T) {
	t.Setenv(kernel.EnvOff, "bpf")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var out, errout bytes.Buffer
	code := Run(ctx, []string{"brokerlab", "kernel", "watch", "--port", "1", "--interval", "1h"}, Env{Stdout: &out, Stderr: &errout})
	if code != 0 || errout.Len() > 0 {
		t.Errorf("watch = %d, %q, want 0 and no error", code, errout.String())
	}
}

// counted is a broker that answers what the kernel counts.
type counted struct {
	kernel protocol.DescribeKernelResponse
	conns  []protocol.DescribeConnectionsResponseConnection
	asked  atomic.Int64 // times that its connections were listed
	change func(c *counted, asked int64, r *protocol.DescribeKernelResponse)
}

func (c *counted) broker(node int32) *admintest.Broker {
	return &admintest.Broker{
		NodeID: node,
		Keys:   []int16{protocol.DefaultDescribeConnectionsKey, protocol.DefaultDescribeKernelKey},
		Handle: func(req kmsg.Request) kmsg.Response {
			switch resp := req.ResponseKind().(type) {
			case *protocol.DescribeKernelResponse:
				*resp = c.kernel
				resp.NodeID = node
				resp.Ports = slices.Clone(resp.Ports)
				if c.change != nil {
					c.change(c, c.asked.Load(), resp)
				}
				return resp
			case *protocol.DescribeConnectionsResponse:
				c.asked.Add(1)
				resp.NodeID, resp.Connections = node, c.conns
				return resp
			}
			return nil
		},
	}
}

// exactly is a broker with one listener, of which the kernel counts n connections; listed of them are listed.
func exactly(n int64, listed int) *counted {
	c := &counted{kernel: protocol.DescribeKernelResponse{
		Mode: broker.KernelModeFull, Exactness: broker.KernelExact,
		Ports: []protocol.DescribeKernelResponsePort{{
			Port: 9092, ListenerName: "SSL", Backlog: 50,
			Gauge: protocol.DescribeKernelResponseGauge{Established: n, TLS: n, Served: n, ServedMax: n},
			Sources: []protocol.DescribeKernelResponseSource{
				{Address: "10.1.0.5", Count: 1}, {Address: "10.1.0.255", Count: 2}, {Address: "2001:db8:0:1:0:0:0:7", Count: 7},
			},
			Broker: &protocol.DescribeKernelResponseBroker{Listed: int64(listed)},
		}},
	}}
	for i := range listed {
		c.conns = append(c.conns, protocol.DescribeConnectionsResponseConnection{
			ConnectionID: fmt.Sprintf("c%d", i), LocalPort: 9092, ClientAddress: "10.1.0.5", ClientPort: int32(1000 + i),
			State: protocol.StateOpen, Kernel: &protocol.DescribeConnectionsResponseKernel{State: "ESTAB"},
		})
	}
	return c
}

func TestKernelShowAsksEveryBrokerOfACluster(t *testing.T) {
	c := admintest.Start(t, exactly(10, 10).broker(1), &admintest.Broker{NodeID: 2, Down: true})
	got := run(t, "brokerlab", "kernel", "show", "--bootstrap-server", c.Addr(0), "--listener", "ssl")
	if got.code != 1 || !strings.Contains(got.errout, "broker 2 (") {
		t.Errorf("show = %+v, want the error of broker 2 and exit status 1", got)
	}
	for _, want := range []string{
		"broker 1: counted in the kernel by BPF programs: exact\n", "SSL  9092     10   10", "2001:db8:0:1::/64  9092  7\n10.1.0.0/24        9092  3\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("show printed\n%s\nwant %q in it", got.out, want)
		}
	}
	got = run(t, "brokerlab", "kernel", "show", "--bootstrap-server", c.Addr(0), "--sources", "1")
	if !strings.Contains(got.out, "… and 1 more prefixes") {
		t.Errorf("show printed\n%s\nwant it to say that one prefix is left out", got.out)
	}
	got = run(t, "brokerlab", "kernel", "show", "--bootstrap-server", c.Addr(0), "--listener", "other", "--format", "json")
	counts := decoded[[]kernelCounts](t, got)
	if len(counts) != 2 || *counts[0].Node != 1 || len(counts[0].Report.Ports) != 0 || *counts[1].Node != 2 || counts[1].Error == "" {
		t.Errorf("show of another listener = %+v, want no port, and the error of broker 2", counts)
	}
}

func reconcileOf(t *testing.T, c *counted, args ...string) ran {
	t.Helper()
	cluster := admintest.Start(t, c.broker(1))
	return run(t, append([]string{"brokerlab", "kernel", "reconcile", "--bootstrap-server", cluster.Addr(0), "--pause", "1ms"}, args...)...)
}

func TestReconcileIsContentWhenEverythingIsExplained(t *testing.T) {
	if got := reconcileOf(t, exactly(3, 3)); got.code != 0 || !strings.Contains(got.out, "kernel side is exact (full)") {
		t.Errorf("equal = %+v, want exit status 0", got)
	}
	c := exactly(9, 3)
	p := &c.kernel.Ports[0]
	p.AcceptQueue, p.Closing, p.Broker.Held, p.Broker.Queued = 3, 1, 1, 1
	got := reconcileOf(t, c, "--format", "json")
	r := decoded[[]reconcile.Broker](t, got)
	if got.code != 0 || len(r) != 1 || !r[0].Explained {
		t.Fatalf("known classes = %+v, want exit status 0", got)
	}
	l := r[0].Listeners[0]
	if l.AcceptQueue != 3 || l.Held != 1 || l.Queued != 1 || l.Closing != 1 || l.Matched != 3 {
		t.Errorf("listener = %+v, want each class by its name", l)
	}
}

func TestReconcileFailsOnALastingDifference(t *testing.T) {
	got := reconcileOf(t, exactly(4, 3))
	if got.code != 1 || !strings.Contains(got.out, "UNEXPLAINED on SSL: 1 in the kernel only, 0 in the broker only") {
		t.Errorf("a leak = %+v, want exit status 1 and its name", got)
	}
	ghost := exactly(3, 4)
	ghost.conns[2].Kernel = nil
	got = reconcileOf(t, ghost)
	if got.code != 1 || !strings.Contains(got.out, "listed, and unknown to the kernel: c2 from 10.1.0.5:1002") {
		t.Errorf("a ghost = %+v, want exit status 1 and its name", got)
	}
}

func TestReconcileForgivesWhatIsGoneWhenReadAgain(t *testing.T) {
	c := exactly(3, 3)
	c.change = func(_ *counted, asked int64, r *protocol.DescribeKernelResponse) {
		if asked < 2 {
			r.Ports[0].Gauge.Established++
		}
	}
	if got := reconcileOf(t, c); got.code != 0 || c.asked.Load() != 2 {
		t.Errorf("a difference seen once = %+v after %d readings, want exit status 0 after 2", got, c.asked.Load())
	}
}

func TestReconcileNeedsAKernelThatCounts(t *testing.T) {
	c := exactly(3, 3)
	c.kernel.Mode, c.kernel.Exactness, c.kernel.Why = broker.KernelModeOff, broker.KernelUnavailable, "kernel.accounting=off"
	if got := reconcileOf(t, c); got.code != 2 || !strings.Contains(got.errout, "kernel.accounting=auto") {
		t.Errorf("without counts = %+v, want exit status 2 and what to do", got)
	}
}

// countedBroker is a real broker whose sockets the kernel counts.
func countedBroker(t *testing.T) *broker.Broker {
	t.Helper()
	source, err := kernelsource.Local(kernelsource.Auto, kernelsource.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return admintest.Real(t, []string{
		"listeners=PLAINTEXT://127.0.0.1:0,INSIDE://[::1]:0",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT", "inter.broker.listener.name=PLAINTEXT",
		"sasl.enabled.mechanisms=PLAIN",
		`listener.name.inside.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";`,
	}, broker.WithKernel(source))
}

func TestReconcileExplainsARealBroker(t *testing.T) {
	b := countedBroker(t)
	for _, listener := range []string{"PLAINTEXT", "INSIDE", "INSIDE"} { // silent ones
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", b.Addr(listener).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	got := run(t, "brokerlab", "kernel", "reconcile", "--bootstrap-server", b.Addr("PLAINTEXT").String(), "--format", "json")
	r := decoded[[]reconcile.Broker](t, got)
	if got.code != 0 || len(r) != 1 || !r[0].Explained || len(r[0].Listeners) != 2 {
		t.Fatalf("reconcile = %+v, want two listeners, explained", got)
	}
	got = run(t, "brokerlab", "kernel", "show", "--bootstrap-server", b.Addr("PLAINTEXT").String(), "--listener", "INSIDE", "--format", "json")
	counts := decoded[[]kernelCounts](t, got)
	if p := counts[0].Report.Ports; len(p) != 1 || p[0].Established != 2 {
		t.Errorf("show = %+v, want the two clients of INSIDE", counts)
	}
}

func TestReconcileExplainsARealBrokerUnderChurn(t *testing.T) {
	for mode, off := range map[string]string{"best that works here": "", "socket table": "bpf"} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv(kernel.EnvOff, off)
			reconcileUnderChurn(t)
		})
	}
}

func reconcileUnderChurn(t *testing.T) {
	t.Helper()
	b := countedBroker(t)
	stop := make(chan struct{})
	var churn sync.WaitGroup
	for i := range 3 {
		churn.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var d net.Dialer
				conn, err := d.DialContext(t.Context(), "tcp", b.Addr("INSIDE").String())
				if err != nil {
					t.Error(err)
					return
				}
				if i == 0 { // a reset
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				_ = conn.Close()
			}
		})
	}
	for range 5 {
		got := run(t, "brokerlab", "kernel", "reconcile", "--bootstrap-server", b.Addr("PLAINTEXT").String(), "--pause", "20ms")
		if got.code != 0 {
			t.Errorf("reconcile = %+v, want everything explained", got)
		}
	}
	close(stop)
	churn.Wait()
}

func TestDoctorsExitStatusSaysWhetherAllWorks(t *testing.T) {
	got := run(t, "brokerlab", "doctor", "--format", "json")
	d := decoded[diagnosis](t, got)
	missing := slices.ContainsFunc(d.Features, func(f finding) bool { return !f.Works })
	if want := map[bool]int{false: 0, true: exitDegraded}[missing]; got.code != want || len(d.Features) != len(kernel.Features()) {
		t.Errorf("doctor = %d of %d features, want %d of %d", got.code, len(d.Features), want, len(kernel.Features()))
	}
	for _, f := range d.Features {
		if f.For == "" || f.Works != (f.Missing == "") || f.Works != (f.Get == "") {
			t.Errorf("feature = %+v, want what it is for, and what is missing only if something is", f)
		}
	}

	t.Setenv(kernel.EnvOff, "accounting")
	got = run(t, "brokerlab", "doctor")
	if got.code != exitDegraded || got.errout != "" {
		t.Errorf("doctor without accounting = %+v, want exit status 3", got)
	}
	for _, want := range []string{"\naccounting: forced off\n  unset " + kernel.EnvOff, "\nseeding: forced off\n", "as lower bounds\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("doctor printed\n%s\nwant %q in it", got.out, want)
		}
	}
}
