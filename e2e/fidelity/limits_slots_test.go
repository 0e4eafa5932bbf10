package fidelity

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func slotCases() []limitCase {
	return []limitCase{
		{name: "slots/a listener's limit lets the next wait until a slot is free, and costs other listeners nothing", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=3")
			in := g.enter("a", "EXT", "", 3)
			w := g.come("w", "EXT", "")
			g.waits(w)
			g.serves(g.come("other", "TWO", ""), g.come("broker", "PLAINTEXT", ""))
			g.waits(w)
			in[1].leave()
			g.serves(w, in[0], in[2])
		}},
		{name: "slots/those who wait are let in, in the order in which they came", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			first := g.enter("a", "EXT", "", 1)
			w1, w2, w3 := g.come("w1", "EXT", ""), g.come("w2", "EXT", ""), g.come("w3", "EXT", "")
			g.waits(w3, w2, w1)
			first[0].leave()
			g.serves(w1)
			g.waits(w2, w3)
			w1.leave()
			g.serves(w2)
			g.waits(w3)
			w2.abort()
			g.serves(w3)
		}},
		{name: "slots/who gives up while it waits has a slot for a moment only", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			first := g.enter("a", "EXT", "", 1)
			w1, w2, w3 := g.come("w1", "EXT", ""), g.come("w2", "EXT", ""), g.come("w3", "EXT", "")
			g.waits(w1, w2, w3)
			w1.leave()
			w2.abort()
			g.waits(w3)
			first[0].leave()
			g.serves(w3)
		}},
		{name: "slots/who shuts its writing side down is ended, and its slot is free", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			first := g.enter("a", "EXT", "", 1)
			w := g.come("w", "EXT", "")
			g.waits(w)
			_ = first[0].tcp.CloseWrite()
			g.serves(w)
			g.leaves(eof, first[0])
		}},
		{name: "slots/who shuts its writing side down while it waits is answered when a slot is free, and ended", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			first := g.enter("a", "EXT", "", 1)
			w := g.come("w", "EXT", "")
			g.waits(w)
			_ = w.tcp.CloseWrite()
			g.quiet()
			first[0].leave()
			g.serves(w)
			g.leaves(eof, w)
		}},
		{name: "slots/the broker's limit counts all listeners, and lets whoever comes to any wait", run: func(g *ground) {
			g.set("listener.name.plaintext.max.connections=1000", "max.connections=12")
			in := g.enter("a", "EXT", "", 6)
			g.enter("b", "TWO", "", 5)
			w1, w2 := g.come("w1", "EXT", ""), g.come("w2", "TWO", "")
			g.waits(w1, w2)
			in[0].leave()
			in[1].leave()
			g.serves(w1, w2)
		}},
		{name: "slots/a broker is let in over the broker's limit, and the client goes that was active least recently", run: func(g *ground) {
			g.set("listener.name.plaintext.max.connections=1000", "max.connections=12")
			in := g.enter("a", "EXT", "", 11)
			for _, i := range []int{3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 10} {
				g.serves(in[i])
			}
			brokers := g.enter("b", "PLAINTEXT", "", 2)
			g.evicts(2, "a1 a3, "+eof, in...)
			g.serves(brokers...)
			w := g.come("w", "EXT", "")
			g.waits(w)
			brokers[0].leave()
			g.serves(w)
		}},
		{name: "slots/a lower limit of the broker closes those that were active least recently, a higher one lets in who waits", run: func(g *ground) {
			in := g.enter("a", "EXT", "", 10)
			for _, i := range []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0} {
				g.serves(in[i])
			}
			g.set("listener.name.plaintext.max.connections=1000", "max.connections=8")
			g.evicts(3, "a7 a8 a9, "+eof, in...)
			w := g.come("w", "EXT", "")
			g.waits(w)
			g.set("max.connections=9")
			g.serves(w)
			late := g.come("late", "TWO", "")
			g.waits(late)
			g.set("max.connections")
			g.serves(late)
		}},
		{name: "slots/a lower limit of a listener closes nobody, and nobody is let in until enough have left", run: func(g *ground) {
			in := g.enter("a", "EXT", "", 4)
			g.set("listener.name.ext.max.connections=2")
			w := g.come("w", "EXT", "")
			g.waits(w)
			g.serves(in...)
			in[0].leave()
			in[1].leave()
			g.waits(w)
			in[2].leave()
			g.serves(w)
		}},
		{name: "slots/the broker's limit is that of each listener without its own, the brokers' too", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=20", "max.connections=9")
			g.enter("b", "PLAINTEXT", "", 8)
			w := g.come("w", "PLAINTEXT", "")
			g.waits(w)
			g.set("listener.name.plaintext.max.connections=10")
			g.serves(w)
		}},
		{name: "slots/a value of the broker goes over one of all brokers, a listener's over both, the file's over the default", run: func(g *ground) {
			in := g.enter("a", "THREE", "", 3) // by the file
			w := g.come("w", "THREE", "")
			g.waits(w)
			g.set("max.connections=500")
			g.waits(w)
			g.setAll("listener.name.three.max.connections=4")
			g.serves(w)
			w = g.come("v", "THREE", "")
			g.waits(w)
			g.set("listener.name.three.max.connections=2")
			in[0].leave()
			g.waits(w)
			g.set("listener.name.three.max.connections")
			g.serves(w)
			w = g.come("u", "THREE", "")
			g.waits(w)
			g.setAll("listener.name.three.max.connections")
			in[1].leave()
			g.waits(w)
			in[2].leave()
			g.serves(w)
		}},
		{name: "slots/a listener whose limit is 0 in the file lets nobody in until it is altered", run: func(g *ground) {
			w := g.come("w", "ZERO", "")
			g.waits(w)
			g.set("listener.name.zero.max.connections=1")
			g.serves(w)
			v := g.come("v", "ZERO", "")
			g.waits(v)
			w.leave()
			g.serves(v)
			g.waits(g.come("u", "ZERO", ""))
			// The 0 of the file can be altered, but nobody can go back to it: the broker stays as it is.
			g.say("back to 0", g.alter("1", "listener.name.zero.max.connections"))
			g.altered["1 listener.name.zero.max.connections"] = false
			g.serves(v)
		}},
		{name: "slots/0 is refused at run time, and the limit stays", run: func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			for _, key := range []string{"max.connections", "listener.name.ext.max.connections", "max.connection.creation.rate", "listener.name.ext.max.connection.creation.rate"} {
				for _, value := range []string{"0", "-1", "abc", "2147483648", "1.5", ""} {
					for _, level := range []string{"1", ""} {
						was := g.altered[level+" "+key]
						got := g.alter(level, key+"="+value)
						g.told(fmt.Sprintf("%s=%s at level %q", key, value, level), got)
						// What is at work is the 1 above, so that a weaker level may say anything.
						g.altered[level+" "+key] = was || got == "0"
					}
				}
			}
			g.enter("a", "EXT", "", 1)
			g.waits(g.come("w", "EXT", ""))
		}},
		{name: "slots/how limits are described, and where they come from", run: func(g *ground) {
			keys := []string{"max.connection.creation.rate", "max.connections.per.ip", "max.connections", "max.connections.per.ip.overrides"}
			for _, listener := range []string{"ext", "three", "zero", "plaintext", "nobody"} {
				for _, key := range keys[:4] {
					keys = append(keys, "listener.name."+listener+"."+key)
				}
			}
			keys = append(keys, "connections.max.idle.ms", "socket.listen.backlog.size", "quota.window.num", "quota.window.size.seconds",
				"queued.max.requests", "num.network.threads", "connection.failed.authentication.delay.ms", "max.ssl.connections.of.nobody")
			g.told("at first", g.describes("1", keys...))
			g.setAll("max.connections=900", "max.connections.per.ip.overrides=localhost:500", "listener.name.ext.max.connections=70")
			g.set("max.connections.per.ip=600", "max.connections=800", "listener.name.ext.max.connections=60", "listener.name.nobody.max.connections=5",
				"listener.name.three.max.connection.creation.rate=1000")
			g.told("of the broker", g.describes("1", keys...))
			g.told("of all", g.describes("", keys...))
		}},
		{name: "slots/a rate lets in what ten seconds of it would, and holds who comes then", run: func(g *ground) {
			g.set("listener.name.two.max.connection.creation.rate=10")
			begun := time.Now()
			g.enter("a", "TWO", "", 99)
			if took := time.Since(begun); took > 7*time.Second { // ten seconds, if they were not let in at once
				g.t.Skipf("%s took %v for 99 connections: too slow to tell a burst from a rate", g.p.name, took)
			}
			late := make([]*guest, 40)
			for i := range late {
				late[i] = g.come("late"+strconv.Itoa(i), "TWO", "")
				late[i].ask()
			}
			g.waits(late[39])
		}},
	}
}

// describes is what a broker says of configs, by name.
func (g *ground) describes(level string, keys ...string) any {
	g.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = 4, true
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, level, keys
	req.Resources = append(req.Resources, resource)
	configs := map[string]any{}
	for _, config := range g.desk.ask(g.t, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		configs[config.Name] = g.p.view(config)
	}
	return configs
}
