package broker_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// engineHost is where the engines of these tests are. Nothing else is there, so that no client may ever read it.
const engineHost = "127.0.0.9"

// engineAt serves an engine for three brokers until the test ends, or stop is called.
func engineAt(t *testing.T, cfg broker.EngineConfig) (bootstrap, metadata string, stop func()) {
	t.Helper()
	ready := make(chan [2]string, 1)
	cfg.Nodes, cfg.Log = 3, testLog(t)
	cfg.Ready = func(b, m string) { ready <- [2]string{b, m} }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- broker.ServeEngine(ctx, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ServeEngine() = %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case at := <-ready:
		return at[0], at[1], stop
	case err := <-ended:
		ended <- nil
		t.Fatalf("ServeEngine() = %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the engine is not ready")
	}
	return "", "", nil
}

// faceOf is a broker's configuration in front of an engine: two listeners, of which INTERNAL is for brokers.
func faceOf(t *testing.T, node int, bootstrap, metadata string, more ...string) *broker.Config {
	t.Helper()
	cfg, err := broker.LoadConfig("", append([]string{
		fmt.Sprint("node.id=", node), "listeners=PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0", "kernel.accounting=off",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT", "inter.broker.listener.name=INTERNAL",
		fmt.Sprint("broker.rack=r", node), "engine.bootstrap.servers=" + bootstrap, "metadata.bootstrap.servers=" + metadata,
		"broker.heartbeat.interval.ms=200", "broker.session.timeout.ms=3000", "num.network.threads=1",
	}, more...), true)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// threeFaces are the brokers 1, 2 and 3 of one cluster; stopping one is calling its function.
func threeFaces(t *testing.T) (all [3]*broker.Broker, stops [3]func()) {
	t.Helper()
	bootstrap, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	for i := range all {
		all[i], stops[i] = startStoppable(t, faceOf(t, i+1, bootstrap, metadata))
	}
	return all, stops
}

// startStoppable is start with a way to stop before the test ends.
func startStoppable(t *testing.T, cfg *broker.Config) (*broker.Broker, func()) {
	t.Helper()
	b, err := broker.New(cfg, broker.WithLog(testLog(t)))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { served <- b.Serve(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-b.Ready():
	case err := <-served:
		served <- nil
		t.Fatalf("Serve: %v", err)
	}
	return b, stop
}

func topicsOf(r *raw, topics ...string) *kmsg.MetadataResponse {
	r.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	if len(topics) == 0 {
		req.Topics = nil
	}
	return ask[*kmsg.MetadataResponse](r, req)
}

// until waits for what must happen, within a minute.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func TestClientsAreToldOfTheFacesOfTheirListener(t *testing.T) {
	t.Parallel()
	all, stops := threeFaces(t)
	ctx := limit(t)
	adm := kadm.NewClient(client(t, all[0].Addr("PLAINTEXT")))
	if _, err := adm.CreateTopic(ctx, 60, 1, nil, "spread"); err != nil { // by chance none of them is led by broker 3, once in 10¹⁰ times
		t.Fatal(err)
	}
	for _, listener := range []string{"PLAINTEXT", "INTERNAL"} {
		for i, b := range all {
			r := dial(t, b.Addr(listener))
			resp := topicsOf(r, "spread")
			if len(resp.Brokers) != 3 || resp.ControllerID < 1 || resp.ControllerID > 3 {
				t.Fatalf("Metadata of broker %d by %s = %+v, controller %d, want three brokers", i+1, listener, resp.Brokers, resp.ControllerID)
			}
			for _, one := range resp.Brokers {
				want := all[one.NodeID-1].Addr(listener)
				if one.Host != "127.0.0.1" || one.Port != int32(want.Port()) || *one.Rack != fmt.Sprint("r", one.NodeID) {
					t.Errorf("Metadata of broker %d by %s has %+v, want %v", i+1, listener, one, want)
				}
			}
			for _, p := range resp.Topics[0].Partitions {
				if p.ErrorCode != 0 || p.Leader < 1 || len(p.OfflineReplicas) != 0 {
					t.Errorf("partition %+v, want a leader and nothing offline", p)
				}
			}
		}
	}
	ledBy3 := func(p kmsg.MetadataResponseTopicPartition) bool { return slices.Equal(p.Replicas, []int32{3}) }
	stops[2]()
	r := dial(t, all[0].Addr("PLAINTEXT"))
	var resp *kmsg.MetadataResponse
	eventually(t, "broker 1 knows that broker 3 has left", func() bool {
		resp = topicsOf(r, "spread")
		return len(resp.Brokers) == 2
	})
	if resp.ControllerID == 3 {
		t.Errorf("Metadata = %+v, controller %d, want the brokers 1 and 2", resp.Brokers, resp.ControllerID)
	}
	for _, p := range resp.Topics[0].Partitions {
		homeless := p.Leader == -1 && p.ErrorCode == kerr.LeaderNotAvailable.Code && slices.Equal(p.OfflineReplicas, []int32{3})
		if homeless != ledBy3(p) || !homeless && p.ErrorCode != 0 {
			t.Errorf("partition %+v, want LEADER_NOT_AVAILABLE where broker 3 leads, and nowhere else", p)
		}
	}
	if !slices.ContainsFunc(resp.Topics[0].Partitions, ledBy3) {
		t.Error("broker 3 leads no partition: nothing was tried")
	}
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.Version, cluster.IncludeFencedBrokers = 2, true
	if got := ask[*kmsg.DescribeClusterResponse](r, cluster).Brokers; len(got) != 3 || got[0].IsFenced || !got[2].IsFenced {
		t.Errorf("DescribeCluster = %+v, want broker 3 fenced", got)
	}
	cluster.IncludeFencedBrokers = false
	if got := ask[*kmsg.DescribeClusterResponse](r, cluster).Brokers; len(got) != 2 {
		t.Errorf("DescribeCluster = %+v, want two", got)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version = 4
	for i := range 20 {
		find.CoordinatorKeys = append(find.CoordinatorKeys, fmt.Sprint("group-", i))
	}
	found := map[int32]int{}
	for _, c := range ask[*kmsg.FindCoordinatorResponse](r, find).Coordinators {
		found[c.NodeID]++
		if (c.NodeID == -1) != (c.ErrorCode == kerr.CoordinatorNotAvailable.Code) || c.NodeID == -1 && c.Host != "" {
			t.Errorf("coordinator = %+v, want an address or COORDINATOR_NOT_AVAILABLE", c)
		}
	}
	if found[-1] == 0 || found[3] != 0 || found[1]+found[2] == 0 {
		t.Errorf("coordinators by node = %v, want those of node 3 not available", found)
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Version = 2
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	got := ask[*kmsg.DescribeQuorumResponse](r, quorum)
	if p := got.Topics[0].Partitions[0]; p.LeaderID != 1 || len(p.CurrentVoters) != 1 || len(p.Observers) != 1 || p.Observers[0].ReplicaID != 2 || len(got.Nodes) != 2 {
		t.Errorf("DescribeQuorum = %+v, want broker 1 with 2 as an observer", got)
	}
}

func TestAClientProducesAndConsumesAcrossAllFaces(t *testing.T) {
	t.Parallel()
	all, _ := threeFaces(t)
	ctx := limit(t)
	c := client(t, all[1].Addr("PLAINTEXT"), kgo.ConsumeTopics("wide"), kgo.ConsumerGroup("readers"), kgo.DefaultProduceTopic("wide"),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 6, 1, nil, "wide"); err != nil {
		t.Fatal(err)
	}
	const n = 120
	for i := range n {
		if err := c.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(i))).FirstErr(); err != nil {
			t.Fatalf("produce: %v", err)
		}
	}
	got, partitions := map[string]bool{}, map[int32]bool{}
	for len(got) < n {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("poll: %v", err)
		}
		for r := range f.RecordsAll() {
			got[string(r.Value)], partitions[r.Partition] = true, true
		}
	}
	if len(partitions) != 6 {
		t.Errorf("records came from partitions %v, want all six", partitions)
	}
	// The data plane sees brokers only; what is told of a member is where it is.
	groups, err := kadm.NewClient(c).DescribeGroups(ctx, "readers")
	if err != nil || len(groups["readers"].Members) != 1 || groups["readers"].Members[0].ClientHost != "/127.0.0.1" {
		t.Errorf("DescribeGroups = %+v, %v, want one member at /127.0.0.1", groups["readers"], err)
	}
}

