package engine

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestUnknownTopicIDsAreAnsweredEach(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	id := createTopic(t, e, "known", 1)
	req := produce(13, "", 0, goodBatch(2))
	req.Topics[0].TopicID = id
	for i := range byte(2) {
		more := produce(13, "", 0, goodBatch(1)).Topics[0]
		more.TopicID = [16]byte{0xff, i}
		req.Topics = append(req.Topics, more)
	}
	resp := ask[*kmsg.ProduceResponse](t, e, req)
	got := map[[16]byte]int16{}
	for _, topic := range resp.Topics {
		got[topic.TopicID] = topic.Partitions[0].ErrorCode
	}
	want := map[[16]byte]int16{id: 0, {0xff, 0}: kerr.UnknownTopicID.Code, {0xff, 1}: kerr.UnknownTopicID.Code}
	if fmt.Sprint(got) != fmt.Sprint(want) || resp.Version != 13 {
		t.Errorf("produce v13 = %v in version %d, want %v", got, resp.Version, want)
	}
}

func TestARefusedBatchSpoilsNeitherItsPartitionNorItsRequest(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 2)
	bad := goodBatch(3)
	copy(bad[batchCountAt:], []byte{0xff, 0xff, 0xff, 0xfe})
	copy(bad[batchLastDeltaAt:], []byte{0xff, 0xff, 0xff, 0xfd})
	req := produce(9, "t", 0, seal(bad))
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, produce(9, "t", 1, goodBatch(1)).Topics[0].Partitions...)
	resp := ask[*kmsg.ProduceResponse](t, e, req)
	got := map[int32]int16{}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			got[p.Partition] = p.ErrorCode
		}
	}
	if got[0] != kerr.InvalidRecord.Code || got[1] != 0 || len(got) != 2 || len(resp.Topics) != 1 {
		t.Errorf("produce = %v in %d topics, want %d for partition 0 only", got, len(resp.Topics), kerr.InvalidRecord.Code)
	}
	if len(req.Topics[0].Partitions) != 2 {
		t.Error("the request was changed")
	}
	resp = ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, goodBatch(1)))
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("the next batch = error %d at %d, want it at 0", p.ErrorCode, p.BaseOffset)
	}
}

func TestTopicsAreCreatedAsKafkaWould(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 5, DefaultPartitions: 3})
	createTopic(t, e, "there", 1)
	topic := func(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
		nt := kmsg.NewCreateTopicsRequestTopic()
		nt.Topic, nt.NumPartitions, nt.ReplicationFactor = name, partitions, replicas
		return nt
	}
	config := func(name, value string) kmsg.CreateTopicsRequestTopic {
		nt := topic("c", 1, 1)
		nt.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: &value}}
		return nt
	}
	assigned := func(replicas ...int32) kmsg.CreateTopicsRequestTopic {
		nt := topic("a", -1, -1)
		nt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: replicas}}
		return nt
	}
	counted, gap := assigned(5), assigned(5)
	counted.NumPartitions = 1
	gap.ReplicaAssignment[0].Partition = 1
	createTopic(t, e, "with.dots", 1)
	for name, test := range map[string]struct {
		topic kmsg.CreateTopicsRequestTopic
		want  *kerr.Error
	}{
		"too many partitions":       {topic("big", 3_000_000, 1), kerr.PolicyViolation},
		"as many as may be":         {topic("most", 10_000, 1), nil},
		"an empty name":             {topic("", 1, 1), kerr.InvalidTopicException},
		"a name that is a path":     {topic("..", 1, 1), kerr.InvalidTopicException},
		"a slash":                   {topic("a/b", 1, 1), kerr.InvalidTopicException},
		"a name that is there":      {topic("there", 1, 1), kerr.TopicAlreadyExists},
		"no partition":              {topic("x", 0, 1), kerr.InvalidPartitions},
		"a negative count":          {topic("x", -2, 1), kerr.InvalidPartitions},
		"more replicas than nodes":  {topic("x", 1, 2), kerr.InvalidReplicationFactor},
		"no replica":                {topic("x", 1, 0), kerr.InvalidReplicationFactor},
		"the defaults":              {topic("defaults", -1, -1), nil},
		"an assignment to us":       {assigned(5), nil},
		"an assignment elsewhere":   {assigned(6), kerr.InvalidReplicaAssignment},
		"assigned and counted":      {counted, kerr.InvalidRequest},
		"an assignment with a gap":  {gap, kerr.InvalidReplicaAssignment},
		"a name but for a dot":      {topic("with_dots", 1, 1), kerr.InvalidTopicException},
		"an unknown config":         {config("kfake.is_internal", "true"), kerr.InvalidConfig},
		"a config with a bad value": {config("segment.bytes", "0"), kerr.InvalidConfig},
		"a good config":             {config("cleanup.policy", "compact,delete"), nil},
	} {
		for _, version := range []int16{2, 7} {
			req := kmsg.NewPtrCreateTopicsRequest()
			req.Version, req.ValidateOnly = version, true
			req.Topics = append(req.Topics, test.topic)
			resp := ask[*kmsg.CreateTopicsResponse](t, e, req)
			want := int16(0)
			if test.want != nil {
				want = test.want.Code
			}
			got := resp.Topics[0]
			if said := got.ErrorMessage != nil && *got.ErrorMessage != ""; said != (want != 0) {
				t.Errorf("%s in version %d says why: %t", name, version, said)
			}
			if got.ErrorCode != want || resp.Version != version {
				t.Errorf("%s in version %d = error %d %v, want %d", name, version, got.ErrorCode, got.ErrorMessage, want)
			}
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic("twice", 1, 1), topic("twice", 2, 1), topic("once", -1, -1))
	resp := ask[*kmsg.CreateTopicsResponse](t, e, req)
	got := map[string]int16{}
	for _, one := range resp.Topics {
		got[one.Topic] = one.ErrorCode
	}
	if got["twice"] != kerr.InvalidRequest.Code || got["once"] != 0 || len(resp.Topics) != 2 {
		t.Errorf("a name twice = %v, want it refused once and the other made", got)
	}
}

