package broker_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

// Whoever learns a topic's id from the broker that made it, and may not read it, is faster at another than that broker's next look
// at the engine.
func TestATopicThatAnotherBrokerHasJustMadeIsNobodysWithoutARight(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	authorizer := "authorizer.class.name=" + broker.StandardAuthorizer
	one, _ := startStoppable(t, faceOf(t, 1, bootstrap, metadata, authorizer, "super.users=User:ANONYMOUS"))
	two, _ := startStoppable(t, faceOf(t, 2, bootstrap, metadata, authorizer, "super.users=User:nobody"))
	ctx := limit(t)
	adm := kadm.NewClient(client(t, one.Addr("PLAINTEXT")))
	allow := kadm.NewACLs().Allow("User:ANONYMOUS").AllowHosts("*").Groups("*").Topics("*").Operations(kadm.OpDescribe, kadm.OpRead)
	deny := kadm.NewACLs().Deny("User:ANONYMOUS").DenyHosts("*").Topics("*").Operations(kadm.OpRead, kadm.OpWrite, kadm.OpDelete)
	for _, rules := range []*kadm.ACLBuilder{deny, allow} {
		if _, err := adm.CreateACLs(ctx, rules.ResourcePatternType(kadm.ACLPatternLiteral)); err != nil {
			t.Fatal(err)
		}
	}
	r := dial(t, two.Addr("PLAINTEXT"))
	until(t, "broker 2 to know the rules", func() bool {
		return topicsOf(r, "none").Topics[0].ErrorCode == kerr.UnknownTopicOrPartition.Code
	})
	maker := dial(t, one.Addr("PLAINTEXT"))
	refused := []int16{kerr.TopicAuthorizationFailed.Code}
	for name, of := range map[string]func(id [16]byte) kmsg.Request{
		"produce": func(id [16]byte) kmsg.Request {
			return &kmsg.ProduceRequest{Version: 13, Acks: 1, Topics: []kmsg.ProduceRequestTopic{{TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{}, {Partition: 1}}}}}
		},
		"fetch": func(id [16]byte) kmsg.Request {
			req := kmsg.NewPtrFetchRequest()
			req.Version, req.Topics = 13, []kmsg.FetchRequestTopic{{TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{{}, {Partition: 1}}}}
			return req
		},
		"commit": func(id [16]byte) kmsg.Request {
			return &kmsg.OffsetCommitRequest{Version: 10, Group: "g", Generation: -1, Topics: []kmsg.OffsetCommitRequestTopic{{TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}}
		},
		"delete": func(id [16]byte) kmsg.Request {
			return &kmsg.DeleteTopicsRequest{Version: 6, Topics: []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}}
		},
	} {
		made := ask[*kmsg.CreateTopicsResponse](maker, &kmsg.CreateTopicsRequest{
			Version: 7, TimeoutMillis: 30_000, Topics: []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 2, ReplicationFactor: 1}},
		}).Topics[0]
		if made.ErrorCode != 0 {
			t.Fatalf("CreateTopics = %+v", made)
		}
		resp := ask[kmsg.Response](r, of(made.TopicID))
		if codes := codesOf(reflect.ValueOf(resp).Elem()); !slices.Equal(codes, refused) {
			t.Errorf("%s at broker 2 of the topic that broker 1 made = %+v, want TOPIC_AUTHORIZATION_FAILED alone", name, resp)
		}
		resp = ask[kmsg.Response](r, of([16]byte{1, 2, 3}))
		if codes := codesOf(reflect.ValueOf(resp).Elem()); !slices.Equal(codes, []int16{kerr.UnknownTopicID.Code}) {
			t.Errorf("%s of an id that is no topic's = %+v, want UNKNOWN_TOPIC_ID alone", name, resp)
		}
	}
}

// Kafka refuses a name that differs from another in dots and underscores alone, and its refusal tells the other.
func TestNoTopicIsMadeWhoseNameCollidesWithAHiddenOne(t *testing.T) {
	t.Parallel()
	bootstrap, _, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0"})
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, bootstrap, "metadata.topic=own.log"))
	adm := kadm.NewClient(client(t, b.Addr("PLAINTEXT")))
	for _, name := range []string{"__brokerlab.metadata", "..brokerlab_metadata", "own_log", "own.log_heartbeats"} {
		resp, err := adm.CreateTopic(limit(t), 1, 1, nil, name)
		if want := "Creation of internal topic " + name + " is prohibited."; err == nil || !strings.Contains(err.Error(), "INVALID_TOPIC_EXCEPTION") || resp.ErrMessage != want {
			t.Errorf("CreateTopic(%s) = %q, %v, want INVALID_TOPIC_EXCEPTION %q", name, resp.ErrMessage, err, want)
		}
	}
}

func TestElectingTheLeadersOfAllTopicsNamesNoHiddenOne(t *testing.T) {
	t.Parallel()
	bootstrap, _, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0"})
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, bootstrap))
	if _, err := kadm.NewClient(client(t, b.Addr("PLAINTEXT"))).CreateTopic(limit(t), 2, 1, nil, "seen"); err != nil {
		t.Fatal(err)
	}
	resp := ask[*kmsg.ElectLeadersResponse](dial(t, b.Addr("PLAINTEXT")), &kmsg.ElectLeadersRequest{Version: 2})
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != "seen" || len(resp.Topics[0].Partitions) != 0 {
		t.Errorf("ElectLeaders of all = %+v, want the topic seen, where none is needed", resp.Topics)
	}
}
