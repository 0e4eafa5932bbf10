package crew_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/fleet/crew"
)

// topic is where all of them meet, each test in a cluster of its own.
const topic = "fleet"

const workerEnv = "BROKERLAB_TEST_CREW_WORKER" // seeds,topic,name

// patient bounds what is waited for: sessions of groups take ten seconds, and machines may be slow.
const patient = 3 * time.Minute

func TestMain(m *testing.M) {
	arguments := strings.Split(os.Getenv(workerEnv), ",")
	if len(arguments) != 3 {
		os.Exit(m.Run())
	}
	o := options(arguments[0], arguments[1], arguments[2], func(line string) { _, _ = fmt.Fprintln(os.Stdout, line) })
	err := crew.Work(context.Background(), o, func(s fleet.SourceSpec) (fleet.Source, error) { return fleet.Loopback(s.Prefix), nil })
	_, _ = fmt.Fprintln(os.Stdout, err)
	os.Exit(1)
}

func options(seed, topic, name string, say func(string)) crew.Options {
	return crew.Options{Topic: topic, Client: []kgo.Opt{kgo.SeedBrokers(seed)}, Name: name, Say: say}
}

// cluster is a cluster for topics, and for clients to connect to.
func cluster(t *testing.T) netip.AddrPort {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return netip.MustParseAddrPort(c.ListenAddrs()[0])
}

// process is a worker in a process of its own, whose lines can be waited for.
type process struct {
	cmd *exec.Cmd

	mu    sync.Mutex // guards lines
	lines []string
}

func worker(t *testing.T, at netip.AddrPort, name string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), workerEnv+"="+at.String()+","+topic+","+name)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	var read sync.WaitGroup
	read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, lines.Text())
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		read.Wait()
		if t.Failed() {
			t.Logf("worker %s said\n%s", name, strings.Join(p.lines, "\n"))
		}
	})
	return p
}

func (p *process) said(part string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.lines, func(line string) bool { return strings.Contains(line, part) })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patient); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