func TestPartitionsAreAddedWithinBounds(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 5})
	createTopic(t, e, "t", 1)
	for _, test := range []struct {
		count int32
		want  int16
	}{
		{2_000_000_000, kerr.PolicyViolation.Code},
		{3, 0},
		{3, kerr.InvalidPartitions.Code},
		{2, kerr.InvalidPartitions.Code},
		{-1, kerr.InvalidPartitions.Code},
	} {
		count, want := test.count, test.want
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: count}}
		if got := ask[*kmsg.CreatePartitionsResponse](t, e, req).Topics[0].ErrorCode; got != want {
			t.Errorf("%d partitions = error %d, want %d", count, got, want)
		}
	}
}

func TestPartitionsOfAllTopicsAreBounded(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 5, MaxPartitions: 10})
	createTopic(t, e, "a", 4)
	create := func(n int32) int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		nt := kmsg.NewCreateTopicsRequestTopic()
		nt.Topic, nt.NumPartitions, nt.ReplicationFactor = "b", n, 1
		req.Topics = append(req.Topics, nt)
		return ask[*kmsg.CreateTopicsResponse](t, e, req).Topics[0].ErrorCode
	}
	grow := func(n int32) int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: n}}
		return ask[*kmsg.CreatePartitionsResponse](t, e, req).Topics[0].ErrorCode
	}
	if got := create(7); got != kerr.PolicyViolation.Code {
		t.Errorf("4 and 7 of 10 partitions = error %d, want %d", got, kerr.PolicyViolation.Code)
	}
	if got := grow(11); got != kerr.PolicyViolation.Code {
		t.Errorf("growing to 11 of 10 partitions = error %d, want %d", got, kerr.PolicyViolation.Code)
	}
	if got := grow(6); got != 0 {
		t.Errorf("growing to 6 of 10 partitions = error %d", got)
	}
	if got := create(5); got != kerr.PolicyViolation.Code {
		t.Errorf("6 and 5 of 10 partitions = error %d, want %d", got, kerr.PolicyViolation.Code)
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.Version, del.TopicNames = 3, []string{"a"}
	if got := ask[*kmsg.DeleteTopicsResponse](t, e, del).Topics[0].ErrorCode; got != 0 {
		t.Fatalf("deleting = error %d", got)
	}
	if got := create(10); got != 0 {
		t.Errorf("10 of 10 partitions after a deletion = error %d", got)
	}
}

