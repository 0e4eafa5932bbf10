package bench

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// frontDoorEnv, when set, lets [BenchmarkFrontDoor] run: it takes minutes. Its value is the file for the table.
const frontDoorEnv = "BROKERLAB_BENCH_FRONT_DOOR"

const (
	frontDoorRounds = 15
	frontDoorRecord = 1 << 10 // bytes of a value
	frontDoorMany   = 400_000 // records written and read by a turn
	frontDoorRate   = 500     // records a second where latencies are measured
	frontDoorPaced  = 5 * time.Second
)

// BenchmarkFrontDoor measures what a front door costs those who have an Apache Kafka behind it: the same clients write to and read from the
// same Kafka, directly and through brokerlab, in turns, in one run.
func BenchmarkFrontDoor(b *testing.B) {
	file, wanted := os.LookupEnv(frontDoorEnv)
	if !wanted {
		b.Skipf("%s is not set: make bench-front-door runs it", frontDoorEnv)
	}
	home, err := kafkahome.Find(kafkahome.Default)
	if err == nil {
		err = kafkahome.CheckJava()
	}
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		f := &frontDoor{besideKafka: besideKafka{home: home, began: time.Now()}}
		f.start(b)
		f.idle(b)
		f.throughput(b)
		f.paced(b)
		text := f.table()
		b.Log("\n" + text)
		if file != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// frontDoor is one run: a Kafka, and a broker in front of it.
type frontDoor struct {
	besideKafka

	kafka  *peer
	door   *server
	tls    netip.AddrPort // of the door
	topics int
}

// ways are the two ways to the same Kafka, the direct one first.
func (f *frontDoor) ways() [2]netip.AddrPort { return [2]netip.AddrPort{f.kafka.addr, f.door.addr} }

func (f *frontDoor) start(b *testing.B) {
	b.Helper()
	f.kafka = f.peers(b, fleet.Plaintext, "log.segment.delete.delay.ms=100")[1] // what is deleted takes no time from a later turn
	f.doing("start Apache Kafka, and a broker in front of it")
	f.kafka.run(b)
	f.door = &server{dir: b.TempDir(), addr: lowAddr(b)}
	f.tls = lowAddr(b)
	store := f.door.makeCertificate(b)
	config := filepath.Join(f.door.dir, "server.properties")
	lines := []string{
		"node.id=1",
		"engine.bootstrap.servers=" + f.kafka.addr.String(),
		"listeners=PLAINTEXT://" + f.door.addr.String() + ",SSL://" + f.tls.String(),
		"ssl.keystore.type=PEM",
		"ssl.keystore.location=" + store,
		"log.dirs=" + filepath.Join(f.door.dir, "data"),
		"kernel.accounting=off",
	}
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	f.door.start(b, brokerCommand(b, config))
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := waitAnswering(ctx, f.door.addr); err != nil {
		b.Fatal(err)
	}
}

// clientOf is a client of one way.
func clientOf(b *testing.B, way netip.AddrPort, more ...kgo.Opt) *kgo.Client {
	b.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(way.String())}, more...)...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

// topic makes another topic of some partitions, in Kafka itself, and returns its name once both ways know it.
func (f *frontDoor) topic(b *testing.B) string {
	b.Helper()
	const partitions = 6
	f.topics++
	name := "bench-" + strconv.Itoa(f.topics)
	if _, err := kadm.NewClient(clientOf(b, f.kafka.addr)).CreateTopic(b.Context(), partitions, 1, nil, name); err != nil {
		b.Fatal(err)
	}
	for _, way := range f.ways() {
		admin := kadm.NewClient(clientOf(b, way))
		until(b, name+" is known at "+way.String(), func() bool {
			all, err := admin.ListTopics(b.Context(), name)
			return err == nil && all[name].Err == nil && len(all[name].Partitions) == partitions
		})
	}
	return name
}

