package fidelity

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// window is that of the rates: nobody is held for longer.
const window = 4 * time.Second

// ratesOf are properties of a pair for cases about rates. Kafka holds nobody for longer than a window; theirs are long enough
// to see on a busy machine that somebody is held.
func ratesOf() []string {
	return hall("quota.window.num=2", "quota.window.size.seconds="+strconv.Itoa(int(window/time.Second)), "listener.name.zero.max.connection.creation.rate=0")
}

// crowd is how many come before a rate of 1 a second is set: enough that the next is held for a window.
const crowd = 12

func rateCases() []limitCase {
	const fast = 1_000_000
	return []limitCase{
		{name: "rates/the broker's rate counts all listeners but the brokers', and holds whoever comes to any other", run: func(g *ground) {
			g.enter("a", "R1", "", crowd/2)
			g.enter("b", "R2", "", crowd/2)
			g.set("listener.name.r1.max.connection.creation.rate=1000", "listener.name.r2.max.connection.creation.rate=1000",
				"listener.name.plaintext.max.connection.creation.rate=1000", "max.connection.creation.rate=1")
			held := []*guest{g.come("held", "R1", ""), g.come("held too", "R2", "")}
			for _, one := range held {
				one.ask()
			}
			g.serves(g.come("broker", "PLAINTEXT", ""))
			g.waits(held...)
			g.serves(held...)
		}},
		{name: "rates/a listener's rate counts whom it let in before it was set, holds the next and lets it in", run: func(g *ground) {
			in := g.enter("a", "R1", "", crowd)
			g.set("listener.name.r1.max.connection.creation.rate=1")
			held := g.come("held", "R1", "")
			g.waits(held)
			g.serves(g.come("other", "R2", ""))
			g.serves(in...)
			g.serves(held)
			g.waits(g.come("next", "R1", ""))
		}},
		{name: "rates/a rate that is taken away lets go of nobody who is held, and holds nobody after", run: func(g *ground) {
			g.enter("a", "R2", "", crowd)
			g.set("listener.name.r2.max.connection.creation.rate=1")
			held, behind := g.come("held", "R2", ""), g.come("behind", "R2", "")
			behind.ask()
			held.ask()
			g.quiet()
			g.set("listener.name.r2.max.connection.creation.rate")
			g.waits(held, behind)
			g.serves(held, behind)
			g.serves(g.enter("b", "R2", "", crowd)...)
		}},
		{name: "rates/the broker's rate is that of each listener without its own, the brokers' too", run: func(g *ground) {
			g.enter("b", "PLAINTEXT", "", crowd)
			g.set("listener.name.r3.max.connection.creation.rate=1000", "max.connection.creation.rate=1")
			held := g.come("held", "PLAINTEXT", "")
			g.waits(held)
			g.serves(held)
		}},
		{name: "rates/a rate of 0 in the file holds everybody, from the first on", run: func(g *ground) {
			first := g.come("first", "ZERO", "")
			g.waits(first)
			g.serves(first)
			second := g.come("second", "ZERO", "")
			g.waits(second)
			g.serves(second)
		}},
		{name: "rates/who is held for a rate waits for a slot too, for the longer of the two", run: func(g *ground) {
			in := g.enter("a", "R3", "", crowd)
			g.set("listener.name.r3.max.connection.creation.rate=1", fmt.Sprintf("listener.name.r3.max.connections=%d", crowd))
			held := g.come("held", "R3", "")
			held.ask()
			in[0].leave()
			g.waits(held)
			g.serves(held)
			g.set("listener.name.r3.max.connection.creation.rate")
			w := g.come("w", "R3", "")
			g.waits(w)
			in[1].leave()
			g.serves(w)
		}},
		{name: "rates/who comes too fast from its address is held without a slot, and ended, and others are served meanwhile", run: func(g *ground) {
			const from = "127.0.1.2"
			g.rate(from, fast)
			in := g.enter("a", "EXT", from, crowd)
			g.rate(from, 1)
			g.set(fmt.Sprintf("listener.name.ext.max.connections=%d", crowd+1))
			silent, asking := g.come("silent", "EXT", from), g.come("asking", "EXT", from)
			asking.ask()
			g.waits(asking)
			g.stays(silent)
			other := g.come("other", "EXT", "127.0.1.3")
			g.serves(other)
			g.leaves(eof, silent)
			g.leaves(gone, asking)
			g.serves(in...)
			g.set("listener.name.ext.max.connections")
			g.rate(from, 0)
			g.serves(g.come("after", "EXT", from))
		}},
		{name: "rates/who is held for its address's rate is ended in time although the acceptor waits for a slot", run: func(g *ground) {
			const from = "127.0.1.12"
			g.rate(from, fast)
			in := g.enter("a", "R1", from, crowd)
			g.rate(from, 1)
			g.set(fmt.Sprintf("listener.name.r1.max.connections=%d", crowd))
			in[0].leave()
			held := g.come("held", "R1", from)
			g.waits(held)
			g.serves(g.come("b", "R1", "127.0.1.3"))
			w := g.come("w", "R1", "127.0.1.3")
			g.waits(w)
			got := held.answer(2 * window)
			if got == eof || got == rst {
				got = gone
			}
			g.say("held, after two windows", map[bool]string{true: "open", false: got}[got == ""])
			in[1].leave()
			g.serves(w)
			g.leaves(gone, held)
		}},
		{name: "rates/an address's rate counts all listeners, the brokers' too, and holds over TLS", run: func(g *ground) {
			const from = "127.0.1.4"
			g.rate(from, fast)
			g.enter("a", "EXT", from, crowd/3)
			g.enter("b", "PLAINTEXT", from, crowd/3)
			g.enter("c", "SSL", from, crowd/3)
			g.rate(from, 1)
			broker, plain, secure := g.come("held broker", "PLAINTEXT", from), g.come("held", "TWO", from), g.come("held over TLS", "SASL_SSL", from)
			g.waits(broker, plain, secure)
			g.leaves(gone, broker, plain, secure)
		}},
		{name: "rates/the default rate is for addresses without their own, and an own one goes over it", run: func(g *ground) {
			const one, two = "127.0.1.5", "127.0.1.6"
			g.rate("127.0.0.1", fast)
			g.rate("", fast)
			g.enter("a", "EXT", one, crowd)
			g.rate(two, fast)
			g.enter("b", "EXT", two, crowd)
			g.rate("", 1)
			g.waits(g.come("by the default", "EXT", one))
			g.serves(g.come("by its own", "EXT", two))
			g.rate(two, 0)
			g.waits(g.come("by the default now", "EXT", two))
			g.rate(one, fast)
			g.serves(g.come("by its own now", "EXT", one))
			g.rate("", 0)
			g.serves(g.come("by none", "EXT", two))
			g.serves(g.come("by its own still", "EXT", one))
		}},
		{name: "rates/an address is meant however it is written, and IPv4 over a listener of both families", run: func(g *ground) {
			g.rate("0:0:0:0:0:0:0:1", fast)
			g.enter("a", "V6", "", crowd)
			g.rate("0:0:0:0:0:0:0:1", 1)
			g.waits(g.come("held", "V6", ""), g.come("held over both families", "ANY", ""))
			const from = "127.0.1.7"
			any4 := net.JoinHostPort("127.0.0.1", strconv.Itoa(g.p.ports["ANY"]))
			g.rate(from, fast)
			for i := range crowd {
				g.serves(g.comeTo(fmt.Sprintf("b%d", i), "ANY", any4, from))
			}
			g.rate(from, 1)
			g.waits(g.comeTo("held of IPv4", "ANY", any4, from), g.come("held at another", "EXT", from))
		}},
		{name: "rates/who comes too fast and has its maximum is held", run: func(g *ground) {
			const from = "127.0.1.8"
			g.rate(from, fast)
			g.enter("a", "EXT", from, crowd)
			g.set(fmt.Sprintf("max.connections.per.ip=%d", crowd), "max.connections.per.ip.overrides="+everybody)
			g.leaves(eof, g.come("over", "EXT", from))
			g.rate(from, 1)
			held := g.come("held", "EXT", from)
			g.waits(held)
			g.leaves(gone, held)
		}},
		{name: "rates/a rate that is nearly none is none: everybody is held", run: func(g *ground) {
			const from = "127.0.1.9"
			g.rate(from, 1e-7)
			held := g.come("held", "EXT", from)
			g.waits(held)
			g.leaves(gone, held)
		}},
		{name: "rates/who is held for less is ended before who is held for longer", run: func(g *ground) {
			const one, two = "127.0.1.10", "127.0.1.11"
			g.rate(one, fast)
			g.rate(two, fast)
			g.enter("a", "EXT", one, crowd)
			g.enter("b", "EXT", two, crowd)
			g.rate(one, 2)
			g.rate(two, 1)
			short, long := g.come("short", "EXT", one), g.come("long", "EXT", two)
			g.waits(short, long)
			first := "nobody"
			g.until(func() bool {
				// Where both have ended since the last look, they ended together.
				s, l := short.answer(time.Millisecond), long.answer(time.Millisecond)
				switch {
				case s != "" && l == "":
					first = "the short one first"
				case s != "" || l != "":
					first = "not the short one first"
				}
				return first != "nobody"
			})
			g.say("ended", first)
		}},
		{name: "rates/what is refused as a rate of an address, and what is taken", run: quotaTable},
	}
}

