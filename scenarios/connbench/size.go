package connbench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// SizeOptions says how much memory a broker may use, and how to measure what its connections take of it.
type SizeOptions struct {
	Options // of which Steps are ignored; one target, with TLS and a PID

	Memory      int64   // bytes
	Reserve     float64 // share of it that stays free
	Connections int     // of each kind, while they are measured
}

// Size is what TLS connections of a broker cost, and how many of them its memory allows. Sizes are in bytes.
type Size struct {
	Target TargetInfo `json:"target"`
	Memory int64      `json:"memoryBytes"`
	Base   Memory     `json:"base"` // without connections, after a warm-up
	Kinds  []KindSize `json:"kinds"`
	// KernelBytes is the kernel's by connection at the broker's end; absent: unknown.
	KernelBytes *float64 `json:"kernelBytesPerConnection,omitempty"`
	Bounds      []Bound  `json:"bounds"` // the lowest is the proposal
	Proposal    int      `json:"proposal"`
	Key         string   `json:"key"` // the config to set: Apache Kafka has no max.ssl.connections
	Reasoning   []string `json:"reasoning"`
	Unknown     []string `json:"unknown"`
}

// KindSize is what one kind of connection costs.
type KindSize struct {
	Kind        string   `json:"kind"` // idle, in handshake or active
	Connections int      `json:"connections"`
	Bytes       float64  `json:"bytesPerConnection"` // resident
	Heap        *float64 `json:"heapBytesPerConnection,omitempty"`
}

// Bound is how many connections one thing allows.
type Bound struct {
	What        string `json:"what"`
	Connections int    `json:"connections"`
	Why         string `json:"why"`
}

// sizing is a measurement under way.
type sizing struct {
	*run

	o     *SizeOptions
	size  *Size
	files int // that the target had open without connections
}

// activeFor is how long active clients are watched, each sending a request every activeEvery.
const (
	activeFor   = 4 * time.Second
	activeEvery = time.Second
)

// MeasureSize measures the three kinds of TLS connections of o's target, one after the other, and proposes a limit.
func MeasureSize(ctx context.Context, o *SizeOptions) (*Size, error) {
	o.Steps = []int{o.Connections}
	err := o.Validate()
	if err == nil && !o.Protocol.TLS() {
		err = fmt.Errorf("the target's protocol is %s: sizes are those of TLS connections, SSL or SASL_SSL", o.Protocol)
	}
	if err == nil && (len(o.Targets) != 1 || o.Targets[0].PID == 0) {
		err = errors.New("the process behind the target must be known: its memory is what is measured")
	}
	if err != nil {
		return nil, err
	}
	s := &sizing{run: newRun(&o.Options), o: o}
	if begun := s.begin(ctx); begun != nil {
		return nil, begun
	}
	err = s.measureAll(ctx)
	if closed := s.workers.Close(); err == nil { //nolint:contextcheck // closing waits by its own clock
		err = closed
	}
	if err != nil {
		return nil, err
	}
	s.propose(ctx)
	s.size.Unknown = s.result.Unknown
	return s.size, nil
}

func (s *sizing) measureAll(ctx context.Context) error {
	s.size = &Size{Memory: s.o.Memory, Target: s.result.Target, Unknown: []string{}}
	if err := s.warmUp(ctx); err != nil {
		return err
	}
	base := s.settled(ctx, "settling")
	if base == nil {
		return errors.Join(ctx.Err(), errors.New("the target's memory cannot be read"))
	}
	s.size.Base = *base
	if open, _, err := process(s.o.Targets[0].PID).files(); err == nil {
		s.files = open
	}
	idle, err := s.idle(ctx, base)
	if err != nil {
		return err
	}
	active, err := s.while(ctx, "active", base, func(g *fleet.Group) { g.Behaviour, g.Every = fleet.Metadata, activeEvery })
	if err != nil {
		return err
	}
	hello, err := clientHello()
	if err != nil {
		return err
	}
	handshake, err := s.while(ctx, "in handshake", base, func(g *fleet.Group) {
		g.Behaviour, g.Payload, g.TLS = fleet.Raw, hello, fleet.TLS{}
	})
	if err != nil {
		return err
	}
	s.size.Kinds = []KindSize{idle, handshake, active}
	return nil
}

// clientHello is a whole first flight: the broker answers it, and waits for the second with all that a handshake holds.
func clientHello() ([]byte, error) {
	hello, err := fleet.ClientHello(&tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, //nolint:gosec // nothing is trusted: the flight is all that is sent
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	})
	if err != nil {
		return nil, fmt.Errorf("make a ClientHello: %w", err)
	}
	return hello, nil
}

