package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// line is a network between a face and its engine that can be cut, as one whose cable was pulled: nothing arrives any more, and
// nobody is told.
type line struct {
	mu    sync.Mutex
	cut   chan struct{} // closed while it is cut
	conns []net.Conn
}

func newLine(tb testing.TB) *line {
	tb.Helper()
	l := &line{cut: make(chan struct{})}
	tb.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.conns {
			_ = c.Close()
		}
	})
	return l
}

func (l *line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.cut:
		return true
	default:
		return false
	}
}

func (l *line) pull() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.cut)
}

func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = make(chan struct{})
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.isCut() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	far, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, end := net.Pipe()
	l.mu.Lock()
	l.conns = append(l.conns, far, end)
	l.mu.Unlock()
	pass := func(to io.Writer, from io.Reader, whenOver func() error) {
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			if l.isCut() { // for ever: what was on its way is lost
				return
			}
			if err != nil {
				_ = whenOver()
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go pass(far, end, far.Close)
	go pass(end, far, end.Close)
	return near, nil
}

func metadataRequest() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	return req
}

// longPoll asks for records of the topic t that do not come, for 50 seconds.
func longPoll() kmsg.Request {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, 50_000, 1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "t"
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func TestRequestsEndWhenTheEngineIsGoneAndGoOnWhenItIsBack(t *testing.T) {
	dir := t.TempDir()
	open := func(listen string) (*Host, error) {
		h, err := Listen(t.Context(), HostOptions{Options: Options{ClusterID: "test-cluster", Dir: dir}, Nodes: 1, Alone: true, Listen: listen})
		if err == nil {
			h.alone = false // at one address it can come back to, but with topics
			go func() { _ = h.Serve() }()
		}
		return h, err
	}
	h, err := open("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}})
	createTopic(t, face, "t", 1)
	polled := make(chan error, 1)
	go func() {
		_, failed := face.Request(t.Context(), longPoll())
		polled <- failed
	}()
	eventually(t, "the poll is on its way", func() bool { return face.remote.waiting.Load() > 0 })
	if err = h.Close(); err != nil {
		t.Fatal(err)
	}
	if err = <-polled; !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrUnanswered) {
		t.Errorf("the poll = %v, want ErrUnavailable and ErrUnanswered", err)
	}
	eventually(t, "the face knows", func() bool { return face.Available() != nil })
	if _, err = face.Request(t.Context(), metadataRequest()); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnanswered) {
		t.Errorf("a request while it is gone = %v, want ErrUnavailable and not ErrUnanswered", err)
	}
	h, err = open(h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	eventually(t, "the face is back", func() bool { return face.Available() == nil })
	if got := len(ask[*kmsg.MetadataResponse](t, face, metadataRequest()).Topics); got != 1 {
		t.Errorf("%d topics after the restart, want 1", got)
	}
}

func TestACutLineEndsWhatIsOnItsWay(t *testing.T) {
	h := hostEngine(t, 1)
	wire := newLine(t)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Dial: wire.dial, patience: 300 * time.Millisecond})
	createTopic(t, face, "t", 1)
	polled := make(chan error, 1)
	go func() {
		_, err := face.Request(t.Context(), longPoll())
		polled <- err
	}()
	eventually(t, "the poll is on its way", func() bool { return face.remote.waiting.Load() > 0 })
	wire.pull()
	eventually(t, "the face knows", func() bool {
		face.remote.lookAgain()
		return face.Available() != nil
	})
	if err := <-polled; !errors.Is(err, ErrUnanswered) {
		t.Errorf("the poll over a cut line = %v, want ErrUnanswered", err)
	}
	if _, err := face.Request(t.Context(), metadataRequest()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a request over a cut line = %v, want ErrUnavailable", err)
	}
	wire.heal()
	eventually(t, "the face is back", func() bool { return face.Available() == nil })
	ask[*kmsg.MetadataResponse](t, face, metadataRequest())
}

