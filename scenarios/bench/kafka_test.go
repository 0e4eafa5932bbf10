package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/scenarios/connbench"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

const (
	// besideEnv, when set, lets [BenchmarkBesideKafka] run: it takes minutes. Its value is the file for the table.
	besideEnv = "BROKERLAB_BENCH_KAFKA"
	// connectionsEnv is how many connections are held instead of 10,000.
	connectionsEnv = "BROKERLAB_BENCH_CONNECTIONS"
	// heapEnv is what Java is told of its heap, as Kafka's own scripts read it.
	heapEnv = "KAFKA_HEAP_OPTS"

	defaultHeap = "-Xms256m -Xmx1g"
	// authorizerHeap bears a million rules.
	authorizerHeap = "-Xms1g -Xmx4g"
)

// collectorOptions are those of Kafka's scripts but for -XX:+ExplicitGCInvokesConcurrent: with it jcmd GC.run would not end with a
// heap that is as small as it can be.
func collectorOptions() []string {
	return strings.Fields("-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -Djava.awt.headless=true")
}

// besideRow is a line of the table: a figure of ours and the same of Kafka, of which less is better unless more says so.
type besideRow struct {
	what         string
	ours, kafkas float64
	more         bool
}

// BenchmarkBesideKafka measures Apache Kafka and brokerlab in one run, in turns: one iteration is the whole of it. Both get the same
// properties, certificate and clients. Metrics are named for what they are, Kafka's with kafka- in front.
func BenchmarkBesideKafka(b *testing.B) {
	file, wanted := os.LookupEnv(besideEnv)
	if !wanted {
		b.Skipf("%s is not set: make bench-kafka runs it", besideEnv)
	}
	home, err := kafkahome.Find(kafkahome.Default)
	if err == nil {
		err = kafkahome.CheckJava()
	}
	if err != nil {
		b.Skip(err)
	}
	held := held
	if text := os.Getenv(connectionsEnv); text != "" {
		if held, err = strconv.Atoi(text); err != nil || held < 1 {
			b.Fatalf("%s=%s is no number of connections", connectionsEnv, text)
		}
	}
	testenv.NeedFiles(b, uint64(held)+500)
	for b.Loop() {
		m := &besideKafka{home: home, held: held, began: time.Now()}
		m.starts(b)
		for _, protocol := range []fleet.Protocol{fleet.Plaintext, fleet.SSL} {
			m.connections(b, protocol)
			m.admissions(b, protocol)
		}
		m.handshakes(b)
		m.decisions(b)
		for _, r := range m.rows {
			unit := strings.ReplaceAll(r.what, " ", "-")
			b.ReportMetric(r.ours, unit)
			b.ReportMetric(r.kafkas, "kafka-"+unit)
		}
		text := m.table()
		b.Log("\n" + text)
		if file != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// besideKafka is one run.
type besideKafka struct {
	home  kafkahome.Home
	held  int
	began time.Time
	rows  []besideRow
	notes []string
}

func (m *besideKafka) row(what string, ours, kafkas float64) {
	m.rows = append(m.rows, besideRow{what: what, ours: ours, kafkas: kafkas})
}

// doing tells who waits what is being measured: the figures come at the end.
func (m *besideKafka) doing(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(m.began).Seconds(), fmt.Sprintf(format, args...))
}

// heap is what Kafka's Java is told of its heap.
func heap() string { return cmp.Or(os.Getenv(heapEnv), defaultHeap) }

// table is Markdown.
func (m *besideKafka) table() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s, %d cores (%s), %s, %s, %s. Kafka %s, %s, %s; the authorizer alone: %s.\n\n", m.began.UTC().Format("2006-01-02"), runtime.NumCPU(), firstOf("/proc/cpuinfo", "model name"),
		memoryOf(), kernelOf(), runtime.Version(), m.home.Version, javaOf(), heap()+" "+strings.Join(collectorOptions(), " "), authorizerHeap)
	t.WriteString("| | brokerlab | Apache Kafka | Kafka by brokerlab |\n|---|---|---|---|\n")
	for _, r := range m.rows {
		ratio := "–"
		if r.ours > 0 {
			ratio = figure(r.kafkas / r.ours)
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s |\n", r.what, figure(r.ours), figure(r.kafkas), ratio)
	}
	for _, n := range m.notes {
		fmt.Fprintf(&t, "\n%s\n", n)
	}
	return t.String()
}

