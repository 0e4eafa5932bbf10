package fidelity

func slotCases() []limitCase {
	return []limitCase{
		{"slots/a listener's limit lets the next wait until a slot is free, and costs other listeners nothing", func(g *ground) {
			g.set("listener.name.ext.max.connections=3")
			in := g.enter("a", "EXT", "", 3)
			w := g.come("w", "EXT", "")
			g.waits(w)
			g.serves(g.come("other", "TWO", ""), g.come("broker", "PLAINTEXT", ""))
			g.waits(w)
			in[1].leave()
			g.serves(w, in[0], in[2])
		}},
		{"slots/those who wait are let in, in the order in which they came", func(g *ground) {
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
		{"slots/who gives up while it waits has a slot for a moment only", func(g *ground) {
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
		{"slots/who shuts its writing side down is ended, and its slot is free", func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			first := g.enter("a", "EXT", "", 1)
			w := g.come("w", "EXT", "")
			g.waits(w)
			_ = first[0].tcp.CloseWrite()
			g.serves(w)
			g.leaves(eof, first[0])
		}},
		{"slots/who shuts its writing side down while it waits is answered when a slot is free, and ended", func(g *ground) {
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
		{"slots/the broker's limit counts all listeners, and lets whoever comes to any wait", func(g *ground) {
			g.set("listener.name.plaintext.max.connections=1000", "max.connections=12")
			in := g.enter("a", "EXT", "", 6)
			g.enter("b", "TWO", "", 5)
			w1, w2 := g.come("w1", "EXT", ""), g.come("w2", "TWO", "")
			g.waits(w1, w2)
			in[0].leave()
			in[1].leave()
			g.serves(w1, w2)
		}},
		{"slots/a broker is let in over the broker's limit, and the client goes that was active least recently", func(g *ground) {
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
		{"slots/a lower limit of the broker closes those that were active least recently, a higher one lets in who waits", func(g *ground) {
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
		{"slots/a lower limit of a listener closes nobody, and nobody is let in until enough have left", func(g *ground) {
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
		{"slots/the broker's limit is that of each listener without its own, the brokers' too", func(g *ground) {
			g.set("listener.name.ext.max.connections=20", "max.connections=9")
			g.enter("b", "PLAINTEXT", "", 8)
			w := g.come("w", "PLAINTEXT", "")
			g.waits(w)
			g.set("listener.name.plaintext.max.connections=10")
			g.serves(w)
		}},
		{"slots/a value of the broker goes over one of all brokers, a listener's over both, the file's over the default", func(g *ground) {
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
		{"slots/a listener whose limit is 0 in the file lets nobody in until it is altered", func(g *ground) {
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
		{"slots/0 is refused at run time, and the limit stays", func(g *ground) {
			g.set("listener.name.ext.max.connections=1")
			for _, key := range []string{"max.connections", "listener.name.ext.max.connections", "max.connection.creation.rate", "listener.name.ext.max.connection.creation.rate"} {
				for _, value := range []string{"0", "-1", "abc", "2147483648", "1.5", ""} {
					g.told(key+"="+value, g.alter("1", key+"="+value))
					g.told(key+"="+value+" for all", g.alter("", key+"="+value))
					g.altered["1 "+key], g.altered[" "+key] = false, false
				}
			}
			g.altered["1 listener.name.ext.max.connections"] = true
			g.enter("a", "EXT", "", 1)
			g.waits(g.come("w", "EXT", ""))
		}},
	}
}
