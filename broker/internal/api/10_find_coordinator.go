package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Kinds of coordinators.
const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	coordinatorShare       = 2
)

// findCoordinator tells which broker looks after a group or a transactional id.
//
// Versions: 0-6.
// Needs: DESCRIBE on GROUP or TRANSACTIONAL_ID; CLUSTER_ACTION on CLUSTER for a share group's key.
// Differs from Kafka: nothing known.
func findCoordinator() through[*kmsg.FindCoordinatorRequest, *kmsg.FindCoordinatorResponse] {
	const sharesFrom = 6
	return through[*kmsg.FindCoordinatorRequest, *kmsg.FindCoordinatorResponse]{
		permit: func(q *call, req *kmsg.FindCoordinatorRequest) bool {
			need := right{acl.Describe, acl.Group, ""}
			switch req.CoordinatorType {
			case coordinatorGroup:
			case coordinatorTransaction:
				need.kind = acl.TransactionalID
			case coordinatorShare:
				if req.Version >= sharesFrom {
					return q.permit(req, cluster(acl.ClusterAction))
				}
				q.refuse(req, kerr.InvalidRequest, map[bool]string{true: malformed}[req.Version < coordinatorListFrom])
				return false
			default: // whoever asks
				q.refuse(req, kerr.InvalidRequest, malformed)
				return false
			}
			if need.field = "CoordinatorKeys"; req.Version < coordinatorListFrom {
				need.field = "CoordinatorKey"
			}
			return q.permit(req, need)
		},
		after: func(q *call, _ *kmsg.FindCoordinatorRequest, resp *kmsg.FindCoordinatorResponse) {
			q.placeCoordinators(resp)
		},
	}
}

// coordinatorListFrom is the version from which several coordinators are asked for at once.
const coordinatorListFrom = 4

// placeCoordinators gives the coordinators in an answer their addresses.
func (q *call) placeCoordinators(resp *kmsg.FindCoordinatorResponse) {
	known := q.faces()
	if q.header.Version < coordinatorListFrom {
		known.place(&resp.ErrorCode, &resp.ErrorMessage, &resp.NodeID, &resp.Host, &resp.Port)
		if resp.ErrorCode == 0 {
			resp.ErrorMessage = nonEmpty("NONE")
		}
	}
	for i := range resp.Coordinators {
		c := &resp.Coordinators[i]
		known.place(&c.ErrorCode, &c.ErrorMessage, &c.NodeID, &c.Host, &c.Port)
		if c.ErrorMessage == nil {
			c.ErrorMessage = new(string)
		}
	}
}

// place fills in where a coordinator is: at one of the faces, or nowhere.
func (f faces) place(code *int16, message **string, node *int32, host *string, port *int32) {
	at, ok := f.of(*node)
	if *code == 0 && !ok {
		*code, *message = kerr.CoordinatorNotAvailable.Code, nonEmpty(kerr.CoordinatorNotAvailable.Description)
	}
	if *code != 0 {
		*node, *host, *port = noNode, "", noNode
		return
	}
	*node, *host, *port = at.id, at.at.Host, at.at.Port
}