// figure has three digits that count.
func figure(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// firstOf is the first value of a name in a file of /proc.
func firstOf(path, name string) string {
	text, _ := os.ReadFile(path) // without it the table says less
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memoryOf() string {
	var kb float64
	if _, err := fmt.Sscan(firstOf("/proc/meminfo", "MemTotal"), &kb); err != nil {
		return "unknown memory"
	}
	return fmt.Sprintf("%.0f GiB", kb/(1<<20))
}

func kernelOf() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	version, _, _ := strings.Cut(strings.TrimSpace(string(text)), "-")
	return "Linux " + version
}

func javaOf() string {
	out, _ := exec.Command("java", "-version").CombinedOutput()
	_, rest, _ := strings.Cut(string(out), "\"")
	version, _, _ := strings.Cut(rest, "\"")
	return "Java " + version
}

// peer is a server to be measured, ours or Kafka.
type peer struct {
	*server

	name     string
	line     []string
	internal netip.AddrPort // of the plaintext listener that is asked whether it answers
	ended    chan struct{}
}

// lowPorts counts the ports that were handed out.
var lowPorts atomic.Int32

// lowAddr is free, and stays so until a server has begun, which takes Kafka long: the kernel gives such ports to nobody.
func lowAddr(b *testing.B) netip.AddrPort {
	b.Helper()
	const first, count, tries = 12000, 6000, 100
	for range tries {
		port := first + (int(lowPorts.Add(1))+os.Getpid())%count // no two of a run are the same
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
		if l, err := net.Listen("tcp", addr.String()); err == nil {
			_ = l.Close()
			return addr
		}
	}
	b.Fatalf("of %d ports from %d on none is free", count, first)
	return netip.AddrPort{}
}

const (
	ours   = "brokerlab"
	kafkas = "kafka"
)

// peers are both, ready to be started.
func (m *besideKafka) peers(b *testing.B, protocol fleet.Protocol, properties ...string) [2]*peer {
	b.Helper()
	both := [2]*peer{{server: &server{dir: b.TempDir()}, name: ours}, {server: &server{dir: b.TempDir()}, name: kafkas}}
	for _, p := range both {
		store := p.makeCertificate(b)
		p.addr, p.internal = lowAddr(b), lowAddr(b)
		listeners := []string{"BENCH://" + p.addr.String(), "INTERNAL://" + p.internal.String()}
		lines := append([]string{
			"node.id=1",
			"listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,BENCH:" + string(protocol),
			"inter.broker.listener.name=INTERNAL",
			"listener.name.bench.ssl.keystore.type=PEM",
			"listener.name.bench.ssl.keystore.location=" + store,
			"log.dirs=" + filepath.Join(p.dir, "data"),
			"socket.listen.backlog.size=1024",
			"offsets.topic.replication.factor=1",
		}, properties...)
		config := filepath.Join(p.dir, "server.properties")
		if p.name == ours {
			lines = append(lines, "kernel.accounting=off")
			p.line = []string{brokerBinary(b), "broker", "--config", config}
		} else {
			controller := lowAddr(b)
			listeners = append(listeners, "CONTROLLER://"+controller.String())
			lines = append(lines, "process.roles=broker,controller", "controller.listener.names=CONTROLLER", "controller.quorum.voters=1@"+controller.String())
			p.line = m.home.JavaWith(append(slices.Concat(strings.Fields(heap()), collectorOptions()), "-Dlog4j2.configurationFile="+quietLog(b, p.dir)), kafkahome.Server, config)
		}
		lines = append(lines, "listeners="+strings.Join(listeners, ","))
		if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			b.Fatal(err)
		}
		if p.name == kafkas {
			if err := m.home.Format(b.Context(), config, "MkU3OEVBNTcwNTJENDM2Qg", ""); err != nil {
				b.Fatal(err)
			}
		}
	}
	return both
}

