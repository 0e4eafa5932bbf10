package fidelity

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// requestsFile has lines "API version {fields as kmsg names them}", each with lines of rules under it, indented, by which its
// sender asks; "-" is none.
const requestsFile = "../../broker/testdata/authorize.txt"

// asked is one request of the table with one set of rules.
type asked struct {
	api, body, rules string
	version          int16
	user             string // who asks: nobody else has these rules
}

// said names it in an answer.
func (a asked) said(version int16) string {
	return fmt.Sprintf("v%d %s [%s]", version, a.body, a.rules)
}

// perQuestion are names of topics that a request makes or removes: each question has its own.
var perQuestion = regexp.MustCompile(`\b(gone|fresh2?)\b`)

// readRequests reads the table, without requests about rules, which have cases of their own.
func readRequests(t *testing.T) []asked {
	t.Helper()
	f, err := os.Open(requestsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []asked
	var now asked
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			words := strings.SplitN(line, " ", 3)
			now = asked{api: words[0], body: words[2]}
			if _, err := fmt.Sscan(words[1], &now.version); err != nil {
				t.Fatal(line, err)
			}
		case !strings.HasSuffix(now.api, "ACLs"):
			one := now
			n := len(all)
			one.user = fmt.Sprintf("u%d", n)
			own := func(name string) string { return fmt.Sprintf("%s-%d", name, n) }
			one.body = perQuestion.ReplaceAllStringFunc(one.body, own)
			if one.rules = perQuestion.ReplaceAllStringFunc(strings.TrimSpace(line), own); one.rules == "-" {
				one.rules = ""
			}
			all = append(all, one)
		}
	}
	return all
}

// rulesOf are the rules of who asks.
func (a asked) rulesOf(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for one := range strings.SplitSeq(a.rules, ";") {
		words := strings.Fields(one)
		if len(words) == 0 {
			continue
		}
		if len(words) > 4 {
			words[4] = "User:" + words[4]
		}
		rules = append(rules, parseRule(t, strings.Join(words, " "), "User:"+a.user))
	}
	return rules
}

// request makes the request for a peer: ids of topics are those of their names there; "id:one" as a name is by id alone, and
// records are a batch that is "plain" or "transactional".
func (a asked) request(t *testing.T, p *peer, version int16) kmsg.Request {
	t.Helper()
	req := requestOf(t, a.api)
	req.SetVersion(version)
	var fields any
	if err := json.Unmarshal([]byte(a.body), &fields); err != nil {
		t.Fatalf("%s %s: %v", a.api, a.body, err)
	}
	fill(t, reflect.ValueOf(req).Elem(), fields)
	p.identify(reflect.ValueOf(req).Elem())
	return req
}

func requestOf(t *testing.T, api string) kmsg.Request {
	t.Helper()
	for key := range int16(200) {
		if kmsg.NameForKey(key) == api {
			return kmsg.RequestForKey(key)
		}
	}
	t.Fatalf("no API %s", api)
	return nil
}

// fill sets fields of kmsg to values of JSON, and all others to their defaults. encoding/json would want names for numbers.
func fill(t *testing.T, v reflect.Value, from any) {
	t.Helper()
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if d, ok := reflect.TypeAssert[interface{ Default() }](v.Addr()); ok {
		d.Default()
	}
	switch from := from.(type) {
	case map[string]any:
		for name, value := range from {
			field := v.FieldByName(name)
			if !field.IsValid() {
				t.Fatalf("%s has no field %s", v.Type(), name)
			}
			fill(t, field, value)
		}
	case []any:
		v.Set(reflect.MakeSlice(v.Type(), len(from), len(from)))
		for i := range from {
			fill(t, v.Index(i), from[i])
		}
	case float64:
		if v.CanFloat() {
			v.SetFloat(from)
		} else {
			v.SetInt(int64(from))
		}
	case string:
		if v.Kind() == reflect.Slice {
			v.SetBytes([]byte(from))
		} else {
			v.SetString(from)
		}
	case bool:
		v.SetBool(from)
	}
}

// identify puts ids of topics and batches of records into a request.
func (p *peer) identify(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			p.identify(v.Index(i))
		}
	case reflect.Struct:
		if records := v.FieldByName("Records"); records.IsValid() {
			records.SetBytes(batchOf(string(records.Bytes())))
		}
		p.identifyTopic(v)
		for _, field := range v.Fields() {
			p.identify(field)
		}
	default:
	}
}

