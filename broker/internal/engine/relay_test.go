package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// taker is a relay whose client gets what is in got.
type taker struct {
	declines bool
	splices  bool
	takes    int // out of all pipes; then the client takes no more
	frame    []byte
	got      []byte
	spliced  int
	early    bool // all has left through pipes
}

func (c *taker) Begin(frame []byte, _ func()) bool {
	if c.declines {
		return false
	}
	c.frame = frame
	binary.BigEndian.PutUint32(frame[CorrelationAt:], clientCorrelation)
	return true
}

func (c *taker) More(n int) { c.got = append(c.got, c.frame[len(c.got):n]...) }

func (c *taker) Splices() bool { return c.splices }

func (c *taker) Splice(pipe, n int, _ time.Time) int {
	sent := 0
	for take := min(n, c.takes-c.spliced); sent < take; {
		b := make([]byte, take-sent)
		k, err := unix.Read(pipe, b)
		if err != nil {
			panic(err)
		}
		c.got = append(c.got, b[:k]...)
		sent += k
		c.spliced += k
	}
	c.early = len(c.got) == len(c.frame)
	return sent
}

// Leads tells that clients may be led to node 1 alone.
func (*taker) Leads(node int32) bool { return node == 1 }

const (
	engineCorrelation = 77
	clientCorrelation = 5
)

// randomFetchAnswer has records of at least so many bytes.
func randomFetchAnswer(random *rand.Rand, version int16, records int) *kmsg.FetchResponse {
	answer := kmsg.NewPtrFetchResponse()
	answer.Version = version
	answer.ThrottleMillis = random.Int32N(3)
	if version >= fetchSessions {
		answer.SessionID = random.Int32()
	}
	tags := func(tags *kmsg.Tags) {
		if random.IntN(4) == 0 {
			tags.Set(uint32(5+random.IntN(400)), bytes.Repeat([]byte("tag"), random.IntN(100)))
		}
	}
	for sum := 0; sum < records; {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = fmt.Sprintf("topic-%d", random.IntN(1000))
		topic.TopicID = [16]byte{byte(random.Uint32())}
		for range random.IntN(5) {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode = random.Int32N(9), int16(random.IntN(8))
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = random.Int64(), random.Int64(), random.Int64()
			p.AbortedTransactions = nil
			for range random.IntN(3) {
				aborted := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				aborted.ProducerID, aborted.FirstOffset = random.Int64(), random.Int64()
				tags(&aborted.UnknownTags)
				p.AbortedTransactions = append(p.AbortedTransactions, aborted)
			}
			p.PreferredReadReplica = random.Int32N(4) - 1
			switch random.IntN(4) {
			case 0: // null
			case 1:
				p.RecordBatches = []byte{}
			default:
				p.RecordBatches = make([]byte, random.IntN(600<<10))
				for i := 0; i+8 <= len(p.RecordBatches); i += 8 {
					binary.BigEndian.PutUint64(p.RecordBatches[i:], random.Uint64())
				}
			}
			sum += len(p.RecordBatches)
			if random.IntN(2) == 0 {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = random.Int32N(5), random.Int32()
			}
			if random.IntN(5) == 0 {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = random.Int32(), random.Int64()
			}
			tags(&p.UnknownTags)
			topic.Partitions = append(topic.Partitions, p)
		}
		tags(&topic.UnknownTags)
		answer.Topics = append(answer.Topics, topic)
	}
	for node := range random.Int32N(3) {
		answer.Brokers = append(answer.Brokers, kmsg.FetchResponseBroker{NodeID: node, Host: engineHost, Port: 9092})
	}
	tags(&answer.UnknownTags)
	return answer
}

const engineHost = "an-address-of-the-engine"

// asClientsMayHaveIt is what a client is to be told instead.
func asClientsMayHaveIt(answer *kmsg.FetchResponse) {
	answer.SessionID, answer.Brokers = 0, nil
	for i := range answer.Topics {
		for j := range answer.Topics[i].Partitions {
			p := &answer.Topics[i].Partitions[j]
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = -1, -1
			if p.PreferredReadReplica > 1 || p.PreferredReadReplica == 0 {
				p.PreferredReadReplica = -1
			}
		}
	}
}

// framedAnswer is an answer with its length prefix and header.
func framedAnswer(corr uint32, answer *kmsg.FetchResponse) []byte {
	frame := binary.BigEndian.AppendUint32(make([]byte, sizePrefix), corr)
	if answer.IsFlexible() {
		frame = append(frame, 0)
	}
	frame = answer.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-sizePrefix))
	return frame
}

