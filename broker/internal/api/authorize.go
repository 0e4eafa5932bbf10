package api

import (
	"iter"
	"log/slog"
	"reflect"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// levelTrace is the level of decisions that only filter an answer or pick a branch; Kafka logs them as TRACE.
const levelTrace = slog.LevelDebug - 4

// right is what a request needs of its sender: to do op to what one of its fields names.
type right struct {
	op    acl.Operation
	kind  acl.ResourceType
	field string // the field of the request, one name or a list of elements with names; "" is the cluster
}

// cluster is a right that a whole request needs.
func cluster(op acl.Operation) right { return right{op: op, kind: acl.Cluster} }

// permit asks for a request's rights. Where one is for the whole request and missing, the request is refused and ok is false.
// Elements of a list that may not be used are taken out of req; what they are answered goes into the answer by itself. Where none
// is left the request is answered, too.
func (q *call) permit(req kmsg.Request, rights ...right) (ok bool) {
	if q.server.o.Authorizer == nil {
		return true
	}
	for _, r := range rights {
		if r.field == "" {
			if !q.may(r.op, r.kind, acl.ClusterName) {
				q.refuseFor(req, r.kind)
				return false
			}
			continue
		}
		field := reflect.ValueOf(req).Elem().FieldByName(r.field)
		if field.Kind() != reflect.Slice {
			name, named := q.nameOf(field, r.kind)
			if named && !q.may(r.op, r.kind, name) {
				q.refuseFor(req, r.kind)
				return false
			}
			continue
		}
		parted := q.part(req, r, field)
		if parted == nil {
			continue
		}
		q.refused = append(q.refused, refusedParts(parted, denial(r.kind).Code, q.partText(r.kind)))
		if field.Len() == 0 {
			q.answer(emptyResponse(req))
			return false
		}
	}
	return true
}

// emptyResponse is an answer of a request's kind without an error and without elements.
func emptyResponse(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind()
	if d, ok := resp.(interface{ Default() }); ok {
		d.Default()
	}
	return resp
}

// part takes the elements out of a list of req that its sender may not use. It returns a request with only those, or nil.
func (q *call) part(req kmsg.Request, r right, field reflect.Value) kmsg.Request {
	return q.takeOut(req, r, field, func(name string, named bool, element reflect.Value) bool {
		return named && !q.decide(r.op, r.kind, name, references(element), true)
	})
}

// takeOut takes the elements out of a list of req that are not for its sender; named is false of what names nothing, or a topic by an
// id that is not known. It returns a request with only those, or nil.
func (q *call) takeOut(req kmsg.Request, r right, field reflect.Value, not func(name string, named bool, element reflect.Value) bool) kmsg.Request {
	var out []reflect.Value
	kept := 0
	for i := range field.Len() {
		element := field.Index(i)
		name, named := q.nameOf(element, r.kind)
		if not(name, named, element) {
			copied := reflect.New(element.Type()).Elem()
			copied.Set(element)
			out = append(out, copied)
			continue
		}
		if kept < i {
			field.Index(kept).Set(element)
		}
		kept++
	}
	if len(out) == 0 {
		return nil
	}
	parted := reflect.New(reflect.TypeOf(req).Elem())
	parted.Elem().Set(reflect.ValueOf(req).Elem())
	parted.Elem().FieldByName(r.field).Set(reflect.Append(reflect.MakeSlice(field.Type(), 0, len(out)), out...))
	field.SetLen(kept)
	return parted.Interface().(kmsg.Request)
}

// references is how often an element uses its resource: once for each partition.
func references(element reflect.Value) int {
	if element.Kind() == reflect.Struct {
		if partitions := element.FieldByName("Partitions"); partitions.IsValid() && partitions.Kind() == reflect.Slice {
			return max(partitions.Len(), 1)
		}
	}
	return 1
}

// nameOf reads the name of the resource that a field or an element is about. What names nothing, or a topic by an id that does not
// exist, needs no right: it has an answer of its own.
func (q *call) nameOf(v reflect.Value, kind acl.ResourceType) (name string, ok bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Pointer:
		if v.IsNil() {
			return "", false
		}
		return q.nameOf(v.Elem(), kind)
	case reflect.Struct:
		if id := v.FieldByName("TopicID"); kind == acl.Topic && id.IsValid() && q.topicsByID() {
			return q.server.o.Engine.TopicName(id.Interface().([16]byte)) //nolint:forcetypeassert // all of kmsg's are
		}
		for _, field := range namingFields(kind) {
			if f := v.FieldByName(field); f.IsValid() {
				return q.nameOf(f, kind) // an empty name is one, too
			}
		}
	default:
	}
	return "", false
}