func (p *peer) identifyTopic(v reflect.Value) {
	id, name := v.FieldByName("TopicID"), v.FieldByName("Topic")
	if !id.IsValid() {
		return
	}
	if !name.IsValid() {
		if id.Type() == reflect.TypeFor[[16]byte]() {
			id.Set(reflect.ValueOf(p.topicID("one")))
		}
		return
	}
	var text string
	switch {
	case name.Kind() == reflect.String:
		text = name.String()
	case !name.IsNil():
		text = name.Elem().String()
	}
	bare, alone := strings.CutPrefix(text, "id:")
	known := p.topicID(bare)
	if known == ([16]byte{}) && text != "" {
		known = [16]byte{1, 2, 3}
	}
	if alone || name.Kind() == reflect.String {
		id.Set(reflect.ValueOf(known))
	}
	if alone {
		name.SetZero()
	}
}

// batchOf is a batch of one record: "plain", "transactional", or nothing.
func batchOf(kind string) []byte {
	if kind == "" {
		return nil
	}
	record := kmsg.Record{Length: 7, Value: []byte("v")}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: record.AppendTo(nil),
		FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_000,
	}
	if kind == "transactional" {
		batch.Attributes = 1 << 4
	}
	b := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// readOnly are the APIs whose requests change nothing, so that each is sent in every version that both have.
var readOnly = []string{
	"Fetch", "ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator", "DescribeGroups", "ListGroups", "DescribeConfigs", "DescribeLogDirs",
	"OffsetForLeaderEpoch", "DescribeCluster", "DescribeProducers", "DescribeTransactions", "ListTransactions", "ConsumerGroupDescribe",
	"DescribeTopicPartitions", "ListConfigResources", "DescribeClientQuotas", "DescribeQuorum", "ShareGroupDescribe", "DescribeShareGroupOffsets",
}

// versions are those of an API that both peers have.
func (b *both) versions(t *testing.T) map[int16][2]int16 {
	t.Helper()
	common := map[int16][2]int16{}
	for i, p := range b.peers() {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "fidelity", "1"
		seen := map[int16][2]int16{}
		for _, key := range p.root(t, req).(*kmsg.ApiVersionsResponse).ApiKeys {
			known := kmsg.RequestForKey(key.ApiKey)
			if known == nil {
				continue
			}
			low, high := key.MinVersion, min(key.MaxVersion, known.MaxVersion())
			if other, ok := common[key.ApiKey]; ok || i == 0 {
				if ok {
					low, high = max(low, other[0]), min(high, other[1])
				}
				seen[key.ApiKey] = [2]int16{low, high}
			}
		}
		common = seen
	}
	return common
}

// different are fields that are another thing each time: ids of members and producers, times, sizes and where records are.
var different = []string{
	"MemberID", "ProducerID", "ProducerEpoch", "StartTimestamp", "Timestamp", "LogAppendTime", "BaseOffset", "HighWatermark", "LastStableOffset",
	"EndOffset", "Offset", "LogEndOffset", "Size", "TotalBytes", "UsableBytes", "LogDir", "Epoch", "RecordBatches", "AbortedTransactions", "LastTimestamp",
	"Nodes", "CurrentVoters", "Observers", "HeartbeatIntervalMillis", "StateTimestamp", "Documentation",
}

