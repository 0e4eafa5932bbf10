package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hostEngine serves a data plane of n nodes on the loopback.
func hostEngine(tb testing.TB, n int) *Host {
	tb.Helper()
	h, err := Listen(tb.Context(), HostOptions{Options: Options{ClusterID: "test-cluster"}, Nodes: n, Listen: "127.0.0.1:0"})
	if err != nil {
		tb.Fatalf("Listen(%d nodes) = %v", n, err)
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve() }()
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
		if err := <-served; err != nil {
			tb.Errorf("Serve() = %v", err)
		}
	})
	return h
}

func openFace(tb testing.TB, node int32, r Remote) *Engine {
	tb.Helper()
	return openEngine(tb, Options{NodeID: node, Remote: &r})
}

func TestAFaceReachesItsNodeOnly(t *testing.T) {
	h := hostEngine(t, 3)
	face := openFace(t, 2, Remote{Seeds: []string{h.Addr()}})
	if !face.Remote() || face.Kafka() || face.ClusterID() != "test-cluster" || fmt.Sprint(face.Nodes()) != "[1 2 3]" {
		t.Errorf("Remote, Kafka, ClusterID, Nodes = %t, %t, %q, %v, want true, false, test-cluster, [1 2 3]",
			face.Remote(), face.Kafka(), face.ClusterID(), face.Nodes())
	}
	if len(face.Versions()) < 40 {
		t.Errorf("Versions() has %d APIs, want those of the data plane", len(face.Versions()))
	}
}

func TestRecordsPassThroughAFace(t *testing.T) {
	h := hostEngine(t, 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}})
	b := newBridge(t, face)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := b.client(t, kgo.ConsumeTopics("t"), kgo.DefaultProduceTopic("t"))
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatalf("CreateTopic = %v", err)
	}
	const n = 100
	for i := range n {
		if err := client.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(i))).FirstErr(); err != nil {
			t.Fatalf("ProduceSync = %v", err)
		}
	}
	for got := 0; got < n; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("PollFetches = %v after %d records", err, got)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != strconv.Itoa(got) {
				t.Errorf("record %d = %q", got, r.Value)
			}
			got++
		})
	}
	if id, ok := face.TopicID("t"); !ok || id == [16]byte{} || face.Partitions("t") != 1 {
		t.Errorf("TopicID(t) = %v, %t, Partitions = %d, want an id and 1", id, ok, face.Partitions("t"))
	}
}

func TestATopicMadeElsewhereIsSeen(t *testing.T) {
	h := hostEngine(t, 2)
	one, two := openFace(t, 1, Remote{Seeds: []string{h.Addr()}}), openFace(t, 2, Remote{Seeds: []string{h.Addr()}})
	createTopic(t, one, "t", 3)
	eventually(t, "the other face sees the topic", func() bool { _, ok := two.TopicID("t"); return ok })
	if got := two.Partitions("t"); got != 3 {
		t.Errorf("Partitions(t) = %d, want 3", got)
	}
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.Version, gone.TopicNames = 5, []string{"t"}
	if got := ask[*kmsg.DeleteTopicsResponse](t, one, gone).Topics[0].ErrorCode; got != 0 {
		t.Fatalf("DeleteTopics(t) = error %d, want 0", got)
	}
	eventually(t, "the other face sees that it is gone", func() bool {
		two.remote.lookAgain()
		_, ok := two.TopicID("t")
		return !ok
	})
}

// Names and ids that no topic has cost nothing to make up, and a look at all topics may cost the far end much.
func TestWhatNobodyKnowsIsLookedForSeldom(t *testing.T) {
	h := hostEngine(t, 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}})
	p := face.remote
	last := func() (looked time.Time, waits bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.looked, p.watcher != nil && !p.again
	}
	for what, look := range map[string]func(){
		"an id":                              func() { face.TopicName([16]byte{1, 2, 3}) },
		"a name, where a look takes an hour": func() { face.TopicID("nope") },
	} {
		eventually(t, "nothing is looked for because of "+what, func() bool { // but every five seconds
			p.mu.Lock()
			p.took = time.Hour
			p.mu.Unlock()
			before, waits := last()
			if !waits || time.Since(before) < lookAgainAfter {
				return false
			}
			look()
			after, waits := last()
			return waits && after.Equal(before)
		})
	}
}

func TestWithoutAnEngineOpenSaysWhereItLooked(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, Options{NodeID: 1, Remote: &Remote{Seeds: []string{"127.0.0.1:1"}}})
	if err == nil {
		t.Fatal("Open without an engine succeeded")
	}
	t.Log(err)
	if errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, want why", err)
	}
}

// lines is a log whose lines can be waited for.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) have(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.all.String(), part)
}

func TestWhatKeepsAFaceWaitingIsLogged(t *testing.T) {
	t.Parallel()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	go func() { // answers as TLS does that is asked in plain text
		for {
			c, refused := plain.Accept()
			if refused != nil {
				return
			}
			_, _ = c.Write([]byte{tlsAlert, tlsMajor, 3, 0, 2, 2, 10})
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	log, err := Listen(t.Context(), HostOptions{Options: Options{ClusterID: "log"}, Nodes: 1, Alone: true, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	go log.Serve() //nolint:errcheck // until it is closed
	t.Cleanup(func() { _ = log.Close() })
	for want, seed := range map[string]string{
		"connection refused":                           "127.0.0.1:1",
		"no node 7 now, only [1 2]: node.id has to be": hostEngine(t, 2).Addr(),
		"it wants TLS":                                 plain.Addr().String(),
		"it is for metadata.bootstrap.servers":         log.Addr(),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var said lines
			opened := make(chan error, 1)
			go func() {
				_, err := Open(ctx, Options{NodeID: 7, Remote: &Remote{Seeds: []string{seed}}, Log: slog.New(slog.NewTextHandler(&said, nil))})
				opened <- err
			}()
			eventually(t, "the reason is logged: "+want, func() bool { return said.have("waiting for the engine") && said.have(want) })
			cancel()
			if err := <-opened; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Open = %v, want the reason %q", err, want)
			}
		})
	}
}

// count tells how many links are open.
func (p *remotePlane) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}
