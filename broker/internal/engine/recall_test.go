package engine

import (
	"context"
	"errors"
	"net"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// halting is a connection that takes half of what is written once it is told to.
type halting struct {
	net.Conn
	halt *atomic.Bool
}

func (h *halting) Write(b []byte) (int, error) {
	if !h.halt.Load() {
		return h.Conn.Write(b)
	}
	n, _ := h.Conn.Write(b[:len(b)/2])
	return n, net.ErrClosed
}

// gate dials, unless it is shut: then what was dialled is closed. It is about one address, or all.
type gate struct {
	only string

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.only != "" && address != g.only {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errors.New("the gate is shut")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		g.conns = append(g.conns, conn)
	}
	return conn, err
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, c := range g.conns {
		_ = c.Close()
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}

// Who sends a batch again has to know whether it may be there already.
func TestWhatWasNotSentWholeIsNotUnanswered(t *testing.T) {
	h := hostEngine(t, 1)
	var halt, unreachable atomic.Bool
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if unreachable.Load() {
			return nil, errors.New("no route")
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &halting{conn, &halt}, nil
	}})
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 1
	for what, broken := range map[string]*atomic.Bool{"half written": &halt, "without a connection": &unreachable} {
		broken.Store(true)
		face.leases.mu.Lock()
		for _, l := range face.leases.idle { // so that it has to connect
			go l.link.close()
		}
		face.leases.idle = nil
		face.leases.mu.Unlock()
		if _, err := face.Request(timeout(t), req); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnanswered) {
			t.Errorf("a request %s = %v, want ErrUnavailable and not ErrUnanswered", what, err)
		}
		broken.Store(false)
		eventually(t, "the engine is there again", func() bool {
			_, err := face.Request(timeout(t), req)
			return err == nil
		})
	}
}

func TestWhatIsKnownOfTopicsIsToldWhileTheirEngineIsAway(t *testing.T) {
	h := hostEngine(t, 2)
	other := openFace(t, 2, Remote{Seeds: []string{h.Addr()}})
	id, secret := createTopic(t, other, "t", 6), createTopic(t, other, "__secret", 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Hidden: func(topic string) bool { return topic == "__secret" }})

	told := ask[*kmsg.MetadataResponse](t, face, metadataRequest()).Topics
	recalled := func(topics ...kmsg.MetadataRequestTopic) []kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, topics
		resp, err := face.Recall(req)
		if err != nil {
			t.Fatalf("Recall(%+v) = %v", topics, err)
		}
		return resp.Topics
	}
	named, byID := func(name string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &name} },
		func(id [16]byte) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{TopicID: id} }
	for what, got := range map[string][]kmsg.MetadataResponseTopic{"all": recalled(), "by name": recalled(named("t")), "by id": recalled(byID(id))} {
		if !reflect.DeepEqual(got, told) {
			t.Errorf("%s: %+v, want what was told before: %+v", what, got, told)
		}
	}
	for what, c := range map[string]struct {
		asked kmsg.MetadataRequestTopic
		code  int16
	}{
		"a name that is not known": {named("u"), kerr.LeaderNotAvailable.Code},
		"an id that is not known":  {byID([16]byte{1}), kerr.LeaderNotAvailable.Code},
		"a hidden name":            {named("__secret"), kerr.UnknownTopicOrPartition.Code},
		"a hidden id":              {byID(secret), kerr.UnknownTopicID.Code},
	} {
		if got := recalled(c.asked); len(got) != 1 || got[0].ErrorCode != c.code || len(got[0].Partitions) != 0 {
			t.Errorf("%s: %+v, want error %d", what, got, c.code)
		}
	}
	// Else a request of some kilobytes would have an answer of gigabytes.
	if got := recalled(named("t"), named("t"), named("u"), named("t"), named("u")); len(got) != 2 {
		t.Errorf("two names that are asked for five times have %d answers, want one each", len(got))
	}
	if got := recalled(byID(id), byID([16]byte{1}), byID(id)); len(got) != 2 {
		t.Errorf("two ids that are asked for three times have %d answers, want one each", len(got))
	}
	// What is told is a copy.
	recalled(named("t"))[0].Partitions[0].Leader = 77
	if got := recalled(named("t"))[0].Partitions[0].Leader; got == 77 {
		t.Error("an answer changed what is known")
	}
}

// Where Kafka's node is away, clients that ask its face alone are told who leads now.
func TestTheOtherNodesTellWhoLeadsWhileOursIsAway(t *testing.T) {
	kafka, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(4, "t"), kfake.SeedTopics(5, "__consumer_offsets"))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	way := &gate{only: kafka.ListenAddrs()[0]}
	face := openFace(t, 0, Remote{Seeds: []string{way.only}, Dial: way.dial})
	for partition := range int32(4) {
		if err = kafka.MoveTopicPartition("t", partition, 1); err != nil {
			t.Fatal(err)
		}
	}
	way.shut()
	eventually(t, "all is led by the other node", func() bool {
		if face.Available() == nil {
			return false
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		resp, unknown := face.Recall(req)
		if unknown != nil {
			t.Fatal(unknown)
		}
		led := 0
		for i := range resp.Topics {
			for _, p := range resp.Topics[i].Partitions {
				if *resp.Topics[i].Topic == "t" && p.Leader == 1 {
					led++
				}
			}
		}
		return led == 4
	})
	for partition := range int32(5) {
		if err = kafka.MoveTopicPartition("__consumer_offsets", partition, map[bool]int32{true: 1}[partition == 3]); err != nil {
			t.Fatal(err)
		}
	}
	// The hash of "d" is 100, that of "g" 103.
	eventually(t, "coordinators are found by their partition", func() bool {
		return face.RecallCoordinator(0, "d") == 0 && face.RecallCoordinator(0, "g") == 1
	})
}

func TestKeysHaveJavasHash(t *testing.T) {
	for key, want := range map[string]int32{"": 0, "g": 103, "hello": 99162322, "\U0001F600": 1772899, "polygenelubricants": -2147483648} {
		if got := javaHash(key); got != want {
			t.Errorf("javaHash(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestWhoWaitsForTheEngineIsWokenOnce(t *testing.T) {
	h := hostEngine(t, 1)
	way := &gate{}
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Dial: way.dial})
	woken := make(chan string, 10)
	wait := func(who string, most time.Duration) { face.WhenBack(most, func() { woken <- who }) }
	wait("at once", time.Hour)
	if got := <-woken; got != "at once" {
		t.Errorf("woken %s, want who came while the engine was there", got)
	}
	way.shut()
	eventually(t, "the face knows", func() bool { return face.Available() != nil })
	wait("patient", time.Hour)
	wait("impatient", time.Millisecond)
	if got := <-woken; got != "impatient" {
		t.Errorf("woken %s, want the impatient one", got)
	}
	way.open()
	if got := <-woken; got != "patient" || face.Available() != nil {
		t.Errorf("woken %s, engine %v, want the patient one once the engine is back", got, face.Available())
	}
	select {
	case who := <-woken:
		t.Errorf("%s was woken twice", who)
	case <-time.After(50 * time.Millisecond):
	}
}