func TestNobodySeesTheTopicsOfTheMetadataLog(t *testing.T) {
	t.Parallel()
	bootstrap, _, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0"}) // which holds the log, too
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, bootstrap))
	ctx := limit(t)
	adm := kadm.NewClient(client(t, b.Addr("PLAINTEXT")))
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "seen"); err != nil {
		t.Fatal(err)
	}
	const log = "__brokerlab_metadata"
	r := dial(t, b.Addr("PLAINTEXT"))
	if all := topicsOf(r).Topics; len(all) != 1 || *all[0].Topic != "seen" {
		t.Errorf("Metadata of all = %+v, want seen alone", all)
	}
	if got := topicsOf(r, log).Topics[0]; got.ErrorCode != kerr.UnknownTopicOrPartition.Code || len(got.Partitions) != 0 {
		t.Errorf("Metadata of the log = %+v, want UNKNOWN_TOPIC_OR_PARTITION", got)
	}
	for _, name := range []string{log, log + "_heartbeats", log + "_of_another"} {
		if _, err := adm.CreateTopic(ctx, 1, 1, nil, name); !strings.Contains(fmt.Sprint(err), "INVALID_TOPIC_EXCEPTION") {
			t.Errorf("CreateTopic(%s) = %v, want INVALID_TOPIC_EXCEPTION", name, err)
		}
	}
	// What names the log in a request is answered as what does not exist, whatever the API.
	for _, req := range []kmsg.Request{
		&kmsg.ProduceRequest{Version: 9, Acks: 1, Topics: []kmsg.ProduceRequestTopic{{Topic: log, Partitions: []kmsg.ProduceRequestTopicPartition{{}}}}},
		&kmsg.FetchRequest{Version: 12, ReplicaID: -1, Topics: []kmsg.FetchRequestTopic{{Topic: log, Partitions: []kmsg.FetchRequestTopicPartition{{}}}}},
		&kmsg.ListOffsetsRequest{Version: 7, Topics: []kmsg.ListOffsetsRequestTopic{{Topic: log, Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}}}},
		&kmsg.DeleteTopicsRequest{Version: 5, TopicNames: []string{log}},
		&kmsg.DeleteTopicsRequest{Version: 6, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: new(log)}}},
		&kmsg.DeleteRecordsRequest{Version: 2, Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: log, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}},
		&kmsg.CreatePartitionsRequest{Version: 3, Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: log, Count: 5}}},
		&kmsg.OffsetForLeaderEpochRequest{Version: 4, Topics: []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: log, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{}}}}},
		&kmsg.OffsetCommitRequest{Version: 8, Group: "g", Generation: -1, Topics: []kmsg.OffsetCommitRequestTopic{{Topic: log, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}},
		&kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: log, Partitions: []int32{0}}}},
		&kmsg.DescribeTopicPartitionsRequest{Topics: []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: log}}, ResponsePartitionLimit: 10},
		&kmsg.DescribeConfigsRequest{Version: 4, Resources: []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: log}}},
		&kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: log, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: new("1")}}}}},
	} {
		resp := ask[kmsg.Response](r, req)
		if codes := codesOf(reflect.ValueOf(resp).Elem()); !slices.Equal(codes, []int16{kerr.UnknownTopicOrPartition.Code}) {
			t.Errorf("%s v%d = %+v, want UNKNOWN_TOPIC_OR_PARTITION alone", kmsg.NameForKey(req.Key()), req.GetVersion(), resp)
		}
	}
	page := ask[*kmsg.DescribeTopicPartitionsResponse](r, &kmsg.DescribeTopicPartitionsRequest{ResponsePartitionLimit: 2000})
	if len(page.Topics) != 1 || *page.Topics[0].Topic != "seen" {
		t.Errorf("DescribeTopicPartitions of all = %+v, want seen alone", page.Topics)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version = 4
	for i := range 50 {
		find.CoordinatorKeys = append(find.CoordinatorKeys, fmt.Sprint("group-", i))
	}
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Version, join.MemberID, join.RebalanceTimeoutMillis = 1, "AAAAAAAAAAAAAAAAAAAAAQ", 60_000
	for _, at := range ask[*kmsg.FindCoordinatorResponse](r, find).Coordinators {
		if at.ErrorCode == 0 { // the others' nodes have no face
			join.Group = at.Key
		}
	}
	join.SubscribedTopicRegex, join.Topics = new(".*"), []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	until(t, "the member to have its topic", func() bool {
		resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](r, join)
		if resp.ErrorCode != 0 {
			t.Fatalf("ConsumerGroupHeartbeat = %+v", resp)
		}
		join.MemberEpoch, join.SubscribedTopicRegex, join.Topics = resp.MemberEpoch, nil, nil
		if resp.Assignment == nil || len(resp.Assignment.Topics) == 0 {
			return false
		}
		if len(resp.Assignment.Topics) != 1 {
			t.Errorf("the member of .* has %+v, want one topic", resp.Assignment.Topics)
		}
		return true
	})
}

