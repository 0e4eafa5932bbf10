package broker_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

const (
	// kafkaAnswers is what Kafka 4.4.0 said: a line for each request and the rules that its sender had.
	kafkaAnswers = "testdata/authorize-4.4.0.txt"
	// ourAnswers is what ours says where that is another thing, for reasons that docs/differences.md gives.
	ourAnswers = "testdata/authorize-differences.txt"
	// differences makes the test write that file anew.
	differences = "BROKERLAB_TEST_DIFFERENCES"
	// kafkaAddress makes the test ask the Kafka there and write the file anew. That Kafka is fresh, has the users of
	// authorizedBroker, the same super users and one listener of SASL_PLAINTEXT.
	kafkaAddress = "BROKERLAB_TEST_KAFKA"
)

// authorizedBroker is a broker that asks for a password and for rights.
func authorizedBroker(t *testing.T) netip.AddrPort {
	t.Helper()
	return admintest.Real(t, authorizedConfig()).Addr("SASL_PLAINTEXT")
}

// testAddr is where the broker of a test is whose answers Kafka gave once: Kafka's, where it is to give them again.
func testAddr(t *testing.T) netip.AddrPort {
	t.Helper()
	if kafka, asked := os.LookupEnv(kafkaAddress); asked {
		return netip.MustParseAddrPort(kafka)
	}
	return authorizedBroker(t)
}

// authorizedConfig has the users root, alice and bob, whose passwords are their names; root is a super user.
func authorizedConfig(properties ...string) []string {
	return append([]string{
		"listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required " +
			`user_root="root" user_alice="alice" user_bob="bob";`,
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:root;User:ANONYMOUS",
	}, properties...)
}

// login is a connection of a user, whose password is the name.
func login(t *testing.T, addr netip.AddrPort, user string) *raw {
	t.Helper()
	r := dial(t, addr)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, "PLAIN"
	ask[*kmsg.SASLHandshakeResponse](r, handshake)
	authenticate := kmsg.NewPtrSASLAuthenticateRequest()
	authenticate.Version, authenticate.SASLAuthBytes = 2, []byte("\x00"+user+"\x00"+user)
	if resp := ask[*kmsg.SASLAuthenticateResponse](r, authenticate); resp.ErrorCode != 0 {
		t.Fatalf("login as %s: %d", user, resp.ErrorCode)
	}
	return r
}

// rules reads rules such as "allow WRITE Topic one; deny READ Group pre~" of User:alice; a name that ends in ~ is a prefix, and a last
// word is another's name.
func rules(t *testing.T, text string) []acl.Binding {
	t.Helper()
	var out []acl.Binding
	for one := range strings.SplitSeq(text, ";") {
		words := strings.Fields(one)
		if len(words) == 0 {
			continue
		}
		b := acl.Binding{Principal: "User:alice", Host: "*", Permission: acl.Allow}
		if words[0] == "deny" {
			b.Permission = acl.Deny
		}
		for op := range acl.Operation(20) {
			if op.String() == words[1] {
				b.Operation = op
			}
		}
		b.Type = map[string]acl.ResourceType{"Topic": acl.Topic, "Group": acl.Group, "Cluster": acl.Cluster, "Txn": acl.TransactionalID}[words[2]]
		b.Name, b.Kind = words[3], acl.Literal
		if name, prefix := strings.CutSuffix(b.Name, "~"); prefix {
			b.Name, b.Kind = name, acl.Prefixed
		}
		if len(words) > 4 {
			b.Principal = "User:" + words[4]
		}
		if b.Operation == 0 || b.Type == 0 {
			t.Fatalf("rule %q", one)
		}
		out = append(out, b)
	}
	return out
}

// authority changes rules, and makes and removes topics, as root.
type authority struct {
	*raw
	ids map[string][16]byte
}

