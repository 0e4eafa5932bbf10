package engine

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxFetchBytes is the most that one answer holds beyond its first batch.
	maxFetchBytes = 8 << 20
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

// admitShareFetch bounds what one share fetch waits for and takes. Partitions without records have none in the answer, rather than null,
// which Java rejects.
func admitShareFetch(_ *Engine, req *kmsg.ShareFetchRequest) (passage, error) {
	out := *req
	out.MaxWaitMillis = min(max(out.MaxWaitMillis, 0), maxWait)
	out.MaxBytes = min(max(out.MaxBytes, 0), maxFetchBytes)
	out.MaxRecords = min(out.MaxRecords, maxShareRecords)
	var span acknowledged
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			for _, b := range req.Topics[i].Partitions[j].AcknowledgementBatches {
				span.add(b.FirstOffset, b.LastOffset)
			}
		}
	}
	if span.tooMany() {
		return passage{}, refuse(req, kerr.InvalidRequest, "too many offsets are acknowledged")
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.ShareFetchResponse)
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				if p := &r.Topics[i].Partitions[j]; p.Records == nil {
					p.Records = []byte{}
				}
			}
		}
		return r, nil
	}}, nil
}

// admitShareAcknowledge bounds what one request acknowledges.
func admitShareAcknowledge(_ *Engine, req *kmsg.ShareAcknowledgeRequest) (passage, error) {
	var span acknowledged
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			for _, b := range req.Topics[i].Partitions[j].AcknowledgementBatches {
				span.add(b.FirstOffset, b.LastOffset)
			}
		}
	}
	if span.tooMany() {
		return passage{}, refuse(req, kerr.InvalidRequest, "too many offsets are acknowledged")
	}
	return passage{req: req}, nil
}

// acknowledged counts the offsets of a request's batches. The data plane looks at each, whether it was acquired or not.
type acknowledged struct{ n uint64 }

func (a *acknowledged) add(first, last int64) {
	if first <= last {
		a.n += min(uint64(last)-uint64(first), maxShareRecords) + 1
	}
}

func (a *acknowledged) tooMany() bool { return a.n > maxShareRecords }

// admitAlterShareGroupOffsets refuses offsets that no partition has: the data plane counts from there, one by one.
func admitAlterShareGroupOffsets(_ *Engine, req *kmsg.AlterShareGroupOffsetsRequest) (passage, error) {
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			if p.StartOffset < 0 {
				return passage{}, refuse(req, kerr.InvalidRequest, "a start offset is negative")
			}
		}
	}
	return passage{req: req}, nil
}