// What many principals with one set of rights each are answered: for each API one case.
func TestRequestsAreAuthorizedAlike(t *testing.T) {
	b := authority(t)
	questions := readRequests(t)
	if len(questions) > plainUsers {
		t.Fatalf("%d questions, and users for %d", len(questions), plainUsers)
	}
	versions := b.versions(t)
	var rules []rule
	for _, q := range questions {
		rules = append(rules, q.rulesOf(t)...)
	}
	if err := b.each(func(p *peer) error {
		p.putRules(t, rules...)
		p.makeTopics(t, 1, "one", "two")
		p.coordinators(t)
		p.commitOffsets(t)
		p.beginTransactions(t)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var apis []string
	for _, q := range questions {
		if !slices.Contains(apis, q.api) {
			apis = append(apis, q.api)
		}
	}
	for _, api := range apis {
		b.compare(t, "authorize/requests/"+api, func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			key := requestOf(t, api).Key()
			for _, q := range questions {
				if q.api != api {
					continue
				}
				low, high := q.version, q.version
				if slices.Contains(readOnly, api) {
					high = max(q.version, versions[key][1])
					if !strings.Contains(q.body, "id:") {
						low = min(q.version, versions[key][0])
					}
					if api == "Metadata" {
						low = max(low, min(q.version, 4)) // older ones make the topics that they name
					}
				}
				if strings.Contains(q.body, "gone-") {
					p.makeTopics(t, 1, strings.Replace(q.user, "u", "gone-", 1))
				}
				for version := low; version <= high; version++ {
					resp, err := p.request(t, q.user, q.request(t, p, version))
					if err != nil {
						seen[q.said(version)] = err.Error()
						continue
					}
					seen[q.said(version)] = sortedAll(withoutInternal(p.view(resp, different...)))
				}
				if api == "DeleteGroups" || api == "OffsetDelete" {
					p.commitOffsets(t)
				}
			}
			return seen
		})
	}
	if err := b.each(func(p *peer) error { p.clearRules(t); return nil }); err != nil {
		t.Fatal(err)
	}
}

// withoutInternal leaves Kafka's internal topics out of a view: brokerlab keeps offsets and transactions elsewhere.
func withoutInternal(view any) any {
	switch v := view.(type) {
	case map[string]any:
		for name := range v {
			v[name] = withoutInternal(v[name])
		}
	case []any:
		kept := []any{}
		for _, element := range v {
			fields, _ := element.(map[string]any)
			internal := func(field string) bool {
				return slices.Contains([]any{"__consumer_offsets", "__transaction_state", "__share_group_state"}, fields[field])
			}
			if !internal("Topic") && !internal("Name") {
				kept = append(kept, withoutInternal(element))
			}
		}
		return kept
	}
	return view
}

// sortedAll puts every list of a view in an order of its own.
func sortedAll(view any) any {
	switch v := view.(type) {
	case map[string]any:
		for name := range v {
			v[name] = sortedAll(v[name])
		}
	case []any:
		for i := range v {
			v[i] = sortedAll(v[i])
		}
		return sorted(v)
	}
	return view
}

// coordinators asks who coordinates groups and transactions until somebody does: Kafka makes its internal topics then.
func (p *peer) coordinators(t *testing.T) {
	t.Helper()
	for kind := range int8(3) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorType, req.CoordinatorKeys = 6, kind, []string{"g1:AAAAAAAAAAAAAAAAAAAAAA:0"}
		kit.Eventually(t, "there is a coordinator", func() bool {
			return p.root(t, req).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode == 0
		})
	}
}

// commitOffsets makes the groups g1 and g2, which have offsets of both topics.
func (p *peer) commitOffsets(t *testing.T) {
	t.Helper()
	for _, group := range []string{"g1", "g2"} {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, group, -1
		for i, name := range []string{"one", "two"} {
			topic := kmsg.NewOffsetCommitRequestTopic()
			partition := kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Offset = int64(5 + i)
			topic.Topic, topic.Partitions = name, append(topic.Partitions, partition)
			req.Topics = append(req.Topics, topic)
		}
		kit.Eventually(t, group+" has offsets", func() bool {
			return p.root(t, req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode == 0
		})
	}
}

// beginTransactions begins the transactions x1 and x2, with both topics.
func (p *peer) beginTransactions(t *testing.T) {
	t.Helper()
	for _, id := range []string{"x1", "x2"} {
		begin := kmsg.NewPtrInitProducerIDRequest()
		begin.Version, begin.TransactionalID, begin.TransactionTimeoutMillis, begin.ProducerID, begin.ProducerEpoch = 4, &id, 600_000, -1, -1
		var made *kmsg.InitProducerIDResponse
		kit.Eventually(t, id+" has a producer", func() bool {
			made = p.root(t, begin).(*kmsg.InitProducerIDResponse)
			return made.ErrorCode == 0
		})
		add := kmsg.NewPtrAddPartitionsToTxnRequest()
		add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch = 3, id, made.ProducerID, made.ProducerEpoch
		for _, name := range []string{"one", "two"} {
			topic := kmsg.NewAddPartitionsToTxnRequestTopic()
			topic.Topic, topic.Partitions = name, []int32{0}
			add.Topics = append(add.Topics, topic)
		}
		kit.Eventually(t, id+" is begun", func() bool {
			return p.root(t, add).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions[0].ErrorCode == 0
		})
	}
}
