package broker_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Who looks after a cluster does so when its engine is gone, too.
func TestWithoutItsEngineAClusterTellsOfItsBrokers(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, stop := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	var all [2]*broker.Broker
	for i := range all {
		all[i], _ = startStoppable(t, faceOf(t, i+1, bootstrap, metadata, "broker.session.timeout.ms=600000", "initial.broker.registration.timeout.ms=600000"))
	}
	r := dial(t, all[0].Addr("PLAINTEXT"))
	brokers := func() int {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
		return len(ask[*kmsg.MetadataResponse](r, req).Brokers)
	}
	until(t, "both brokers are known", func() bool { return brokers() == len(all) })
	stop()
	if n := brokers(); n != len(all) {
		t.Errorf("Metadata of no topics names %d brokers without an engine, want %d", n, len(all))
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(all[0].Addr("PLAINTEXT").String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if rows, err := admin.New(cl).ListClientConnections(t.Context(), admin.ListFilter{}); err != nil || len(rows) < 2 {
		t.Errorf("ListClientConnections = %d rows, %v, want at least those of both clients", len(rows), err)
	}
}

// What clients ask of an engine that is gone they are told to ask again: one connection is used all the time, and stays open.
func TestWithoutItsEngineABrokerTellsClientsToTryAgain(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, stop := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	face := func(node int) *broker.Broker {
		b, _ := startStoppable(t, faceOf(t, node, bootstrap, metadata, "broker.session.timeout.ms=600000"))
		return b
	}
	other := face(2)
	if _, err := kadm.NewClient(client(t, other.Addr("PLAINTEXT"))).CreateTopic(limit(t), 6, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	b := face(1)
	r := dial(t, b.Addr("PLAINTEXT"))
	before := topicsOf(r, "t").Topics
	id := before[0].TopicID
	stop()

	if now := topicsOf(r, "t").Topics; !reflect.DeepEqual(now, before) {
		t.Errorf("topics = %+v, want them as they were: %+v", now, before)
	}
	for _, key := range []string{"e", "f", "g"} { // one for each node, of which the third has no broker before it
		places := map[string]bool{}
		for _, version := range []int16{2, 4} {
			for _, asked := range []*broker.Broker{b, other} {
				at := ask[*kmsg.FindCoordinatorResponse](dial(t, asked.Addr("PLAINTEXT")), &kmsg.FindCoordinatorRequest{Version: version, CoordinatorKey: key, CoordinatorKeys: []string{key}})
				if version >= 4 {
					at.NodeID, at.Port, at.ErrorCode = at.Coordinators[0].NodeID, at.Coordinators[0].Port, at.Coordinators[0].ErrorCode
				}
				places[fmt.Sprint(at.NodeID, at.Port, at.ErrorCode)] = true
			}
		}
		none, first, second := fmt.Sprint(-1, -1, kerr.CoordinatorNotAvailable.Code), fmt.Sprint(1, b.Addr("PLAINTEXT").Port(), 0), fmt.Sprint(2, other.Addr("PLAINTEXT").Port(), 0)
		if want := map[string]string{"e": none, "f": first, "g": second}[key]; len(places) != 1 || !places[want] {
			t.Errorf("FindCoordinator of %s = %v, want %s whoever is asked", key, places, want)
		}
	}
	group, member := "g", "AAAAAAAAAAAAAAAAAAAAAQ"
	for _, c := range []struct {
		want *kerr.Error
		req  kmsg.Request
	}{
		{kerr.RequestTimedOut, &kmsg.ProduceRequest{Version: 9, Acks: -1, Topics: []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{}}}}}},
		{kerr.RequestTimedOut, &kmsg.ProduceRequest{Version: 13, Acks: 1, Topics: []kmsg.ProduceRequestTopic{{TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{}}}}}},
		{kerr.RequestTimedOut, &kmsg.ProduceRequest{Version: 13, Acks: 1, Topics: []kmsg.ProduceRequestTopic{{TopicID: [16]byte{1}, Partitions: []kmsg.ProduceRequestTopicPartition{{}}}}}},
		{kerr.NotLeaderForPartition, &kmsg.FetchRequest{Version: 12, ReplicaID: -1, Topics: []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{{}}}}}},
		{kerr.NotLeaderForPartition, &kmsg.ListOffsetsRequest{Version: 7, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}}},
		{kerr.NotLeaderForPartition, &kmsg.OffsetForLeaderEpochRequest{Version: 4, ReplicaID: -1, Topics: []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{}}}}}},
		{kerr.NotLeaderForPartition, &kmsg.DeleteRecordsRequest{Version: 2, Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}}},
		{kerr.NotLeaderForPartition, &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}}},
		{kerr.CoordinatorNotAvailable, &kmsg.ListGroupsRequest{Version: 4}},
		{kerr.NotCoordinator, &kmsg.JoinGroupRequest{Version: 9, Group: group, ProtocolType: "consumer", SessionTimeoutMillis: 10_000, RebalanceTimeoutMillis: 10_000, Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range"}}}},
		{kerr.NotCoordinator, &kmsg.SyncGroupRequest{Version: 5, Group: group, MemberID: member}},
		{kerr.NotCoordinator, &kmsg.HeartbeatRequest{Version: 4, Group: group, MemberID: member}},
		{kerr.NotCoordinator, &kmsg.LeaveGroupRequest{Version: 5, Group: group, Members: []kmsg.LeaveGroupRequestMember{{MemberID: member}}}},
		{kerr.NotCoordinator, &kmsg.OffsetCommitRequest{Version: 8, Group: group, Generation: -1, Topics: []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}}},
		{kerr.CoordinatorLoadInProgress, &kmsg.OffsetFetchRequest{Version: 8, Groups: []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1}}}},
		{kerr.NotCoordinator, &kmsg.DescribeGroupsRequest{Version: 5, Groups: []string{group}}},
		{kerr.NotCoordinator, &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{group}}},
		{kerr.NotCoordinator, &kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: group, MemberID: member, RebalanceTimeoutMillis: 60_000, SubscribedTopicNames: []string{"t"}, Topics: []kmsg.ConsumerGroupHeartbeatRequestTopic{}}},
		{kerr.NotCoordinator, &kmsg.ConsumerGroupHeartbeatRequest{Version: 1, Group: group, MemberID: member, MemberEpoch: 5, RebalanceTimeoutMillis: -1}},
		{kerr.NotCoordinator, &kmsg.ConsumerGroupDescribeRequest{Groups: []string{group}}},
		{kerr.NotCoordinator, &kmsg.ShareGroupHeartbeatRequest{Version: 1, GroupID: group, MemberID: member, SubscribedTopicNames: []string{"t"}}},
		{kerr.NotCoordinator, &kmsg.ShareGroupDescribeRequest{Version: 1, GroupIDs: []string{group}}},
		{kerr.NotLeaderForPartition, &kmsg.ShareFetchRequest{Version: 1, GroupID: &group, MemberID: &member, Topics: []kmsg.ShareFetchRequestTopic{{TopicID: id, Partitions: []kmsg.ShareFetchRequestTopicPartition{{}}}}}},
		{kerr.ShareSessionNotFound, &kmsg.ShareFetchRequest{Version: 1, GroupID: &group, MemberID: &member, ShareSessionEpoch: 4}},
		{kerr.ShareSessionNotFound, &kmsg.ShareAcknowledgeRequest{Version: 1, GroupID: &group, MemberID: &member, ShareSessionEpoch: 4, Topics: []kmsg.ShareAcknowledgeRequestTopic{{TopicID: id}}}},
		{kerr.CoordinatorLoadInProgress, &kmsg.InitProducerIDRequest{Version: 4, ProducerID: -1, ProducerEpoch: -1, TransactionTimeoutMillis: 60_000}},
		{kerr.NotCoordinator, &kmsg.InitProducerIDRequest{Version: 4, TransactionalID: new("x"), ProducerID: -1, ProducerEpoch: -1, TransactionTimeoutMillis: 60_000}},
		{kerr.NotCoordinator, &kmsg.AddPartitionsToTxnRequest{Version: 3, TransactionalID: "x", Topics: []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: []int32{0}}}}},
		{kerr.NotCoordinator, &kmsg.AddOffsetsToTxnRequest{Version: 3, TransactionalID: "x", Group: group}},
		{kerr.NotCoordinator, &kmsg.EndTxnRequest{Version: 3, TransactionalID: "x"}},
		{kerr.NotCoordinator, &kmsg.TxnOffsetCommitRequest{Version: 3, TransactionalID: "x", Group: group, Generation: -1, Topics: []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}}},
		{kerr.NotCoordinator, &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"x"}}},
		{kerr.CoordinatorLoadInProgress, &kmsg.ListTransactionsRequest{Version: 1, DurationFilterMillis: -1}},
		{kerr.NotController, &kmsg.CreateTopicsRequest{Version: 7, TimeoutMillis: 1000, Topics: []kmsg.CreateTopicsRequestTopic{{Topic: "u", NumPartitions: 1, ReplicationFactor: 1}}}},
		{kerr.NotController, &kmsg.DeleteTopicsRequest{Version: 6, TimeoutMillis: 1000, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: new("t")}}}},
		{kerr.NotController, &kmsg.CreatePartitionsRequest{Version: 3, TimeoutMillis: 1000, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 9}}}},
		{kerr.LeaderNotAvailable, metadataOf("not made")},
	} {
		resp := ask[kmsg.Response](r, c.req)
		if got := codesOf(reflect.ValueOf(resp).Elem()); !slices.Equal(got, []int16{c.want.Code}) {
			t.Errorf("%s v%d = %+v, want %s alone", kmsg.NameForKey(c.req.Key()), c.req.GetVersion(), resp, c.want.Message)
		}
	}
	ends(t, r, b, &kmsg.DescribeLogDirsRequest{Version: 4})
	ends(t, dial(t, b.Addr("PLAINTEXT")), b,
		&kmsg.ProduceRequest{Version: 9, Topics: []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{}}}}})
}

