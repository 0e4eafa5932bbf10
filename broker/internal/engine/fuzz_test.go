package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzNoRequestEndsTheEngine sends requests of every served API and version, valid in form and random in content. The
// data plane runs in this process, so that a panic in it fails the test; afterwards it must still answer.
func FuzzNoRequestEndsTheEngine(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, uint8(250))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		e := openEngine(t, Options{NodeID: int32(seed % 2)})
		bombard(t, e, seed, n)
		ask[*kmsg.MetadataResponse](t, e, kmsg.NewPtrMetadataRequest())
	})
}

// FuzzAnEngineOpensAgain does the same to an engine that keeps its state, which must open again after a clean stop and
// from what a kill would leave, with the same topics.
func FuzzAnEngineOpensAgain(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed, uint8(250))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		o := Options{NodeID: int32(seed % 2), ClusterID: "fuzz", Dir: t.TempDir()}
		e := openEngine(t, o)
		bombard(t, e, seed, n)
		want := topicNames(t, e)

		killed := o
		killed.Dir = filepath.Join(t.TempDir(), "killed")
		if err := os.CopyFS(killed.Dir, os.DirFS(o.Dir)); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{o, killed} {
			e := openEngine(t, o)
			if got := topicNames(t, e); !slices.Equal(got, want) {
				t.Errorf("topics in %s = %v, want %v", o.Dir, got, want)
			}
			bombard(t, e, seed+1, 50)
		}
	})
}

func topicNames(tb testing.TB, e *Engine) []string {
	tb.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	var names []string
	for _, topic := range ask[*kmsg.MetadataResponse](tb, e, req).Topics {
		names = append(names, fmt.Sprintf("%s %x %d", *topic.Topic, topic.TopicID, len(topic.Partitions)))
	}
	slices.Sort(names)
	return names
}

// bombard sends n random requests from a few clients.
func bombard(t *testing.T, e *Engine, seed uint64, n uint8) {
	t.Helper()
	g := newGenerator(e, seed)
	for i := range 3 {
		name := fmt.Sprintf("t%d", i)
		id, ok := e.TopicID(name)
		if !ok {
			id = createTopic(t, e, name, 2)
		}
		g.ids = append(g.ids, id)
	}
	g.ids = append(g.ids, [16]byte{}, [16]byte{1}, [16]byte{2})
	clients := make([]*Client, 3)
	for i := range clients {
		clients[i] = e.Client(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 1), "fuzz")
	}
	for range int(n) {
		c := &clients[g.IntN(len(clients))]
		req := g.request()
		answered := make(chan struct{})
		(*c).Do(req, func(resp kmsg.Response, err error) {
			defer close(answered)
			if err != nil {
				return
			}
			if resp.Key() != req.Key() || resp.GetVersion() != req.GetVersion() {
				t.Errorf("key %d version %d was answered with key %d version %d",
					req.Key(), req.GetVersion(), resp.Key(), resp.GetVersion())
			}
			resp.AppendTo(nil)
			g.harvest(reflect.ValueOf(resp).Elem())
			g.learn(req, resp)
		})
		select {
		case <-answered:
		case <-time.After(5 * time.Millisecond): // a long poll: its client leaves
			(*c).Close()
			<-answered
			*c = e.Client(netip.AddrPort{}, "fuzz")
		}
	}
	for _, c := range clients {
		c.Close()
	}
}

// generator makes random messages of kmsg's types.
// What answers name is used again, so that members, producers and sessions live on.
type generator struct {
	*rand.Rand
	keys     []int16
	versions map[int16]VersionRange
	ids      [][16]byte
	texts    []string
	numbers  []int64

	// What a request is about, so that its fields fit one another.
	group    string
	member   *groupMember
	members  map[string][]*groupMember
	producer struct {
		id       int64
		epoch    int16
		sequence int32
	}
}

// groupMember is one that was answered, and how far it is.
type groupMember struct {
	id      string
	epoch   int32
	session int32
}

// about chooses the group and member that a request is about.
func (g *generator) about(key int16) {
	switch kmsg.Key(key) {
	case kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe:
		g.group = "c"
	case kmsg.ShareGroupHeartbeat, kmsg.ShareGroupDescribe, kmsg.ShareFetch, kmsg.ShareAcknowledge,
		kmsg.DescribeShareGroupOffsets, kmsg.AlterShareGroupOffsets, kmsg.DeleteShareGroupOffsets:
		g.group = "s"
	default:
		g.group = "g"
	}
	all := g.members[g.group]
	if len(all) < 3 && g.IntN(4) == 0 || len(all) == 0 {
		fresh := &groupMember{}
		if g.group != "g" {
			fresh.id = []string{"AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw"}[len(all)]
		}
		g.members[g.group] = append(all, fresh)
		all = g.members[g.group]
	}
	g.member = all[g.IntN(len(all))]
}