// quietLog is a configuration by which Kafka logs what is wrong, and nothing else.
func quietLog(b *testing.B, dir string) string {
	b.Helper()
	path := filepath.Join(dir, "log4j2.properties")
	text := "status = error\nappender.stdout.type = Console\nappender.stdout.name = stdout\nappender.stdout.layout.type = PatternLayout\n" +
		"appender.stdout.layout.pattern = [%d] %p %m (%c)%n\nrootLogger.level = warn\nrootLogger.appenderRef.stdout.ref = stdout\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// run starts the peer and returns after how long it has answered its first request.
func (p *peer) run(b *testing.B) time.Duration {
	b.Helper()
	log := &bytes.Buffer{}
	cmd := exec.Command(p.line[0], p.line[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatalf("start %s: %v", p.name, err)
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in the log
		close(p.ended)
	}()
	b.Cleanup(func() {
		p.end()
		if b.Failed() {
			b.Logf("%s said:\n%s", p.name, tail(log.String(), 4000))
		}
	})
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	go func() {
		select {
		case <-p.ended:
			cancel() // it will not answer
		case <-ctx.Done():
		}
	}()
	if err := waitAnswering(ctx, p.internal); err != nil {
		b.Fatalf("%s does not answer: %v", p.name, err)
	}
	return time.Since(begun)
}

// end is called as often as anybody likes.
func (p *peer) end() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// starts are from exec to the first answer over a plaintext listener, with a new data folder, which Kafka's tool has formatted before.
func (m *besideKafka) starts(b *testing.B) {
	b.Helper()
	const rounds = 3
	var took [2][]float64
	for round := range rounds {
		for i, p := range m.peers(b, fleet.Plaintext) {
			m.doing("start %d of %d: %s", round+1, rounds, p.name)
			took[i] = append(took[i], float64(p.run(b).Microseconds())/1000)
			p.end()
		}
	}
	m.row("from exec to the first answer, ms, median of "+strconv.Itoa(rounds), median(took[0]), median(took[1]))
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// connections holds many idle ones at each in turn.
func (m *besideKafka) connections(b *testing.B, protocol fleet.Protocol) {
	b.Helper()
	var steps [2]connbench.Step
	for i, p := range m.peers(b, protocol) {
		m.doing("%d connections over %s: %s", m.held, words(protocol), p.name)
		p.run(b)
		r, err := connbench.Run(b.Context(), &connbench.Options{
			Protocol: protocol, Sources: []fleet.SourceSpec{{Prefix: netip.MustParsePrefix("127.1.0.0/24")}},
			Steps: []int{m.held}, Parallel: 64, Timeout: time.Minute, WarmUp: m.held / 4, Settle: 3 * time.Second, Collect: true,
			Worker:  func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, brokerBinary(b), "fleet-worker") },
			Targets: []connbench.Target{{Name: p.addr.String(), Addr: p.addr, PID: p.cmd.Process.Pid, Pin: p.ca}},
		})
		if err != nil {
			b.Fatal(err)
		}
		p.end()
		if len(r.Steps) != 1 || r.Steps[0].Connections != m.held || r.Steps[0].SettledBytes == nil || r.Steps[0].StormBytes == nil {
			b.Fatalf("%s held %+v: %s", p.name, r.Steps, r.Verdict.Text)
		}
		steps[i] = r.Steps[0]
		for _, text := range r.Unknown {
			b.Logf("%s over %s: %s", p.name, protocol, text)
		}
	}
	a, k := &steps[0], &steps[1]
	name := words(protocol)
	n := strconv.Itoa(m.held)
	m.row(name+" connection, idle, bytes of the process's memory, settled, at "+n, *a.SettledBytes, *k.SettledBytes)
	m.row("the same right after all of them came at once", *a.StormBytes, *k.StormBytes)
	if k.HeapBytes != nil {
		m.row("the same, live in Java's heap", math.NaN(), *k.HeapBytes)
	}
	m.rows = append(m.rows, besideRow{what: name + " connections admitted a second, first answer included", ours: a.PerSecond, kafkas: k.PerSecond, more: true})
	if a.CPU != nil && k.CPU != nil {
		m.row(name+" connection, processor time of the broker until its first answer, µs", a.CPU.TargetMicros, k.CPU.TargetMicros)
	}
}

func words(p fleet.Protocol) string {
	if p.TLS() {
		return "TLS"
	}
	return "plaintext"
}

// admissions frees slots of a listener that has as many connections as it may, one after the other, while others wait for one: from
// the close to the first answer to the one that was let in.
func (m *besideKafka) admissions(b *testing.B, protocol fleet.Protocol) {
	b.Helper()
	const inside, waiting, warm = 200, 120, 20
	var took [2]*hdrhistogram.Histogram
	for i, p := range m.peers(b, protocol, "listener.name.bench.max.connections="+strconv.Itoa(inside)) {
		m.doing("slots that get free, over %s: %s", words(protocol), p.name)
		p.run(b)
		took[i] = fleet.NewHistogram()
		group := fleet.Group{Name: "inside", Count: inside, Target: p.addr, Protocol: protocol, Source: fleet.Loopback(netip.MustParsePrefix("127.1.0.0/24"))}
		held := openAll(b, group)
		group.Name, group.Count = "waiting", waiting
		queue, err := fleet.New(5 * time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = queue.Close() })
		added := make(chan error, 1)
		go func() { added <- queue.Add(b.Context(), fleet.Plan{Groups: []fleet.Group{group}, Parallel: waiting}) }()
		until(b, "all wait", func() bool { return queue.Stats().Connected == waiting })
		for n := range waiting {
			if queue.UpCount() != n {
				b.Fatalf("%s has let %d of those in that wait, where %d slots were freed", p.name, queue.UpCount(), n)
			}
			d := freed(b, held, queue, n)
			if n >= warm {
				_ = took[i].RecordValue(d.Microseconds()) // in range: until bounds it
			}
		}
		if err := <-added; err != nil {
			b.Fatal(err)
		}
		for _, f := range []*fleet.Fleet{queue, held} {
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
		p.end()
	}
	for _, q := range []float64{50, 99} {
		m.row(fmt.Sprintf("%s, from a slot that gets free to the first answer to who waited, ms, %.0fth percentile", words(protocol), q),
			float64(took[0].ValueAtQuantile(q))/1000, float64(took[1].ValueAtQuantile(q))/1000)
	}
}

func openAll(b *testing.B, group fleet.Group) *fleet.Fleet {
	b.Helper()
	f, err := fleet.Open(b.Context(), fleet.Plan{Groups: []fleet.Group{group}, Parallel: 32, Timeout: 5 * time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	if err := f.FirstError(); err != nil {
		b.Fatal(err)
	}
	return f
}

// freed closes the n-th client inside and returns after how long a client that waited had its first answer.
func freed(b *testing.B, inside, queue *fleet.Fleet, n int) time.Duration {
	b.Helper()
	before := map[int]bool{}
	up := queue.Up()
	for i := range up {
		before[up[i].ID] = true
	}
	closed := time.Now()
	if _, err := inside.CloseWhere(func(r fleet.Record) bool { return r.ID == n }, fleet.FIN); err != nil {
		b.Fatal(err)
	}
	until(b, "one is let in", func() bool { return queue.UpCount() > n })
	up = queue.Up()
	for i := range up {
		if r := &up[i]; !before[r.ID] {
			return r.Started.Add(r.First).Sub(closed)
		}
	}
	b.Fatal("nobody is in")
	return 0
}

// until looks until is has become true, for two minutes at most.
func until(b *testing.B, what string, is func() bool) {
	b.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(200 * time.Microsecond)
	defer tick.Stop()
	for !is() {
		if time.Now().After(deadline) {
			b.Fatalf("waited for two minutes: %s", what)
		}
		<-tick.C
	}
}

// handshakes are full ones, as [BenchmarkHandshake] makes them, with both in turns.
func (m *besideKafka) handshakes(b *testing.B) {
	b.Helper()
	const warm, rounds = 4, 6
	both := m.peers(b, fleet.SSL)
	var spent [2]time.Duration
	for _, p := range both {
		p.run(b)
	}
	for round := range warm + rounds { // Java compiles what it has run often
		m.doing("handshakes, turn %d of %d", round+1, warm+rounds)
		for i, p := range both {
			if d := handshakes(b, p.server); round >= warm {
				spent[i] += d
			}
		}
	}
	for _, p := range both {
		p.end()
	}
	m.row("full TLS 1.3 handshake, processor time of the broker, µs", micros(spent[0], rounds*turn), micros(spent[1], rounds*turn))
}

// decisions asks both authorizers, each in a process of its own and without a broker: rules for 97 users on one topic, each of one
// address, and questions of which half are in no range (the shape "ranges" of broker/acl and e2e/java).
func (m *besideKafka) decisions(b *testing.B) {
	b.Helper()
	const few, some, many = 100, 10_000, 1_000_000
	counts := []int{few, some, many}
	m.doing("decisions: brokerlab")
	test := exec.CommandContext(b.Context(), "go", "test", "github.com/brokerlab/brokerlab/broker/acl", "-run", "^$", "-bench", "^BenchmarkDecision$", "-benchtime", "2s")
	out, err := test.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %v\n%s", test.Args, err, out)
	}
	ours := map[int]float64{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "BenchmarkDecision/") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "BenchmarkDecision/"), "-")
		n, errName := strconv.Atoi(name)
		ns, errValue := strconv.ParseFloat(fields[2], 64)
		if errName == nil && errValue == nil {
			ours[n] = ns
		}
	}
	m.doing("decisions: kafka")
	args := slices.Concat([]string{"java"}, strings.Fields(authorizerHeap), []string{"-XX:+UseParallelGC", "-Dlog4j2.configurationFile=" + quietLog(b, b.TempDir())},
		[]string{"-cp", filepath.Join(m.home.Folder, "libs", "*"), filepath.Join("..", "..", "e2e", "java", "Authorize.java"), "--time", "ranges", "4"})
	for _, n := range counts {
		args = append(args, strconv.Itoa(n))
	}
	out, err = exec.CommandContext(b.Context(), args[0], args[1:]...).Output()
	if err != nil {
		m.notes = append(m.notes, fmt.Sprintf("Kafka's authorizer ended before it had decided about all: %v.", err))
	}
	theirs := map[int]float64{}
	for line := range strings.Lines(string(out)) {
		var r struct {
			ACLs int     `json:"acls"`
			NS   float64 `json:"ns_per_decision"`
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.ACLs > 0 {
			theirs[r.ACLs] = r.NS
		}
	}
	for _, n := range counts {
		a, okA := ours[n]
		k, okK := theirs[n]
		if !okA {
			b.Fatalf("our authorizer has no figure for %d rules:\n%s", n, out)
		}
		if !okK {
			k = math.NaN()
		}
		m.row(fmt.Sprintf("decision of the authorizer among %d CIDR ACLs, ns", n), a, k)
	}
}
