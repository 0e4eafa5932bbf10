package fidelity

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// idleAfter is connections.max.idle.ms of the pair for cases about what becomes of connections.
const idleAfter = 5 * time.Second

func lifeOf() []string {
	return hall(
		"connections.max.idle.ms="+strconv.Itoa(int(idleAfter.Milliseconds())), "queued.max.requests=1", "num.io.threads=2", "socket.listen.backlog.size=5",
		"connection.failed.authentication.delay.ms=3000", "auto.create.topics.enable=false",
	)
}

func lifeCases() []limitCase {
	return []limitCase{
		{name: "life/who is idle is ended, whatever it is in the middle of, and who asks is not", run: idlers},
		{name: "life/requests of one connection are answered in their order", run: func(g *ground) {
			g.topic()
			one := g.come("a", "EXT", "")
			g.say("answered", g.pipeline(one, false,
				kmsg.NewPtrApiVersionsRequest(), g.metadata(), g.fetch(300*time.Millisecond), kmsg.NewPtrApiVersionsRequest(), g.metadata(), g.metadata()),
				"1 2 3 4 5 6, open")
			var many []kmsg.Request
			for range 40 {
				many = append(many, g.metadata())
			}
			secure := g.come("b", "SSL", "")
			secure.shaken = true
			g.say("answered over TLS", g.pipeline(secure, false, many...))
		}},
		{name: "life/who asks and shuts its writing side down is answered, and ended", run: func(g *ground) {
			g.topic()
			g.say("one request", g.pipeline(g.come("a", "EXT", ""), true, g.metadata()), "1, "+eof)
			g.say("three", g.pipeline(g.come("b", "EXT", ""), true, g.metadata(), kmsg.NewPtrApiVersionsRequest(), g.metadata()), "1 2 3, "+eof)
			g.say("one that waits", g.pipeline(g.come("c", "EXT", ""), true, g.fetch(300*time.Millisecond)), "1, "+eof)
			g.say("one that waits, and another", g.pipeline(g.come("d", "EXT", ""), true, g.fetch(300*time.Millisecond), g.metadata()), "1 2, "+eof)
			// Over TLS a Kafka that reads the end with a request may forget either of them.
			secure := g.enter("e", "SSL", "", 1)[0]
			_ = secure.stream.(*tls.Conn).CloseWrite()
			g.leaves(eof, secure)
		}},
		{name: "life/a request that takes longer than a second is answered to who has shut its writing side down", run: func(g *ground) {
			g.topic()
			g.say("one that waits", g.pipeline(g.come("c", "EXT", ""), true, g.fetch(3*time.Second)), "1, "+eof)
		}},
		{name: "life/half a request and a shut writing side are an end", run: func(g *ground) {
			for title, bytes := range map[string]string{"nothing": "", "half a size": "\x00\x00", "a size": "\x00\x00\x00\x20", "half a request": "\x00\x00\x00\x20\x00\x12\x00\x00"} {
				one := g.come(title, "EXT", "")
				_, _ = one.tcp.Write([]byte(bytes))
				_ = one.tcp.CloseWrite()
				g.told(title, endOf(one, false))
			}
		}},
		{name: "life/a Produce without acks is not answered, and an error of it is an end", run: func(g *ground) {
			g.topic()
			g.say("good", g.pipeline(g.come("a", "EXT", ""), false, g.produce(lives, 0, false), g.metadata()), "2, open")
			g.say("good and shut", g.pipeline(g.come("b", "EXT", ""), true, g.produce(lives, 0, false), g.metadata()), "2, "+eof)
			g.say("unknown topic", g.pipeline(g.come("c", "EXT", ""), false, g.produce("no-life", 0, false), g.metadata()))
			g.say("corrupt", g.pipeline(g.come("d", "EXT", ""), false, g.produce(lives, 0, true), g.metadata()))
			g.say("unknown topic, with acks", g.pipeline(g.come("e", "EXT", ""), false, g.produce("no-life", 1, false), g.metadata()), "1 2, open")
			g.say("unknown topic over TLS", g.pipeline(g.come("f", "SSL", ""), false, g.produce("no-life", 0, false), g.metadata()))
		}},
		{name: "life/all are answered though one request may be queued", run: func(g *ground) {
			var all sync.WaitGroup
			var mu sync.Mutex
			answers := map[string]int{}
			guests := make([]*guest, 30)
			for i := range guests {
				guests[i] = g.come(strconv.Itoa(i), "EXT", "")
			}
			for _, one := range guests {
				all.Go(func() {
					got := g.pipeline(one, false, g.metadata(), kmsg.NewPtrApiVersionsRequest(), g.metadata(), kmsg.NewPtrApiVersionsRequest(), g.metadata())
					mu.Lock()
					defer mu.Unlock()
					answers[got]++
				})
			}
			all.Wait()
			g.say("answers", fmt.Sprint(answers), "map[1 2 3 4 5, open:30]")
		}},
		{name: "life/who fails to authenticate has its slot until it is told", run: func(g *ground) {
			g.set("listener.name.sasl_plaintext.max.connections=1")
			failing := g.come("failing", "SASL_PLAINTEXT", "")
			told := make(chan string, 1)
			go func() {
				c := &conn{Conn: failing.tcp, peer: g.p}
				err := c.login(g.ctx, how{user: "alice", password: "wrong"})
				told <- fmt.Sprint(err)
			}()
			w := g.come("w", "SASL_PLAINTEXT", "")
			g.waits(w)
			g.say("failing", <-told)
			g.leaves(eof, failing)
			g.serves(w)
		}},
		{name: "life/as many connect to a listener that is full as its backlog holds, and one, and the one in the acceptor's hand", run: func(g *ground) {
			g.set("listener.name.three.max.connections=1")
			first := g.enter("a", "THREE", "", 1)
			held := g.come("held", "THREE", "")
			g.waits(held)
			queued := 0
			for ; queued < 20; queued++ {
				d := net.Dialer{Timeout: 1500 * time.Millisecond} // the kernel asks again after a second
				c, err := d.DialContext(g.ctx, "tcp", g.p.address("THREE"))
				if err != nil {
					break
				}
				g.guests = append(g.guests, &guest{name: "queued", tcp: c.(*net.TCPConn), stream: c})
			}
			g.say("queued", strconv.Itoa(queued), "6")
			first[0].leave()
			g.serves(held)
		}},
		{name: "life/fewer network threads end the connections of those that go, and their slots are free", run: func(g *ground) {
			const threads = "listener.name.two.num.network.threads"
			g.say("three at once", g.alter("1", threads+"=3"))
			g.altered["1 "+threads] = false
			g.set(threads+"=2", "listener.name.two.max.connections=4")
			in := g.enter("a", "TWO", "", 4)
			w1, w2, w3 := g.come("w1", "TWO", ""), g.come("w2", "TWO", ""), g.come("w3", "TWO", "")
			g.waits(w1, w2, w3)
			g.set(threads + "=1")
			g.serves(w1, w2)
			g.waits(w3)
			left := 0
			for _, one := range in {
				if one.look(time.Millisecond) != "" {
					left++
					g.say("one of those that go", one.end, eof)
				}
			}
			g.say("gone of 4", strconv.Itoa(left), "2")
		}},
		{name: "life/a listener that is removed ends its connections, and begins anew when it is added", run: func(g *ground) {
			g.open("listener.name.new.max.connections=2")
			in := g.enter("a", "NEW", "", 2)
			g.shut()
			g.leaves(eof, in...)
			_, refused := call(g.ctx, g.p.address("NEW"), "")
			g.say("a connection", refused, denied)
			g.open("listener.name.new.max.connections=2")
			g.serves(g.enter("b", "NEW", "", 2)...)
			g.waits(g.come("w", "NEW", ""))
			g.shut()
		}},
		{name: "life/a listener that is removed ends who waits for a slot of it", run: func(g *ground) {
			g.open("listener.name.new.max.connections=1")
			in := g.enter("a", "NEW", "", 1)
			held := g.come("held", "NEW", "")
			g.waits(held)
			g.shut()
			g.leaves(eof, in...)
			got := held.answer(3 * time.Second)
			if got == eof || got == rst {
				got = gone
			}
			if got == "" { // nobody has it any more, and nobody will close it
				got = open
				g.desk.leaked++
			}
			g.say("held", got)
		}},
		{name: "life/a broker that stops ends all connections, also those that have waited", last: true, run: func(g *ground) {
			const from = "127.0.1.30"
			g.rate(from, 1_000_000)
			g.enter("fast", "TWO", from, crowd)
			g.rate(from, 1)
			g.set("listener.name.ext.max.connections=2")
			in := g.enter("a", "EXT", "", 2)
			secure := g.enter("s", "SSL", "", 1)
			half := g.come("half", "SASL_SSL", "")
			hasty := g.come("hasty", "TWO", from)
			held, queued := g.come("held", "EXT", ""), g.come("queued", "EXT", "")
			g.waits(held, queued, hasty)
			if err := g.p.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				g.t.Fatal(err)
			}
			g.leaves(eof, in...)
			g.leaves(eof, secure...)
			g.leaves(gone, half, hasty, held, queued)
		}},
	}
}

