package broker_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// errorCodes are those of an answer, each once, without 0.
func errorCodes(resp kmsg.Response, ids map[string][16]byte) string {
	found := regexp.MustCompile(`ErrorCode=(-?\d+)`).FindAllString(shown(reflect.ValueOf(resp).Elem(), ids), -1)
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

// underWay is what a user has under way through one connection: a group that it is in, and a transaction that it has begun.
type underWay struct {
	*raw
	ids           map[string][16]byte
	classic       string // its member id in the classic group
	generation    int32
	epoch         int32 // in the new group
	producer      int64
	producerEpoch int16
}

// begin joins a classic group and one of the new protocol, and begins a transaction.
func begin(t *testing.T, r *raw, ids map[string][16]byte) *underWay {
	t.Helper()
	u := &underWay{raw: r, ids: ids}
	join := request(t, ids, "JoinGroup", 7, `{"Group":"classic","SessionTimeoutMillis":30000,"RebalanceTimeoutMillis":30000,"ProtocolType":"consumer","Protocols":[{"Name":"range","Metadata":"x"}]}`).(*kmsg.JoinGroupRequest)
	joined := ask[*kmsg.JoinGroupResponse](r, join)
	if joined.ErrorCode == 79 { // it is told its id first
		join.MemberID = joined.MemberID
		joined = ask[*kmsg.JoinGroupResponse](r, join)
	}
	if joined.ErrorCode != 0 {
		t.Fatalf("JoinGroup: %d", joined.ErrorCode)
	}
	u.classic, u.generation = joined.MemberID, joined.Generation
	sync := request(t, ids, "SyncGroup", 5, fmt.Sprintf(`{"Group":"classic","Generation":%d,"MemberID":%q,"ProtocolType":"consumer","Protocol":"range"}`, u.generation, u.classic))
	if resp := ask[*kmsg.SyncGroupResponse](r, sync); resp.ErrorCode != 0 {
		t.Fatalf("SyncGroup: %d", resp.ErrorCode)
	}
	beat := request(t, ids, "ConsumerGroupHeartbeat", 1, `{"Group":"modern","MemberID":"m","RebalanceTimeoutMillis":30000,"SubscribedTopicNames":["one"],"Topics":[]}`)
	modern := ask[*kmsg.ConsumerGroupHeartbeatResponse](r, beat)
	if modern.ErrorCode != 0 {
		t.Fatalf("ConsumerGroupHeartbeat: %d", modern.ErrorCode)
	}
	u.epoch = modern.MemberEpoch
	init := request(t, ids, "InitProducerID", 4, `{"TransactionalID":"tx","TransactionTimeoutMillis":60000,"ProducerID":-1,"ProducerEpoch":-1}`)
	made := ask[*kmsg.InitProducerIDResponse](r, init)
	if made.ErrorCode != 0 {
		t.Fatalf("InitProducerId: %d", made.ErrorCode)
	}
	u.producer, u.producerEpoch = made.ProducerID, made.ProducerEpoch
	return u
}

// goOn goes on with each, and lists the error codes by API.
func (u *underWay) goOn() map[string]string {
	u.t.Helper()
	producer := fmt.Sprintf(`"TransactionalID":"tx","ProducerEpoch":%d`, u.producerEpoch)
	member := fmt.Sprintf(`"Generation":%d,"MemberID":%q`, u.generation, u.classic)
	codes := map[string]string{}
	for _, r := range []struct {
		api     string
		version int16
		body    string
	}{
		{"Heartbeat", 4, `{"Group":"classic",` + member + `}`},
		{"OffsetCommit", 8, `{"Group":"classic",` + member + `,"Topics":[{"Topic":"one","Partitions":[{"Offset":1}]}]}`},
		{"OffsetFetch", 7, `{"Group":"classic","Topics":[{"Topic":"one","Partitions":[0]}]}`},
		{"ConsumerGroupHeartbeat", 1, fmt.Sprintf(`{"Group":"modern","MemberID":"m","MemberEpoch":%d}`, u.epoch)},
		{"AddPartitionsToTxn", 3, `{` + producer + `,"Topics":[{"Topic":"one","Partitions":[0]}]}`},
		{"AddOffsetsToTxn", 3, `{` + producer + `,"Group":"classic"}`},
		{"TxnOffsetCommit", 3, `{` + producer + `,"Group":"classic",` + member + `,"Topics":[{"Topic":"one","Partitions":[{"Offset":1}]}]}`},
		{"Produce", 9, `{"Acks":-1,"TimeoutMillis":5000,"Topics":[{"Topic":"one","Partitions":[{"Records":"plain"}]}]}`},
		{"Fetch", 12, `{"ReplicaID":-1,"MaxBytes":1000,"SessionEpoch":-1,"Topics":[{"Topic":"one","Partitions":[{"CurrentLeaderEpoch":-1,"PartitionMaxBytes":1000}]}]}`},
		{"EndTxn", 3, `{` + producer + `}`},
	} {
		req := request(u.t, u.ids, r.api, r.version, r.body)
		if id := reflect.ValueOf(req).Elem().FieldByName("ProducerID"); id.IsValid() {
			id.SetInt(u.producer) // JSON's numbers are too short for it
		}
		u.request(req)
		resp := req.ResponseKind()
		b, err := u.answer(resp.IsFlexible())
		if err != nil {
			u.t.Fatalf("%s: %v", r.api, err)
		}
		if err := resp.ReadFrom(b); err != nil {
			u.t.Fatalf("%s: %v", r.api, err)
		}
		if said := errorCodes(resp, u.ids); said != "" {
			codes[r.api] = said
		}
	}
	return codes
}

// What is under way is asked for again with each request: groups that were joined, offsets, and transactions that were begun.
func TestAChangeOfRulesActsOnWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	addr := authorizedBroker(t)
	root := &authority{login(t, addr, "root"), map[string][16]byte{}}
	root.make("one")
	const everything = "allow ALL Topic *; allow ALL Group *; allow ALL Txn *"
	root.rules(rules(t, everything))
	u := begin(t, login(t, addr, "alice"), root.ids)
	for _, c := range []struct {
		when, rules string
		want        map[string]string
	}{
		{"at first", everything, map[string]string{}},
		{"groups denied", everything + "; deny READ Group *", map[string]string{
			"Heartbeat": "ErrorCode=30", "OffsetCommit": "ErrorCode=30", "ConsumerGroupHeartbeat": "ErrorCode=30", "AddOffsetsToTxn": "ErrorCode=30", "TxnOffsetCommit": "ErrorCode=30",
		}},
		{"allowed again", everything, map[string]string{}},
		{"the transaction denied", everything + "; deny WRITE Txn tx", map[string]string{
			"AddPartitionsToTxn": "ErrorCode=53", "AddOffsetsToTxn": "ErrorCode=53", "TxnOffsetCommit": "ErrorCode=53", "EndTxn": "ErrorCode=53",
		}},
		{"the topic denied", everything + "; deny ALL Topic one", map[string]string{
			"OffsetCommit": "ErrorCode=29", "OffsetFetch": "ErrorCode=29", "AddPartitionsToTxn": "ErrorCode=29", "TxnOffsetCommit": "ErrorCode=29",
			"Produce": "ErrorCode=29", "Fetch": "ErrorCode=29",
		}},
		{"no rule left", "", map[string]string{
			"Heartbeat": "ErrorCode=30", "OffsetCommit": "ErrorCode=30", "OffsetFetch": "ErrorCode=30", "ConsumerGroupHeartbeat": "ErrorCode=30",
			"AddPartitionsToTxn": "ErrorCode=53", "AddOffsetsToTxn": "ErrorCode=53", "TxnOffsetCommit": "ErrorCode=53", "EndTxn": "ErrorCode=53",
			"Produce": "ErrorCode=29", "Fetch": "ErrorCode=29",
		}},
		{"all allowed again", everything, map[string]string{}},
	} {
		root.rules(rules(t, c.rules))
		if got := u.goOn(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.when, got, c.want)
		}
	}
}