func (a *authority) rules(bindings []acl.Binding) {
	a.t.Helper()
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Version = 3
	every := kmsg.NewDeleteACLsRequestFilter()
	every.ResourceType, every.ResourcePatternType, every.Operation, every.PermissionType = 1, 1, 1, 1
	remove.Filters = append(remove.Filters, every)
	ask[*kmsg.DeleteACLsResponse](a.raw, remove)
	create := kmsg.NewPtrCreateACLsRequest()
	create.Version = 3
	for _, b := range bindings {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceType(b.Type), b.Name, kmsg.ACLResourcePatternType(b.Kind)
		c.Principal, c.Host, c.Operation, c.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		create.Creations = append(create.Creations, c)
	}
	for _, r := range ask[*kmsg.CreateACLsResponse](a.raw, create).Results {
		if r.ErrorCode != 0 {
			a.t.Fatalf("create rule: %d %s", r.ErrorCode, *r.ErrorMessage)
		}
	}
	// Kafka's brokers learn of rules after their controller has acknowledged them.
	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.Version, describe.ResourceType, describe.ResourcePatternType, describe.Operation, describe.PermissionType = 3, 1, 1, 1, 1
	for range 1000 {
		n := 0
		for _, r := range ask[*kmsg.DescribeACLsResponse](a.raw, describe).Resources {
			n += len(r.ACLs)
		}
		if n == len(bindings) {
			return
		}
	}
	a.t.Fatal("the rules are not in force")
}

func (a *authority) make(topics ...string) {
	a.t.Helper()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 30_000
	for _, name := range topics {
		c := kmsg.NewCreateTopicsRequestTopic()
		c.Topic, c.NumPartitions, c.ReplicationFactor = name, 1, 1
		create.Topics = append(create.Topics, c)
	}
	for _, topic := range ask[*kmsg.CreateTopicsResponse](a.raw, create).Topics {
		if topic.ErrorCode != 0 && topic.ErrorCode != 36 {
			a.t.Fatalf("create %s: %d", topic.Topic, topic.ErrorCode)
		}
	}
	// Kafka's broker learns of topics after its controller.
	for range 1000 {
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Version = 12
		found := 0
		for _, topic := range ask[*kmsg.MetadataResponse](a.raw, metadata).Topics {
			if slices.Contains(topics, *topic.Topic) && topic.ErrorCode == 0 {
				a.ids[*topic.Topic] = topic.TopicID
				found++
			}
		}
		if found == len(topics) {
			return
		}
	}
	a.t.Fatal("the topics are not there")
}

func (a *authority) remove(topics ...string) {
	a.t.Helper()
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.Version, remove.TimeoutMillis = 6, 30_000
	for _, name := range topics {
		d := kmsg.NewDeleteTopicsRequestTopic()
		d.Topic = &name
		remove.Topics = append(remove.Topics, d)
	}
	ask[*kmsg.DeleteTopicsResponse](a.raw, remove)
}

// authorizedRequests is the table of requests: "API version {json}" lines, each with lines of rules under it, indented. "-" is
// none.
const authorizedRequests = "testdata/authorize.txt"

