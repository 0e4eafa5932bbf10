package fidelity

import (
	"net"
	"strconv"
)

// everybody is a limit that is high enough for 127.0.0.1, from where a Kafka talks to itself.
const everybody = "127.0.0.1:1000"

func addressCases() []limitCase {
	return []limitCase{
		{name: "addresses/who comes from an address that has its maximum is ended at once, and other addresses are let in", run: func(g *ground) {
			g.set("max.connections.per.ip=3", "max.connections.per.ip.overrides="+everybody)
			in := g.enter("a", "EXT", "127.0.0.2", 3)
			silent := g.come("silent", "EXT", "127.0.0.2")
			g.leaves(eof, silent)
			asking := g.come("asking", "EXT", "127.0.0.2")
			asking.ask()
			g.leaves(gone, asking)
			g.serves(g.come("other", "EXT", "127.0.0.3"))
			g.serves(in...)
			in[0].leave()
			g.returns("next", "EXT", "127.0.0.2")
			g.leaves(eof, g.come("over", "EXT", "127.0.0.2"))
			in[1].abort()
			g.returns("after a reset", "EXT", "127.0.0.2")
		}},
		{name: "addresses/an address is counted over all listeners, the brokers' too, and over TLS before its handshake", run: func(g *ground) {
			g.set("max.connections.per.ip=4", "max.connections.per.ip.overrides="+everybody)
			g.enter("ext", "EXT", "127.0.0.2", 1)
			g.come("silent", "SSL", "127.0.0.2")
			g.enter("broker", "PLAINTEXT", "127.0.0.2", 1)
			g.enter("sasl", "SASL_SSL", "127.0.0.2", 1)
			for _, listener := range []string{"EXT", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} {
				g.leaves(eof, g.come("silent at "+listener, listener, "127.0.0.2"))
			}
			tls := g.come("asking over TLS", "SSL", "127.0.0.2")
			tls.ask()
			g.leaves(gone, tls)
			g.serves(g.come("other", "SSL", "127.0.0.3"))
		}},
		{name: "addresses/an override goes over the maximum, for an address or a name", run: func(g *ground) {
			g.set("max.connections.per.ip=2", "max.connections.per.ip.overrides="+everybody+", 127.0.0.2:4 ,127.0.0.3:1")
			g.full("of 4", "EXT", "127.0.0.2", 4)
			g.full("of 1", "EXT", "127.0.0.3", 1)
			g.full("of 2", "EXT", "127.0.0.4", 2)
		}},
		{name: "addresses/an override by the name localhost is for its address", run: func(g *ground) {
			g.set("max.connections.per.ip=500", "max.connections.per.ip.overrides=localhost:30")
			g.full("of 30, one of which is the desk", "EXT", "127.0.0.1", 29)
		}},
		{name: "addresses/the last override of an address holds", run: func(g *ground) {
			g.set("max.connections.per.ip=2", "max.connections.per.ip.overrides=127.0.0.2:5,"+everybody+",127.0.0.2:3")
			g.full("of 3", "EXT", "127.0.0.2", 3)
		}},
		{name: "addresses/an override for IPv6 is written without brackets, in any form", run: func(g *ground) {
			g.set("max.connections.per.ip=9", "max.connections.per.ip.overrides=::1:2,"+everybody)
			in := g.full("of 2", "V6", "", 2)
			g.set("max.connections.per.ip.overrides=0:0:0:0:0:0:0:1:3," + everybody)
			g.serves(g.come("third", "V6", ""))
			g.leaves(eof, g.come("fourth", "V6", ""))
			g.serves(in...)
			g.serves(g.come("IPv4", "EXT", "127.0.0.2"))
		}},
		{name: "addresses/IPv4 over a listener of both families is counted with IPv4, and an override finds it, mapped or not", run: func(g *ground) {
			g.set("max.connections.per.ip=3", "max.connections.per.ip.overrides=::ffff:127.0.0.5:1,"+everybody)
			any4 := net.JoinHostPort("127.0.0.1", strconv.Itoa(g.p.ports["ANY"]))
			mapped := net.JoinHostPort("::ffff:127.0.0.1", strconv.Itoa(g.p.ports["ANY"]))
			g.serves(g.comeTo("a0", "ANY", any4, "127.0.0.2"), g.comeTo("a1", "ANY", mapped, "127.0.0.2"), g.come("a2", "EXT", "127.0.0.2"))
			g.leaves(eof, g.comeTo("over", "ANY", any4, "127.0.0.2"), g.come("over EXT", "EXT", "127.0.0.2"))
			g.serves(g.comeTo("b0", "ANY", any4, "127.0.0.5"))
			g.leaves(eof, g.comeTo("b1", "ANY", any4, "127.0.0.5"), g.come("b2", "EXT", "127.0.0.5"))
			g.serves(g.come("IPv6", "ANY", ""), g.come("IPv6 too", "V6", ""), g.come("IPv6 again", "ANY", ""))
			g.leaves(eof, g.come("over IPv6", "V6", ""))
		}},
		{name: "addresses/a lower maximum closes nobody, a higher one acts on who comes next", run: func(g *ground) {
			g.set("max.connections.per.ip=4", "max.connections.per.ip.overrides="+everybody)
			in := g.enter("a", "EXT", "127.0.0.2", 4)
			g.set("max.connections.per.ip=2")
			g.leaves(eof, g.come("b", "EXT", "127.0.0.2"))
			g.quiet()
			g.serves(in...)
			in[0].leave()
			in[1].leave()
			g.quiet()
			g.leaves(eof, g.come("c", "EXT", "127.0.0.2"))
			g.set("max.connections.per.ip.overrides=" + everybody + ",127.0.0.2:3")
			g.serves(g.come("d", "EXT", "127.0.0.2"))
			g.leaves(eof, g.come("e", "EXT", "127.0.0.2"))
			g.set("max.connections.per.ip")
			g.leaves(eof, g.come("f", "EXT", "127.0.0.2"))
			g.set("max.connections.per.ip.overrides")
			g.serves(g.come("g", "EXT", "127.0.0.2"))
		}},
		{name: "addresses/0 lets in those alone who have an override, and cannot be without any", run: func(g *ground) {
			g.say("0 alone", g.alter("1", "max.connections.per.ip=0"))
			g.altered["1 max.connections.per.ip"] = false
			g.set("max.connections.per.ip=0", "max.connections.per.ip.overrides="+everybody+",127.0.0.2:2")
			g.full("of 2", "EXT", "127.0.0.2", 2)
			g.leaves(eof, g.come("c", "EXT", "127.0.0.3"), g.come("d", "SSL", "127.0.0.3"), g.come("e", "V6", ""))
			g.say("no overrides under 0", g.alter("1", "max.connections.per.ip.overrides"))
			g.say("empty overrides under 0", g.alter("1", "max.connections.per.ip.overrides="))
			g.altered["1 max.connections.per.ip.overrides"] = true
			g.leaves(eof, g.come("f", "EXT", "127.0.0.3"))
		}},
		{name: "addresses/a value of the broker goes over one of all", run: func(g *ground) {
			g.setAll("max.connections.per.ip=3", "max.connections.per.ip.overrides="+everybody+",127.0.0.3:1")
			g.full("of 3", "EXT", "127.0.0.2", 3)
			g.full("of 1", "EXT", "127.0.0.3", 1)
			g.set("max.connections.per.ip=2")
			g.full("of 2", "EXT", "127.0.0.4", 2)
			g.set("max.connections.per.ip.overrides=127.0.0.5:1," + everybody)
			g.full("of 2, not 1", "EXT", "127.0.0.6", 2)
			g.full("of 1, as it says", "EXT", "127.0.0.5", 1)
			g.set("max.connections.per.ip")
			g.serves(g.come("third", "EXT", "127.0.0.4"))
		}},
		{name: "addresses/an address that has its maximum waits for a slot first where there is none, and is ended then", run: func(g *ground) {
			g.set("max.connections.per.ip=1", "max.connections.per.ip.overrides="+everybody, "listener.name.ext.max.connections=1")
			first := g.enter("a", "EXT", "127.0.0.2", 1)
			second := g.enter("b", "TWO", "127.0.0.3", 1)
			over, next := g.come("over", "EXT", "127.0.0.3"), g.come("next", "EXT", "127.0.0.4")
			g.waits(over, next)
			first[0].leave()
			g.leaves(gone, over)
			g.serves(next)
			g.serves(second...)
		}},
		{name: "addresses/what is refused as overrides, and what is taken", run: func(g *ground) {
			for _, value := range []string{
				"127.0.0.1", "127.0.0.1:x", "127.0.0.1:", ":5", "127.0.0.1:-1", "127.0.0.1:2147483648", "127.0.0.1:5,", ",", ",,127.0.0.1:5", "127.0.0.1:5,,127.0.0.2:5", " ,127.0.0.1:5", "127.0.0.1:5, ", " ", "[::1]:5", "::1", "::1:5",
				"a b:5", "127.0.0.1:5;127.0.0.2:5", "127.0.0.1 : 7", "127.0.0.0/8:5", "host_name:5", "localhost:5,localhost:6", "127.1:5", "*:5", "fe80::1%lo:5", "127.0.0.1:+5", "127.0.0.1:0x5", "1:2:3",
			} {
				got := g.alter("1", "max.connections.per.ip.overrides="+value)
				g.told(strconv.Quote(value), got)
				if got == "0" {
					g.told(strconv.Quote(value)+" taken back", g.alter("1", "max.connections.per.ip.overrides"))
				}
				g.altered["1 max.connections.per.ip.overrides"] = false
			}
			for _, value := range []string{"-1", "abc", "2147483648", "1.5", "", " 7 ", "+7"} {
				got := g.alter("1", "max.connections.per.ip="+value)
				g.told("maximum "+strconv.Quote(value), got)
				if got == "0" {
					g.told("maximum "+strconv.Quote(value)+" taken back", g.alter("1", "max.connections.per.ip"))
				}
				g.altered["1 max.connections.per.ip"] = false
			}
			g.sync()
		}},
		{name: "addresses/a host that has no address keeps the overrides that were there, and other keys are put to work", run: func(g *ground) {
			g.set("max.connections.per.ip=2", "max.connections.per.ip.overrides=127.0.0.2:1,"+everybody)
			g.full("of 1", "EXT", "127.0.0.2", 1)
			g.say("no such host", g.alter("1", "max.connections.per.ip.overrides=no-such-host.invalid:9", "listener.name.two.max.connections=1"))
			g.quiet()
			g.until(func() bool { return g.described("max.connections.per.ip.overrides") == "no-such-host.invalid:9" })
			g.say("described", g.described("max.connections.per.ip.overrides"))
			g.sync()
			g.leaves(eof, g.come("still one", "EXT", "127.0.0.2"))
			g.full("of 2", "EXT", "127.0.0.3", 2)
			g.enter("t", "TWO", "127.0.0.4", 1)
			g.waits(g.come("w", "TWO", "127.0.0.5"))
		}},
	}
}

// full lets as many come from an address as it may, and one that is ended.
func (g *ground) full(prefix, listener, source string, n int) []*guest {
	g.t.Helper()
	in := g.enter(prefix+" ", listener, source, n)
	g.serves(in...)
	g.leaves(eof, g.come(prefix+" and no more", listener, source))
	return in
}

// returns lets somebody come until it is served: whoever made room for it has left, and the broker may not know yet.
func (g *ground) returns(name, listener, source string) {
	g.t.Helper()
	got := ""
	g.until(func() bool {
		one := g.come(name, listener, source)
		got = one.answer(bound)
		return got == served
	})
	g.say(name, orSilent(got), served)
}