// topicsByID tells whether requests of this API and version name topics by their ids.
func (q *call) topicsByID() bool {
	switch kmsg.Key(q.header.Key) {
	case kmsg.Produce, kmsg.Fetch:
		return q.header.Version >= 13
	case kmsg.OffsetCommit, kmsg.OffsetFetch:
		return q.header.Version >= 10
	case kmsg.TxnOffsetCommit:
		return q.header.Version >= 6
	case kmsg.ShareFetch, kmsg.ShareAcknowledge:
		return true
	default:
		return false
	}
}

// namingFields are the fields of a list's elements that name a resource.
func namingFields(kind acl.ResourceType) []string {
	switch kind {
	case acl.Topic:
		return []string{"Topic"}
	case acl.Group:
		return []string{"Group", "GroupID"}
	case acl.TransactionalID:
		return []string{"TransactionalID"}
	default:
		return nil
	}
}

// merge adds to an answer what its refused parts are answered: each list of one goes behind that of the other.
func merge(resp kmsg.Response, refused []kmsg.Response) kmsg.Response {
	into := reflect.ValueOf(resp).Elem()
	for _, r := range refused {
		from := reflect.ValueOf(r).Elem()
		for i := range from.NumField() {
			f := from.Field(i)
			if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && from.Type() == into.Type() {
				into.Field(i).Set(reflect.AppendSlice(into.Field(i), f))
			}
		}
	}
	return resp
}

// denial is the error that tells of a missing right to a resource of a type.
func denial(kind acl.ResourceType) *kerr.Error {
	switch kind {
	case acl.Topic:
		return kerr.TopicAuthorizationFailed
	case acl.Group:
		return kerr.GroupAuthorizationFailed
	case acl.TransactionalID:
		return kerr.TransactionalIDAuthorizationFailed
	case acl.DelegationToken, acl.User:
		return kerr.DelegationTokenAuthorizationFailed
	default:
		return kerr.ClusterAuthorizationFailed
	}
}

// denialText is what Kafka says of a whole request that is refused, where its answer has room for it.
func denialText(kind acl.ResourceType) string {
	switch kind {
	case acl.Topic:
		return "Topic authorization failed."
	case acl.Group:
		return "Group authorization failed."
	case acl.TransactionalID:
		return "Transactional Id authorization failed."
	default:
		return "Cluster authorization failed."
	}
}

func (q *call) refuseFor(req kmsg.Request, kind acl.ResourceType) {
	text := denialText(kind)
	switch req.(type) {
	case *kmsg.DescribeClientQuotasRequest, *kmsg.DescribeUserSCRAMCredentialsRequest, *kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ShareGroupHeartbeatRequest,
		*kmsg.ShareFetchRequest, *kmsg.ShareAcknowledgeRequest:
		text = "" // Kafka leaves it out
	}
	q.refuse(req, denial(kind), text)
}

// partText is what Kafka says of a part of a request that is refused.
func (q *call) partText(kind acl.ResourceType) string {
	if kind == acl.Group {
		return ""
	}
	switch kmsg.Key(q.row.key) {
	case kmsg.CreateTopics:
		return "Authorization failed."
	case kmsg.DescribeProducers, kmsg.AlterShareGroupOffsets, kmsg.DeleteShareGroupOffsets:
		return denialText(kind)
	default:
		return ""
	}
}

// errNotOfCluster is a right to the cluster that the sender of a request about ACLs does not have.
func errNotOfCluster() error {
	return &engine.RefusedError{Code: kerr.ClusterAuthorizationFailed.Code, Why: denialText(acl.Cluster)}
}

// may asks whether the sender may do op to a resource that the request is about.
func (q *call) may(op acl.Operation, kind acl.ResourceType, name string) bool {
	return q.decide(op, kind, name, 1, true)
}