func gather(t *testing.T, at netip.AddrPort, name string, workers int) *crew.Coordinator {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	c, err := crew.Gather(ctx, options(at.String(), topic, name, func(line string) { t.Log(name + ": " + line) }), workers)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func give(t *testing.T, c *crew.Coordinator, n int) (*fleet.Workers, []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	workers, holders, err := c.Give(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return workers, holders
}

func idle(target netip.AddrPort, count int) fleet.Plan {
	return fleet.Plan{Groups: []fleet.Group{{Name: "idle", Count: count, Target: target, Protocol: fleet.Plaintext}}}
}

func up(stats []fleet.Stats) (n int) {
	for i := range stats {
		n += stats[i].Up
	}
	return n
}

// Three workers, one killed in the middle: what it had is reported as lost, share by share, and the others go on. One that comes
// late has no part in this run, and has one in the next; what is not ours in the topics disturbs nobody.
func TestAWorkerThatIsKilledTakesItsShareAlongAndIsNamed(t *testing.T) {
	t.Parallel()
	at := cluster(t)
	const clients, shares = 125, crew.Partitions
	for _, name := range []string{"one", "two", "three"} {
		worker(t, at, name)
	}
	doomed := worker(t, at, "doomed")
	c := gather(t, at, "first", 4)
	garbage(t, at)
	workers, holders := give(t, c, shares)
	if err := workers.Add(t.Context(), crew.Split(idle(at, clients), shares), nil); err != nil {
		t.Fatal(err)
	}
	stats, err := workers.Stats()
	if err != nil || up(stats) != clients {
		t.Fatalf("Stats() = %d up, %v, want all %d", up(stats), err, clients)
	}
	for _, name := range []string{"one", "two", "three", "doomed"} {
		if n := slices.Index(holders, name); n < 0 {
			t.Errorf("worker %s has no share: %v", name, holders)
		}
	}
	records, err := workers.Records()
	if err != nil || len(records) != clients {
		t.Errorf("Records() = %d, %v, want %d", len(records), err, clients)
	}

	late := worker(t, at, "late")
	eventually(t, "the late one waits", func() bool { return late.said("waits at topic") })
	if killed := doomed.cmd.Process.Signal(unix.SIGKILL); killed != nil {
		t.Fatal(killed)
	}
	eventually(t, "its shares are lost", func() bool {
		_, _ = workers.Stats()
		return len(workers.Lost()) > 0
	})
	stats, err = workers.Stats()
	lost, gone := workers.Lost(), 0
	for i, holder := range holders {
		e := lost[i]
		if (holder == "doomed") != (e != nil) {
			t.Errorf("share %d of %s: %v", i+1, holder, e)
		}
		if e == nil {
			continue
		}
		gone += e.Clients
		if !errors.Is(err, e) || !strings.Contains(e.Error(), fmt.Sprintf("share %d of %d (worker doomed)", i+1, shares)) {
			t.Errorf("Stats() = %v, want %v in it, named by share and worker", err, e)
		}
	}
	if gone == 0 || up(stats) != clients-gone {
		t.Errorf("%d of %d are up, and %d lost", up(stats), clients, gone)
	}
	if n, _ := workers.CloseAll(fleet.FIN); n != clients-gone {
		t.Errorf("CloseAll() = %d, want %d", n, clients-gone)
	}
	if err := workers.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	c.Close()
	if late.said("is taken") {
		t.Error("the late worker has a part in a run that had begun")
	}

	c = gather(t, at, "second", 4)
	defer c.Close()
	if names := c.Workers(); !slices.Equal(names, []string{"late", "one", "three", "two"}) {
		t.Errorf("Workers() = %v, want the late one in place of the killed one", names)
	}
	workers, holders = give(t, c, 4)
	slices.Sort(holders)
	if !slices.Equal(holders, c.Workers()) {
		t.Errorf("the four shares of the next run are held by %v, want one by each, the late one too", holders)
	}
	if err := workers.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// garbage writes what is none of ours into both topics.
func garbage(t *testing.T, at netip.AddrPort) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(at.String()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	header := func(pairs ...string) (all []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return all
	}
	for _, headers := range [][]kgo.RecordHeader{
		nil,
		header("kind", "offer"),
		header("kind", "offer", "run", "nobody", "share", "0", "of", "1", "from", "nobody", "to", "", "seq", "0"),
		header("kind", "take", "run", "nobody", "share", "99999", "of", "1", "from", "nobody", "seq", "0"),
		header("kind", "data", "run", "nobody", "share", "-1", "from", "x", "seq", "99999999999999999999"),
		header("kind", "end", "run", "nobody", "share", "0", "from", "x", "seq", "0"),
	} {
		for _, to := range []string{topic, topic + "-reports"} {
			r := &kgo.Record{Topic: to, Value: []byte("\x00{garbage"), Headers: headers}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Two coordinators at one topic: the second begins when the first has ended, and the clients of one that vanishes end.
func TestASecondCoordinatorWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	at := cluster(t)
	const clients = 20
	one := worker(t, at, "one")
	first := gather(t, at, "first", 1)
	workers, _ := give(t, first, 2)
	if err := workers.Add(t.Context(), crew.Split(idle(at, clients), 2), nil); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	type gathered struct {
		c   *crew.Coordinator
		err error
	}
	second := make(chan gathered, 1)
	go func() {
		c, err := crew.Gather(ctx, options(at.String(), topic, "second", func(line string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, line)
		}), 1)
		second <- gathered{c, err}
	}()
	eventually(t, "the second says for whom it waits", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "has a coordinator: first") })
	})
	select {
	case g := <-second:
		t.Fatalf("Gather() = %v while another coordinator is there", g.err)
	default:
	}
	if stats, err := workers.Stats(); err != nil || up(stats) != clients {
		t.Errorf("Stats() of the first = %d up, %v, want %d", up(stats), err, clients)
	}
	first.Close() // without an end of its shares, as if it had vanished
	g := <-second
	if g.err != nil {
		t.Fatal(g.err)
	}
	defer g.c.Close()
	again, holders := give(t, g.c, 2)
	if !slices.Equal(holders, []string{"one", "one"}) {
		t.Errorf("holders = %v", holders)
	}
	eventually(t, "the first's shares are dropped", func() bool { return one.said("is dropped: ") })
	if err := again.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// A topic that was made anew, as after a restart of a cluster that keeps nothing, is one in which a worker that waited goes on to wait.
func TestAWorkerComesBackToATopicThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	at := cluster(t)
	w := worker(t, at, "steady")
	eventually(t, "it waits", func() bool { return w.said("waits at topic") })
	cl, err := kgo.NewClient(kgo.SeedBrokers(at.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopics(t.Context(), topic, topic+"-reports"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says so", func() bool { return w.said("it was made anew; coming back") })
	workers, holders := give(t, gather(t, at, "after", 1), 2)
	defer workers.Close()
	if err := workers.Add(t.Context(), crew.Split(idle(at, 10), 2), nil); err != nil {
		t.Fatal(err)
	}
	if stats, err := workers.Stats(); err != nil || up(stats) != 10 || holders[0] != "steady" {
		t.Errorf("Stats() = %d up, %v, with %v, want all 10", up(stats), err, holders)
	}
}

func TestWaitingForWorkersEndsWithAReason(t *testing.T) {
	t.Parallel()
	at := cluster(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Second, errors.New("waited long enough"))
	defer cancel()
	_, err := crew.Gather(ctx, options(at.String(), topic, "alone", nil), 2)
	if err == nil || !strings.Contains(err.Error(), "waited long enough") || !strings.Contains(err.Error(), "0 of 2 workers") {
		t.Errorf("Gather() = %v, want why it has waited for what", err)
	}
}

func TestWhoWaitsIsToldByName(t *testing.T) {
	t.Parallel()
	at := cluster(t)
	o := options(at.String(), topic, "asker", nil)
	if names, err := crew.Waiting(t.Context(), o); err != nil || len(names) != 0 {
		t.Errorf("Waiting() = %v, %v, want nobody where there is no topic", names, err)
	}
	worker(t, at, "early")
	eventually(t, "the worker waits", func() bool {
		names, err := crew.Waiting(t.Context(), o)
		return err == nil && slices.Equal(names, []string{"early"})
	})
}

func TestAWorkerThatIsInterruptedWhileItComesEndsAsOneThatWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := crew.Work(ctx, options(cluster(t).String(), topic, "hasty", nil), nil); err != nil {
		t.Errorf("Work() = %v, want nil", err)
	}
}

func TestEverySharesSumIsThePlan(t *testing.T) {
	t.Parallel()
	plan := fleet.Plan{Rate: 100, Groups: []fleet.Group{{Name: "a", Count: 7}, {Name: "b", Count: 3}}}
	for n := 1; n < 15; n++ {
		sums, rate, least, most := [2]int{}, 0.0, 1<<30, 0
		for _, p := range crew.Split(plan, n) {
			sums[0], sums[1] = sums[0]+p.Groups[0].Count, sums[1]+p.Groups[1].Count
			rate += p.Rate
			least, most = min(least, p.Connections()), max(most, p.Connections())
		}
		if sums != [2]int{7, 3} || rate < 99.9 || rate > 100.1 || most-least > 1 {
			t.Errorf("Split(plan, %d) = %v clients, rate %v, between %d and %d in a share", n, sums, rate, least, most)
		}
	}
}