// end deletes the newest topic and waits until its files are gone: the next turn has the disk and the memory that this one had.
func (f *frontDoor) end(b *testing.B, topic string) {
	b.Helper()
	deleted, err := kadm.NewClient(clientOf(b, f.kafka.addr)).DeleteTopics(b.Context(), topic)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		b.Fatal(err)
	}
	until(b, "the files of "+topic+" are gone", func() bool {
		left, err := filepath.Glob(filepath.Join(f.kafka.dir, "data", topic+"-*"))
		return err == nil && len(left) == 0
	})
}

// spent is the processor time of Kafka and of the broker in front of it so far.
func (f *frontDoor) spent(b *testing.B) [2]time.Duration {
	b.Helper()
	return [2]time.Duration{f.kafka.cpu(b), f.door.cpu(b)}
}

// inTurn is the order of the two ways in a round: each is the first one in every other.
func inTurn(round int) [2]int {
	if round%2 == 1 {
		return [2]int{1, 0}
	}
	return [2]int{0, 1}
}

// flow is what one way has carried.
type flow struct {
	perSecond []float64 // MB/s of each round
	megabytes float64
	kafka     time.Duration
	door      time.Duration
}

// throughput writes and reads many records, in turns: each round has one of either way, now this first and now that.
func (f *frontDoor) throughput(b *testing.B) {
	b.Helper()
	const warm = 2
	var wrote, read [2]flow
	for round := range warm + frontDoorRounds { // Java compiles what it has run often
		f.doing("throughput, round %d of %d", round+1, warm+frontDoorRounds)
		for _, i := range inTurn(round) {
			way, topic := f.ways()[i], f.topic(b)
			for _, half := range []struct {
				into *flow
				do   func(*testing.B, netip.AddrPort, string)
			}{{&wrote[i], writeAll}, {&read[i], readAll}} {
				before, begun := f.spent(b), time.Now()
				half.do(b, way, topic)
				took, after := time.Since(begun), f.spent(b)
				if round < warm {
					continue
				}
				const megabytes = float64(frontDoorMany) * frontDoorRecord / 1e6
				half.into.perSecond = append(half.into.perSecond, megabytes/took.Seconds())
				half.into.megabytes += megabytes
				half.into.kafka += after[0] - before[0]
				half.into.door += after[1] - before[1]
			}
			f.end(b, topic)
		}
	}
	f.flows("written", &wrote[0], &wrote[1])
	f.flows("read", &read[0], &read[1])
}