// Clients that try again a few times only have to outlive a restart of their engine.
func TestAProduceIsHeldWhileItsEngineIsAway(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, stop := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, metadata, "broker.session.timeout.ms=600000"))
	stop()
	const timeout = 600 * time.Millisecond
	req := &kmsg.ProduceRequest{Version: 9, Acks: 1, TimeoutMillis: int32(timeout.Milliseconds()), Topics: []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{}}}}}
	began := time.Now()
	code := ask[*kmsg.ProduceResponse](dial(t, b.Addr("PLAINTEXT")), req).Topics[0].Partitions[0].ErrorCode
	if held := time.Since(began); code != kerr.RequestTimedOut.Code || held < timeout/2 {
		t.Errorf("error %d after %v, want REQUEST_TIMED_OUT after half of %v", code, held, timeout)
	}
	// What takes more memory than it has bytes is not held, however long its client would wait.
	many := &kmsg.ProduceRequest{Version: 9, Acks: 1, TimeoutMillis: 600_000, Topics: make([]kmsg.ProduceRequestTopic, 1001)}
	for i := range many.Topics {
		many.Topics[i] = req.Topics[0]
	}
	r := dial(t, b.Addr("PLAINTEXT"))
	if err := r.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil { // it would be held for 15
		t.Fatal(err)
	}
	if code := ask[*kmsg.ProduceResponse](r, many).Topics[0].Partitions[0].ErrorCode; code != kerr.RequestTimedOut.Code {
		t.Errorf("a request of many parts = error %d, want REQUEST_TIMED_OUT", code)
	}
}