// idle measures connections that had one answer and rest.
func (s *sizing) idle(ctx context.Context, base *Memory) (KindSize, error) {
	if err := s.open(ctx, "idle", func(*fleet.Group) {}); err != nil {
		return KindSize{}, err
	}
	now := s.settled(ctx, "idle, settling")
	if now == nil {
		return KindSize{}, errors.Join(ctx.Err(), errors.New("the target's memory cannot be read"))
	}
	const exact = 4 << 20 // beside what a broker allocates and frees for other reasons
	if grown := now.Growing - base.Growing; grown < exact {
		s.unknown(fmt.Sprintf("the exact size of an idle connection: %s of them took %s together, too little beside all else (more --connections)",
			number(s.o.Connections), sizeText(grown)))
	}
	if now.Kernel != nil && base.Kernel != nil {
		if each, ok := now.Kernel.by(base.Kernel, s.o.Connections); ok {
			s.size.KernelBytes = new(each / 2) // both ends of a connection are on this machine and of one size
		} else {
			s.unknown("memory of the kernel: other programs opened or closed sockets meanwhile")
		}
	}
	return s.kind("idle", base, now), s.closeAll()
}

// while measures connections that do something: the most that they took at a time.
func (s *sizing) while(ctx context.Context, kind string, base *Memory, change func(*fleet.Group)) (KindSize, error) {
	if s.settled(ctx, "settling") == nil {
		return KindSize{}, errors.Join(ctx.Err(), errors.New("the target's memory cannot be read"))
	}
	if err := s.open(ctx, kind, change); err != nil {
		return KindSize{}, err
	}
	most := s.memory(ctx, true)
	deadline := time.Now().Add(activeFor)
	for most != nil && time.Now().Before(deadline) {
		if err := sleep(ctx, sampleEvery); err != nil {
			return KindSize{}, err
		}
		if now := s.memory(ctx, false); now != nil && now.Growing > most.Growing {
			now.Heap = most.Heap
			most = now
		}
	}
	if most == nil {
		return KindSize{}, errors.New("the target's memory cannot be read")
	}
	return s.kind(kind, base, most), s.closeAll()
}

func (s *sizing) kind(kind string, base, now *Memory) KindSize {
	n := float64(s.o.Connections)
	k := KindSize{Kind: kind, Connections: s.o.Connections, Bytes: float64(now.Growing-base.Growing) / n}
	if now.Heap != nil && base.Heap != nil {
		k.Heap = new(float64(*now.Heap-*base.Heap) / n)
	}
	return k
}

// open opens the connections of one kind, all of which have to come up.
func (s *sizing) open(ctx context.Context, kind string, change func(*fleet.Group)) error {
	s.doing(kind, s.o.Connections)
	failed := s.progress().Failed
	count := len(s.workers.PIDs())
	plans := make([]fleet.Plan, count)
	for i := range plans {
		plans[i] = s.run.o.plan(share(s.o.Connections, count, i), s.turn)
		plans[i].Parallel = max(1, s.o.Parallel/count)
		for k := range plans[i].Groups {
			change(&plans[i].Groups[k])
		}
	}
	err := s.workers.Add(ctx, plans, func(p fleet.Progress) bool {
		s.doing(kind, s.o.Connections)
		return s.heard(p) == failed
	})
	if err != nil {
		return err
	}
	if p := s.progress(); p.Up < s.o.Connections {
		v := s.ended(ctx, p.Up)
		return fmt.Errorf("measure %s connections each: %s", number(s.o.Connections), v.Text)
	}
	return nil
}

// propose puts the bounds together.
func (s *sizing) propose(ctx context.Context) {
	z := s.size
	z.Key = MaxSSLConnections
	worst, heap := z.worst()
	kernel := 0.0
	if z.KernelBytes != nil {
		kernel = *z.KernelBytes
	}
	free := float64(z.Memory) * (1 - s.o.Reserve)
	room := free - float64(z.Base.Resident)
	z.say("of %s, %.0f %% stay free for requests and bursts; %s are the broker's without connections: %s are left for connections",
		sizeText(z.Memory), 100*s.o.Reserve, sizeText(z.Base.Resident), sizeText(int64(max(0, room))))
	p := process(s.o.Targets[0].PID)
	if p.java() {
		s.proposeJava(ctx, p, room, worst, heap, kernel)
	} else {
		z.say("a connection takes most while it is %s: %s bytes%s", worst.Kind, number(int(worst.Bytes)), withKernel(kernel))
		z.bound("memory", room/(worst.Bytes+kernel), fmt.Sprintf("%s by %s bytes", sizeText(int64(max(0, room))), number(int(worst.Bytes+kernel))))
	}
	s.boundFiles(p)
	lowest := z.Bounds[0]
	for _, b := range z.Bounds {
		if b.Connections < lowest.Connections {
			lowest = b
		}
	}
	z.Proposal = roundDown(lowest.Connections)
	z.say("the lowest bound is %s (%s), rounded down", number(lowest.Connections), lowest.What)
	if s.apache(ctx) {
		listener := strings.ToLower(strings.Join(s.result.Target.Listeners, ""))
		z.Key = "listener.name." + listener + "." + MaxConnections
		z.say("Apache Kafka has no %s: its limit of the listener is the nearest, and each TLS listener has its own", MaxSSLConnections)
	}
}