// flows adds the rows of what was written, or read, and how far the rounds are apart.
func (f *frontDoor) flows(what string, direct, through *flow) {
	parts := make([]float64, len(through.perSecond))
	for i := range parts {
		parts[i] = through.perSecond[i] / direct.perSecond[i]
	}
	slices.Sort(parts)
	quarter := len(parts) / 4
	f.notes = append(f.notes, fmt.Sprintf("MB %s a second, through by directly, of each of %d rounds: %.2f in the median, the middle half from %.2f to %.2f, all from %.2f to %.2f.",
		what, len(parts), median(parts), parts[quarter], parts[len(parts)-1-quarter], parts[0], parts[len(parts)-1]))
	f.rows = append(f.rows, besideRow{what: fmt.Sprintf("MB %s a second, median of %d", what, len(parts)), ours: median(through.perSecond), kafkas: median(direct.perSecond), more: true})
	f.row("processor time of Kafka by MB "+what+", ms", millis(through.kafka)/through.megabytes, millis(direct.kafka)/direct.megabytes)
	f.row("processor time of brokerlab by MB "+what+", ms", millis(through.door)/through.megabytes, millis(direct.door)/direct.megabytes)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// writeAll writes the records, acknowledged by all replicas, idempotently, in batches as they come.
func writeAll(b *testing.B, way netip.AddrPort, topic string) {
	b.Helper()
	c := clientOf(b, way, kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(50_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := make([]byte, frontDoorRecord)
	first := kgo.AbortingFirstErrPromise(c)
	for range frontDoorMany {
		c.Produce(b.Context(), &kgo.Record{Value: value}, first.Promise())
	}
	if err := first.Err(); err != nil {
		b.Fatal(err)
	}
	c.Close()
}

// readAll reads all records of a topic.
func readAll(b *testing.B, way netip.AddrPort, topic string) {
	b.Helper()
	c := clientOf(b, way, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	for n := 0; n < frontDoorMany; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			b.Fatalf("read %d of %d records: %v", n, frontDoorMany, err)
		}
		n += fetches.NumRecords()
	}
	c.Close()
}

// paced writes single records at a fixed rate, in turns, and looks at how long each took to be acknowledged. Of all turns the middle one
// counts: another guest of the same host spoils some.
func (f *frontDoor) paced(b *testing.B) {
	b.Helper()
	const turns = 11
	quantiles := []float64{50, 99}
	var took [2][][]float64 // ms of each quantile, of each turn
	for i := range took {
		took[i] = make([][]float64, len(quantiles))
	}
	for round := range turns {
		f.doing("latency at %d records a second, round %d of %d", frontDoorRate, round+1, turns)
		for _, i := range inTurn(round) {
			turn := fleet.NewHistogram()
			pace(b, f.ways()[i], f.topic(b), turn)
			for k, q := range quantiles {
				took[i][k] = append(took[i][k], float64(turn.ValueAtQuantile(q))/1000)
			}
		}
	}
	for k, q := range quantiles {
		f.row(fmt.Sprintf("until a record is acknowledged, at %d a second, ms, %.0fth percentile", frontDoorRate, q), median(took[1][k]), median(took[0][k]))
	}
}

// pace writes for a while.
func pace(b *testing.B, way netip.AddrPort, topic string, took *hdrhistogram.Histogram) {
	b.Helper()
	c := clientOf(b, way, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	value := make([]byte, frontDoorRecord)
	tick := time.NewTicker(time.Second / frontDoorRate)
	defer tick.Stop()
	const warm = frontDoorRate // the first second is not counted
	for n := range frontDoorRate * int(frontDoorPaced/time.Second) {
		due := <-tick.C // what waits for its turn waits in the figure, too
		c.Produce(b.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Errorf("at %s: %v", way, err)
			}
			if n >= warm {
				_ = took.RecordValue(time.Since(due).Microseconds()) // in range; kgo calls one promise at a time
			}
		})
	}
	if err := c.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	c.Close()
}

// idle holds many TLS clients at the front door and counts the connections that Kafka has then: none is theirs.
func (f *frontDoor) idle(b *testing.B) {
	b.Helper()
	testenv.NeedFiles(b, held+500)
	before := f.connections(b)
	f.doing("%d idle TLS clients", held)
	group := fleet.Group{Name: "idle", Count: held, Target: f.tls, Protocol: fleet.SSL, TLS: fleet.TLS{Pin: f.door.ca}, Source: fleet.Loopback(netip.MustParsePrefix("127.1.0.0/24"))}
	clients := openAll(b, group)
	if clients.UpCount() != held {
		b.Fatalf("%d of %d clients are up", clients.UpCount(), held)
	}
	settled := 0
	until(b, "links that clients have used are given back", func() bool { settled = f.connections(b); return settled <= before+1 })
	f.row(fmt.Sprintf("connections that %d idle TLS clients cost Kafka", held), float64(max(0, settled-before)), math.NaN())
	if err := clients.Close(); err != nil {
		b.Fatal(err)
	}
}

// connections are those that Kafka has established at its listener.
func (f *frontDoor) connections(b *testing.B) int {
	b.Helper()
	n := 0
	port := fmt.Sprintf(":%04X", f.kafka.addr.Port())
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // a machine without IPv6
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 3 && strings.HasSuffix(fields[1], port) && fields[3] == "01" {
				n++
			}
		}
	}
	return n
}

// table is Markdown.
func (f *frontDoor) table() string {
	if control, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control"); err == nil {
		f.notes = append(f.notes, "Congestion control of the machine: "+strings.TrimSpace(string(control))+".")
	}
	text := f.besideKafka.table()
	text = strings.Replace(text, "; the authorizer alone: "+authorizerHeap, "", 1)
	return strings.Replace(text, "| | brokerlab | Apache Kafka | Kafka by brokerlab |", "| | through brokerlab | directly | directly by through |", 1)
}