// What a connection sends while its engine is away is written in order when that is back, and the client is told of no error.
func TestWhatIsProducedWhileAnEngineRestartsIsWrittenThen(t *testing.T) {
	t.Parallel()
	const nodes, n = 3, 5
	port := freePorts(t, 1+nodes)
	cfg := broker.EngineConfig{Listen: otherHost + ":" + strconv.Itoa(port), Dir: t.TempDir()}
	bootstrap, _, stop := engineAt(t, cfg)
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, bootstrap, "broker.session.timeout.ms=600000"))
	if _, err := kadm.NewClient(client(t, b.Addr("PLAINTEXT"))).CreateTopic(limit(t), nodes, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	r := dial(t, b.Addr("PLAINTEXT"))
	led := slices.IndexFunc(topicsOf(r, "t").Topics[0].Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader == 1 })
	partition := topicsOf(r, "t").Topics[0].Partitions[led].Partition
	send := func(sequence int32) {
		r.request(&kmsg.ProduceRequest{Version: 8, Acks: -1, TimeoutMillis: 60_000, Topics: []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{
			{Partition: partition, Records: numbered("v", 77, 0, sequence)},
		}}}})
	}
	written := func(sequence int32) {
		t.Helper()
		body, err := r.answer(false)
		resp := kmsg.ProduceResponse{Version: 8}
		if err == nil {
			err = resp.ReadFrom(body)
		}
		if err != nil {
			t.Fatalf("the answer to batch %d: %v", sequence, err)
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(sequence) {
			t.Errorf("batch %d: error %d at offset %d, want it at %d", sequence, p.ErrorCode, p.BaseOffset, sequence)
		}
	}
	send(0)
	written(0)
	stop()
	for sequence := range int32(n) {
		send(1 + sequence) // without waiting for the answers
	}
	engineAt(t, cfg)
	for sequence := range int32(n) {
		written(1 + sequence)
	}
}

