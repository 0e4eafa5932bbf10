package fidelity

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ground is a broker under a case about limits: who its guests are, and what they have seen so far, in order.
//
// Its methods that look at guests note what was seen and, where it is known what Kafka does, hold it to that: a case that would
// see the same on both because nothing of it happens fails.
type ground struct {
	t       *testing.T
	ctx     context.Context
	p       *peer
	desk    *desk
	guests  []*guest
	seen    map[string]any
	altered map[string]bool // level and key, to be taken back
	rates   map[string]bool // addresses, likewise
	wrong   []string        // what Kafka is known to do otherwise
	timed   bool            // whoever is held is held for a window
	entered time.Time       // when the last began to enter together
	late    string          // why what was seen tells nothing
}

// desk asks a peer over one connection at a time, which counts as one wherever connections are counted.
type desk struct {
	p      *peer
	conn   *conn
	synced int
	leaked int // connections that the peer will never close
	reader *reader
}

// ask asks over the connection, or a new one where the peer has ended that.
func (d *desk) ask(t *testing.T, req kmsg.Request) kmsg.Response {
	t.Helper()
	if d.conn != nil {
		resp, end := d.conn.exchange(req, bound)
		if end == "" {
			return resp
		}
		d.conn.close()
	}
	var err error
	if d.conn, err = d.p.connect(t.Context(), "PLAINTEXT", how{}); err != nil {
		t.Fatalf("%s: %v", d.p.name, err)
	}
	return d.conn.ask(t, req)
}

// close hangs up.
func (d *desk) close() {
	if d.conn != nil {
		d.conn.close()
	}
	if d.reader != nil {
		d.reader.end()
	}
}

// limitCase is one case: its name below limits/, and what is done.
type limitCase struct {
	name string
	run  func(g *ground)
	last bool // the brokers are gone after it
}

// runLimits runs cases one after another, each on both peers at the same time, and compares what was seen. It does not count
// on the number of tests that may run in parallel, as several pairs are at work at once.
func runLimits(t *testing.T, b *both, cases []limitCase) {
	t.Helper()
	desks := map[*peer]*desk{}
	for _, p := range b.peers() {
		desks[p] = &desk{p: p}
		t.Cleanup(desks[p].close)
	}
	for _, c := range cases {
		name := "limits/" + c.name
		t.Run(name, func(t *testing.T) {
			const tries = 3
			for try := range tries {
				ours, kafka := c.on(t, b.ours, desks[b.ours]), c.on(t, b.kafka, desks[b.kafka])
				one, other := <-ours, <-kafka
				if one == nil || other == nil {
					theList.incomplete.Store(true)
					return
				}
				if late := one.late + other.late; late != "" {
					t.Log("again, for the machine is too slow: " + late)
					continue
				}
				// What is another thing each time is the machine's doing: what the brokers do is seen again.
				if try < tries-1 && !c.last {
					if odd := slices.Concat(other.wrong, theList.odd(name, one.seen, other.seen)); len(odd) > 0 {
						t.Logf("again, to see whether it is so each time: %s", strings.Join(odd, "; "))
						continue
					}
				}
				for _, wrong := range other.wrong {
					t.Errorf("kafka: %s", wrong)
				}
				theList.judge(t, name, one.seen, other.seen)
				return
			}
			theList.incomplete.Store(true)
			t.Skip("the machine is too slow to tell what waits from what is answered late")
		})
	}
}

// on runs a case on one peer, in a subtest of its name, and sends what came of it, nil where it did not come to its end.
func (c limitCase) on(t *testing.T, p *peer, d *desk) <-chan *ground {
	t.Helper()
	done := make(chan *ground, 1)
	go func() {
		var came *ground
		t.Run(p.name, func(t *testing.T) {
			g := &ground{
				t: t, ctx: t.Context(), p: p, desk: d, seen: map[string]any{}, altered: map[string]bool{}, rates: map[string]bool{},
				timed: strings.HasPrefix(c.name, "rates/"),
			}
			defer g.end(c.last)
			c.run(g)
			came = g
		})
		done <- came
	}()
	return done
}

// say notes what somebody saw. Where Kafka sees anything but want, the case is wrong, and fails.
func (g *ground) say(who, got string, want ...string) {
	g.t.Helper()
	g.seen[fmt.Sprintf("%02d %s", len(g.seen), who)] = got
	if len(want) > 0 && !slices.Contains(want, got) {
		g.wrong = append(g.wrong, fmt.Sprintf("%d: %s: %s, want %s", len(g.seen)-1, who, got, strings.Join(want, " or ")))
	}
}

// told notes an answer in a table of many, under its question.
func (g *ground) told(question string, answer any) { g.seen[question] = answer }

// come lets a guest connect to a listener, from an address where one is given. It asks nothing yet.
func (g *ground) come(name, listener, source string) *guest {
	g.t.Helper()
	return g.comeTo(name, listener, g.p.address(listener), source)
}