// readAnswer reads what framedAnswer made, with the eraser's tag taken out.
func readAnswer(tb testing.TB, frame []byte, version int16) *kmsg.FetchResponse {
	tb.Helper()
	answer := kmsg.NewPtrFetchResponse()
	answer.Version = version
	if err := decodeResponse(frame[sizePrefix:], int32(binary.BigEndian.Uint32(frame[CorrelationAt:])), answer); err != nil {
		tb.Fatalf("the answer of version %d is none any more: %v", version, err)
	}
	var rest kmsg.Tags
	answer.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag != eraser {
			rest.Set(tag, value)
		} else if bytes.Trim(value, "\x00") != nil {
			tb.Errorf("an erased field has %q", value)
		}
	})
	answer.UnknownTags = rest
	return answer
}

// relayTo has frame arrive over a connection, in parts, and relays it.
func relayTo(t *testing.T, random *rand.Rand, frame []byte, version int16, to *taker) (*kmsg.FetchResponse, error) {
	t.Helper()
	near, far := tcpPair(t)
	random = rand.New(rand.NewPCG(random.Uint64(), 0)) // of the goroutine
	go func() {
		for left := frame; len(left) > 0; {
			n := min(1+random.IntN(300_000), len(left))
			if _, err := far.Write(left[:n]); err != nil {
				return
			}
			left = left[n:]
			<-time.After(time.Duration(random.IntN(300)) * time.Microsecond) // so that it comes in parts
		}
		_ = far.CloseWrite()
	}()
	plane := &remotePlane{}
	defer plane.pipes.close()
	c := newRemoteConn(near, "")
	a, err := c.next(&plane.bodies, len(frame))
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.Version = version
	resp, err := (&tcpLink{plane: plane}).relay(&flight{req: req, from: lessee{relay: to}}, engineCorrelation, a)
	if resp != nil && err == nil {
		to.More(len(a.frame))
	}
	if err == nil && c.lowWater != 0 {
		t.Errorf("the next answer is waited for %d bytes at a time, want none", c.lowWater)
	}
	return resp, err
}

// tcpPair is the two ends of a connection.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	one, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = one.Close(), other.Close() })
	near, far = one.(*net.TCPConn), other.(*net.TCPConn)
	if err := near.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// However an answer arrives, and whether its client takes it out of pipes, for a while, or not at all: it gets the same bytes, but for
// what it must not see, and as many of them.
func TestARelayedAnswerIsTheEnginesButForWhatClientsMustNotSee(t *testing.T) {
	for _, version := range []int16{fetchAborted, fetchStart, fetchSessions, fetchReplica, 12, fetchByID, 16, 18} {
		for name, to := range map[string]taker{
			"copied":                {},
			"spliced":               {splices: true, takes: 1 << 30},
			"spliced, then not":     {splices: true, takes: 700_000},
			"of which it took none": {splices: true},
		} {
			t.Run(fmt.Sprintf("v%d/%s", version, name), func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(version), 1))
				for range 2 {
					client, answer := to, randomFetchAnswer(random, version, 1<<20)
					frame := framedAnswer(engineCorrelation, answer)
					told, err := relayTo(t, random, frame, version, &client)
					if err != nil {
						t.Fatal(err)
					}
					if len(client.got) != len(frame) || binary.BigEndian.Uint32(client.got[CorrelationAt:]) != clientCorrelation {
						t.Fatalf("the client got %d bytes of %d, correlation %x", len(client.got), len(frame), client.got[:8])
					}
					if bytes.Contains(client.got, []byte(engineHost)) {
						t.Error("the client was told an address of the engine")
					}
					want := readAnswer(t, frame, version)
					asClientsMayHaveIt(want)
					if got := readAnswer(t, client.got, version); !reflect.DeepEqual(got, want) {
						t.Errorf("the client got\n%.2000v\nwant\n%.2000v", got, want)
					}
					wantCodes(t, told, want)
				}
			})
		}
	}
}

// wantCodes looks for the errors of an answer in what is told of it.
func wantCodes(tb testing.TB, told, want *kmsg.FetchResponse) {
	tb.Helper()
	codes := func(a *kmsg.FetchResponse) (all []int16) {
		all = append(all, a.ErrorCode)
		for i := range a.Topics {
			for j := range a.Topics[i].Partitions {
				all = append(all, a.Topics[i].Partitions[j].ErrorCode)
			}
		}
		return all
	}
	if got, want := codes(told), codes(want); !reflect.DeepEqual(got, want) {
		tb.Errorf("the errors are told as %v, want %v", got, want)
	}
}

