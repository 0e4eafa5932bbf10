package api

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Endpoint types of DescribeCluster.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// describeCluster tells the brokers and the cluster id.
//
// Versions: 0-2.
// Needs: nothing; DESCRIBE on CLUSTER for the authorized operations.
// Differs from Kafka: nothing known.
func describeCluster(_ context.Context, q *call, req *kmsg.DescribeClusterRequest) (*kmsg.DescribeClusterResponse, error) {
	resp := kmsg.NewPtrDescribeClusterResponse()
	kind := int8(endpointBrokers)
	if req.Version >= 1 {
		kind = req.EndpointType
	}
	resp.EndpointType = kind
	switch kind {
	case endpointBrokers:
	case endpointControllers:
		resp.ErrorCode = kerr.MismatchedEndpointType.Code
		resp.ErrorMessage = nonEmpty("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
		return resp, nil
	default:
		resp.ErrorCode = kerr.UnsupportedEndpointType.Code
		resp.ErrorMessage = nonEmpty(fmt.Sprintf("Unsupported endpoint type %d", kind))
		return resp, nil
	}
	known := q.faces()
	for _, one := range known.all {
		if one.fenced && !req.IncludeFencedBrokers {
			continue
		}
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack, b.IsFenced = one.id, one.at.Host, one.at.Port, one.rack, one.fenced
		resp.Brokers = append(resp.Brokers, b)
	}
	resp.ClusterID, resp.ControllerID = q.server.o.ClusterID, known.controller()
	resp.ClusterAuthorizedOperations = q.clusterOperations(req.IncludeClusterAuthorizedOperations)
	return resp, nil
}