// TestRequestsAreAuthorizedAsByKafka sends each request of a table with each set of rights there. What Kafka 4.4.0 said is on file.
func TestRequestsAreAuthorizedAsByKafka(t *testing.T) {
	t.Parallel()
	address, recording := os.LookupEnv(kafkaAddress)
	var addr netip.AddrPort
	known, ours := map[string]string{}, map[string]string{}
	_, differing := os.LookupEnv(differences)
	recording = recording || differing
	kafka := address != ""
	if kafka {
		addr = netip.MustParseAddrPort(address)
	} else {
		addr = authorizedBroker(t)
		for line := range lines(t, kafkaAnswers) {
			what, answer, _ := strings.Cut(line, " => ")
			known[what] = answer
		}
		for line := range lines(t, ourAnswers) {
			what, answer, _ := strings.Cut(line, " => ")
			ours[what] = answer
		}
	}
	root := &authority{login(t, addr, "root"), map[string][16]byte{}}
	root.make("one", "two")
	ids := root.ids
	for _, user := range []string{"commit g1", "commit g2"} { // groups that are there
		req := request(t, ids, "OffsetCommit", 8, `{"Group":"`+strings.Fields(user)[1]+`","Generation":-1,"Topics":[`+
			`{"Topic":"one","Partitions":[{"Partition":0,"Offset":5}]},{"Topic":"two","Partitions":[{"Partition":0,"Offset":6}]}]}`)
		for range 1000 {
			if resp := ask[*kmsg.OffsetCommitResponse](root.raw, req); resp.Topics[0].Partitions[0].ErrorCode == 0 {
				break
			}
		}
	}
	for _, id := range []string{"x1", "x2"} { // transactions that are there
		init := request(t, ids, "InitProducerID", 4, `{"TransactionalID":"`+id+`","TransactionTimeoutMillis":600000,"ProducerID":-1,"ProducerEpoch":-1}`)
		for range 1000 {
			resp := ask[*kmsg.InitProducerIDResponse](root.raw, init)
			if resp.ErrorCode == 0 {
				add := kmsg.NewPtrAddPartitionsToTxnRequest()
				add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch = 3, id, resp.ProducerID, resp.ProducerEpoch
				for _, name := range []string{"one", "two"} {
					topic := kmsg.NewAddPartitionsToTxnRequestTopic()
					topic.Topic, topic.Partitions = name, []int32{0}
					add.Topics = append(add.Topics, topic)
				}
				if ask[*kmsg.AddPartitionsToTxnResponse](root.raw, add).Topics[0].Partitions[0].ErrorCode == 0 {
					break
				}
			}
		}
	}
	var record strings.Builder
	var api, body string
	var version int16
	for line := range lines(t, authorizedRequests) {
		if !strings.HasPrefix(line, " ") {
			head := strings.SplitN(line, " ", 3)
			if _, err := fmt.Sscan(head[1], &version); err != nil {
				t.Fatal(line, err)
			}
			api, body = head[0], head[2]
			continue
		}
		what := fmt.Sprintf("%s %d %s [%s]", api, version, body, strings.TrimSpace(line))
		var rights []acl.Binding
		if strings.TrimSpace(line) != "-" {
			rights = rules(t, line)
		}
		if strings.Contains(body, "gone") {
			root.make("gone")
		}
		root.rules(rights)
		got := outcome(t, addr, request(t, ids, api, version, body), ids)
		if strings.Contains(body, "gone") || strings.Contains(body, "fresh") {
			root.remove("gone", "fresh", "fresh2")
		}
		if kafka || differing && got != known[what] {
			fmt.Fprintf(&record, "%s => %s\n", what, got)
		}
		want, ok := ours[what]
		if !ok {
			want = known[what]
		}
		if !recording && got != want {
			t.Errorf("%s\n got %s\nwant %s", what, got, want)
		}
	}
	if recording {
		name := ourAnswers
		if kafka {
			name = kafkaAnswers
		}
		if err := os.WriteFile(name, []byte(record.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// lines are a file's lines that say something.
func lines(t *testing.T, name string) func(func(string) bool) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return func(yield func(string) bool) {
		s := bufio.NewScanner(f)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			if line := s.Text(); line != "" && !strings.HasPrefix(line, "#") && !yield(line) {
				return
			}
		}
	}
}

// request makes a request of JSON that names the fields as Go does. Ids of topics are those of their names; "id:one" as a name is by
// id alone. Records are "plain" or "transactional".
func request(t *testing.T, ids map[string][16]byte, api string, version int16, body string) kmsg.Request {
	t.Helper()
	var req kmsg.Request
	for key := range int16(100) {
		if kmsg.NameForKey(key) == api {
			req = kmsg.RequestForKey(key)
		}
	}
	if req == nil {
		t.Fatalf("no API %q", api)
	}
	req.SetVersion(version)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	var fields any
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatalf("%s %s: %v", api, body, err)
	}
	fill(t, reflect.ValueOf(req).Elem(), fields)
	identify(reflect.ValueOf(req).Elem(), ids)
	return req
}

// fill sets what JSON says. encoding/json would ask enumerations for numbers that they do not have.
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

func identify(v reflect.Value, ids map[string][16]byte) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			identify(v.Index(i), ids)
		}
	case reflect.Struct:
		if records := v.FieldByName("Records"); records.IsValid() {
			records.SetBytes(batchOf(string(records.Bytes())))
		}
		if id, name := v.FieldByName("TopicID"), v.FieldByName("Topic"); id.IsValid() && name.IsValid() {
			text := name
			if name.Kind() == reflect.Pointer {
				text = reflect.ValueOf("")
				if !name.IsNil() {
					text = name.Elem()
				}
			}
			bare, alone := strings.CutPrefix(text.String(), "id:")
			known := ids[bare]
			if bare == "unknown" {
				known = [16]byte{1, 2, 3}
			}
			if alone || name.Kind() == reflect.String {
				id.Set(reflect.ValueOf(known))
			}
			if alone {
				name.SetZero()
			}
		} else if id.IsValid() && id.Type() == reflect.TypeFor[[16]byte]() {
			id.Set(reflect.ValueOf(ids["one"]))
		}
		for _, field := range v.Fields() {
			identify(field, ids)
		}
	default:
	}
}

