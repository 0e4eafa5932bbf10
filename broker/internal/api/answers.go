package api

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// notAsked is an authorized-operations field that nobody asked for.
const notAsked int32 = -1 << 31

// endpoint is the broker's address for whoever reads the answer: that of the listener the request
// came through.
func (q *call) endpoint() Endpoint {
	return (*q.server.listeners.Load())[q.conn.Listener().Name].Advertised
}

// rack is broker.rack; nil without one.
func (q *call) rack() *string {
	if q.server.o.Rack == "" {
		return nil
	}
	return &q.server.o.Rack
}

// nonEmpty is a message for a nullable field.
func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// errorResponse answers every part of req with one error, as Kafka's getErrorResponse of each API
// does: at the top level where the API has an error there, and in each element that req asks about.
// Elements of the answer take the fields that they have in common with those of the request.
func errorResponse(req kmsg.Request, code int16, message string) kmsg.Response {
	return answerError(req, code, message, false)
}

// refusedParts is what the parts of a request are answered that its sender may not use; the rest of it is answered by itself.
func refusedParts(parted kmsg.Request, code int16, message string) kmsg.Response {
	return answerError(parted, code, message, true)
}

func answerError(req kmsg.Request, code int16, message string, parts bool) kmsg.Response {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if d, ok := resp.(interface{ Default() }); ok {
		d.Default()
	}
	fillError(reflect.ValueOf(resp).Elem(), reflect.ValueOf(req).Elem(), code, message, !parts)
	completeError(req, resp, code, message)
	return resp
}

// completeError is what Kafka's answers of some APIs have beside the error.
func completeError(req kmsg.Request, resp kmsg.Response, code int16, message string) {
	switch r := resp.(type) {
	case *kmsg.FindCoordinatorResponse: // no node is -1 on the wire
		r.NodeID, r.Port = -1, -1
		for i := range r.Coordinators {
			c := &r.Coordinators[i]
			c.NodeID, c.Port = -1, -1
			complete(&c.ErrorMessage)
		}
	case *kmsg.OffsetFetchResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[j].Metadata = new(string)
			}
		}
	case *kmsg.FetchResponse, *kmsg.ShareFetchResponse:
		noRecords(r)
	case *kmsg.AlterUserSCRAMCredentialsResponse:
		r.Results = refuseUsers(req.(*kmsg.AlterUserSCRAMCredentialsRequest), code, message)
	}
}

// noRecords gives refused partitions what Kafka gives them, which librdkafka insists on: no records, rather than null.
func noRecords(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.FetchResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				p.RecordBatches, p.AbortedTransactions = []byte{}, []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			}
		}
	case *kmsg.ShareFetchResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				r.Topics[i].Partitions[j].Records = []byte{}
			}
		}
	}
}

// refuseUsers has one result for each user that is named, however often.
func refuseUsers(req *kmsg.AlterUserSCRAMCredentialsRequest, code int16, message string) []kmsg.AlterUserSCRAMCredentialsResponseResult {
	var users []string
	for _, d := range req.Deletions {
		users = append(users, d.Name)
	}
	for i := range req.Upsertions {
		users = append(users, req.Upsertions[i].Name)
	}
	var results []kmsg.AlterUserSCRAMCredentialsResponseResult
	seen := map[string]bool{}
	for _, user := range users {
		if !seen[user] {
			r := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
			r.User, r.ErrorCode, r.ErrorMessage = user, code, nonEmpty(message)
			results = append(results, r)
		}
		seen[user] = true
	}
	return results
}

// alone tells whether an error of a message, or of a part of one, says all: then its own parts are left out.
func alone(resp reflect.Value) bool {
	switch r := resp.Addr().Interface().(type) {
	case *kmsg.ElectLeadersResponse, *kmsg.AlterPartitionAssignmentsResponse, *kmsg.ListPartitionReassignmentsResponse,
		*kmsg.DescribeUserSCRAMCredentialsResponse, *kmsg.FetchResponse:
		return false
	case *kmsg.OffsetFetchResponse:
		return r.Version >= 2 && r.Version < offsetFetchGroups
	case *kmsg.AddPartitionsToTxnResponse:
		return r.Version >= 4
	case *kmsg.LeaveGroupResponse, *kmsg.OffsetDeleteResponse, *kmsg.DescribeQuorumResponse, *kmsg.ShareFetchResponse, *kmsg.ShareAcknowledgeResponse,
		*kmsg.AlterShareGroupOffsetsResponse, *kmsg.DeleteShareGroupOffsetsResponse, *kmsg.ConsumerGroupHeartbeatResponse, *kmsg.ShareGroupHeartbeatResponse, *kmsg.OffsetFetchResponseGroup, *kmsg.DescribeShareGroupOffsetsResponseGroup:
		return true
	}
	return false
}