func TestTopicIDsFollowCreationAndDeletion(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	id := createTopic(t, e, "t", 1)
	if name, ok := e.TopicName(id); !ok || name != "t" {
		t.Errorf("TopicName(new topic) = %q %t", name, ok)
	}
	if got, ok := e.TopicID("t"); !ok || got != id {
		t.Errorf("TopicID(new topic) = %v %t", got, ok)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: id}, {TopicID: [16]byte{9}}, {TopicID: [16]byte{8}}}
	resp := ask[*kmsg.DeleteTopicsResponse](t, e, req)
	got := map[[16]byte]int16{}
	for _, topic := range resp.Topics {
		got[topic.TopicID] = topic.ErrorCode
		if known := topic.Topic != nil; known != (topic.ErrorCode == 0) {
			t.Errorf("id %x was answered with a name: %t", topic.TopicID, known)
		}
	}
	if len(got) != 3 || got[id] != 0 || got[[16]byte{9}] != kerr.UnknownTopicID.Code || got[[16]byte{8}] != kerr.UnknownTopicID.Code {
		t.Errorf("deleting one known and two unknown ids = %v", got)
	}
	if name, ok := e.TopicName(id); ok {
		t.Errorf("TopicName(deleted topic) = %q", name)
	}
}

func TestATopicIsDeletedByOneNameOnce(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	id := createTopic(t, e, "twice", 1)
	createTopic(t, e, "once", 1)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{Topic: new("twice")},
		{TopicID: id},
		{},
		{Topic: new("both"), TopicID: [16]byte{1}},
		{Topic: new("once")},
		{Topic: new("none")},
	}
	got := map[string]int16{}
	for _, topic := range ask[*kmsg.DeleteTopicsResponse](t, e, req).Topics {
		name := "-"
		if topic.Topic != nil {
			name = *topic.Topic
		}
		got[name] = topic.ErrorCode
		if said := topic.ErrorMessage != nil; said != (topic.ErrorCode != 0) {
			t.Errorf("%s: error %d says why: %t", name, topic.ErrorCode, said)
		}
	}
	invalid := kerr.InvalidRequest.Code
	want := map[string]int16{"twice": invalid, "-": invalid, "both": invalid, "once": 0, "none": kerr.UnknownTopicOrPartition.Code}
	if !maps.Equal(got, want) {
		t.Errorf("DeleteTopics = %v, want %v", got, want)
	}
	if _, ok := e.TopicID("twice"); !ok {
		t.Error("the topic that was named twice is gone")
	}
	old := kmsg.NewPtrDeleteTopicsRequest()
	old.Version, old.TopicNames = 3, []string{"twice"}
	if resp := ask[*kmsg.DeleteTopicsResponse](t, e, old); len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 0 {
		t.Errorf("DeleteTopics v3 = %+v, want it deleted", resp.Topics)
	}
}

func TestNamesThatNoTopicCanHaveAreInvalid(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	want := kerr.InvalidTopicException.Code
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version, metadata.Topics = 9, []kmsg.MetadataRequestTopic{{Topic: new("")}, {Topic: new("a/b")}}
	for _, topic := range ask[*kmsg.MetadataResponse](t, e, metadata).Topics {
		if topic.ErrorCode != want {
			t.Errorf("Metadata of %q = error %d, want %d", *topic.Topic, topic.ErrorCode, want)
		}
	}
	partitions := kmsg.NewPtrDescribeTopicPartitionsRequest()
	partitions.ResponsePartitionLimit, partitions.Topics = 10, []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "a/b"}}
	if got := ask[*kmsg.DescribeTopicPartitionsResponse](t, e, partitions).Topics; len(got) != 1 || got[0].ErrorCode != want {
		t.Errorf("DescribeTopicPartitions = %+v, want error %d", got, want)
	}
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version = 4
	configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "a/b"}}
	if got := ask[*kmsg.DescribeConfigsResponse](t, e, configs).Resources; len(got) != 1 || got[0].ErrorCode != want || got[0].ErrorMessage == nil {
		t.Errorf("DescribeConfigs = %+v, want error %d", got, want)
	}
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Version = 1
	for _, kind := range []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig} {
		alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind}}
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](t, e, alter).Resources; len(got) != 1 || got[0].ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("IncrementalAlterConfigs of all of kind %d = %+v, want error %d", kind, got, kerr.InvalidRequest.Code)
		}
	}
}

