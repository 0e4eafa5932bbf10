package acl

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// Error codes of Kafka that specs expect.
const (
	fine                   = 0
	unknownTopic           = 3
	topicRefused           = 29
	groupRefused           = 30
	clusterRefused         = 31
	unsupportedVersion     = 35
	invalidRequest         = 42
	transactionalIDRefused = 53
	invalidUpdate          = 95
)

// The subnets of most specs: room around the ranges that the rules are about.
const (
	net4 = "10.1.0.0/16"
	net6 = "fd00:1::/64"
)

// refused tells whether a code is one by which Kafka refuses for want of a right.
func refused(code int16) bool {
	return slices.Contains([]int16{topicRefused, groupRefused, clusterRefused, transactionalIDRefused}, code)
}

// A question is a request and where its answer has the code that matters.
type question struct {
	request kmsg.Request
	code    func(kmsg.Response) int16
}

// answerOf makes a code of the concrete answer.
func answerOf[R kmsg.Response](code func(R) int16) func(kmsg.Response) int16 {
	return func(resp kmsg.Response) int16 { return code(resp.(R)) } //nolint:forcetypeassert // the answer to the request
}

// worst is the first code that is not 0.
func worst(codes ...int16) int16 {
	for _, c := range codes {
		if c != 0 {
			return c
		}
	}
	return 0
}

// write asks to produce one record: WRITE on the topic.
func write(topic string) question {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, 1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = record("x")
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return question{req, answerOf(func(r *kmsg.ProduceResponse) int16 { return r.Topics[0].Partitions[0].ErrorCode })}
}

// read asks for records from the start of partition 0: READ on the topic.
func read(topic string) question {
	return question{fetch(topic, 0), answerOf(fetchCode)}
}

func fetchCode(r *kmsg.FetchResponse) int16 {
	code := r.ErrorCode
	for _, t := range r.Topics {
		for i := range t.Partitions {
			code = worst(code, t.Partitions[i].ErrorCode)
		}
	}
	return code
}