// mayQuietly asks what only filters an answer, or picks one of several rights that would do.
func (q *call) mayQuietly(op acl.Operation, kind acl.ResourceType, name string) bool {
	return q.decide(op, kind, name, 1, false)
}

// decide asks the authorizer, and logs and counts what it says. Without an authorizer everybody may do everything. loud is whether the
// request asks for the resource; references are how often.
func (q *call) decide(op acl.Operation, kind acl.ResourceType, name string, references int, loud bool) bool {
	a := q.server.o.Authorizer
	if a == nil {
		return true
	}
	query := acl.Query{Principal: q.sender(), Client: q.conn.Remote().Addr(), Operation: op, Type: kind, Name: name}
	allowed := a.Authorize(query)
	q.server.authorizations.decided(allowed)
	level := slog.LevelInfo
	switch {
	case !loud:
		level = levelTrace
	case allowed:
		level = slog.LevelDebug
	}
	if log := q.server.o.AuthorizerLog; log.Enabled(q.server.ctx, level) {
		//nolint:sloglint // the whole line is Kafka's, and looked for as it is
		log.Log(q.server.ctx, level, decisionLine(query, a.Reason(query), allowed, q.row.name, references))
	}
	return allowed
}

// sender is the caller's principal, Type:name.
func (q *call) sender() string {
	if q.who == "" {
		q.who = principal(q.conn.Identity())
	}
	return q.who
}

// operations is the field that says what the sender may do to a resource: bit n is the operation of code n.
func (q *call) operations(asked bool, kind acl.ResourceType, name string) int32 {
	if !asked {
		return notAsked
	}
	var bits int32
	for _, op := range acl.Operations(kind) {
		if q.decide(op, kind, name, 0, false) {
			bits |= 1 << op
		}
	}
	return bits
}

// clusterOperations is the same for the cluster: nothing to whom may not describe it.
func (q *call) clusterOperations(asked bool) int32 {
	if asked && !q.mayQuietly(acl.Describe, acl.Cluster, acl.ClusterName) {
		return 0
	}
	return q.operations(asked, acl.Cluster, acl.ClusterName)
}

// decisionLine is a line of Kafka's authorizer log (StandardAuthorizerData.buildAuditMessage).
func decisionLine(query acl.Query, reason acl.Reason, allowed bool, request string, references int) string {
	verdict := "Denied"
	if allowed {
		verdict = "Allowed"
	}
	var b strings.Builder
	b.WriteString("Principal = ")
	b.WriteString(query.Principal)
	b.WriteString(" is ")
	b.WriteString(verdict)
	b.WriteString(" operation = ")
	b.WriteString(query.Operation.String())
	b.WriteString(" from host = ")
	b.WriteString(acl.HostText(query.Client))
	b.WriteString(" on resource = ")
	b.WriteString(resourceWord(query.Type))
	b.WriteString(":LITERAL:")
	b.WriteString(query.Name)
	b.WriteString(" for request = ")
	b.WriteString(request)
	b.WriteString(" with resourceRefCount = ")
	b.WriteString(strconv.Itoa(references))
	b.WriteString(" based on rule ")
	b.WriteString(reason.String())
	return b.String()
}

// resourceWord is a type as Kafka's authorizer log writes it (SecurityUtils.resourceTypeName).
func resourceWord(t acl.ResourceType) string {
	switch t {
	case acl.Topic:
		return "Topic"
	case acl.Group:
		return "Group"
	case acl.Cluster:
		return "Cluster"
	case acl.TransactionalID:
		return "TransactionalId"
	case acl.DelegationToken:
		return "DelegationToken"
	case acl.User:
		return "User"
	default:
		return "Unknown"
	}
}

// permitSubscription refuses a member of a group that subscribes to a topic by name that it may not describe.
func (q *call) permitSubscription(req kmsg.Request, topics []string) bool {
	for _, topic := range topics {
		if !q.may(acl.Describe, acl.Topic, topic) {
			q.refuseFor(req, acl.Topic)
			return false
		}
	}
	return true
}

// describesAll tells whether the sender may describe each of some topics.
func (q *call) describesAll(topics iter.Seq[string]) bool {
	if q.server.o.Authorizer == nil {
		return true
	}
	for topic := range topics {
		if !q.mayQuietly(acl.Describe, acl.Topic, topic) {
			return false
		}
	}
	return true
}