// codesOf are the error codes of the innermost parts of an answer, each once.
func codesOf(v reflect.Value) []int16 {
	var codes []int16
	inner := false
	for _, f := range v.Fields() {
		if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && f.Len() > 0 {
			for j := range f.Len() {
				codes = append(codes, codesOf(f.Index(j))...)
			}
			inner = true
		}
	}
	if f := v.FieldByName("ErrorCode"); f.IsValid() && !inner {
		codes = append(codes, int16(f.Int()))
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func TestAFeatureIsUpgradedOnceEveryLiveBrokerSupportsIt(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	_, stopOld := startStoppable(t, faceOf(t, 3, bootstrap, metadata, "supported.metadata.version.max=4.3"))
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, metadata))
	r := dial(t, b.Addr("PLAINTEXT"))
	update := kmsg.NewPtrUpdateFeaturesRequest()
	update.Version = 1
	update.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "metadata.version", MaxVersionLevel: 32, UpgradeType: 1}}
	for _, validate := range []bool{true, false} {
		update.ValidateOnly = validate
		resp := ask[*kmsg.UpdateFeaturesResponse](r, update)
		const want = "The update failed for all features since the following feature had an error: " +
			"Invalid update version 32 for feature metadata.version. Broker 3 only supports versions 7-30"
		if resp.ErrorCode != kerr.InvalidUpdateVersion.Code || *resp.ErrorMessage != want {
			t.Errorf("UpdateFeatures, validate %v = %d %q, want %q", validate, resp.ErrorCode, *resp.ErrorMessage, want)
		}
	}
	stopOld()
	if resp := ask[*kmsg.UpdateFeaturesResponse](r, update); resp.ErrorCode != 0 {
		t.Errorf("UpdateFeatures without broker 3 = %d %q", resp.ErrorCode, *resp.ErrorMessage)
	}
	_, err := broker.New(faceOf(t, 3, bootstrap, metadata, "supported.metadata.version.max=4.3"), broker.WithLog(testLog(t)))
	if err == nil || !strings.Contains(err.Error(), "metadata.version") {
		t.Errorf("New() of the older broker = %v, want it refused for metadata.version", err)
	}
}