// fetch is a request for all records of partition 0, which waits that long for the first byte.
func fetch(topic string, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.MaxWaitMillis, req.MaxBytes = 11, -1, int32(wait.Milliseconds()), 1<<20
	req.MinBytes, req.SessionEpoch = 1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1<<20, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// describe asks about a topic that need not be there: DESCRIBE on the topic. It creates none.
func describe(topic string) question { return metadata(topic, false) }

func metadata(topic string, create bool) question {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, create
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return question{req, answerOf(func(r *kmsg.MetadataResponse) int16 { return r.Topics[0].ErrorCode })}
}

// join asks to be a member of a group of the classic kind: READ on the group. It becomes none.
func join(group string) question {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 5, group, 10_000, 10_000
	req.ProtocolType = "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	req.Protocols = append(req.Protocols, p)
	return question{req, answerOf(func(r *kmsg.JoinGroupResponse) int16 { return r.ErrorCode })}
}

// describeGroup asks how a group is: DESCRIBE on the group.
func describeGroup(group string) question {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 4, []string{group}
	return question{req, answerOf(func(r *kmsg.DescribeGroupsResponse) int16 { return r.Groups[0].ErrorCode })}
}

// idempotent asks for a producer id without a transactional id: IDEMPOTENT_WRITE on the cluster, or WRITE on any topic.
func idempotent() question {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
	return question{req, answerOf(func(r *kmsg.InitProducerIDResponse) int16 { return r.ErrorCode })}
}

// transactional asks for the producer id of a transactional id: WRITE on it.
func transactional(id string) question {
	q := idempotent()
	req := q.request.(*kmsg.InitProducerIDRequest) //nolint:forcetypeassert // just made
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 10_000
	return q
}

// record is a batch of one record.
func record(value string) []byte {
	r := kmsg.NewRecord()
	r.Value = []byte(value)
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch, batch.Magic = -1, 2
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = -1, -1, -1
	batch.NumRecords, batch.Records = 1, r.AppendTo(nil)
	raw := batch.AppendTo(nil)
	const lengthAt, crcAt = 8, 17
	binary.BigEndian.PutUint32(raw[lengthAt:], uint32(len(raw)-lengthAt-4))
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[crcAt+4:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// people are clients of one user that stay connected, one an address.
type people struct {
	stage     *stage.Stage
	fleet     *fleet.Fleet
	addresses []string // of the clients, by their number
}

// from connects user at the listener for passwords, once from each of these addresses of a subnet.
func from(ctx context.Context, s *stage.Stage, subnet, user string, addresses ...string) *people {
	GinkgoHelper()
	g := s.Group(subnet, "SASL_PLAINTEXT", user, len(addresses))
	g.Source, g.From = s.Network(subnet).These(addresses...), nil
	return connect(ctx, s, g)
}

// everyOf connects user from each address of a prefix within a subnet.
func everyOf(ctx context.Context, s *stage.Stage, subnet, prefix, user string, count int) *people {
	GinkgoHelper()
	g := s.Group(subnet, "SASL_PLAINTEXT", user, count)
	g.Source, g.From = s.Network(subnet).Every(prefix), nil
	return connect(ctx, s, g)
}

func connect(ctx context.Context, s *stage.Stage, g fleet.Group) *people {
	GinkgoHelper()
	f := s.Fleet(ctx, g)
	stage.AllUp(f)
	p := &people{stage: s, fleet: f}
	records := f.Records()
	for i := range records {
		p.addresses = append(p.addresses, records[i].Local.Addr().String())
	}
	return p
}

// codes asks the same from every address, and gives the code of each answer.
func (p *people) codes(ctx context.Context, q question) map[string]int16 {
	GinkgoHelper()
	all := map[string]int16{}
	for id, address := range p.addresses {
		code := func() int16 {
			resp, err := p.fleet.Call(ctx, id, q.request)
			Expect(err).NotTo(HaveOccurred(), "from %s", address)
			return q.code(resp)
		}
		if all[address] = code(); nobodyYet(all[address]) {
			p.stage.Coordinators(ctx)
			Eventually(func() int16 {
				all[address] = code()
				return all[address]
			}).WithContext(ctx).WithTimeout(30*time.Second).ShouldNot(Satisfy(nobodyYet), "from %s", address)
		}
	}
	return all
}

// nobodyYet tells whether a code is one of a group or transaction that has no coordinator yet, which says nothing of rights.
func nobodyYet(code int16) bool {
	const loading, unavailable, elsewhere = 14, 15, 16
	return slices.Contains([]int16{loading, unavailable, elsewhere}, code)
}

// allowed gives the addresses that are not refused, in order.
func (p *people) allowed(ctx context.Context, q question) []string {
	GinkgoHelper()
	codes := p.codes(ctx, q)
	allowed := []string{}
	for _, address := range p.addresses {
		if !refused(codes[address]) {
			allowed = append(allowed, address)
		}
	}
	return allowed
}

// decisions collects what was expected and seen, for one table in the report.
type decisions struct{ rows [][]string }

// check asks from every address and compares: want are those that may, and nobody else.
func (d *decisions) check(ctx context.Context, what string, p *people, q question, want ...string) {
	GinkgoHelper()
	got := p.allowed(ctx, q)
	d.rows = append(d.rows, []string{what, strings.Join(p.addresses, " "), strings.Join(want, " "), strings.Join(got, " ")})
	Expect(got).To(ConsistOf(asAny(want)...), "%s: who may, of %v", what, p.addresses)
}

// attach puts the table into the report.
func (d *decisions) attach() {
	report.Attach(report.Table{Name: "decisions", Columns: []string{"rules and request", "asked from", "may by the rules", "may by the broker"}, Rows: d.rows})
}

func asAny(texts []string) []any {
	all := make([]any, len(texts))
	for i := range texts {
		all[i] = texts[i]
	}
	return all
}

// asked attaches how many decisions a spec has asked for.
func asked(n int, note string) {
	report.Attach(report.Figure{Name: "decisions", Value: float64(n), Note: note})
}

// numbered is a prefix with numbers behind it, as addresses.
func numbered(prefix, verb string, first, last int) []string {
	var all []string
	for i := first; i <= last; i++ {
		all = append(all, prefix+fmt.Sprintf(verb, i))
	}
	return all
}