// worst are the kinds that take most, of resident memory and of a Java heap; heap is nil where that is unknown.
func (z *Size) worst() (resident KindSize, heap *KindSize) {
	for i := range z.Kinds {
		k := &z.Kinds[i]
		if k.Bytes > resident.Bytes || resident.Kind == "" {
			resident = *k
		}
		if k.Heap != nil && (heap == nil || *k.Heap > *heap.Heap) {
			heap = k
		}
	}
	return resident, heap
}

// proposeJava bounds by live heap, which is all that can be told of a Java process: its resident memory holds garbage, and never
// shrinks.
func (s *sizing) proposeJava(ctx context.Context, p process, room float64, worst KindSize, heap *KindSize, kernel float64) {
	z := s.size
	if heap == nil || z.Base.Heap == nil {
		s.unknown("live heap of the target: without it resident memory stands for it, garbage included, which is too much")
		z.bound("memory", room/(math.Max(worst.Bytes, 1)+kernel), fmt.Sprintf("%s by %s bytes", sizeText(int64(max(0, room))), number(int(worst.Bytes+kernel))))
		return
	}
	z.say("a connection takes most while it is %s: %s bytes of live heap%s", heap.Kind, number(int(*heap.Heap)), withKernel(kernel))
	// A collector needs room beside what is live.
	const collector = 0.3
	z.say("of the heap %.0f %% stay free for the collector", 100*collector)
	if limit := p.heapLimit(ctx); limit > 0 {
		left := float64(limit)*(1-collector) - float64(*z.Base.Heap)
		z.bound("the heap that it has", left/(*heap.Heap), fmt.Sprintf("-Xmx is %s, %s of it live without connections", sizeText(limit), sizeText(*z.Base.Heap)))
	} else {
		s.unknown("the most that the heap may grow to: neither -Xmx nor jcmd tells")
	}
	outside := max(0, float64(z.Base.Growing-*z.Base.Heap)) // code, stacks, buffers and garbage
	left := (float64(z.Memory)*(1-s.o.Reserve)-outside)*(1-collector) - float64(*z.Base.Heap)
	z.bound("memory, with a heap as large as it allows", left/(*heap.Heap+kernel),
		fmt.Sprintf("%s less %s outside of the live heap", sizeText(int64(float64(z.Memory)*(1-s.o.Reserve))), sizeText(int64(outside))))
}

func (s *sizing) boundFiles(p process) {
	_, limit, err := p.files()
	if err != nil {
		s.unknown("how many files the target may open: " + err.Error())
		return
	}
	if limit == 0 {
		return
	}
	const spare = 256 // what a broker needs beside connections
	s.size.bound("files", float64(limit-s.files-spare), fmt.Sprintf("the process may have %s open, has %s, and keeps %d for other than connections",
		number(limit), number(s.files), spare))
}

// apache tells a broker that is not ours: it has none of our requests.
func (s *sizing) apache(ctx context.Context) bool {
	c, ok := s.o.Targets[0].Control.(*Cluster)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return !c.offersList(ctx)
}

func (z *Size) say(format string, args ...any) {
	z.Reasoning = append(z.Reasoning, fmt.Sprintf(format, args...))
}

func (z *Size) bound(what string, connections float64, why string) {
	const most = math.MaxInt32 - 1
	z.Bounds = append(z.Bounds, Bound{What: what, Connections: int(min(max(0, connections), most)), Why: why})
}

func withKernel(kernel float64) string {
	if kernel == 0 {
		return "; the kernel's part is not known"
	}
	return fmt.Sprintf(", and %s of the kernel's", number(int(kernel)))
}

// roundDown keeps two digits.
func roundDown(n int) int {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return n / unit * unit
}

// sizeText is [FormatSize] for whole bytes.
func sizeText(bytes int64) string { return FormatSize(float64(bytes)) }

// heapLimit is the most that a Java process's heap may grow to; 0: unknown.
func (p process) heapLimit(ctx context.Context) int64 {
	text, err := os.ReadFile(p.path("cmdline"))
	if err != nil {
		return 0
	}
	if limit := heapMax(strings.Split(string(text), "\x00")); limit > 0 {
		return limit
	}
	ctx, cancel := context.WithTimeout(ctx, jcmdTimeout)
	defer cancel()
	flags, err := p.jcmd(ctx, "VM.flags")
	if err != nil {
		return 0
	}
	return heapMax(strings.Fields(flags))
}