func TestAVanishedClientEndsItsPollAtTheEngine(t *testing.T) {
	h := hostEngine(t, 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}})
	createTopic(t, face, "t", 1)
	ctx, cancel := context.WithCancel(t.Context())
	polled := make(chan error, 1)
	go func() {
		_, err := face.Request(ctx, longPoll())
		polled <- err
	}()
	plane := h.engine.plane.(*kfakePlane)
	busy := func() int { return plane.count() - h.engine.hosted[1].idleLinks() }
	eventually(t, "the engine has the poll", func() bool { return face.remote.waiting.Load() > 0 && busy() > 0 })
	cancel()
	if err := <-polled; !errors.Is(err, context.Canceled) {
		t.Errorf("the poll = %v, want it cancelled", err)
	}
	eventually(t, "the engine waits no more", func() bool { return busy() == 0 })
}

func TestALongPollHoldsUpNobodyElse(t *testing.T) {
	h := hostEngine(t, 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}})
	createTopic(t, face, "t", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 20 {
		go func() { _, _ = face.Request(ctx, longPoll()) }()
	}
	eventually(t, "the polls are on their way", func() bool { return face.remote.waiting.Load() >= 20*60 })
	for range 100 {
		ask[*kmsg.MetadataResponse](t, face, metadataRequest())
	}
}

// Requests that wait hold their memory: more of them than there is room for are refused at once, and there is room again after them.
func TestTheMemoryOfRequestsThatWaitIsBounded(t *testing.T) {
	h := hostEngine(t, 1)
	wire := newLine(t)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Dial: wire.dial})
	createTopic(t, face, "t", 1)
	wire.pull()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = 9, -1
	records := make([]byte, maxWaiting/4)
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const fit = 3 // the requests are a little larger than their records
	for range fit {
		go func() { _, _ = face.Request(ctx, req) }()
	}
	eventually(t, "three are on their way", func() bool { return face.remote.waiting.Load() > fit*int64(len(records)) })
	for range 10 {
		_, err := face.Request(ctx, req)
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnanswered) || !strings.Contains(fmt.Sprint(err), "256 MB of requests wait") {
			t.Errorf("a fourth = %v, want that 256 MB wait", err)
		}
	}
	if got := face.remote.waiting.Load(); got > maxWaiting {
		t.Errorf("%d bytes wait, want at most %d", got, maxWaiting)
	}
	cancel()
	eventually(t, "they wait no more", func() bool { return face.remote.waiting.Load() == 0 })
	wire.heal()
	eventually(t, "requests pass again", func() bool {
		_, err := face.Request(timeout(t), metadataRequest())
		return err == nil
	})
}

// liar is a far end that answers Metadata and ApiVersions well, and all else with raw bytes.
func liar(tb testing.TB, answer func(corr int32) []byte) string {
	tb.Helper()
	honest := hostEngine(tb, 1)
	lis, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = lis.Close() })
	addr := lis.Addr().(*net.TCPAddr)
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		for {
			var prefix [4]byte
			if _, err := io.ReadFull(conn, prefix[:]); err != nil {
				return
			}
			frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
			if _, err := io.ReadFull(conn, frame); err != nil {
				return
			}
			key, version, corr := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:])), int32(binary.BigEndian.Uint32(frame[4:]))
			var resp kmsg.Response
			switch key {
			case kmsg.ApiVersions.Int16():
				resp = honest.apiVersions(version)
			case kmsg.Metadata.Int16():
				m := kmsg.NewPtrMetadataResponse()
				m.Version, m.ClusterID = version, new("test-cluster")
				m.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: addr.IP.String(), Port: int32(addr.Port)}}
				resp = m
			default:
				_, _ = conn.Write(answer(corr))
				continue
			}
			out := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(corr))
			if resp.IsFlexible() && key != kmsg.ApiVersions.Int16() {
				out = append(out, 0)
			}
			out = resp.AppendTo(out)
			binary.BigEndian.PutUint32(out, uint32(len(out)-4))
			_, _ = conn.Write(out)
		}
	}
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return addr.String()
}

