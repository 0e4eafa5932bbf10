package clients

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// survive has a client send and read records, round after round, while its broker gives it trouble: there is no slot for it at
// first; where there is SASL, it must authenticate again; its idle connections are evicted; the broker stops and starts; it is
// killed and starts again, and then closes whoever connects, for a while.
func survive(t *testing.T, w *workshop, known, got *result, command []string, p pair) {
	t.Helper()
	const slots = 20
	prefix := "listener.name." + strings.ToLower(p.listener()) + "."
	sasl := strings.HasPrefix(p.protocol, "SASL")
	more := []string{prefix + "max.connections=20", "max.connections.per.ip.overrides=" + operator + ":1000"}
	if sasl {
		more = append(more, prefix+"connections.max.reauth.ms=3000")
	}
	b := startBroker(t, w, more...)
	b.topics("loop")
	listener := `listener="` + p.listener() + `"`
	open := func() int { return b.metric("kafka_server_socket_server_metrics_connection_count", listener) }

	var held []net.Conn
	r := b.request(p, "loop", "loop")
	r.TimeoutMS = 600_000
	for range slots {
		c, err := net.Dial("tcp", r.Bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		held = append(held, c)
	}
	b.counted("the listener is full", func() bool { return open() == slots })
	s := &survivor{t: t, p: start(t, command, r), got: got, pair: p}

	kit.Eventually(t, "the client is connected, though nobody has accepted it", func() bool {
		return connected(t, b.port[p.listener()]) > slots || s.ended()
	})
	began := time.Now()
	s.wait(4 * time.Second)
	for _, c := range held {
		c.Close()
	}
	if !s.resumes("slot", began, trouble{}) {
		return
	}
	s.rounds(3)
	if known.Software != "" { // told with its first request: some of its connections may not have come to that
		kit.Within(time.Minute, func() bool { return b.software(p) != "" || *kafka })
	}
	got.software(b.software(p))
	got.atOnce(open())

	if sasl {
		s.reauthenticate(b, listener, known.Troubles[p.String()]["reauth"].Times > 0)
		if !*kafka { // which takes it, and then refuses everything else
			b.set(prefix + "connections.max.reauth.ms=0")
		}
	}

	s.rounds(1)
	began = time.Now()
	few := "max.connections=1"
	if *kafka {
		few = "max.connections=4" // its controller's listener has this limit, too
	}
	b.set(few)
	evicted := func() int {
		return b.metric("brokerlab_connections_closed_total", listener, `reason="evicted_max_connections"`)
	}
	b.counted("an idle connection is evicted", func() bool { return evicted() > 0 })
	b.set("max.connections=1000")
	if !s.resumes("evicted", began, trouble{Times: evicted()}) {
		return
	}

	began = time.Now()
	b.stop(syscall.SIGTERM)
	s.wait(2 * time.Second)
	b.start()
	if !s.resumes("restart", began, trouble{}) {
		return
	}
	s.rounds(1)

	began = time.Now()
	b.stop(syscall.SIGKILL)
	b.append("max.connections.per.ip=0")
	b.start()
	refused := func() int {
		return b.metric("brokerlab_connections_outcome_total", listener, `reason="per_ip_limit"`)
	}
	b.counted("the client connects and is closed", func() bool { return refused() > 0 })
	before := refused()
	s.wait(4 * time.Second)
	times := refused() - before
	if p == primary() {
		other := b.request(pair{"PLAINTEXT", "IPv4"}, "metadata", "loop")
		other.Bootstrap, other.TimeoutMS = b.other(), 5000
		got.refusal("eof", (&program{command: command}).ask(t, other), nil, b.metric("brokerlab_connections_outcome_total", `listener="OTHER"`, `reason="per_ip_limit"`))
	}
	b.set("max.connections.per.ip=1000")
	s.resumes("eof", began, trouble{Times: times})
	s.p.end(t)
	s.count(b)
}

// idle has a client send and read a record now and then, more seldom than its broker closes idle connections.
func idle(t *testing.T, w *workshop, got *result, command []string, p pair) {
	t.Helper()
	b := startBroker(t, w, "connections.max.idle.ms=1000")
	b.topics("loop")
	r := b.request(p, "loop", "loop")
	r.TimeoutMS, r.PauseMS = 600_000, 3000
	s := &survivor{t: t, p: start(t, command, r), got: got, pair: p}
	closed := func() int {
		return b.metric("brokerlab_connections_closed_total", `listener="`+p.listener()+`"`, `reason="idle"`)
	}
	s.rounds(1)
	began, before := time.Now(), closed()
	s.rounds(2)
	b.counted("an idle connection is closed", func() bool { return closed() > before || s.ended() })
	s.resumes("idle", began, trouble{Times: closed() - before})
	s.p.end(t)
}

// survivor is a client in its loop.
type survivor struct {
	t    *testing.T
	p    *running
	got  *result
	pair pair
}

// wait lets a trouble last.
func (*survivor) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// rounds waits until n more rounds went well.
func (s *survivor) rounds(n int) {
	s.t.Helper()
	now := time.Now()
	if !kit.Within(kit.Patience, func() bool { return s.p.oks(now) >= n || s.ended() }) || s.ended() {
		s.t.Fatalf("%d more rounds went well, want %d; stderr: %s", s.p.oks(now), n, kit.Last(s.p.stderr.String(), 5))
	}
}

func (s *survivor) ended() bool { return s.p.ended() }

// resumes notes how a client fared in a trouble that began at a time and is over now. It returns whether the client goes on.
func (s *survivor) resumes(name string, began time.Time, seen trouble) bool {
	s.t.Helper()
	over := time.Now()
	seen.Works = kit.Within(kit.Patience, func() bool { return s.p.oks(over) > 0 || s.ended() }) && !s.ended()
	seen.ResumedMS = time.Since(over).Milliseconds()
	for _, l := range s.p.errors(began, time.Now()) {
		seen.Said = append(seen.Said, l.said())
	}
	if s.ended() {
		seen.Said = append(seen.Said, "the program ended: "+lastLine(s.p.stderr.String()))
	}
	s.got.trouble(s.pair, name, seen)
	if !seen.Works {
		s.t.Errorf("%s over %v: the client did not go on; it said %q", name, s.pair, seen.Said)
	}
	return seen.Works
}

// reauthenticate lets some session lifetimes pass. A client that can do it is given more of them where it is late, as on a
// machine that is busy with other things.
func (s *survivor) reauthenticate(b *broker, listener string, can bool) {
	s.t.Helper()
	again := func() int {
		return b.metric("kafka_server_socket_server_metrics_successful_reauthentication_total", listener)
	}
	killed := func() int {
		return b.metric("kafka_network_socketserver_expiredconnectionskilledcount_value", listener)
	}
	began := time.Now()
	kit.Within(kit.Patience, func() bool {
		happened := again()+killed() > 1 && (again() > 0 || !can)
		return time.Since(began) > 7*time.Second && (*kafka || happened) || s.ended()
	})
	seen := trouble{Times: again(), Killed: killed()}
	s.resumes("reauth", began, seen)
}

// connected counts the sockets of clients that the kernel has connected to a port of this machine, accepted or not.
func connected(t *testing.T, port int) int {
	t.Helper()
	n, far := 0, fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Logf("%v: its sockets are not counted", err)
		}
		for l := range strings.Lines(string(text)) {
			if f := strings.Fields(l); len(f) > 3 && strings.HasSuffix(f[2], far) && f[3] == "01" {
				n++
			}
		}
	}
	return n
}

// append adds lines to the properties that b starts with next.
func (b *broker) append(lines ...string) {
	b.t.Helper()
	appendFile(b.t, b.dir+"/server.properties", strings.Join(lines, "\n")+"\n")
}

// other is the address of the listener for second clients.
func (b *broker) other() string {
	return net.JoinHostPort("127.0.0.1", itoa(b.port["OTHER"]))
}

// count checks that the records of rounds that went well are there, each at least once.
func (s *survivor) count(b *broker) {
	s.t.Helper()
	var sent int
	for _, l := range s.p.seen() {
		if l.OK {
			sent++
		}
	}
	ends, err := b.admin.ListEndOffsets(b.ctx(), "loop")
	if err != nil {
		s.t.Fatal(err)
	}
	end, _ := ends.Lookup("loop", 0)
	if int(end.Offset) < sent {
		s.t.Errorf("the topic has %d records, want at least the %d that were told as sent", end.Offset, sent)
	}
}
