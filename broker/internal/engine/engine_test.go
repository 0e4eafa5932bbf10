package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAClientProducesAndConsumesInAGroup(t *testing.T) {
	t.Parallel()
	for _, node := range []int32{0, 7} {
		t.Run(fmt.Sprintf("node %d", node), func(t *testing.T) {
			t.Parallel()
			e := openEngine(t, Options{NodeID: node})
			b := newBridge(t, e)
			ctx := timeout(t)
			createTopic(t, e, "orders", 3)

			p := b.client(t)
			for i := range 300 {
				p.Produce(ctx, &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("Produce(%d) = %v", i, err)
					}
				})
			}
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			c := b.client(t, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			for got := 0; got < 300; {
				fetches := c.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				got += fetches.NumRecords()
			}
			if err := c.CommitUncommittedOffsets(ctx); err != nil {
				t.Fatalf("commit = %v", err)
			}
			groups, err := kadm.NewClient(p).DescribeGroups(ctx, "g")
			if err != nil {
				t.Fatal(err)
			}
			g := groups["g"]
			if g.Coordinator.NodeID != node {
				t.Errorf("coordinator = %d, want %d", g.Coordinator.NodeID, node)
			}
			if len(g.Members) != 1 || g.Members[0].ClientHost == "" || g.Members[0].ClientID != "kgo" {
				t.Errorf("members = %+v, want one of client id kgo with a host", g.Members)
			}
			meta, err := kadm.NewClient(p).Metadata(ctx, "orders")
			if err != nil {
				t.Fatal(err)
			}
			if meta.Controller != node {
				t.Errorf("controller = %d, want %d", meta.Controller, node)
			}
		})
	}
}

func TestTransactionsCommitAndAbort(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	b := newBridge(t, e)
	ctx := timeout(t)
	createTopic(t, e, "tx", 1)
	p := b.client(t, kgo.TransactionalID("writer"), kgo.DefaultProduceTopic("tx"))
	for _, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(commit))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := p.EndTransaction(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	c := b.client(t, kgo.ConsumeTopics("tx"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for len(got) < 2 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if want := []string{fmt.Sprint(kgo.TryCommit), fmt.Sprint(kgo.TryCommit)}; !slices.Equal(got, want) {
		t.Errorf("committed records = %v, want %v", got, want)
	}
}

func TestIdleClientsHoldNoLink(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	clients := make([]*Client, 200)
	var wg sync.WaitGroup
	for i := range clients {
		clients[i] = e.Client(netip.AddrPort{}, "c")
		wg.Add(1)
		clients[i].Do(kmsg.NewPtrListGroupsRequest(), func(_ kmsg.Response, err error) {
			if err != nil {
				t.Errorf("Do() = %v", err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	plane := e.plane.(*kfakePlane)
	eventually(t, "only idle links are left", func() bool { return plane.count() == e.leases.idleLinks() })
	if n := plane.count(); n > maxIdleLinks {
		t.Errorf("%d links are kept, want at most %d", n, maxIdleLinks)
	}
	for _, c := range clients {
		c.Close()
	}
}

func TestAClientThatAsksAgainKeepsItsLink(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	e.leases.linger = time.Hour
	c := e.Client(netip.AddrPort{}, "c")
	defer c.Close()
	var first link
	for i := range 10 {
		do(t, c, kmsg.NewPtrListGroupsRequest())
		if i == 0 {
			first = c.lease.link
		}
		if c.lease.link != first {
			t.Fatalf("request %d went over another link", i)
		}
	}
	if n := e.plane.(*kfakePlane).count(); n != 1 {
		t.Errorf("%d links are open, want 1", n)
	}
}

func TestAVanishedClientCancelsItsLongPoll(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "empty", 1)
	c := e.Client(netip.AddrPort{}, "c")
	got := make(chan error, 1)
	c.Do(fetch("empty", time.Minute), func(_ kmsg.Response, err error) { got <- err })
	plane := e.plane.(*kfakePlane)
	eventually(t, "the fetch holds a link", func() bool { return plane.count()-e.leases.idleLinks() == 1 })
	c.Close()
	select {
	case err := <-got:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("done got %v, want %v", err, ErrClosed)
		}
	case <-timeout(t).Done():
		t.Fatal("the fetch was not cancelled")
	}
	eventually(t, "its link is closed", func() bool { return plane.count() == e.leases.idleLinks() })
	c.Do(kmsg.NewPtrListGroupsRequest(), func(_ kmsg.Response, err error) { got <- err })
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("Do() after Close = %v, want %v", err, ErrClosed)
	}
}

func TestALongPollDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "empty", 1)
	for range 100 {
		c := e.Client(netip.AddrPort{}, "c")
		c.Do(fetch("empty", time.Hour), func(kmsg.Response, error) {})
		t.Cleanup(c.Close)
	}
	c := e.Client(netip.AddrPort{}, "c")
	defer c.Close()
	do(t, c, kmsg.NewPtrListGroupsRequest())
}

func TestACallbackThatBlocksHoldsUpItsOwnClientOnly(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	release := make(chan struct{})
	var blocked sync.WaitGroup
	for range 50 {
		c := e.Client(netip.AddrPort{}, "c")
		blocked.Add(1)
		c.Do(kmsg.NewPtrListGroupsRequest(), func(kmsg.Response, error) {
			<-release
			blocked.Done()
		})
	}
	eventually(t, "the links of the 50 have lingered", func() bool {
		e.leases.mu.Lock()
		defer e.leases.mu.Unlock()
		return e.leases.oldest == nil
	})
	for range 50 {
		ask[*kmsg.ListGroupsResponse](t, e, kmsg.NewPtrListGroupsRequest())
	}
	close(release)
	blocked.Wait()
}

func TestALinkThatCarriedMuchIsNotKept(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, makeBatch(10_000, -1, -1, -1)))
	eventually(t, "the producer's link is idle", func() bool { return e.leases.idleLinks() == 1 })
	resp := ask[*kmsg.FetchResponse](t, e, fetch("t", 0))
	if n := len(resp.Topics[0].Partitions[0].RecordBatches); n < bulkyAnswer {
		t.Fatalf("the answer has %d bytes only", n)
	}
	eventually(t, "the consumer's link is closed", func() bool { return e.plane.(*kfakePlane).count() == 0 })
}