// unknown tells of a field that an error leaves unknown, which is -1 on the wire, also where the request has one of that name.
func unknown(field string) bool {
	switch field {
	case "BaseOffset", "HighWatermark", "Timestamp", "Offset", "LowWatermark", "LeaderEpoch", "StartOffset", "NumPartitions", "ReplicationFactor":
		return true
	}
	return false
}

func fillError(resp, req reflect.Value, code int16, message string, whole bool) {
	whole = whole && alone(resp)
	for i := range resp.NumField() {
		field, name := resp.Field(i), resp.Type().Field(i).Name
		asked := req.FieldByName(name)
		switch {
		case name == "ErrorCode" && field.Kind() == reflect.Int16:
			field.SetInt(int64(code))
		case name == "ErrorMessage" && field.Type() == reflect.TypeFor[*string]():
			field.Set(reflect.ValueOf(nonEmpty(message)))
		case unknown(name) && field.CanInt():
			field.SetInt(-1)
		case !asked.IsValid(), !field.CanSet():
		case whole && (field.Kind() == reflect.Slice || name == "MemberID"), name == "ProtocolType", name == "Protocol": // not told
		case field.Type() == reflect.TypeFor[*string]() && asked.Kind() == reflect.String:
			field.Set(asked.Addr())
		case field.Kind() == reflect.Slice && asked.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			fillErrors(field, asked, code, message)
		case name != "Version" && asked.Type() == field.Type() && isScalar(field):
			field.Set(asked)
		}
	}
	for _, name := range [][2]string{
		{"TopicNames", "Topics"},
		{"CoordinatorKeys", "Coordinators"},
		{"Creations", "Results"},
		{"Filters", "Results"},
		{"Users", "Results"},
		{"Upsertions", "Results"},
		{"TransactionalIDs", "TransactionStates"},
		{"GroupIDs", "Groups"},
	} {
		asked, field := req.FieldByName(name[0]), resp.FieldByName(name[1])
		if asked.IsValid() && asked.Kind() == reflect.Slice && field.IsValid() && field.Len() == 0 {
			fillErrors(field, asked, code, message)
		}
	}
}

// fillErrors makes one element of the answer for each of the request.
func fillErrors(field, asked reflect.Value, code int16, message string) {
	out := reflect.MakeSlice(field.Type(), asked.Len(), asked.Len())
	for i := range asked.Len() {
		item, from := out.Index(i), asked.Index(i)
		if d, ok := reflect.TypeAssert[interface{ Default() }](item.Addr()); ok {
			d.Default()
		}
		if from.Kind() == reflect.Struct {
			fillError(item, from, code, message, true)
			continue
		}
		// A list of names or numbers: the element names itself by its first field of that kind.
		named := false
		for j := range item.NumField() {
			f := item.Field(j)
			switch {
			case unknown(item.Type().Field(j).Name) && f.CanInt():
				f.SetInt(-1)
			case item.Type().Field(j).Name == "ErrorCode":
				f.SetInt(int64(code))
			case item.Type().Field(j).Name == "ErrorMessage":
				f.Set(reflect.ValueOf(nonEmpty(message)))
			case !named && f.Type() == from.Type():
				f.Set(from)
				named = true
			case !named && f.Type() == reflect.PointerTo(from.Type()):
				p := reflect.New(from.Type())
				p.Elem().Set(from)
				f.Set(p)
				named = true
			}
		}
	}
	field.Set(out)
}

func isScalar(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Struct, reflect.Map, reflect.Interface:
		return false
	default:
		return true
	}
}