func TestLogDirsAreTheOnesConfigured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openEngine(t, Options{NodeID: 1, Dir: dir})
	for _, topics := range []int{0, 1} {
		if topics > 0 {
			createTopic(t, e, "t", 1)
		}
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Version = 4
		resp := ask[*kmsg.DescribeLogDirsResponse](t, e, req)
		if len(resp.Dirs) != 1 || resp.Dirs[0].Dir != dir || resp.Dirs[0].TotalBytes <= 0 || len(resp.Dirs[0].Topics) != topics {
			t.Errorf("log dirs with %d topics = %+v, want %s with its size", topics, resp.Dirs, dir)
		}
	}
}

func TestTopicIDsAreKnownAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openEngine(t, Options{NodeID: 1, Dir: dir})
	id := createTopic(t, e, "t", 1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openEngine(t, Options{NodeID: 1, Dir: dir})
	if name, ok := e.TopicName(id); !ok || name != "t" {
		t.Errorf("TopicName() after a restart = %q %t", name, ok)
	}
}

func TestMetadataCreatesNothingAndAnswersEachUnknownID(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	id := createTopic(t, e, "t", 20)
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 12, true
	missing := "missing"
	req.Topics = []kmsg.MetadataRequestTopic{
		{TopicID: id}, {TopicID: [16]byte{1}}, {TopicID: [16]byte{2}}, {TopicID: [16]byte{1}}, {Topic: &missing},
	}
	resp := ask[*kmsg.MetadataResponse](t, e, req)
	if len(resp.Topics) != 4 {
		t.Errorf("4 different topics were answered by %d", len(resp.Topics))
	}
	for _, topic := range resp.Topics {
		want := int16(0)
		switch {
		case topic.Topic == nil:
			want = kerr.UnknownTopicID.Code
		case *topic.Topic == missing:
			want = kerr.UnknownTopicOrPartition.Code
		}
		if topic.ErrorCode != want {
			t.Errorf("topic %v = error %d, want %d", topic.Topic, topic.ErrorCode, want)
		}
		for i, p := range topic.Partitions {
			if p.Partition != int32(i) || p.Leader != 1 {
				t.Errorf("partition %d at place %d is led by %d, want order and node 1", p.Partition, i, p.Leader)
			}
		}
	}
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 0
	if got := ask[*kmsg.MetadataResponse](t, e, all); len(got.Topics) != 1 || got.Version != 0 {
		t.Errorf("metadata v0 without topics = %d topics in version %d, want all 1 in 0", len(got.Topics), got.Version)
	}
}

func TestEligibleLeaderReplicasAreEmptyNotNull(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	resp := ask[*kmsg.DescribeTopicPartitionsResponse](t, e, kmsg.NewPtrDescribeTopicPartitionsRequest())
	p := resp.Topics[0].Partitions[0]
	if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
		t.Errorf("eligible leader replicas = %v, last known = %v, want empty lists", p.EligibleLeaderReplicas, p.LastKnownELR)
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "t", Partition: -1}
	if _, err := e.Request(t.Context(), req); !isRefused(err, kerr.InvalidRequest.Code) {
		t.Errorf("a negative cursor = %v, want it refused", err)
	}
}

func TestGroupTypesAreFilteredWithoutRegardToCase(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	c := e.Client(netip.AddrPort{}, "c")
	defer c.Close()
	join := joinGroup("g", "range", "range", "roundrobin")
	if r := do(t, c, join).(*kmsg.JoinGroupResponse); r.ErrorCode != 0 {
		t.Fatalf("joining with a protocol named twice = error %d", r.ErrorCode)
	}
	for _, filter := range []string{"Classic", "classic"} {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version, req.TypesFilter, req.StatesFilter = 5, []string{filter}, []string{"completingrebalance"}
		if got := do(t, c, req).(*kmsg.ListGroupsResponse).Groups; len(got) != 1 {
			t.Errorf("ListGroups(%s) = %v, want one group", filter, got)
		}
	}
}

func TestAMemberWithoutProtocolsIsRefused(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	if got := ask[*kmsg.JoinGroupResponse](t, e, joinGroup("g")).ErrorCode; got != kerr.InconsistentGroupProtocol.Code {
		t.Errorf("joining without protocols = error %d, want %d", got, kerr.InconsistentGroupProtocol.Code)
	}
}

func joinGroup(group string, protocols ...string) *kmsg.JoinGroupRequest {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version = 3 // before members had to be known
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 10_000, 10_000
	for _, name := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = name
		join.Protocols = append(join.Protocols, p)
	}
	return join
}