// open adds a listener NEW, with a config of its own.
func (g *ground) open(config string) {
	g.t.Helper()
	all := g.p.properties["listeners"] + ",NEW://127.0.0.1:" + strconv.Itoa(g.p.port("NEW"))
	g.set("listeners="+all, config)
	if !g.until(func() bool {
		c, refused := call(g.ctx, g.p.address("NEW"), "")
		if refused == "" {
			_ = c.Close()
		}
		return refused == ""
	}) {
		g.t.Fatalf("%s does not listen at NEW", g.p.name)
	}
	g.until(func() bool { return g.sockets() <= 1+g.desk.leaked })
}

// shut takes NEW away again.
func (g *ground) shut() {
	g.t.Helper()
	g.set("listeners=" + g.p.properties["listeners"])
}

// idlers are guests that are idle in each way there is.
func idlers(g *ground) {
	g.topic()
	g.set("listener.name.ext.max.connections=1")
	busy := g.enter("busy", "EXT", "", 1)[0]
	waiter := g.come("waiter", "EXT", "")
	waiter.ask()
	idle := []*guest{
		g.come("silent", "TWO", ""), g.come("silent over TLS", "SSL", ""), g.come("silent of IPv6", "V6", ""),
		g.come("not authenticated", "SASL_PLAINTEXT", ""), g.come("half a request", "TWO", ""), g.come("half a handshake", "SASL_SSL", ""),
	}
	_, _ = idle[4].tcp.Write([]byte("\x00\x00\x00\x20\x00\x12"))
	_, _ = idle[5].tcp.Write(clientHello(g)[:50])
	idle = append(idle, g.enter("asked once", "TWO", "", 1)...)
	idle = append(idle, g.enter("asked once over TLS", "SSL", "", 1)...)
	fetching := g.come("in a Fetch that waits", "TWO", "")
	c := &conn{Conn: fetching.tcp}
	c.send(g.fetch(10 * idleAfter))
	idle = append(idle, fetching)

	ctx, stop := context.WithCancel(g.ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		for last := time.Now(); ctx.Err() == nil && busy.answer(bound) == served; last = time.Now() {
			if took := time.Since(last); took > idleAfter/2 {
				g.late = "an answer took " + took.String()
			}
			g.pause(100 * time.Millisecond)
		}
	})
	for _, one := range idle {
		g.leaves(eof, one)
	}
	stop()
	asking.Wait()
	g.stays(busy)
	busy.leave()
	g.serves(waiter)
}