func TestAnswersThatCannotBeTrueEndTheirRequest(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(corr int32) []byte{
		"a length of 2 GB":  func(int32) []byte { return []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1} },
		"a negative length": func(int32) []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1} },
		"no room for an id": func(int32) []byte { return []byte{0, 0, 0, 2, 0, 0} },
		"somebody else's":   func(corr int32) []byte { return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 4}, uint32(corr+1)) },
		"cut off":           func(corr int32) []byte { return binary.BigEndian.AppendUint32([]byte{0, 0, 0, 4}, uint32(corr)) },
		"a list of two billion": func(corr int32) []byte {
			return append(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 12}, uint32(corr)), 0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			face := openFace(t, 1, Remote{Seeds: []string{liar(t, answer)}})
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version = 1
			if _, err := face.Request(timeout(t), req); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrUnanswered) {
				t.Errorf("Request = %v, want ErrUnavailable and ErrUnanswered", err)
			}
		})
	}
}

// A claimed length is believed as far as its bytes arrive.
func TestAClaimedLengthTakesNoMemory(t *testing.T) {
	claim := binary.BigEndian.AppendUint32(nil, maxAnswer)
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	go func() {
		_, _ = far.Write(claim)
		_ = far.Close()
	}()
	c := newRemoteConn(near, "")
	body, err := c.receive()
	if err == nil || cap(body) > 2*believed {
		t.Errorf("receive = %d bytes, %v, want an error and no memory", cap(body), err)
	}
}

func TestHiddenTopicsAreNotThere(t *testing.T) {
	h := hostEngine(t, 1)
	open := openFace(t, 1, Remote{Seeds: []string{h.Addr()}})
	id := createTopic(t, open, "__secret", 1)
	createTopic(t, open, "t", 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Hidden: func(topic string) bool { return topic == "__secret" }})
	if _, ok := face.TopicName(id); ok {
		t.Error("TopicName knows a hidden topic's id")
	}
	if got := face.TopicNames(); len(got) != 1 || got[0] != "t" {
		t.Errorf("TopicNames() = %v, want t", got)
	}
	if got := ask[*kmsg.MetadataResponse](t, face, metadataRequest()).Topics; len(got) != 1 || *got[0].Topic != "t" {
		t.Errorf("Metadata of all topics = %v, want t", got)
	}
	for _, asked := range []kmsg.MetadataRequestTopic{{Topic: new("__secret")}, {TopicID: id}} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{asked}
		want := kerr.UnknownTopicOrPartition.Code
		if asked.Topic == nil {
			want = kerr.UnknownTopicID.Code
		}
		got := ask[*kmsg.MetadataResponse](t, face, req).Topics
		if len(got) != 1 || got[0].ErrorCode != want || len(got[0].Partitions) > 0 {
			t.Errorf("Metadata(%v) = %v, want error %d", asked, got, want)
		}
	}
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version, fetch.Topics = 13, []kmsg.FetchRequestTopic{{TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}}}
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.Version, gone.Topics = 6, []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}
	for _, req := range []kmsg.Request{fetch, gone} {
		if _, err := face.Request(t.Context(), req); !isRefused(err, kerr.UnknownTopicID.Code) {
			t.Errorf("key %d of a hidden id = %v, want UNKNOWN_TOPIC_ID", req.Key(), err)
		}
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	made := kmsg.NewCreateTopicsRequestTopic()
	made.Topic, made.NumPartitions, made.ReplicationFactor = "__secret", 1, 1
	create.Topics = append(create.Topics, made)
	if got := ask[*kmsg.CreateTopicsResponse](t, face, create).Topics; len(got) != 1 || got[0].ErrorCode != kerr.InvalidTopicException.Code {
		t.Errorf("CreateTopics(__secret) = %v, want INVALID_TOPIC_EXCEPTION", got)
	}
}