// What was under way behind a batch that was given up is given up, too, until that comes again: it would be refused for the gap.
func TestNothingIsWrittenBeforeWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	_, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	b, _ := startStoppable(t, faceOf(t, 0, kafka.ListenAddrs()[0], metadata))
	r := dial(t, b.Addr("PLAINTEXT"))
	produce := func(epoch int16, sequence int32) (code int16) {
		req := &kmsg.ProduceRequest{Version: 9, Acks: -1, Topics: []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: numbered("v", 77, epoch, sequence)}}}}}
		return ask[*kmsg.ProduceResponse](r, req).Topics[0].Partitions[0].ErrorCode
	}
	if code := produce(0, 0); code != 0 {
		t.Fatalf("Produce = error %d, want 0", code)
	}
	lost := func() {
		kafka.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
			return nil, errors.New("no answer: the connection ends"), true
		})
	}
	lost()
	for _, c := range []struct {
		sequence int32
		want     int16
	}{{1, kerr.RequestTimedOut.Code}, {2, kerr.RequestTimedOut.Code}, {3, kerr.RequestTimedOut.Code}, {1, 0}, {2, 0}, {3, 0}} {
		if code := produce(0, c.sequence); code != c.want {
			t.Errorf("batch %d = error %d, want %d", c.sequence, code, c.want)
		}
	}
	lost()
	if code := produce(0, 4); code != kerr.RequestTimedOut.Code {
		t.Errorf("Produce without an answer = error %d, want REQUEST_TIMED_OUT", code)
	}
	if code := produce(1, 0); code != 0 {
		t.Errorf("the first batch of another epoch = error %d, want 0", code)
	}
	lost()
	if code := produce(1, 1); code != kerr.RequestTimedOut.Code {
		t.Errorf("Produce without an answer = error %d, want REQUEST_TIMED_OUT", code)
	}
	until(t, "the gap is the data plane's to judge", func() bool { return produce(1, 2) == kerr.OutOfOrderSequenceNumber.Code })
}

// ends fails unless a request ends its connection, for the reason that the engine is gone.
func ends(t *testing.T, r *raw, b *broker.Broker, req kmsg.Request) {
	t.Helper()
	r.request(req)
	r.closed(fmt.Sprintf("%s v%d", kmsg.NameForKey(req.Key()), req.GetVersion()))
	port := int32(local(r).Port())
	listed := protocol.NewPtrDescribeClosedConnectionsRequest()
	until(t, "the closed connection is listed", func() bool {
		ended := ask[*protocol.DescribeClosedConnectionsResponse](dial(t, b.Addr("PLAINTEXT")), listed).Connections
		for i := range ended {
			if c := &ended[i]; c.ClientPort == port {
				if c.Reason != "engine_unavailable" {
					t.Errorf("reason = %s, want engine_unavailable", c.Reason)
				}
				return true
			}
		}
		return false
	})
}

// A batch that was on its way when Kafka's node went may have been written: then it is told apart from one that never left.
func TestAProduceWithoutAnAnswerMayHaveBeenWritten(t *testing.T) {
	t.Parallel()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	gone := sync.OnceFunc(kafka.Close)
	t.Cleanup(gone)
	_, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	b, _ := startStoppable(t, faceOf(t, 0, kafka.ListenAddrs()[0], metadata))
	produced := func() int16 {
		req := &kmsg.ProduceRequest{Version: 9, Acks: -1, Topics: []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch("v")}}}}}
		return ask[*kmsg.ProduceResponse](dial(t, b.Addr("PLAINTEXT")), req).Topics[0].Partitions[0].ErrorCode
	}
	if code := produced(); code != 0 {
		t.Fatalf("Produce = error %d, want 0", code)
	}
	kafka.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("no answer: the connection ends"), true
	})
	if code := produced(); code != kerr.RequestTimedOut.Code {
		t.Errorf("Produce without an answer = error %d, want REQUEST_TIMED_OUT", code)
	}
	gone()
	until(t, "the broker knows", func() bool { return produced() == kerr.NotLeaderForPartition.Code })
}