func TestFetchSessionsEndHere(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, goodBatch(3)))
	full := fetch("t", time.Minute)
	full.SessionEpoch = 0
	resp := ask[*kmsg.FetchResponse](t, e, full)
	if resp.SessionID != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("a full fetch = session %d, %d topics, want session 0 and records", resp.SessionID, len(resp.Topics))
	}
	next := fetch("t", time.Minute)
	next.SessionID, next.SessionEpoch, next.Topics = 7, 1, nil
	if got := ask[*kmsg.FetchResponse](t, e, next).ErrorCode; got != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("an incremental fetch = error %d, want %d", got, kerr.FetchSessionIDNotFound.Code)
	}
}

func TestElectionsAreNotNeeded(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version = 2
	req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}, {Topic: "missing", Partitions: []int32{0}}}
	resp := ask[*kmsg.ElectLeadersResponse](t, e, req)
	got := [3]int16{resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[1].ErrorCode, resp.Topics[1].Partitions[0].ErrorCode}
	want := [3]int16{kerr.ElectionNotNeeded.Code, kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicOrPartition.Code}
	if got != want {
		t.Errorf("ElectLeaders = %v, want %v", got, want)
	}
}

func TestConfigsAreChecked(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	createTopic(t, e, "t", 1)
	set := func(kind kmsg.ConfigResourceType, resource, name, value string) int16 {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kind, ResourceName: resource,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
		}}
		return ask[*kmsg.IncrementalAlterConfigsResponse](t, e, req).Resources[0].ErrorCode
	}
	for _, test := range []struct {
		kind                  kmsg.ConfigResourceType
		resource, name, value string
		want                  int16
	}{
		{kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "1000", 0},
		{kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "soon", kerr.InvalidConfig.Code},
		{kmsg.ConfigResourceTypeTopic, "t", "retention", "1", kerr.InvalidConfig.Code},
		{kmsg.ConfigResourceTypeTopic, "missing", "retention.ms", "1000", kerr.UnknownTopicOrPartition.Code},
		{kmsg.ConfigResourceTypeGroupConfig, "g", "share.session.timeout.ms", "-1", kerr.InvalidConfig.Code},
		{kmsg.ConfigResourceTypeGroupConfig, "g", "share.session.timeout.ms", "45000", 0},
		{kmsg.ConfigResourceTypeBroker, "1", "log.cleaner.backoff.ms", "0", kerr.InvalidRequest.Code},
	} {
		if got := set(test.kind, test.resource, test.name, test.value); got != test.want {
			t.Errorf("%s=%s of %q = error %d, want %d", test.name, test.value, test.resource, got, test.want)
		}
	}
	value := "1"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, name := range []string{"bad", "retention.ms", "bad", "min.insync.replicas"} {
		req.Resources = append(req.Resources, kmsg.IncrementalAlterConfigsRequestResource{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
		})
	}
	var got []int16
	for _, r := range ask[*kmsg.IncrementalAlterConfigsResponse](t, e, req).Resources {
		got = append(got, r.ErrorCode)
	}
	if want := []int16{kerr.InvalidConfig.Code, 0, kerr.InvalidConfig.Code, 0}; !slices.Equal(got, want) {
		t.Errorf("answers = %v, want %v in the order of the resources", got, want)
	}
	if _, err := Open(t.Context(), Options{BrokerConfigs: map[string]string{"log.cleaner.backoff.ms": "0", "nonsense": "1"}}); err == nil {
		t.Error("Open took a property that it would not survive")
	}
}

func TestGroupConfigsAreKeptWithoutACleanStop(t *testing.T) {
	t.Parallel()
	o := Options{NodeID: 1, Dir: t.TempDir(), ClusterID: "c"}
	e := openEngine(t, o)
	set := func(name string, op kmsg.IncrementalAlterConfigOp, value string) {
		t.Helper()
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: &value}},
		}}
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](t, e, req).Resources[0].ErrorCode; got != 0 {
			t.Fatalf("%s = error %d", name, got)
		}
	}
	set("share.delivery.count.limit", kmsg.IncrementalAlterConfigOpSet, "7")
	set("streams.num.standby.replicas", kmsg.IncrementalAlterConfigOpSet, "1") // none of the data plane's
	set("share.session.timeout.ms", kmsg.IncrementalAlterConfigOpSet, "50000")
	set("share.session.timeout.ms", kmsg.IncrementalAlterConfigOpDelete, "")

	killed := o
	killed.Dir = filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed.Dir, os.DirFS(o.Dir)); err != nil {
		t.Fatal(err)
	}
	e = openEngine(t, killed)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g"}}
	got := map[string]string{}
	for _, c := range ask[*kmsg.DescribeConfigsResponse](t, e, req).Resources[0].Configs {
		if c.Source == kmsg.ConfigSourceGroupConfig && c.Value != nil {
			got[c.Name] = *c.Value
		}
	}
	if want := map[string]string{"share.delivery.count.limit": "7", "streams.num.standby.replicas": "1"}; !maps.Equal(got, want) {
		t.Errorf("group configs = %v, want %v", got, want)
	}
}

