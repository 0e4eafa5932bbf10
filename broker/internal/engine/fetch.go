package engine

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxFetchBytes is Kafka's fetch.max.bytes, the most that one answer holds beyond its first batch.
	maxFetchBytes = 55 << 20
	// maxWait bounds a long poll. The data plane goes on remembering one whose client vanished.
	maxWait = 60_000
	// maxShareRecords bounds what a share fetch acquires at once.
	maxShareRecords = 100_000
)

// admitFetch ends fetch sessions: an incremental fetch names no topic, so that what its client may read would not be
// asked again. Clients that are answered session id 0 send full fetches.
func admitFetch(_ *Engine, req *kmsg.FetchRequest) (passage, error) {
	n := len(req.Topics)
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	if n > maxElements {
		return passage{}, refuse(req, kerr.InvalidRequest, "too many elements")
	}
	if req.Version >= 7 && req.SessionEpoch > 0 {
		resp, _ := req.ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		return passage{answer: resp}, nil
	}
	out := *req
	out.ReplicaID = -1
	out.ReplicaState = kmsg.NewFetchRequestReplicaState()
	out.SessionID, out.SessionEpoch, out.ForgottenTopics = 0, -1, nil
	out.MaxWaitMillis = min(max(out.MaxWaitMillis, 0), maxWait)
	out.MaxBytes = min(max(out.MaxBytes, 0), maxFetchBytes)
	if req.Version < 3 {
		out.MaxBytes = maxFetchBytes
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.FetchResponse)
		r.SessionID = 0
		return r, nil
	}}, nil
}

// admitShareFetch bounds what one share fetch waits for and takes.
func admitShareFetch(_ *Engine, req *kmsg.ShareFetchRequest) (passage, error) {
	out := *req
	out.MaxWaitMillis = min(max(out.MaxWaitMillis, 0), maxWait)
	out.MaxBytes = min(max(out.MaxBytes, 0), maxFetchBytes)
	out.MaxRecords = min(out.MaxRecords, maxShareRecords)
	return passage{req: &out}, nil
}