// What clients of the far end itself do with a hidden topic is not told either.
func TestNobodyIsToldWhatIsDoneWithHiddenTopics(t *testing.T) {
	h := hostEngine(t, 1)
	open := openFace(t, 1, Remote{Seeds: []string{h.Addr()}})
	createTopic(t, open, "__secret", 1)
	createTopic(t, open, "t", 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Hidden: func(topic string) bool { return topic == "__secret" }})
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group = 8, "g"
	for _, topic := range []string{"__secret", "t"} {
		commit.Topics = append(commit.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}})
	}
	for _, topic := range ask[*kmsg.OffsetCommitResponse](t, open, commit).Topics {
		if code := topic.Partitions[0].ErrorCode; code != 0 {
			t.Fatalf("OffsetCommit of %s: %d", topic.Topic, code)
		}
	}
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version, offsets.Groups = 8, []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
	if got := ask[*kmsg.OffsetFetchResponse](t, face, offsets).Groups; len(got) != 1 || len(got[0].Topics) != 1 || got[0].Topics[0].Topic != "t" {
		t.Errorf("OffsetFetch of all = %+v, want t alone", got)
	}
	shares := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	for _, topic := range []string{"__secret", "nope"} {
		asked := []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}
		shares.Groups = []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: "s", Topics: asked}}
		for _, g := range ask[*kmsg.DescribeShareGroupOffsetsResponse](t, face, shares).Groups {
			for _, one := range g.Topics {
				if one.Topic != topic || one.TopicID != ([16]byte{}) {
					t.Errorf("DescribeShareGroupOffsets of %s = %+v, want no id", topic, one)
				}
			}
		}
	}
}

// Kafka's answer to a broker that is no super user there has the request in it, and where it came in.
func TestARefusalOfKafkaTellsNoAddress(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	const code = 31
	said := "Request Request(processor=2, connectionId=127.0.0.9:20032-127.0.0.1:41842-2-4) needs ALTER permission."
	for key, resp := range map[kmsg.Key]kmsg.Response{
		kmsg.AlterPartitionAssignments:  &kmsg.AlterPartitionAssignmentsResponse{ErrorCode: code, ErrorMessage: &said},
		kmsg.ListPartitionReassignments: &kmsg.ListPartitionReassignmentsResponse{ErrorCode: code, ErrorMessage: &said},
		kmsg.ElectLeaders: &kmsg.ElectLeadersResponse{ErrorCode: code, Topics: []kmsg.ElectLeadersResponseTopic{{
			Topic: "t", Partitions: []kmsg.ElectLeadersResponseTopicPartition{{ErrorCode: code, ErrorMessage: &said}},
		}}},
	} {
		cluster.ControlKey(key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			resp.SetVersion(req.GetVersion())
			return resp, nil, true
		})
	}
	face := openFace(t, 0, Remote{Seeds: cluster.ListenAddrs()})
	for _, req := range []kmsg.Request{
		kmsg.NewPtrAlterPartitionAssignmentsRequest(), kmsg.NewPtrListPartitionReassignmentsRequest(),
		&kmsg.ElectLeadersRequest{Version: 2, Topics: []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}}},
	} {
		got, err := face.Request(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if answer := got.AppendTo(nil); bytes.Contains(answer, []byte("connectionId")) || !bytes.Contains(answer, []byte("Cluster authorization failed.")) {
			t.Errorf("key %d is answered %q", req.Key(), answer)
		}
	}
}

// A far end that is not ours: kfake's own sockets, with passwords, and sessions of half a second.
func TestSessionsAreRenewedBeforeTheyEnd(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "us", "secret"),
		kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "500"}))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	var handshakes atomic.Int32
	cluster.ControlKey(kmsg.SASLHandshake.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		handshakes.Add(1)
		return nil, nil, false
	})
	face := openFace(t, 0, Remote{Seeds: cluster.ListenAddrs(), SASL: scram.Auth{User: "us", Pass: "secret"}.AsSha256Mechanism()})
	if !face.Kafka() {
		t.Error("Kafka() = false before a cluster that is not ours")
	}
	client := face.Client(lessee{}.remote, "c")
	defer client.Close()
	face.leases.linger = time.Hour // one connection all the time
	eventually(t, "the session was renewed twice", func() bool {
		got := make(chan error, 1)
		client.Do(metadataRequest(), func(_ kmsg.Response, failed error) { got <- failed })
		if failed := <-got; failed != nil {
			t.Fatalf("Do = %v", failed)
		}
		return handshakes.Load() >= 4 // one of the watcher's, one of this connection
	})
	if n := face.remote.count(); n != 1 {
		t.Errorf("%d links, want one all the time", n)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Open(ctx, Options{Remote: &Remote{Seeds: cluster.ListenAddrs(), SASL: scram.Auth{User: "us", Pass: "wrong"}.AsSha256Mechanism()}})
	if err == nil || !strings.Contains(err.Error(), "SASL SCRAM-SHA-256") {
		t.Errorf("Open with a wrong password = %v, want what went wrong", err)
	}
}