func TestABrokerThatIsUnregisteredIsForgottenUnlessItLives(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, metadata))
	_, stopOther := startStoppable(t, faceOf(t, 2, bootstrap, metadata))
	stopOther()
	r := dial(t, b.Addr("PLAINTEXT"))
	brokers := func() []kmsg.DescribeClusterResponseBroker {
		cluster := kmsg.NewPtrDescribeClusterRequest()
		cluster.Version, cluster.IncludeFencedBrokers = 2, true
		return ask[*kmsg.DescribeClusterResponse](r, cluster).Brokers
	}
	if got := brokers(); len(got) != 2 || !got[1].IsFenced {
		t.Fatalf("DescribeCluster = %+v, want broker 2 fenced", got)
	}
	for _, c := range []struct {
		id      int32
		code    int16
		message string
	}{{2, 0, ""}, {2, kerr.BrokerIDNotRegistered.Code, "Broker ID 2 is not currently registered"}, {1, 0, ""}} {
		resp := ask[*kmsg.UnregisterBrokerResponse](r, &kmsg.UnregisterBrokerRequest{BrokerID: c.id})
		if resp.ErrorCode != c.code || resp.ErrorMessage == nil || *resp.ErrorMessage != c.message {
			t.Errorf("UnregisterBroker(%d) = %+v, want %d %q", c.id, resp, c.code, c.message)
		}
	}
	until(t, "broker 1, which lives, to be registered again", func() bool {
		got := brokers()
		return len(got) == 1 && got[0].NodeID == 1 && !got[0].IsFenced
	})
}