func (g *ground) comeTo(name, listener, address, source string) *guest {
	g.t.Helper()
	tcp, failed := call(g.ctx, address, source)
	if failed != "" {
		g.t.Fatalf("%s: %s cannot connect to %s: %s", g.p.name, name, listener, failed)
	}
	one := &guest{name: name, tcp: tcp, stream: tcp, came: time.Now()}
	if strings.HasSuffix(g.p.protocol(listener), "SSL") {
		host, _, _ := net.SplitHostPort(g.p.address(listener))
		config, err := g.p.tls(host, false)
		if err != nil {
			g.t.Fatal(err)
		}
		one.stream = tls.Client(tcp, config)
	}
	g.guests = append(g.guests, one)
	return one
}

// enter lets n guests come and be served, one after another, named prefix0, prefix1 ….
func (g *ground) enter(prefix, listener, source string, n int) []*guest {
	g.t.Helper()
	all := make([]*guest, n)
	g.entered = time.Time{}
	begun := time.Now()
	defer func() { g.entered = begun }()
	for i := range n {
		all[i] = g.come(prefix+strconv.Itoa(i), listener, source)
		if got := all[i].answer(bound); got != served {
			g.say(all[i].name, orSilent(got), served)
		}
	}
	return all
}

func orSilent(got string) string {
	if got == "" {
		return "nothing within minutes"
	}
	return got
}

// serves notes whether guests are answered.
func (g *ground) serves(guests ...*guest) {
	g.t.Helper()
	for _, one := range guests {
		g.say(one.name, orSilent(one.answer(bound)), served)
	}
}

// waits notes whether guests that ask are not answered while others are.
func (g *ground) waits(guests ...*guest) {
	g.t.Helper()
	for _, one := range guests {
		one.ask()
	}
	g.quiet()
	for _, one := range guests {
		got := one.answer(time.Millisecond)
		if got == "" {
			got = waiting
		}
		g.punctual(one)
		g.say(one.name, got, waiting)
	}
}

// punctual finds out whether it took too long to see that a guest is held for a rate.
func (g *ground) punctual(one *guest) {
	if !g.timed {
		return
	}
	if took := time.Since(one.came); took > 3*window/4 {
		g.late = "it took " + took.String() + " to see whether " + one.name + " waits"
	}
	if took := one.came.Sub(g.entered); !g.entered.IsZero() && took > 7*window/4 { // a crowd is forgotten after two
		g.late = "it took " + took.String() + " until " + one.name + " came after a crowd"
	}
}

// stays notes whether guests that ask nothing are still connected.
func (g *ground) stays(guests ...*guest) {
	g.t.Helper()
	for _, one := range guests {
		got := one.look(time.Millisecond)
		if got == "" {
			got = open
		}
		g.say(one.name, got, open)
	}
}

// leaves notes how the broker ends the connections of guests.
func (g *ground) leaves(want string, guests ...*guest) {
	g.t.Helper()
	for _, one := range guests {
		got := one.look(bound)
		if want == gone && (got == eof || got == rst) {
			got = gone
		}
		g.say(one.name, orSilent(got), want)
	}
}

// evicts waits until n of the guests are gone, and notes who and how.
func (g *ground) evicts(n int, want string, guests ...*guest) {
	g.t.Helper()
	found := func() []*guest {
		return slices.DeleteFunc(slices.Clone(guests), func(one *guest) bool { return one.look(time.Millisecond) == "" })
	}
	g.until(func() bool { return len(found()) >= n })
	g.quiet()
	out := found()
	ways := map[string]bool{}
	for _, one := range out {
		ways[one.end] = true
	}
	g.say(fmt.Sprintf("gone of %d", len(guests)), strings.Join(append([]string{names(out)}, ordered(ways)...), ", "), want)
}

// quiet lets a time pass in which nothing is to happen to who waits. The broker answers at its end.
func (g *ground) quiet() {
	g.t.Helper()
	g.pause(silence)
	g.desk.ask(g.t, kmsg.NewPtrApiVersionsRequest())
}