func TestVersionsFollowTheEngine(t *testing.T) {
	start := func(port int, versions *kversion.Versions) *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.Ports(port), kfake.ClusterID("c"), kfake.MaxVersions(versions))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := start(0, kversion.V3_0_0())
	addr := old.ListenAddrs()[0]
	changed := make(chan struct{}, 1)
	face := openFace(t, 0, Remote{Seeds: []string{addr}, Changed: func() { changed <- struct{}{} }})
	before := face.Versions()
	if _, ok := before[kmsg.ConsumerGroupHeartbeat.Int16()]; ok || before[kmsg.Fetch.Int16()].Max != 12 {
		t.Errorf("Versions() before Kafka 3.0 = %v, want no ConsumerGroupHeartbeat, and Fetch up to 12", before)
	}
	old.Close()
	eventually(t, "the face knows that it is gone", func() bool { return face.Available() != nil })
	_, port, _ := net.SplitHostPort(addr)
	n, _ := net.LookupPort("tcp", port)
	fresh := start(n, kversion.Stable())
	defer fresh.Close()
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("Changed was not called")
	}
	if _, ok := face.Versions()[kmsg.ConsumerGroupHeartbeat.Int16()]; !ok {
		t.Error("Versions() lacks ConsumerGroupHeartbeat after the upgrade")
	}
}

// The others go on naming a node that has died, for a while.
func TestANodeThatOthersStillNameIsGoneAllTheSame(t *testing.T) {
	h := hostEngine(t, 2)
	ours := h.listeners[2].Addr().String()
	var dead atomic.Bool
	var mu sync.Mutex
	var conns []net.Conn
	face := openFace(t, 2, Remote{Seeds: []string{h.Addr()}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if dead.Load() && address == ours {
			return nil, errors.New("connection refused")
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil && address == ours {
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
		}
		return conn, err
	}})
	dead.Store(true)
	mu.Lock()
	for _, c := range conns {
		_ = c.Close()
	}
	mu.Unlock()
	eventually(t, "the face knows", func() bool {
		err := face.Available()
		return err != nil && strings.Contains(err.Error(), "connection refused")
	})
	dead.Store(false)
	eventually(t, "the face is back", func() bool { return face.Available() == nil })
	ask[*kmsg.MetadataResponse](t, face, metadataRequest())
}

// Kafka reads nothing more of a connection until the time is over for which it told its client to wait: nobody else is to wait there.
func TestALinkWhoseClientIsThrottledIsForNobodyElse(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	var wait atomic.Int32
	cluster.ControlKey(kmsg.ListGroups.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return &kmsg.ListGroupsResponse{Version: req.GetVersion(), ThrottleMillis: wait.Load()}, nil, true
	})
	var dialled atomic.Int32
	face := openFace(t, 0, Remote{Seeds: cluster.ListenAddrs(), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	for i, c := range []struct{ wait, dials int32 }{{0, 1}, {20_000, 0}, {0, 1}, {0, 0}} {
		before := dialled.Load()
		wait.Store(c.wait)
		resp := ask[*kmsg.ListGroupsResponse](t, face, &kmsg.ListGroupsRequest{Version: 4})
		if dials := dialled.Load() - before; resp.ThrottleMillis != c.wait || dials != c.dials {
			t.Errorf("request %d was told to wait for %d ms over %d new connections, want %d over %d", i, resp.ThrottleMillis, dials, c.wait, c.dials)
		}
		eventually(t, "its link is free or closed", func() bool {
			face.remote.mu.Lock()
			defer face.remote.mu.Unlock()
			return len(face.remote.links) == face.leases.idleLinks()
		})
	}
}