// pipeline sends requests in one write, and the end of the stream behind them where that is wanted, and says which were
// answered, in what order, and whether the connection is open then.
func (*ground) pipeline(one *guest, shut bool, requests ...kmsg.Request) string {
	var all []byte
	for i, req := range requests {
		all = append(all, kmsg.NewRequestFormatter(kmsg.FormatterClientID("fidelity")).AppendRequest(nil, req, int32(i+1))...)
	}
	_ = one.tcp.SetDeadline(time.Now().Add(bound))
	if _, err := one.stream.Write(all); err != nil {
		return "write: " + ends(err)
	}
	if shut {
		if secure, ok := one.stream.(*tls.Conn); ok {
			_ = secure.CloseWrite()
		}
		_ = one.tcp.CloseWrite()
	}
	c := &conn{Conn: one.stream}
	var answered []string
	for {
		wait := bound
		if !shut && len(answered) > 0 && answered[len(answered)-1] == strconv.Itoa(len(requests)) {
			wait = silence / 2 // after the last nothing comes, unless it is an end
		}
		b, end := c.read(wait)
		switch {
		case end == "timeout" && wait != bound:
			return strings.Join(answered, " ") + ", open"
		case end != "":
			return strings.TrimPrefix(strings.Join(answered, " ")+", ", ", ") + map[string]string{"EOF": eof, "reset": rst}[end]
		case len(b) < 4:
			return "a frame of " + strconv.Itoa(len(b))
		}
		answered = append(answered, strconv.Itoa(int(b[3])|int(b[2])<<8))
	}
}

// lives is the topic of the cases.
const lives = "life"

// topic makes the topic, of one partition, where it is not there yet, and waits until it can be written.
func (g *ground) topic() {
	g.t.Helper()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 60_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = lives, 1, 1
	create.Topics = append(create.Topics, topic)
	g.desk.ask(g.t, create)
	ask := kmsg.NewPtrMetadataRequest()
	ask.Version = 7
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.Topic = new(lives)
	ask.Topics = append(ask.Topics, wanted)
	if !g.until(func() bool {
		topics := g.desk.ask(g.t, ask).(*kmsg.MetadataResponse).Topics
		return len(topics) == 1 && topics[0].ErrorCode == 0 && len(topics[0].Partitions) == 1 && topics[0].Partitions[0].ErrorCode == 0
	}) {
		g.t.Fatalf("%s does not make topic %s", g.p.name, lives)
	}
}

// metadata asks for the broker alone.
func (*ground) metadata() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 7, []kmsg.MetadataRequestTopic{}
	return req
}

// fetch waits at the end of the topic, where nothing comes.
func (*ground) fetch(wait time.Duration) kmsg.Request {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, int32(wait.Milliseconds()), 1<<20, 1<<20
	topic, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = lives, 1<<20, -1
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}

// produce writes one record, or a batch with a wrong sum.
func (*ground) produce(name string, acks int16, corrupt bool) kmsg.Request {
	record := kmsg.Record{Length: 9, Value: []byte("abc")}
	records := record.AppendTo(nil)
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, NumRecords: 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, Records: records,
		FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
	}
	b := summed(batch)
	if corrupt {
		b[17] ^= 0xff
	}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 8, acks, 30_000
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, partition.Records = name, b
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}

// summed is a batch on the wire, its length and sum filled in.
func summed(batch kmsg.RecordBatch) []byte {
	b := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}