func (*ground) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// until polls, and says whether it came to be.
func (g *ground) until(ok func() bool) bool {
	for end := time.Now().Add(bound); !ok(); g.pause(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// set alters configs of the broker: key=value, or key to take it away. The broker goes by them when it returns. A refusal is noted.
func (g *ground) set(pairs ...string) { g.t.Helper(); g.setAt("1", pairs...) }

// setAll is set for the default of all brokers.
func (g *ground) setAll(pairs ...string) { g.t.Helper(); g.setAt("", pairs...) }

func (g *ground) setAt(level string, pairs ...string) {
	g.t.Helper()
	mark := ""
	if level != "" { // what is stored for one broker at once is at work at once
		mark = g.mark()
		pairs = append(pairs, marker+"="+mark)
	}
	if got := g.alter(level, pairs...); got != "0" {
		g.say("alter "+strings.Join(pairs[:max(1, len(pairs)-1)], " "), got, "0")
		return
	}
	if mark == "" {
		g.sync()
		return
	}
	g.marked(mark)
}

// alter is set for who wants to know how it is answered, and does not wait.
func (g *ground) alter(level string, pairs ...string) string {
	g.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, level
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		if config.Name = key; ok {
			config.Value = &value
		} else {
			config.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		resource.Configs = append(resource.Configs, config)
		g.altered[level+" "+key] = ok
	}
	req.Resources = append(req.Resources, resource)
	answer := g.desk.ask(g.t, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	return inWords(answer.ErrorCode, answer.ErrorMessage)
}

// inWords is an error's number and text.
func inWords(code int16, message *string) string {
	if message == nil || *message == "" {
		return strconv.Itoa(int(code))
	}
	return fmt.Sprintf("%d %s", code, *message)
}

// rate gives an address ("" is the default of all) a connection_creation_rate, or takes it away where it is 0. The broker goes
// by it when it returns.
func (g *ground) rate(address string, perSecond float64) {
	g.t.Helper()
	if got := g.quota(address, perSecond); got != "0" {
		g.say("rate of "+address, got, "0")
	}
	g.sync()
}

func (g *ground) quota(address string, perSecond float64) string {
	g.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = 1
	entry, entity, op := kmsg.NewAlterClientQuotasRequestEntry(), kmsg.NewAlterClientQuotasRequestEntryEntity(), kmsg.NewAlterClientQuotasRequestEntryOp()
	entity.Type = "ip"
	if address != "" {
		entity.Name = &address
	}
	op.Key, op.Value, op.Remove = "connection_creation_rate", perSecond, perSecond == 0
	g.rates[address] = perSecond != 0
	entry.Entity, entry.Ops = append(entry.Entity, entity), append(entry.Ops, op)
	req.Entries = append(req.Entries, entry)
	answer := g.desk.ask(g.t, req).(*kmsg.AlterClientQuotasResponse).Entries[0]
	return inWords(answer.ErrorCode, answer.ErrorMessage)
}

// marker is a config that no case is about: what was stored before it is at work when it is described.
const marker = "log.message.timestamp.before.max.ms"

// mark is the marker's next value.
func (g *ground) mark() string {
	g.desk.synced++
	return strconv.Itoa(1_000_000_000 + g.desk.synced)
}

// marked waits until the marker is described with a value.
func (g *ground) marked(value string) {
	g.t.Helper()
	delete(g.altered, "1 "+marker)
	if !g.until(func() bool { return g.described(marker) == value }) {
		g.t.Fatalf("%s does not describe what was altered", g.p.name)
	}
}

// sync returns when the broker goes by all that was stored before. It takes two rounds, because of what is published together
// not all is put to work in the order in which it was stored.
func (g *ground) sync() {
	g.t.Helper()
	for range 2 {
		value := g.mark()
		if got := g.alter("1", marker+"="+value); got != "0" {
			g.t.Fatalf("%s: alter %s: %s", g.p.name, marker, got)
		}
		g.marked(value)
	}
}

// described is the value of a config of the broker, "" where it has none.
func (g *ground) described(key string) string {
	g.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, "1", []string{key}
	req.Resources = append(req.Resources, resource)
	for _, config := range g.desk.ask(g.t, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if config.Name == key && config.Value != nil {
			return *config.Value
		}
	}
	return ""
}

// end takes back what the case did and waits until the broker has no connection but the desk's.
func (g *ground) end(last bool) {
	g.t.Helper()
	for _, one := range g.guests {
		one.leave()
	}
	if last {
		return
	}
	for address, there := range g.rates {
		if there {
			g.quota(address, 0)
		}
	}
	pairs := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(g.altered)) {
		if level, name, _ := strings.Cut(key, " "); g.altered[key] {
			pairs[level] = append(pairs[level], name)
		}
	}
	for _, level := range []string{"", "1"} { // what a stronger level hides has to go first
		if len(pairs[level]) == 0 {
			continue
		}
		if got := g.alter(level, pairs[level]...); got != "0" {
			g.t.Errorf("%s: take %v back: %s", g.p.name, pairs[level], got)
		}
		if level == "" && len(pairs["1"]) > 0 {
			g.sync()
		}
	}
	if len(pairs)+len(g.rates) > 0 {
		g.sync()
	}
	if !g.until(func() bool { return g.sockets() <= 1+g.desk.leaked }) {
		g.t.Errorf("%s has %d connections after the case, want that of the desk", g.p.name, g.sockets())
	}
}

// sockets is how many connections the broker has on its listeners, as the kernel tells it.
func (g *ground) sockets() int {
	ports := map[string]bool{}
	for listener, port := range g.p.ports {
		ports[fmt.Sprintf("%04X", port)] = listener != "CONTROLLER"
	}
	n := 0
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			g.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[9] == "0" { // the last is its inode: 0 when no process has it
				continue
			}
			const established, closeWait = "01", "08"
			if _, port, _ := strings.Cut(f[1], ":"); ports[port] && (f[3] == established || f[3] == closeWait) {
				n++
			}
		}
	}
	return n
}