// batchOf is a batch of one record: "plain", or "transactional".
func batchOf(kind string) []byte {
	b := batch("v")
	if kind == "transactional" {
		binary.BigEndian.PutUint16(b[21:], 1<<4)
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// outcome is what alice is answered, without what is different every time.
func outcome(t *testing.T, addr netip.AddrPort, req kmsg.Request, ids map[string][16]byte) string {
	t.Helper()
	alice := login(t, addr, "alice")
	defer alice.close()
	if err := alice.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	alice.request(req)
	resp := req.ResponseKind()
	b, err := alice.answer(resp.IsFlexible())
	switch {
	case errors.Is(err, io.EOF), isReset(err):
		return "closed"
	case err != nil:
		return "no answer"
	}
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("decode %T: %v", resp, err)
	}
	return shown(reflect.ValueOf(resp).Elem(), ids)
}

// processorNoise is how Kafka's controller spells a request in its refusals.
var processorNoise = regexp.MustCompile(`^Request Request\(.*\) needs \w+ permission\.$`)

// shown prints an answer: fields that say something of rights, elements in an order of their own.
func shown(v reflect.Value, ids map[string][16]byte) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "null"
		}
		if text := v.Elem().String(); v.Elem().Kind() == reflect.String {
			if processorNoise.MatchString(text) {
				text = "Cluster authorization failed."
			}
			return fmt.Sprintf("%q", text)
		}
		return shown(v.Elem(), ids)
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return fmt.Sprintf("%d bytes", v.Len())
		}
		var all []string
		for i := range v.Len() {
			all = append(all, shown(v.Index(i), ids))
		}
		slices.Sort(all)
		return "[" + strings.Join(all, " ") + "]"
	case reflect.Array:
		id := v.Interface().([16]byte)
		for name, known := range ids {
			if id == known {
				return "id(" + name + ")"
			}
		}
		return "id(other)"
	case reflect.Struct:
		var all []string
		for field, f := range v.Fields() {
			name := field.Name
			switch name {
			case "Version", "ThrottleMillis", "UnknownTags", "Brokers", "ClusterID", "ControllerID", "MemberID", "Host", "Port", "ProducerID", "ProducerEpoch",
				"Configs", "Timestamp", "StartTimestamp", "Documentation", "LogAppendTime", "LogStartOffset", "BaseOffset", "Nodes", "Voters", "Observers",
				"AcquisitionLockTimeoutMillis", "HighWatermark", "LastStableOffset", "LeaderEpoch", "Epoch", "HeartbeatIntervalMillis", "AssignmentEpoch", "MemberEpoch", "NodeEndpoints", "AbortedTransactions", "RecordBatches", "EndOffset":
				if name == "Configs" && f.Len() > 0 {
					all = append(all, "Configs=some")
				}
				continue
			}
			if f.IsZero() && f.Kind() != reflect.Pointer {
				continue
			}
			if f.Kind() == reflect.Pointer && f.IsNil() && name != "ErrorMessage" {
				continue
			}
			all = append(all, name+"="+shown(f, ids))
		}
		return "{" + strings.Join(all, " ") + "}"
	default:
		return fmt.Sprint(v.Interface())
	}
}
