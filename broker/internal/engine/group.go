package engine

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admitJoinGroup keeps out what makes the data plane count protocols wrongly, which it does not survive: none at all,
// as Kafka refuses too, and one that is named twice.
func admitJoinGroup(_ *Engine, req *kmsg.JoinGroupRequest) (passage, error) {
	if req.ProtocolType == "" || len(req.Protocols) == 0 {
		resp, _ := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		resp.Generation = -1
		resp.MemberID = req.MemberID
		return passage{answer: resp}, nil
	}
	out := *req
	out.Protocols = distinct(req.Protocols, func(p *kmsg.JoinGroupRequestProtocol) string { return p.Name })
	return passage{req: &out}, nil
}