func TestAClientMayAskAgainFromItsCallback(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	c := e.Client(netip.AddrPort{}, "c")
	defer c.Close()
	done := make(chan error, 1)
	var next func(left int)
	next = func(left int) {
		c.Do(kmsg.NewPtrListGroupsRequest(), func(_ kmsg.Response, err error) {
			if err != nil || left == 0 {
				done <- err
				return
			}
			next(left - 1)
		})
	}
	next(1000)
	if err := <-done; err != nil {
		t.Errorf("Do() from a callback = %v", err)
	}
	got := make(chan error, 2)
	c.Do(fetch("missing", 0), func(_ kmsg.Response, err error) { got <- err })
	c.Do(fetch("missing", 0), func(_ kmsg.Response, err error) { got <- err })
	first, second := <-got, <-got
	if !errors.Is(first, errBusy) && !errors.Is(second, errBusy) && (first != nil || second != nil) {
		t.Errorf("two requests at once = %v and %v, want the second answered or refused", first, second)
	}
}

// joinShares makes a client a member of a share group that subscribes to the topic shared.
func joinShares(t *testing.T, c *Client) *kmsg.ShareGroupHeartbeatRequest {
	t.Helper()
	beat := kmsg.NewPtrShareGroupHeartbeatRequest()
	beat.Version = 1
	beat.GroupID, beat.MemberID, beat.SubscribedTopicNames = "s", "AAAAAAAAAAAAAAAAAAAAAQ", []string{"shared"}
	if r := do(t, c, beat).(*kmsg.ShareGroupHeartbeatResponse); r.ErrorCode != 0 {
		t.Fatalf("heartbeat = error %d", r.ErrorCode)
	}
	return beat
}

func TestAnOpenShareSessionKeepsItsLink(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	e.leases.linger = time.Millisecond
	id := createTopic(t, e, "shared", 1)
	c := e.Client(netip.AddrPort{}, "c")
	defer c.Close()

	beat := joinShares(t, c)
	share := func(epoch int32) int16 {
		req := kmsg.NewPtrShareFetchRequest()
		req.Version = 1
		req.GroupID, req.MemberID, req.ShareSessionEpoch = &beat.GroupID, &beat.MemberID, epoch
		if epoch >= 0 {
			req.MaxBytes, req.MaxRecords = 1<<20, 100
		} else {
			req.MaxBytes = 0
		}
		if epoch == 0 {
			topic := kmsg.NewShareFetchRequestTopic()
			topic.TopicID = id
			topic.Partitions = append(topic.Partitions, kmsg.NewShareFetchRequestTopicPartition())
			req.Topics = append(req.Topics, topic)
		}
		return do(t, c, req).(*kmsg.ShareFetchResponse).ErrorCode
	}
	held := func() link {
		e.leases.mu.Lock()
		defer e.leases.mu.Unlock()
		return c.lease.link
	}
	if code := share(0); code != 0 {
		t.Fatalf("opening the session = error %d", code)
	}
	first := held()
	eventually(t, "other leases have ended", func() bool {
		e.leases.mu.Lock()
		defer e.leases.mu.Unlock()
		return e.leases.oldest == nil
	})
	if held() == nil || held() != first {
		t.Fatal("the link was given away while a share session is open")
	}
	if code := share(1); code != 0 {
		t.Errorf("going on with the session = error %d", code)
	}
	if code := share(-1); code != 0 {
		t.Errorf("ending the session = error %d", code)
	}
	eventually(t, "the link is given back after the session", func() bool { return held() == nil })
}