func TestWhatIsAlteredForAllBrokersActsAtEach(t *testing.T) {
	t.Parallel()
	all, _ := threeFaces(t)
	if code, message := alter(dial(t, all[0].Addr("PLAINTEXT")), "", map[string]*string{"max.connections.per.ip": new("1")}); code != 0 {
		t.Fatalf("alter: %d %s", code, message)
	}
	held := dial(t, all[1].Addr("INTERNAL"))
	until(t, "broker 2 to refuse a second connection", func() bool {
		r := dial(t, all[1].Addr("INTERNAL"))
		defer r.close()
		if _, err := r.conn.Write(framed(18, 0, false, nil)); err != nil {
			return true
		}
		_, err := r.answer(false)
		return err != nil
	})
	ask[*kmsg.ApiVersionsResponse](held, versionsRequest(3))
}

func TestAFencedBrokerTakesNoNewClientsUntilItHasCaughtUp(t *testing.T) {
	t.Parallel()
	bootstrap, _, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0"})
	dir := t.TempDir()
	metadata, _, stopLog := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Dir: dir})
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, metadata, "metrics.listener=127.0.0.1:0"))
	served := dial(t, b.Addr("PLAINTEXT"))
	ask[*kmsg.ApiVersionsResponse](served, versionsRequest(3))
	stopLog()
	answers := func(listener string) bool { return letsIn(t, b, listener) }
	until(t, "the broker to be fenced", func() bool { return !answers("PLAINTEXT") })
	if !answers("INTERNAL") {
		t.Error("the inter-broker listener takes nobody, want it open")
	}
	if resp := topicsOf(served); len(resp.Brokers) != 1 { // it goes on with what it knows
		t.Errorf("Metadata by who was there = %+v", resp.Brokers)
	}
	if text := metrics(t, b); !strings.Contains(text, "\nbrokerlab_fenced 1\n") || !strings.Contains(text, `reason="fenced"`) {
		t.Error("metrics do not say brokerlab_fenced 1 and count the refused")
	}
	status := ask[*protocol.DescribeMetadataResponse](served, protocol.NewPtrDescribeMetadataRequest())
	if !status.Fenced || status.Connected || !status.Shared {
		t.Errorf("DescribeMetadata = %+v, want it fenced and not connected", status)
	}
	engineAt(t, broker.EngineConfig{Listen: metadata, Dir: dir})
	until(t, "the broker to be let in again", func() bool { return answers("PLAINTEXT") })
	if text := metrics(t, b); !strings.Contains(text, "\nbrokerlab_fenced 0\n") {
		t.Error("metrics do not say brokerlab_fenced 0")
	}
}

