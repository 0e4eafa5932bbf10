package netlab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab/kafkahome"
)

// seen dials the node web and gives the address that the node saw.
func seen(t *testing.T, s *Subnet, source string) netip.Addr {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	from := netip.Addr{}
	if source != "" {
		from = netip.MustParseAddr(source)
	}
	c, err := s.Dialer(from)(ctx, "tcp", "web:80")
	if err != nil {
		t.Fatalf("dial web from %s = %v, want nil", source, err)
	}
	defer c.Close()
	return greeting(t, c)
}

func greeting(t *testing.T, c net.Conn) netip.Addr {
	t.Helper()
	patience(t, c)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("read greeting = %v, want nil", err)
	}
	a, err := netip.ParseAddrPort(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return a.Addr().Unmap()
}

// patience bounds what is done with the connection.
func patience(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
}

func subnet(t *testing.T, l *Lab, name string) *Subnet {
	t.Helper()
	s, err := l.Subnet(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func web(t *testing.T, l *Lab) *Node {
	t.Helper()
	n, err := l.Node("web")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEveryAddressOfASubnetIsASource(t *testing.T) {
	t.Parallel()
	lab := raise(t, `
nodes: {web: {kind: exec, SERVE "80"], ports: [80]}}
subnets:
  office: {cidr: [10.1.0.0/24, "fd00:1::/64"]}
  ten: {cidr: 10.64.0.0/10}
  one: {cidr: [10.2.0.1/32, "fd00:2::1/128"]}
  wide: {cidr: "2001:db8::/32"}
`, Options{})
	for _, test := range []struct{ subnet, source string }{
		{"office", "10.1.0.0"},
		{"office", "10.1.0.1"},
		{"office", "10.1.0.77"},
		{"office", "10.1.0.255"},
		{"office", "fd00:1::"},
		{"office", "fd00:1::1"},
		{"office", "fd00:1::dead:beef"},
		{"office", "fd00:1::ffff:ffff:ffff:ffff"},
		{"ten", "10.64.0.0"},
		{"ten", "10.100.7.255"},
		{"ten", "10.127.255.255"},
		{"one", "10.2.0.1"},
		{"one", "fd00:2::1"},
		{"wide", "2001:db8:ffff::7"},
	} {
		if got := seen(t, subnet(t, lab, test.subnet), test.source); got.String() != test.source {
			t.Errorf("source seen = %s, want %s", got, test.source)
		}
	}
	if got := seen(t, subnet(t, lab, "office"), ""); got.String() != "10.1.0.1" {
		t.Errorf("default source = %s, want 10.1.0.1", got)
	}
	if got := seen(t, subnet(t, lab, "wide"), ""); got.String() != "2001:db8::1" {
		t.Errorf("default source = %s, want 2001:db8::1", got)
	}
	_, err := subnet(t, lab, "one").Dial(bounded(t), netip.MustParseAddr("10.1.0.1"), netip.MustParseAddrPort("198.18.0.1:80"))
	if err == nil {
		t.Error("Dial from an address of another subnet = nil, want an error")
	}
}

func TestSubnetCountsItsAddresses(t *testing.T) {
	t.Parallel()
	s := &Subnet{}
	if got := s.Addr(0); got.IsValid() {
		t.Errorf("Addr of a subnet without prefixes = %s, want none", got)
	}
	s.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/30"), netip.MustParsePrefix("fd00::/127")}
	var got []string
	for i := range 8 {
		got = append(got, s.Addr(i).String())
	}
	if want := "[10.1.0.0 10.1.0.1 10.1.0.2 10.1.0.3 fd00:: fd00::1 10.1.0.0 10.1.0.1]"; fmt.Sprint(got) != want {
		t.Errorf("addresses = %v, want %s", got, want)
	}
	if got := s.In(true).Addr(3); got.String() != "fd00::1" {
		t.Errorf("IPv6 address 3 = %s, want fd00::1", got)
	}
}

func TestTwoLabsWithTheSameNetworksDoNotMeet(t *testing.T) {
	t.Parallel()
	const text = `
nodes: {web: {kind: exec, SERVE "80"], ports: [80], addresses: [192.168.0.10]}}
subnets: {ten: {cidr: 10.0.0.0/8}}
`
	a, b := raise(t, text, Options{}), raise(t, text, Options{})
	for _, lab := range []*Lab{a, b} {
		if got := seen(t, subnet(t, lab, "ten"), "10.9.8.7"); got.String() != "10.9.8.7" {
			t.Errorf("source seen = %s, want 10.9.8.7", got)
		}
	}
	first, err := subnet(t, a, "ten").Cookie()
	if err != nil {
		t.Fatal(err)
	}
	second, err := subnet(t, b, "ten").Cookie()
	if err != nil || first == second {
		t.Errorf("cookies = %d and %d, %v, want two", first, second, err)
	}
	if err := web(t, a).Kill(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, subnet(t, b, "ten"), "10.9.8.7"); got.String() != "10.9.8.7" {
		t.Errorf("source seen after the other lab's node died = %s, want 10.9.8.7", got)
	}
}

func TestHostIsAsBefore(t *testing.T) {
	testenv.NeedRoot(t)
	before := host(t)
	lab := raise(t, `
nodes: {web: {kind: exec, SERVE "80"], ports: [80]}}
subnets: {ten: {cidr: 10.0.0.0/8}, six: {cidr: "fd00:1::/64"}}
`, Options{})
	if now := host(t); now != before {
		t.Errorf("host while a lab is up:\n%s\nwant\n%s", now, before)
	}
	lower(t, lab)
	if now := host(t); now != before {
		t.Errorf("host after down:\n%s\nwant\n%s", now, before)
	}
	if _, err := Up(bounded(t), lab.Topology(), Options{}); err != nil { // for raise's own down
		t.Fatal(err)
	}
}

// host is what a lab might change of the machine's own namespace.
func host(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{
		"/proc/net/route", "/proc/net/ipv6_route", "/proc/net/if_inet6",
		"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding", "/proc/sys/net/ipv4/conf/all/rp_filter",
		"/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/ipv4/tcp_tw_reuse", "/proc/sys/net/ipv6/conf/default/accept_dad",
		"/proc/sys/net/ipv6/ip_nonlocal_bind", "/proc/sys/net/ipv4/neigh/default/gc_thresh3",
	} {
		text, _ := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if strings.HasSuffix(path, "route") && len(fields) > 7 { // without counters of use
				fields = append(fields[:4:4], fields[len(fields)-1])
			}
			fmt.Fprintln(&b, path, fields)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		fmt.Fprintln(&b, l.Name, l.MTU)
	}
	return b.String()
}

func TestUpIsIdempotent(t *testing.T) {
	t.Parallel()
	lab := raise(t, "nodes: {web: {kind: exec, SERVE \"80\"], ports: [80]}}\nsubnets: {s: {cidr: 10.1.0.0/24}}", Options{})
	first, err := web(t, lab).Status(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Up(bounded(t), lab.Topology(), Options{})
	if err != nil {
		t.Fatalf("second Up = %v, want nil", err)
	}
	if second, err := web(t, again).Status(bounded(t)); err != nil || second.PID != first.PID || second.PID == 0 {
		t.Errorf("process after a second Up = %d, %v, want %d", second.PID, err, first.PID)
	}
	if err := web(t, lab).Kill(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if st, err := web(t, lab).Status(bounded(t)); err != nil || st.State != StateKilled || st.PID != 0 {
		t.Errorf("status after Kill = %+v, %v, want killed", st, err)
	}
	if _, err := Up(bounded(t), lab.Topology(), Options{}); err != nil {
		t.Fatalf("Up with a killed node = %v, want nil", err)
	}
	seen(t, subnet(t, lab, "s"), "10.1.0.9")
	other := *lab.Topology()
	other.Subnets = nil
	if _, err := Up(bounded(t), &other, Options{}); err == nil || !strings.Contains(err.Error(), "built from another lab file") {
		t.Errorf("Up of another shape = %v, want a refusal", err)
	}
	seen(t, subnet(t, lab, "s"), "10.1.0.9")
}

func TestNodesStopStartAndRestart(t *testing.T) {
	t.Parallel()
	lab := raise(t, "nodes: {web: {kind: exec, SERVE \"80\"], ports: [80]}}\nsubnets: {s: {cidr: 10.1.0.0/24}}", Options{})
	n, ctx := web(t, lab), bounded(t)
	pid := func() int {
		st, err := n.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return st.PID
	}
	first := pid()
	if err := n.Restart(ctx); err != nil {
		t.Fatalf("Restart = %v, want nil", err)
	}
	if now := pid(); now == first || now == 0 {
		t.Errorf("process after Restart = %d, want another than %d", now, first)
	}
	first = pid()
	if err := n.RestartKafka(ctx, kafkahome.Home{}); err == nil || !strings.Contains(err.Error(), "only one of kind kafka") {
		t.Errorf("RestartKafka of another kind = %v, want a refusal", err)
	}
	if now := pid(); now != first {
		t.Errorf("process after a refused restart = %d, want %d still", now, first)
	}
	if err := n.Stop(ctx); err != nil {
		t.Fatalf("Stop = %v, want nil", err)
	}
	if _, err := subnet(t, lab, "s").Dialer(netip.Addr{})(ctx, "tcp", "web:80"); err == nil {
		t.Error("dial of a stopped node = nil, want an error")
	}
	if err := n.Start(ctx); err != nil {
		t.Fatalf("Start = %v, want nil", err)
	}
	seen(t, subnet(t, lab, "s"), "10.1.0.3")
	log, err := os.ReadFile(n.LogPath())
	if got := strings.Count(string(log), "serving [80]"); err != nil || got != 3 {
		t.Errorf("starts in the log = %d, %v, want 3", got, err)
	}
}

func TestExposedPortLeadsToTheNode(t *testing.T) {
	t.Parallel()
	p := port(t)
	lab := raise(t, "nodes: {web: {kind: exec, SERVE \""+itoa(p)+"\"], expose: ["+itoa(p)+"]}}", Options{})
	c, err := net.Dial("tcp", "127.0.0.1:"+itoa(p))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := greeting(t, c); got != routerV4() {
		t.Errorf("the node sees %s, want the router %s", got, routerV4())
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		_, _ = c.Write(big)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	var back bytes.Buffer
	if _, err := back.ReadFrom(c); err != nil || !bytes.Equal(back.Bytes(), big) {
		t.Errorf("echo = %d bytes, %v, want the %d sent", back.Len(), err, len(big))
	}
	other := resolved(t, "nodes: {web: {kind: exec, SERVE \""+itoa(p)+"\"], expose: ["+itoa(p)+"]}}")
	if _, err := Up(bounded(t), other, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("expose port %d", p)) {
		t.Errorf("Up with a port in use = %v, want an error that names it", err)
	}
	noLeaks(t, other.Name)
	lower(t, lab)
	if c, err := net.Dial("tcp", "127.0.0.1:"+itoa(p)); err == nil {
		_ = c.Close()
		t.Error("dial after down = nil, want an error")
	}
	if _, err := Up(bounded(t), lab.Topology(), Options{}); err != nil { // for raise's own down
		t.Fatal(err)
	}
}

func TestExposedPortOfANodeWithIPv6Only(t *testing.T) {
	t.Parallel()
	p := port(t)
	raise(t, "nodes: {web: {kind: exec, addresses: 'fd00:9::1', SERVE \""+itoa(p)+"\"], expose: ["+itoa(p)+"]}}", Options{})
	c, err := net.Dial("tcp", "127.0.0.1:"+itoa(p))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := greeting(t, c); got != routerV6() {
		t.Errorf("the node sees %s, want the router %s", got, routerV6())
	}
}

func TestExposedPortOfAStoppedNodeEndsConnections(t *testing.T) {
	t.Parallel()
	p := port(t)
	lab := raise(t, "nodes: {web: {kind: exec, SERVE \""+itoa(p)+"\"], expose: ["+itoa(p)+"]}}", Options{})
	c, err := net.Dial("tcp", "127.0.0.1:"+itoa(p))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	greeting(t, c)
	if err := web(t, lab).Kill(bounded(t)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []func() (net.Conn, error){
		func() (net.Conn, error) { return c, nil },
		func() (net.Conn, error) { return net.Dial("tcp", "127.0.0.1:"+itoa(p)) },
	} {
		conn, err := c()
		if err != nil {
			continue // refused is an end too
		}
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read = %d, %v, want the end of the connection", n, err)
		}
		_ = conn.Close()
	}
}

func TestStopThatGaveUpLeavesTheNodeRunning(t *testing.T) {
	t.Parallel()
	// It serves once it has its trap: a shell without one ends.
	lab := raise(t, "nodes: {web: {kind: exec, cmd: [sh, -c, 'trap : TERM; SELF serve 80 & while :; do sleep 0.1; done'], ports: [80]}}", Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := web(t, lab).Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop of a program that goes on = %v, want %v", err, context.DeadlineExceeded)
	}
	ctx = bounded(t)
	err := until(ctx, func() (bool, error) { // the owner hears of it a little later
		st, err := web(t, lab).Status(ctx)
		return st.State == StateRunning && st.PID != 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := web(t, lab).Kill(bounded(t)); err != nil {
		t.Errorf("Kill = %v, want nil", err)
	}
}

func TestUpBuildsALabAnewWhoseOwnerWasKilled(t *testing.T) {
	t.Parallel()
	lab := raise(t, "nodes: {web: {kind: exec, SERVE \"80\"], ports: [80]}}\nsubnets: {s: {cidr: 10.1.0.0/24}}", Options{})
	if err := cgroupOf(t, lab.Name()).node(ownerCgroup).kill(bounded(t)); err != nil {
		t.Fatal(err)
	}
	st, err := lab.Inspect(bounded(t))
	if err != nil || st.State != LabOwnerless {
		t.Errorf("state without an owner = %v, %v, want %s", st, err, LabOwnerless)
	}
	again, err := Up(bounded(t), lab.Topology(), Options{})
	if err != nil {
		t.Fatalf("Up = %v, want nil", err)
	}
	defer again.Close()
	seen(t, subnet(t, again, "s"), "10.1.0.9")
}

func TestExecRunsInTheNamespace(t *testing.T) {
	t.Parallel()
	lab := raise(t, "nodes: {web: {kind: exec, SERVE \"80\"], ports: [80]}}\nsubnets: {s: {cidr: [10.1.0.0/24, \"fd00:1::/64\"]}, four: {cidr: 10.2.0.0/24}, six: {cidr: \"fd00:2::/64\"}}", Options{})
	var out bytes.Buffer
	err := lab.Exec(bounded(t), "s", Command{
		Args: []string{"sh", "-c", "cat; cat /etc/hosts; cat /proc/net/fib_trie; exit 7"}, Stdin: strings.NewReader("from stdin\n"), Stdout: &out,
	})
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("Exec = %v, want exit status 7", err)
	}
	for _, want := range []string{"from stdin", "198.18.0.1 web", "fd00:6c61:62::1 web", "10.1.0.0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	for place, want := range map[string]string{"four": "198.18.0.1", "six": "fd00:6c61:62::1", "router": "198.18.0.1 fd00:6c61:62::1"} {
		out.Reset()
		if err := lab.Exec(bounded(t), place, Command{Args: []string{"sed", "-n", "s/ web$//p", "/etc/hosts"}, Stdout: &out}); err != nil {
			t.Errorf("Exec = %v, want nil", err)
		}
		if got := strings.Join(strings.Fields(out.String()), " "); got != want {
			t.Errorf("addresses of web in %s = %s, want %s", place, got, want)
		}
	}
	if err := lab.Exec(bounded(t), "nowhere", Command{Args: []string{"true"}}); err == nil {
		t.Error("Exec in an unknown node = nil, want an error")
	}
	if err := lab.Exec(bounded(t), "s", Command{Args: []string{"/no/such/program"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Exec of no program = %v, want %v", err, os.ErrNotExist)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := lab.Exec(ctx, "s", Command{Args: []string{"sleep", "1000"}}); err == nil {
		t.Error("Exec that was cancelled = nil, want an error")
	}
}

func TestFailedUpLeavesNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	for _, test := range []struct{ text, want string }{
		{"nodes: {a: {kind: exec, cmd: 'echo the reason; exit 3', ports: [80]}}", "the reason"},
		{"nodes: {a: {kind: exec, cmd: [/no/such/program, x]}}", "no such file"},
	} {
		lab := resolved(t, test.text)
		if _, err := Up(bounded(t), lab, Options{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Up = %v, want %q in it", err, test.want)
		}
		noLeaks(t, lab.Name)
	}
	lab := resolved(t, "nodes: {a: {kind: exec, cmd: 'echo last words; sleep 1000', ports: [80]}}")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := Up(ctx, lab, Options{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "last words") {
		t.Errorf("Up of a node that never listens = %v, want %v and the node's log", err, context.DeadlineExceeded)
	}
	noLeaks(t, lab.Name)
}

func TestLabWithoutIPv6SaysWhatItLacks(t *testing.T) {
	t.Parallel()
	lab := raise(t, `
nodes: {web: {kind: exec, SERVE "80"], ports: [80]}}
subnets: {both: {cidr: [10.1.0.0/24, "fd00:1::/64"]}, six: {cidr: "fd00:2::/64"}}
`, Options{NoIPv6: "this test says so"})
	seen(t, subnet(t, lab, "both"), "10.1.0.5")
	if _, err := lab.Subnet("six"); err == nil || !strings.Contains(err.Error(), "this test says so") {
		t.Errorf("Subnet without IPv6 = %v, want the reason", err)
	}
	st, err := lab.Inspect(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range st.Skipped {
		got = append(got, s.Name+" "+s.What)
	}
	if want := "[web fd00:6c61:62::1 both fd00:1::/64 six fd00:2::/64]"; fmt.Sprint(got) != want {
		t.Errorf("skipped = %v, want %s", got, want)
	}
}

func TestLabsOfAnotherRootAreListedApart(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	o := Options{Root: "/run/brokerlab-" + labName()}
	var want []string
	for range 2 {
		lab, err := Up(bounded(t), resolved(t, "nodes: {web: {kind: exec, SERVE \"80\"], ports: [80]}}"), o)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, lab.Name())
		if _, err := Open(lab.Name(), Options{}); !errors.Is(err, ErrNoLab) {
			t.Errorf("Open below the usual root = %v, want %v", err, ErrNoLab)
		}
	}
	names, err := List(o)
	if err != nil || fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("List = %v, %v, want %v", names, err, want)
	}
	for _, name := range names {
		if err := Down(bounded(t), name, o); err != nil {
			t.Errorf("Down = %v, want nil", err)
		}
		if leaks, err := Leaks(name, o); err != nil || len(leaks) > 0 {
			t.Errorf("Leaks = %v, %v, want none", leaks, err)
		}
	}
	if _, err := os.Stat(o.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat of the root after the last down = %v, want %v", err, os.ErrNotExist)
	}
	for _, name := range []string{"", ".", "..", "../brokerlab", "a/b"} {
		if err := Down(bounded(t), name, o); !errors.Is(err, ErrNoLab) {
			t.Errorf("Down(%q) = %v, want %v", name, err, ErrNoLab)
		}
		if _, err := Open(name, o); !errors.Is(err, ErrNoLab) {
			t.Errorf("Open(%q) = %v, want %v", name, err, ErrNoLab)
		}
	}
}

func TestConcurrentUpsAndDownsOfOneLab(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	lab := resolved(t, "nodes: {web: {kind: exec, SERVE \"80\"], ports: [80]}}\nsubnets: {s: {cidr: 10.1.0.0/24}}")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if i%2 == 0 {
				if _, err := Up(bounded(t), lab, Options{}); err != nil {
					t.Errorf("Up = %v, want nil", err)
				}
				return
			}
			if err := Down(bounded(t), lab.Name, Options{}); err != nil && !errors.Is(err, ErrNoLab) {
				t.Errorf("Down = %v, want nil or %v", err, ErrNoLab)
			}
		})
	}
	all.Wait()
	if err := Down(bounded(t), lab.Name, Options{}); err != nil && !errors.Is(err, ErrNoLab) {
		t.Errorf("Down = %v, want nil", err)
	}
	noLeaks(t, lab.Name)
}