// learn follows members, sessions and producers.
func (g *generator) learn(req kmsg.Request, resp kmsg.Response) {
	find := func(group, id string) *groupMember {
		for _, m := range g.members[group] {
			if m.id == id {
				return m
			}
		}
		return &groupMember{}
	}
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		if m := find("g", req.(*kmsg.JoinGroupRequest).MemberID); r.MemberID != "" {
			m.id, m.epoch = r.MemberID, r.Generation
		}
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.ErrorCode == 0 && r.MemberID != nil {
			find("c", req.(*kmsg.ConsumerGroupHeartbeatRequest).MemberID).epoch = r.MemberEpoch
		}
	case *kmsg.ShareGroupHeartbeatResponse:
		if r.ErrorCode == 0 && r.MemberID != nil {
			find("s", req.(*kmsg.ShareGroupHeartbeatRequest).MemberID).epoch = r.MemberEpoch
		}
	case *kmsg.ShareFetchResponse:
		if m := req.(*kmsg.ShareFetchRequest); r.ErrorCode == 0 && m.MemberID != nil {
			find("s", *m.MemberID).session = m.ShareSessionEpoch + 1
		}
	case *kmsg.ShareAcknowledgeResponse:
		if m := req.(*kmsg.ShareAcknowledgeRequest); r.ErrorCode == 0 && m.MemberID != nil {
			find("s", *m.MemberID).session = m.ShareSessionEpoch + 1
		}
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			g.producer.id, g.producer.epoch, g.producer.sequence = r.ProducerID, r.ProducerEpoch, 0
		}
	case *kmsg.EndTxnResponse:
		if r.ErrorCode == 0 && r.ProducerEpoch > g.producer.epoch {
			g.producer.epoch, g.producer.sequence = r.ProducerEpoch, 0
		}
	}
}

// plausible fills fields whose name says what belongs there.
func (g *generator) plausible(name string, v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.String {
		v.Set(reflect.New(v.Type().Elem()))
		if !g.plausible(name, v.Elem()) {
			v.SetZero()
			return false
		}
		return true
	}
	switch kind := v.Kind(); {
	case kind == reflect.String:
		switch name {
		case "Topic":
			v.SetString(fmt.Sprintf("t%d", g.IntN(3)))
		case "Group", "GroupID":
			v.SetString(g.group)
		case "MemberID":
			v.SetString(g.member.id)
		case "TransactionalID":
			v.SetString("tx")
		case "ProtocolType":
			v.SetString("consumer")
		case "Protocol", "Name":
			v.SetString("range")
		default:
			return false
		}
	case v.CanInt():
		switch name {
		case "Partition":
			v.SetInt(int64(g.IntN(2)))
		case "Generation", "MemberEpoch":
			v.SetInt(int64(g.member.epoch))
		case "ShareSessionEpoch":
			v.SetInt(int64(g.member.session))
		case "ProducerID":
			v.SetInt(g.producer.id)
		case "ProducerEpoch":
			v.SetInt(int64(g.producer.epoch))
		case "SessionTimeoutMillis", "RebalanceTimeoutMillis", "TransactionTimeoutMillis":
			v.SetInt(10_000)
		case "Acks", "CurrentLeaderEpoch", "ReplicaID", "Cluster":
			v.SetInt(-1)
		case "FirstOffset", "FetchOffset", "StartOffset", "Offset":
			v.SetInt(int64(g.IntN(4)))
		case "LastOffset":
			v.SetInt(int64(g.IntN(8)))
		case "MaxBytes", "PartitionMaxBytes", "MaxRecords":
			v.SetInt(1 << 20)
		case "NumPartitions", "Count":
			v.SetInt(int64(1 + g.IntN(6)))
		case "ReplicationFactor":
			v.SetInt(1)
		case "SessionEpoch":
			v.SetInt(0)
		case "MaxWaitMillis":
			v.SetInt(int64(g.IntN(3)))
		default:
			return false
		}
	case name == "Records":
		n := int32(1 + g.IntN(4))
		if g.IntN(3) > 0 {
			v.SetBytes(makeBatch(n, -1, -1, -1))
			break
		}
		b := makeBatch(n, g.producer.id, g.producer.epoch, g.producer.sequence)
		if g.IntN(2) == 0 {
			b[batchAttributesAt+1] |= attrTransaction
			b = seal(b)
		}
		g.producer.sequence += n
		v.SetBytes(b)
	case name == "AcknowledgeTypes":
		v.Set(reflect.ValueOf([]int8{int8(g.IntN(4))}))
	case name == "SubscribedTopicNames":
		v.Set(reflect.ValueOf([]string{"t0", "t1"}))
	case name == "TopicID":
		v.Set(reflect.ValueOf(g.ids[g.IntN(3)]))
	default:
		return false
	}
	return true
}

