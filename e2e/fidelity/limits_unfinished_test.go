package fidelity

import (
	"crypto/tls"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cases of connections that are not, or not yet, what their listener is for.
func unfinishedCases() []limitCase {
	return []limitCase{
		{name: "unfinished/a handshake that does not begin holds a slot, until its client leaves", run: func(g *ground) {
			g.set("listener.name.ssl.max.connections=2")
			silent := []*guest{g.come("silent", "SSL", ""), g.come("silent too", "SSL", "")}
			w := g.come("w", "SSL", "")
			g.waits(w)
			g.stays(silent...)
			silent[1].leave()
			g.serves(w)
		}},
		{name: "unfinished/half a handshake holds a slot, and gives it back by a reset", run: func(g *ground) {
			g.set("listener.name.sasl_ssl.max.connections=1")
			half := g.come("half", "SASL_SSL", "")
			_, _ = half.tcp.Write(clientHello(g)[:60])
			w := g.come("w", "SASL_SSL", "")
			g.waits(w)
			g.stays(half)
			half.abort()
			g.serves(w)
		}},
		{name: "unfinished/a handshake that stops after its first message holds a slot", run: func(g *ground) {
			g.set("listener.name.ssl.max.connections=1")
			half := g.come("half", "SSL", "")
			_, _ = half.tcp.Write(clientHello(g))
			w := g.come("w", "SSL", "")
			g.waits(w)
			half.leave()
			g.serves(w)
		}},
		{name: "unfinished/who speaks no TLS is ended, and its slot is free", run: func(g *ground) {
			g.set("listener.name.ssl.max.connections=1")
			plain := g.come("plain", "SSL", "")
			w := g.come("w", "SSL", "")
			_, _ = plain.tcp.Write([]byte("\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"))
			g.serves(w)
			g.say("plain", endOf(plain, true), gone)
		}},
		{name: "unfinished/who fails to verify the broker is ended, and its slot is free", run: func(g *ground) {
			g.set("listener.name.ssl.max.connections=1")
			doubting := g.come("doubting", "SSL", "")
			w := g.come("w", "SSL", "")
			err := tls.Client(doubting.tcp, &tls.Config{ServerName: "nobody.invalid", MinVersion: tls.VersionTLS12}).HandshakeContext(g.ctx)
			if err == nil {
				g.t.Errorf("%s: a handshake with another name = nil, want an error", g.p.name)
			}
			g.serves(w)
			g.say("doubting", endOf(doubting, true), gone)
		}},
		{name: "unfinished/who speaks TLS to a plaintext listener is ended, and its slot is free", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			lost := g.come("lost", "EXT", "")
			w := g.come("w", "EXT", "")
			_, _ = lost.tcp.Write(clientHello(g))
			g.serves(w)
			g.say("lost", endOf(lost, true), gone)
		}},
		{name: "unfinished/who does not authenticate holds a slot, and a failure frees it", run: func(g *ground) {
			g.set("listener.name.sasl_plaintext.max.connections=2")
			in := g.enter("a", "SASL_PLAINTEXT", "", 1) // asks ApiVersions alone
			failing := g.come("failing", "SASL_PLAINTEXT", "")
			w := g.come("w", "SASL_PLAINTEXT", "")
			g.waits(w)
			c := &conn{Conn: failing.tcp, peer: g.p}
			if err := c.login(g.ctx, how{user: "alice", password: "wrong"}); err == nil {
				g.t.Errorf("%s: a wrong password is taken", g.p.name)
			}
			g.serves(w)
			g.leaves(eof, failing)
			g.stays(in...)
		}},
		{name: "unfinished/a request before its authentication frees a slot", run: func(g *ground) {
			g.set("listener.name.sasl_plaintext.max.connections=1")
			early := g.come("early", "SASL_PLAINTEXT", "")
			w := g.come("w", "SASL_PLAINTEXT", "")
			c := &conn{Conn: early.tcp, peer: g.p}
			c.send(kmsg.NewPtrMetadataRequest())
			g.serves(w)
			g.leaves(eof, early)
		}},
		{name: "unfinished/a frame that is too large or malformed frees a slot", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			large := g.come("large", "EXT", "")
			w := g.come("w", "EXT", "")
			_, _ = large.tcp.Write([]byte{0x7f, 0xff, 0xff, 0xff})
			g.serves(w)
			g.leaves(gone, large)
			v := g.come("v", "EXT", "")
			_, _ = w.tcp.Write([]byte{0, 0, 0, 10, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff})
			g.serves(v)
			g.leaves(gone, w)
		}},
		{name: "unfinished/a client of TLS that is one too many is told the end of TLS, and those without a handshake go too", run: func(g *ground) {
			in := g.enter("a", "SSL", "", 6)
			for _, i := range []int{5, 3, 1, 0, 2, 4} {
				g.serves(in[i])
			}
			g.come("silent", "SSL", "")
			silent := g.guests[len(g.guests)-1]
			for _, one := range in[:1] {
				g.serves(one)
			}
			g.set("listener.name.plaintext.max.connections=1000", "max.connections=7")
			g.evicts(1, "a5, "+eof, append(in, silent)...)
			for _, one := range in[:5] {
				g.serves(one)
			}
			g.set("max.connections=6")
			g.evicts(1, "silent, "+eof, append(in[:5:5], silent)...)
		}},
		{name: "unfinished/who waits for a slot of TLS and has sent its first message is served when it has one", run: func(g *ground) {
			g.set("listener.name.ssl.max.connections=1")
			first := g.enter("a", "SSL", "", 1)
			w := g.come("w", "SSL", "")
			g.waits(w)
			first[0].leave()
			g.serves(w)
		}},
		{name: "unfinished/the broker's limit counts TLS from its connection on, and one without a handshake is in the way of all", run: func(g *ground) {
			g.set("listener.name.plaintext.max.connections=1000", "max.connections=9")
			in := g.enter("a", "EXT", "", 5)
			silent := []*guest{g.come("silent", "SSL", ""), g.come("silent too", "SASL_SSL", ""), g.come("silent as well", "SASL_PLAINTEXT", "")}
			g.quiet()
			w := g.come("w", "TWO", "")
			g.waits(w)
			silent[0].leave()
			g.serves(w)
			g.serves(in...)
			g.stays(silent[1:]...)
		}},
	}
}

// endOf is how a connection ends, whatever is sent to it before.
func endOf(one *guest, anyEnd bool) string {
	_ = one.tcp.SetReadDeadline(time.Now().Add(bound))
	for b := make([]byte, 4096); ; {
		if _, err := one.tcp.Read(b); err != nil {
			one.end = ends(err)
			if anyEnd && (one.end == eof || one.end == rst) {
				one.end = gone
			}
			return orSilent(one.end)
		}
	}
}

// clientHello is the first message of a handshake, as it is on the wire.
func clientHello(g *ground) []byte {
	tape := &tapedConn{}
	_ = tls.Client(tape, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12}).HandshakeContext(g.ctx)
	return tape.written
}
