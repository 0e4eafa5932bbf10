package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// initProducerID gives a producer its id and epoch.
//
// Versions: 0-5.
// Needs: WRITE on TRANSACTIONAL_ID; without one, IDEMPOTENT_WRITE on CLUSTER or WRITE on any TOPIC.
// Differs from Kafka: nothing known.
func initProducerID() through[*kmsg.InitProducerIDRequest, *kmsg.InitProducerIDResponse] {
	return through[*kmsg.InitProducerIDRequest, *kmsg.InitProducerIDResponse]{
		permit: func(q *call, req *kmsg.InitProducerIDRequest) bool {
			if req.TransactionalID != nil {
				return q.permit(req, right{acl.Write, acl.TransactionalID, "TransactionalID"})
			}
			if q.mayQuietly(acl.IdempotentWrite, acl.Cluster, acl.ClusterName) ||
				q.server.o.Authorizer.AuthorizeByType(q.sender(), q.conn.Remote().Addr(), acl.Write, acl.Topic) {
				return true
			}
			q.refuseFor(req, acl.Cluster)
			return false
		},
	}
}