// harvest keeps names and numbers of an answer.
func (g *generator) harvest(v reflect.Value) {
	const most = 40
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				g.harvest(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			g.harvest(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range min(v.Len(), 3) {
				g.harvest(v.Index(i))
			}
		}
	case reflect.String:
		if s := v.String(); len(s) > 20 && len(s) < 80 && !slices.Contains(g.texts, s) {
			g.texts = append(g.texts, s)
			g.texts = g.texts[max(0, len(g.texts)-most):]
		}
	case reflect.Int32, reflect.Int64:
		if n := v.Int(); n > 1 && !slices.Contains(g.numbers, n) {
			g.numbers = append(g.numbers, n)
			g.numbers = g.numbers[max(0, len(g.numbers)-most):]
		}
	default:
	}
}

func newGenerator(e *Engine, seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), versions: e.Versions(), members: map[string][]*groupMember{}}
	for k := range g.versions {
		g.keys = append(g.keys, k)
	}
	slices.Sort(g.keys)
	families := [][]int16{
		g.keys,
		{0, 1, 2, 10, 21, 22, 24, 25, 26, 28, 61, 65, 66, 8, 9},
		{11, 11, 12, 13, 14, 14, 8, 9, 15, 16, 42, 47},
		{68, 68, 68, 69, 8, 9, 15, 16, 19, 20, 42, 47},
		{76, 76, 77, 78, 78, 78, 79, 79, 0, 90, 91, 92, 20, 19},
		{3, 19, 20, 32, 33, 35, 37, 43, 44, 45, 46, 60, 74, 75},
	}
	g.keys = families[seed%uint64(len(families))]
	return g
}

func (g *generator) request() kmsg.Request {
	key := g.keys[g.IntN(len(g.keys))]
	v := g.versions[key]
	req := kmsg.RequestForKey(key)
	req.SetVersion(v.Min + int16(g.IntN(int(v.Max-v.Min)+1)))
	g.about(key)
	g.fill(reflect.ValueOf(req).Elem())
	return req
}

func (g *generator) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := reflect.TypeAssert[interface{ Default() }](v.Addr()); ok && g.IntN(2) == 0 && v.Type().Name() != "" {
			keep := v.FieldByName("Version")
			if !keep.IsValid() {
				d.Default()
			}
		}
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "Version", "UnknownTags":
			default:
				if g.IntN(10) == 0 || !g.plausible(name, v.Field(i)) {
					g.fill(v.Field(i))
				}
			}
		}
	case reflect.Pointer:
		if g.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(g.bytes())
			return
		}
		n := g.IntN(5) - 1
		if n < 0 {
			return
		}
		s := reflect.MakeSlice(v.Type(), n, n)
		for i := range n {
			g.fill(s.Index(i))
		}
		v.Set(s)
	case reflect.Array:
		v.Set(reflect.ValueOf(g.ids[g.IntN(len(g.ids))]))
	case reflect.String:
		v.SetString(g.text())
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(g.Float64())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(g.int(v.Type().Bits()))
	default:
		panic("no way to fill a " + v.Kind().String())
	}
}

func (g *generator) int(bits int) int64 {
	switch g.IntN(9) {
	case 8:
		if len(g.numbers) > 0 {
			return g.numbers[g.IntN(len(g.numbers))] << (64 - bits) >> (64 - bits)
		}
		return 1
	case 0:
		return -1
	case 1, 2, 3:
		return 0
	case 4:
		return int64(g.IntN(6))
	case 5:
		return math.MaxInt64 >> (64 - bits)
	case 6:
		return math.MinInt64 >> (64 - bits)
	default:
		return int64(g.Uint64()) >> (64 - bits) >> g.IntN(bits)
	}
}

func (g *generator) text() string {
	if len(g.texts) > 0 && g.IntN(3) == 0 {
		return g.texts[g.IntN(len(g.texts))]
	}
	pool := []string{
		"", "t0", "t1", "t2", "t0", "t1", "new", "new2", "missing", "g", "g", "g", "h", "s", "s", "AAAAAAAAAAAAAAAAAAAAAQ",
		"consumer", "range", "share", "uniform", "earliest", "1", "-1", "999999999999999999", "cleanup.policy", "compact",
		"retention.ms", "segment.bytes", "share.auto.offset.reset", "log.cleaner.backoff.ms", "\x00", "ä", "tx",
	}
	return pool[g.IntN(len(pool))]
}

func (g *generator) bytes() []byte {
	switch g.IntN(5) {
	case 0:
		return nil
	case 1:
		b := make([]byte, g.IntN(80))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return b
	case 2:
		m := kmsg.NewConsumerMemberMetadata()
		m.Topics = []string{"t0", "t1"}
		return m.AppendTo(nil)
	case 3:
		return makeBatch(int32(1+g.IntN(3)), int64(g.IntN(3)), int16(g.IntN(2)), int32(g.IntN(3)))
	default:
		b := goodBatch(int32(1 + g.IntN(3)))
		if g.IntN(3) == 0 {
			b[g.IntN(len(b))] ^= byte(g.Uint32())
			return seal(b)
		}
		return b
	}
}