// Java's share consumer rejects a whole answer for null, and loses what it had.
func TestAPartitionOfAShareFetchHasNoNullRecords(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "shared", 1)
	c := e.Client(netip.AddrPort{}, "c")
	defer c.Close()
	beat := joinShares(t, c)
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.MaxBytes, req.MaxRecords = 1, &beat.GroupID, &beat.MemberID, 1<<20, 100
	req.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: [16]byte{1}, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}}}}
	resp := do(t, c, req).(*kmsg.ShareFetchResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Records == nil {
		t.Errorf("ShareFetch of a topic that is not there = %+v, want one partition with no records", resp)
	}
}

func TestClientHostsAreSpelledAsJavaDoes(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"10.0.0.5": "/10.0.0.5", "::ffff:10.0.0.5": "/10.0.0.5", "::1": "/0:0:0:0:0:0:0:1", "fd00:1::a": "/fd00:1:0:0:0:0:0:a",
	} {
		if got := clientHost(netip.MustParseAddr(addr)).String(); got != want {
			t.Errorf("clientHost(%s) = %s, want %s", addr, got, want)
		}
	}
	if got := (clientHost{}).String(); got != "/127.0.0.1" {
		t.Errorf("clientHost of the broker itself = %s", got)
	}
}

func TestMembersAreDescribedWithTheClientsAddress(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	c := e.Client(netip.MustParseAddrPort("10.0.0.5:4711"), "sarah")
	defer c.Close()
	join := joinGroup("g", "range")
	if r := do(t, c, join).(*kmsg.JoinGroupResponse); r.ErrorCode != 0 {
		t.Fatalf("join = error %d", r.ErrorCode)
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"g", "g"}
	resp := ask[*kmsg.DescribeGroupsResponse](t, e, describe)
	if len(resp.Groups) != 1 {
		t.Fatalf("a group named twice was described %d times, want once", len(resp.Groups))
	}
	m := resp.Groups[0].Members[0]
	if m.ClientHost != "/10.0.0.5" || m.ClientID != "sarah" {
		t.Errorf("member = host %q client %q, want /10.0.0.5 and sarah", m.ClientHost, m.ClientID)
	}
}

func TestAcksZeroTellsItsFailure(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "there", 1)
	for topic, want := range map[string]int16{"there": 0, "missing": kerr.UnknownTopicOrPartition.Code} {
		req := produce(11, topic, 0, goodBatch(1))
		req.Acks = 0
		_, err := e.Request(t.Context(), req)
		var acks *AcksError
		failed := errors.As(err, &acks)
		if want == 0 && err != nil || want != 0 && (!failed || acks.Code != want) {
			t.Errorf("produce with acks=0 to %s = %v, want code %d", topic, err, want)
		}
		if req.Acks != 0 {
			t.Errorf("the request was changed: acks = %d", req.Acks)
		}
	}
}

func TestARequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "empty", 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Request(ctx, fetch("empty", time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("Request(cancelled) = %v, want %v", err, context.Canceled)
	}
}

func TestCloseAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1, Dir: t.TempDir()})
	createTopic(t, e, "empty", 1)
	got := make(chan error, 50)
	for range cap(got) {
		e.Client(netip.AddrPort{}, "c").Do(fetch("empty", time.Hour), func(_ kmsg.Response, err error) { got <- err })
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for range cap(got) {
		select {
		case err := <-got:
			if err == nil {
				t.Error("a fetch in flight was answered without an error")
			}
		case <-timeout(t).Done():
			t.Fatal("a fetch in flight was not answered")
		}
	}
	if _, err := e.Request(t.Context(), kmsg.NewPtrListGroupsRequest()); !errors.Is(err, ErrClosed) {
		t.Errorf("Request() after Close = %v, want %v", err, ErrClosed)
	}
}

// do makes one request of a client and waits for its answer.
func do(tb testing.TB, c *Client, req kmsg.Request) kmsg.Response {
	tb.Helper()
	resp, err := doErr(tb, c, req)
	if err != nil {
		tb.Fatalf("Do(key %d) = %v", req.Key(), err)
	}
	return resp
}

func doErr(tb testing.TB, c *Client, req kmsg.Request) (kmsg.Response, error) {
	tb.Helper()
	type outcome struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan outcome, 1)
	c.Do(req, func(resp kmsg.Response, err error) { got <- outcome{resp, err} })
	select {
	case o := <-got:
		return o.resp, o.err
	case <-timeout(tb).Done():
		tb.Fatalf("Do(key %d) was not answered", req.Key())
		return nil, nil
	}
}

func fetch(topic string, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = 11
	req.MaxWaitMillis, req.MinBytes = int32(wait.Milliseconds()), 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func produce(version int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