func TestWhatIsNotRelayedIsLeftAsItIs(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	large, small := randomFetchAnswer(random, 16, 1<<20), kmsg.NewPtrFetchResponse()
	small.Version = 16
	for name, c := range map[string]struct {
		frame []byte
		to    taker
	}{
		"declined":                {framedAnswer(engineCorrelation, large), taker{declines: true}},
		"small":                   {framedAnswer(engineCorrelation, small), taker{}},
		"to another request":      {framedAnswer(engineCorrelation+1, large), taker{}},
		"to another request, too": {framedAnswer(engineCorrelation+1, large), taker{splices: true, takes: 1 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := relayTo(t, random, c.frame, 16, &c.to)
			if resp != nil || err != nil || c.to.frame != nil {
				t.Errorf("relay = %v, %v, and was begun: %t, want nothing", resp, err, c.to.frame != nil)
			}
		})
	}
}

// An answer that ends in the middle, or is not one, is an error; its client has got no byte that was not there.
func TestABrokenAnswerIsAnError(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	frame := framedAnswer(engineCorrelation, randomFetchAnswer(random, 16, 1<<20))
	longer := append(bytes.Clone(frame), make([]byte, 100)...)
	binary.BigEndian.PutUint32(longer, uint32(len(longer)-sizePrefix))
	shorter := bytes.Clone(frame[:len(frame)-3])
	binary.BigEndian.PutUint32(shorter, uint32(len(shorter)-sizePrefix))
	garbage := bytes.Clone(frame)
	for i := CorrelationAt + 4; i < len(garbage); i++ {
		garbage[i] = byte(random.Uint32())
	}
	for name, broken := range map[string][]byte{"cut off": frame[:700_000], "too long": longer, "too short": shorter, "garbage": garbage} {
		for _, to := range []taker{{}, {splices: true, takes: 1 << 30}} {
			if resp, err := relayTo(t, random, broken, 16, &to); err == nil || len(to.got) > len(broken) {
				t.Errorf("%s: relay = %v, %v after %d bytes of %d, want an error", name, resp, err, len(to.got), len(broken))
			}
		}
	}
}

// With the last byte of its answer a client asks anew, over a link that has to be free by then: so it gets that byte only once the
// request is answered. Before version 12 it is one of records.
func TestTheLastByteIsNotSentBeforeTheRequestIsAnswered(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 11))
	for _, version := range []int16{fetchAborted, fetchReplica, 12, 18} {
		answer := randomFetchAnswer(random, version, 1)
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.AbortedTransactions, partition.RecordBatches = nil, make([]byte, 3*spliceFrom)
		topic := kmsg.NewFetchResponseTopic()
		topic.Partitions = append(topic.Partitions, partition)
		answer.Topics = append(answer.Topics, topic)
		frame := framedAnswer(engineCorrelation, answer)
		for n := range 20 {
			to := taker{splices: true, takes: 1 << 30}
			if _, err := relayTo(t, random, frame, version, &to); err != nil {
				t.Fatal(err)
			}
			if to.early {
				t.Fatalf("version %d: the answer had left when its request was not answered, at attempt %d", version, n+1)
			}
		}
	}
}

// FuzzRelay reads anything as an answer. What passes for one must be one to kmsg, without what clients must not see.
func FuzzRelay(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for version := int16(fetchAborted); version <= 18; version++ {
		f.Add(version, framedAnswer(engineCorrelation, randomFetchAnswer(random, version, 10))[relayHeader:])
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		version = fetchAborted + int16(uint16(version)%(18-fetchAborted+1))
		frame := append(make([]byte, relayHeader), body...)
		req := kmsg.NewPtrFetchRequest()
		req.Version = version
		r := relaying{arriving: &arriving{frame: frame, have: len(frame), size: len(frame)}, to: &taker{frame: frame}, version: version, flexible: req.IsFlexible(), at: relayHeader}
		told := r.answer()
		if r.err != nil || r.at != len(frame) {
			return
		}
		got := kmsg.NewPtrFetchResponse()
		got.Version = version
		if err := decodeResponse(frame[sizePrefix:], 0, got); err != nil {
			return // kmsg also looks at what passes by
		}
		want := readAnswer(t, frame, version)
		asClientsMayHaveIt(want)
		if len(got.Brokers) > 0 {
			t.Errorf("the client was told %v", got.Brokers)
		}
		wantCodes(t, told, want)
	})
}

const relayHeader = CorrelationAt + 4

func TestAPipeMovesWhatThereIs(t *testing.T) {
	var all pipes
	one := all.get()
	if one == nil {
		t.Fatal("the kernel gives no pipe")
	}
	near, far := tcpPair(t)
	want := bytes.Repeat([]byte("pipe"), 100_000)
	go func() {
		_, _ = far.Write(want)
		_ = far.Close()
	}()
	var got []byte
	for {
		n, err := one.fill(near, pipeSize)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			break
		}
		b := make([]byte, n)
		if err := one.read(b); err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came out of the pipe, want the %d that were sent", len(got), len(want))
	}
	all.put(one)
	if again := all.get(); again != one {
		t.Error("an empty pipe was not used again")
	}
	all.close()
	all.put(one) // which closes it: the test's count of open files would tell
}
