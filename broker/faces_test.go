package broker_test

import (
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

// What is read in a transaction, with either kind of group, is written and committed through whichever faces it takes.
func TestTransactionsAndGroupsOfBothProtocolsPassThroughFaces(t *testing.T) {
	t.Parallel()
	all, _ := threeFaces(t)
	ctx := limit(t)
	first := client(t, all[0].Addr("PLAINTEXT"), kgo.DefaultProduceTopic("in"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	adm := kadm.NewClient(first)
	if _, err := adm.CreateTopics(ctx, 6, 1, nil, "in", "out-classic", "out-consumer"); err != nil {
		t.Fatal(err)
	}
	const n = 60
	for i := range n {
		if err := first.ProduceSync(ctx, kgo.StringRecord(strconv.Itoa(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for name, options := range map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}} {
		s, err := kgo.NewGroupTransactSession(append(options, kgo.SeedBrokers(all[1].Addr("PLAINTEXT").String()), kgo.TransactionalID(name), kgo.ConsumerGroup(name),
			kgo.ConsumeTopics("in"), kgo.DefaultProduceTopic("out-"+name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if err != nil {
			t.Fatal(err)
		}
		for moved := 0; moved < n; {
			fetches := s.PollFetches(ctx)
			if err = fetches.Err(); err != nil {
				t.Fatalf("%s: poll after %d records: %v", name, moved, err)
			}
			if err = s.Begin(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) { s.Produce(ctx, &kgo.Record{Value: r.Value}, nil) })
			committed, failed := s.End(ctx, kgo.TryCommit)
			if failed != nil {
				t.Fatalf("%s: end: %v", name, failed)
			}
			if committed {
				moved += fetches.NumRecords()
			}
		}
		groups, err := adm.ListGroups(ctx)
		if err != nil || groups[name].GroupType != name {
			t.Errorf("ListGroups = %+v, %v, want %s of that type", groups, err, name)
		}
		s.Close()
		if lag, err := adm.Lag(ctx, name); err != nil || lag[name].Lag.Total() != 0 {
			t.Errorf("group %s lags by %d, %v, want 0", name, lag[name].Lag.Total(), err)
		}
		reader := client(t, all[2].Addr("PLAINTEXT"), kgo.ConsumeTopics("out-"+name), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		read := map[string]int{}
		for len(read) < n {
			fetches := reader.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatalf("%s: %d of %d records are committed: %v", name, len(read), n, err)
			}
			fetches.EachRecord(func(r *kgo.Record) { read[string(r.Value)]++ })
		}
		for value, times := range read {
			if times != 1 {
				t.Errorf("%s: record %s is there %d times", name, value, times)
			}
		}
	}
}

// Several requests are sent before the first is answered: none of those that want no answer is lost, and none gets one.
func TestAProduceThatWantsNoAnswerPassesThroughAFace(t *testing.T) {
	t.Parallel()
	all, _ := threeFaces(t)
	ctx := limit(t)
	if _, err := kadm.NewClient(client(t, all[0].Addr("PLAINTEXT"))).CreateTopic(ctx, 1, 1, nil, "silent"); err != nil {
		t.Fatal(err)
	}
	leader := topicsOf(dial(t, all[0].Addr("PLAINTEXT")), "silent").Topics[0].Partitions[0].Leader
	r := dial(t, all[leader-1].Addr("PLAINTEXT"))
	wantSilence(t, r, "silent", 5)
}

// An engine that is not ours may have an API 93 of its own, and has clients wait.
func TestAFacePassesOnHowLongToWaitAndNoKey93(t *testing.T) {
	t.Parallel()
	const wait = 1234
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	kafka.ControlKey(kmsg.ListGroups.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		kafka.KeepControl()
		return &kmsg.ListGroupsResponse{Version: req.GetVersion(), ThrottleMillis: wait}, nil, true
	})
	kafka.ControlKey(kmsg.ApiVersions.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		kafka.KeepControl()
		resp := &kmsg.ApiVersionsResponse{Version: req.GetVersion(), ApiKeys: []kmsg.ApiVersionsResponseApiKey{{ApiKey: 93, MaxVersion: 5}}}
		for key, most := range map[kmsg.Key]int16{kmsg.Metadata: 12, kmsg.ApiVersions: 4, kmsg.ListGroups: 4} {
			resp.ApiKeys = append(resp.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key.Int16(), MaxVersion: most})
		}
		return resp, nil, true
	})
	_, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	for _, more := range [][]string{nil, {"list.client.connections.api.key=96"}} {
		b, stop := startStoppable(t, faceOf(t, 0, kafka.ListenAddrs()[0], metadata, more...))
		r := dial(t, b.Addr("PLAINTEXT"))
		if resp := ask[*kmsg.ListGroupsResponse](r, &kmsg.ListGroupsRequest{Version: 4}); resp.ThrottleMillis != wait {
			t.Errorf("ListGroups tells to wait for %d ms, want %d", resp.ThrottleMillis, wait)
		}
		most := map[int16]int16{}
		for _, k := range ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3)).ApiKeys {
			most[k.ApiKey] = k.MaxVersion
		}
		if version, offered := most[93]; offered != (more == nil) || version != 0 {
			t.Errorf("with %q key 93 is offered: %t, up to version %d; want ours or none", more, offered, version)
		}
		if _, offered := most[kmsg.JoinGroup.Int16()]; offered || most[kmsg.ListGroups.Int16()] != 4 {
			t.Errorf("with %q versions go up to %v, want what the engine has", more, most)
		}
		stop()
	}
}
