package broker_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

// sharer is a member of a share group with a session.
type sharer struct {
	*raw
	ids   map[string][16]byte
	epoch int32
}

// joinShares makes a sharer of the topics one and two of a user. The group begins at the first record.
func joinShares(root *authority, member *raw) *sharer {
	root.t.Helper()
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, sharedGroup
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = "share.auto.offset.reset", new("earliest")
	r.Configs = append(r.Configs, c)
	alter.Resources = append(alter.Resources, r)
	if resp := ask[*kmsg.IncrementalAlterConfigsResponse](root.raw, alter); resp.Resources[0].ErrorCode != 0 {
		root.t.Fatalf("alter the group: %+v", resp.Resources[0])
	}
	join := kmsg.NewPtrShareGroupHeartbeatRequest()
	join.Version, join.GroupID, join.MemberID, join.SubscribedTopicNames = 1, sharedGroup, sharedMember, []string{"one", "two"}
	if resp := ask[*kmsg.ShareGroupHeartbeatResponse](member, join); resp.ErrorCode != 0 {
		root.t.Fatalf("join the group: %d", resp.ErrorCode)
	}
	return &sharer{raw: member, ids: root.ids}
}

const (
	sharedGroup  = "shared"
	sharedMember = "AAAAAAAAAAAAAAAAAAAAAQ"
)

// ask sends a ShareFetch that adds topics to the session and waits for a while for records.
func (s *sharer) ask(wait time.Duration, topics ...string) *kmsg.ShareFetchRequest {
	s.t.Helper()
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch = 1, new(sharedGroup), new(sharedMember), s.epoch
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize = int32(wait.Milliseconds()), 1, 1<<20, 100, 100
	for _, name := range topics {
		topic := kmsg.NewShareFetchRequestTopic()
		topic.TopicID, topic.Partitions = s.ids[name], []kmsg.ShareFetchRequestTopicPartition{kmsg.NewShareFetchRequestTopicPartition()}
		req.Topics = append(req.Topics, topic)
	}
	s.request(req)
	s.epoch++
	return req
}

// told is what a ShareFetch was answered: "one 3 of 0-2; two error 29".
func (s *sharer) told(req *kmsg.ShareFetchRequest) string {
	s.t.Helper()
	resp := req.ResponseKind().(*kmsg.ShareFetchResponse)
	body, err := s.answer(resp.IsFlexible())
	if err != nil {
		s.t.Fatal(err)
	}
	if err := resp.ReadFrom(body); err != nil {
		s.t.Fatal(err)
	}
	if resp.ErrorCode != 0 {
		return fmt.Sprint("error ", resp.ErrorCode)
	}
	said := map[string]string{}
	for _, topic := range resp.Topics {
		for name, id := range s.ids {
			if id != topic.TopicID {
				continue
			}
			for _, p := range topic.Partitions {
				switch {
				case p.ErrorCode != 0:
					said[name] = fmt.Sprintf("%s error %d", name, p.ErrorCode)
					if len(p.Records) > 0 || len(p.AcquiredRecords) > 0 {
						said[name] += " with records"
					}
				case len(p.AcquiredRecords) > 0:
					said[name] = fmt.Sprintf("%s %d-%d", name, p.AcquiredRecords[0].FirstOffset, p.AcquiredRecords[len(p.AcquiredRecords)-1].LastOffset)
				}
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Values(said)), "; ")
}

// produce writes one record to each of the topics one and two.
func (a *authority) produce() {
	a.t.Helper()
	for _, name := range []string{"one", "two"} {
		p := kmsg.NewPtrProduceRequest()
		p.Version, p.Acks, p.TimeoutMillis = 9, 1, 1000
		p.Topics = []kmsg.ProduceRequestTopic{{Topic: name, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 0, Records: batch("v")}}}}
		if resp := ask[*kmsg.ProduceResponse](a.raw, p); resp.Topics[0].Partitions[0].ErrorCode != 0 {
			a.t.Fatalf("produce: %+v", resp.Topics[0])
		}
	}
}

// A ShareFetch names only what it adds to its session. What Kafka 4.4.0 answers is here, but for the other connection, which it lets go on.
func TestAShareSessionIsAuthorizedEachTime(t *testing.T) {
	t.Parallel()
	addr := authorizedBroker(t)
	root := &authority{login(t, addr, "root"), map[string][16]byte{}}
	root.make("one", "two")
	root.rules(rules(t, "allow READ Group *; allow READ Topic *"))
	s := joinShares(root, login(t, addr, "alice"))
	root.produce()
	expect := func(when, want string, topics ...string) {
		t.Helper()
		if got := s.told(s.ask(0, topics...)); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("allowed", "one 0-0; two 0-0", "one", "two")
	root.produce()
	expect("still allowed", "one 1-1; two 1-1")
	root.rules(rules(t, "allow READ Group *; allow READ Topic *; deny READ Topic two"))
	for i := range 3 {
		root.produce()
		expect("one denied", fmt.Sprintf("one %d-%d; two error 29", i+2, i+2))
	}
	root.rules(rules(t, "allow READ Group *"))
	root.produce()
	expect("both denied", "one error 29; two error 29")
	expect("both denied, and named again", "one error 29; two error 29", "one", "two")
	root.rules(rules(t, "allow READ Group *; allow READ Topic *; allow READ Group * bob"))
	expect("allowed again", "one 5-5; two 2-5") // what it was not given in between was not acquired either

	root.produce()
	bob := &sharer{login(t, addr, "bob"), root.ids, s.epoch}
	if got := bob.told(bob.ask(0)); got != "error 122" {
		t.Errorf("another user goes on with the session: %s", got)
	}
	expect("after another's attempt", "one 6-6; two 6-6")
}

func TestAWaitingShareFetchGetsNothingOnceItsReaderIsDenied(t *testing.T) {
	t.Parallel()
	log := &decided{}
	addr := admintest.Real(t, authorizedConfig(), broker.WithLog(slog.New(log))).Addr("SASL_PLAINTEXT")
	root := &authority{login(t, addr, "root"), map[string][16]byte{}}
	root.make("one", "two")
	root.rules(rules(t, "allow READ Group *; allow READ Topic *"))
	s := joinShares(root, login(t, addr, "alice"))
	if got := s.told(s.ask(0, "one", "two")); got != "" {
		t.Fatalf("the session begins with %s", got)
	}
	root.produce()
	if got := s.told(s.ask(30 * time.Second)); got != "one 0-0; two 0-0" {
		t.Fatalf("first records: %s", got)
	}
	waiting := s.ask(30 * time.Second)
	log.await(t, "User:alice is Allowed operation = READ from host = 127.0.0.1 on resource = Topic:LITERAL:two for request = ShareFetch", 3)
	root.rules(rules(t, "allow READ Group *; allow READ Topic one"))
	root.produce()
	got := s.told(waiting)
	for part := range strings.SplitSeq(got, "; ") {
		if part != "one 1-1" && part != "two error 29" {
			t.Errorf("the waiting fetch got %q of %q", part, got)
		}
	}
	if got := s.told(s.ask(0)); !strings.Contains(got, "two error 29") {
		t.Errorf("the next fetch got %s", got)
	}
}