// quotaTable tries what may be said of rates of addresses, and what may not.
func quotaTable(g *ground) {
	type part struct {
		kind string
		name *string
	}
	named := func(kind, name string) part { return part{kind, &name} }
	ask := func(key string, value float64, remove bool, parts ...part) string {
		req := kmsg.NewPtrAlterClientQuotasRequest()
		req.Version = 1
		req.ValidateOnly = true
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for _, p := range parts {
			entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
			entity.Type, entity.Name = p.kind, p.name
			entry.Entity = append(entry.Entity, entity)
		}
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Value, op.Remove = key, value, remove
		entry.Ops = append(entry.Ops, op)
		req.Entries = append(req.Entries, entry)
		entries := g.desk.ask(g.t, req).(*kmsg.AlterClientQuotasResponse).Entries
		if len(entries) != 1 {
			return fmt.Sprintf("%d entries", len(entries))
		}
		return inWords(entries[0].ErrorCode, entries[0].ErrorMessage)
	}
	const key = "connection_creation_rate"
	for _, name := range []string{
		"127.0.1.20", "::1", "[::1]", "0:0:0:0:0:0:0:1", "::ffff:127.0.1.20", "127.1", "2130706433", "localhost", "127.0.0.0/8", "*", " 127.0.1.20", "127.0.1.20 ",
		"", "no-such-host.invalid", "127.0.1.256", "fe80::1%lo", "0x7f.1", "127.0.1.20:5", "1.2.3",
	} {
		g.told(fmt.Sprintf("address %q", name), ask(key, 5, false, named("ip", name)))
		g.told(fmt.Sprintf("removed from address %q", name), ask(key, 0, true, named("ip", name)))
	}
	for _, value := range []float64{0, -1, -1e-9, 1e-9, 1e-7, 0.5, 1, 1.0000001, 4.9999999, 5.0000001, 2147483647, 2147483648, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		g.told(fmt.Sprintf("value %v", value), ask(key, value, false, named("ip", "127.0.1.21")))
		g.told(fmt.Sprintf("value %v of the default", value), ask(key, value, false, part{"ip", nil}))
	}
	for _, name := range []string{"producer_byte_rate", "request_percentage", "controller_mutation_rate", "foo", "", "Connection_Creation_Rate"} {
		g.told(fmt.Sprintf("key %q", name), ask(name, 5, false, named("ip", "127.0.1.22")))
		g.told(fmt.Sprintf("key %q removed", name), ask(name, 5, true, named("ip", "127.0.1.22")))
	}
	for title, parts := range map[string][]part{
		"nobody": {}, "an unknown type": {named("foo", "x")}, "another case": {named("IP", "127.0.1.23")}, "no type": {named("", "x")},
		"a user": {named("user", "alice")}, "a client": {named("client-id", "app")},
		"an address of a user": {named("ip", "127.0.1.23"), named("user", "alice")}, "a user at an address": {named("user", "alice"), named("ip", "127.0.1.23")},
		"an address of a client":     {named("client-id", "app"), named("ip", "127.0.1.23")},
		"all addresses of all users": {part{"ip", nil}, part{"user", nil}}, "an address twice": {named("ip", "127.0.1.23"), named("ip", "127.0.1.24")},
		"an address and all": {named("ip", "127.0.1.23"), part{"ip", nil}}, "an address and an unknown type": {named("ip", "127.0.1.23"), named("foo", "x")},
	} {
		g.told("of "+title, ask(key, 5, false, parts...))
		g.told("removed from "+title, ask(key, 5, true, parts...))
	}
	for title, parts := range map[string][]part{"ip": {part{"ip", nil}}, "user": {part{"user", nil}}, "ip and user": {part{"ip", nil}, part{"user", nil}}, "ip twice": {part{"ip", nil}, part{"ip", nil}}, "foo": {part{"foo", nil}}, "none": {part{"", nil}}, "IP": {part{"IP", nil}}} {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Version = 1
		for _, p := range parts {
			component := kmsg.NewDescribeClientQuotasRequestComponent()
			component.EntityType, component.MatchType = p.kind, 1
			req.Components = append(req.Components, component)
		}
		answer := g.desk.ask(g.t, req).(*kmsg.DescribeClientQuotasResponse)
		g.told("described "+title, strings.TrimSpace(fmt.Sprintf("%s %d", inWords(answer.ErrorCode, answer.ErrorMessage), len(answer.Entries))))
	}
}