// wiretap is a dialer that keeps everything that is read.
type wiretap struct {
	mu   sync.Mutex
	read bytes.Buffer // guarded by mu
}

func (r *wiretap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &tapped{c, r}, nil
}

type tapped struct {
	net.Conn
	to *wiretap
}

func (c *tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.to.read.Write(p[:n])
	return n, err
}

// Whatever a client asks, of whichever broker, while all is well and while a broker and then the engine are gone: among the bytes
// it reads there is never where the engine is.
func TestNoAnswerTellsWhereTheEngineIs(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, stopEngine := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	var all [3]*broker.Broker
	var stops [3]func()
	for i := range all {
		all[i], stops[i] = startStoppable(t, faceOf(t, i+1, bootstrap, metadata))
	}
	var capture wiretap
	ctx := limit(t)
	c := client(t, all[0].Addr("PLAINTEXT"), kgo.Dialer(capture.dial), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("consumer"), admin.Versions(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(c)
	if _, err := adm.CreateTopic(ctx, 6, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	for range 12 {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if f := c.PollFetches(ctx); f.Err() != nil {
		t.Fatal(f.Err())
	}
	for _, described := range []func() error{
		func() error { _, err := adm.DescribeGroups(ctx, "consumer"); return err },
		func() error { _, err := adm.BrokerMetadata(ctx); return err },
		func() error { _, err := adm.DescribeAllLogDirs(ctx, nil); return err },
	} {
		if err := described(); err != nil {
			t.Error(err)
		}
	}
	g := &filler{Rand: rand.New(rand.NewPCG(9, 9)), more: []string{"t", "t", "t", "consumer", "consumer", "__brokerlab_metadata", "__cluster_metadata"}}
	sweep := func(rounds int) {
		for _, b := range all[:2] {
			capture.everything(t, b, g, rounds)
		}
	}
	sweep(2)
	stops[2]()
	sweep(1)
	stopEngine()
	sweep(1)
	capture.mu.Lock()
	defer capture.mu.Unlock()
	if read := capture.read.Bytes(); len(read) < 100_000 || bytes.Contains(read, []byte(engineHost)) {
		at := bytes.Index(read, []byte(engineHost))
		t.Errorf("of %d bytes that clients read, %q tells where the engine is", len(read), read[max(at-100, 0):min(max(at, 0)+100, len(read))])
	}
}

// everything sends requests of every key and version that a broker serves, some rounds of each, and keeps what it reads.
func (r *wiretap) everything(t *testing.T, b *broker.Broker, g *filler, rounds int) {
	t.Helper()
	connect := func() *raw {
		conn, err := r.dial(t.Context(), "tcp", b.Addr("PLAINTEXT").String())
		if err != nil {
			t.Fatal(err)
		}
		one := &raw{t, conn}
		t.Cleanup(one.close)
		return one
	}
	asking := connect()
	for _, k := range ask[*kmsg.ApiVersionsResponse](asking, versionsRequest(4)).ApiKeys {
		for version := k.MinVersion; version <= k.MaxVersion; version++ {
			for range rounds {
				req := requestFor(k.ApiKey)
				req.SetVersion(version)
				g.fill(reflect.ValueOf(req).Elem())
				switch req := req.(type) {
				case *protocol.CloseConnectionsRequest:
					req.ValidateOnly = true
				case *kmsg.ProduceRequest:
					req.Acks = 1
				}
				if _, err := asking.conn.Write(framed(req.Key(), version, req.IsFlexible(), req.AppendTo(nil))); err != nil {
					asking = connect()
					continue
				}
				if err := asking.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				if _, err := asking.answer(false); err != nil {
					asking.close()
					asking = connect()
				}
			}
		}
	}
}