func TestRequestsOutOfBoundsAreRefused(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	group, member := "s", "AAAAAAAAAAAAAAAAAAAAAQ"
	ack := kmsg.NewPtrShareAcknowledgeRequest()
	ack.Version, ack.GroupID, ack.MemberID = 1, &group, &member
	ack.Topics = []kmsg.ShareAcknowledgeRequestTopic{{Partitions: []kmsg.ShareAcknowledgeRequestTopicPartition{{
		AcknowledgementBatches: []kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch{{LastOffset: math.MaxInt64, AcknowledgeTypes: []int8{1}}},
	}}}}
	many := kmsg.NewPtrDeleteGroupsRequest()
	many.Groups = make([]string, maxElements+1)
	back := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	back.Topics = []kmsg.AlterShareGroupOffsetsRequestTopic{{Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{StartOffset: math.MinInt64}}}}
	old := kmsg.NewPtrFetchRequest()
	old.Version = 0
	for name, test := range map[string]struct {
		req  kmsg.Request
		want *kerr.Error
	}{
		"an endless acknowledgement": {ack, kerr.InvalidRequest},
		"too many elements":          {many, kerr.InvalidRequest},
		"a negative start offset":    {back, kerr.InvalidRequest},
		"an old version":             {old, kerr.UnsupportedVersion},
		"security":                   {kmsg.NewPtrCreateACLsRequest(), kerr.UnsupportedVersion},
		"replication":                {kmsg.NewPtrLeaderAndISRRequest(), kerr.UnsupportedVersion},
	} {
		if _, err := e.Request(t.Context(), test.req); !isRefused(err, test.want.Code) {
			t.Errorf("%s = %v, want it refused with %v", name, err, test.want)
		}
	}
}

func TestEveryRuleIsForAnAPIThatIsOffered(t *testing.T) {
	t.Parallel()
	e := openEngine(t, Options{NodeID: 1})
	offered := e.Versions()
	for key := range e.rules {
		if v, ok := offered[key]; !ok || v.Max < v.Min {
			t.Errorf("%s is offered as %v %t", kmsg.NameForKey(key), v, ok)
		}
	}
	for _, key := range []int16{17, 18, 27, 29, 30, 31, 34, 36, 48, 49, 50, 51, 55, 57, 71, 72, 93} {
		if v, ok := offered[key]; ok {
			t.Errorf("%s must not reach the data plane, but is offered as %v", kmsg.NameForKey(key), v)
		}
	}
}

func TestProducerIDsThatWriteNothingCostNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openEngine(t, Options{NodeID: 1, Dir: dir})
	createTopic(t, e, "t", 1)
	seen := map[int64]bool{}
	for range 100 {
		resp := ask[*kmsg.InitProducerIDResponse](t, e, kmsg.NewPtrInitProducerIDRequest())
		if resp.ErrorCode != 0 || resp.ProducerID < 0 || resp.ProducerEpoch != 0 || seen[resp.ProducerID] {
			t.Fatalf("InitProducerID = error %d, id %d, epoch %d", resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch)
		}
		seen[resp.ProducerID] = true
	}
	if info, err := os.Stat(filepath.Join(dir, pidsFile)); err == nil && info.Size() > 0 {
		t.Errorf("%d bytes were kept for producers that wrote nothing", info.Size())
	}
	for id := range seen {
		for i, sequence := range []int32{0, 10, 10} {
			p := ask[*kmsg.ProduceResponse](t, e, produce(9, "t", 0, makeBatch(10, id, 0, sequence))).Topics[0].Partitions[0]
			if want := int64(min(i, 1) * 10); p.ErrorCode != 0 || p.BaseOffset != want {
				t.Errorf("batch %d = error %d at %d, want it at %d", i, p.ErrorCode, p.BaseOffset, want)
			}
		}
		break
	}
}
