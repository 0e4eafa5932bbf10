package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admitMetadata never creates topics (that is CreateTopics' work, by the front door), answers unknown topic ids, of
// which the data plane would answer only one, and gives partitions in their order.
func admitMetadata(e *Engine, req *kmsg.MetadataRequest) (passage, error) {
	out := *req
	out.AllowAutoTopicCreation = false
	if req.Version == 0 { // where no topic means all, which the data plane knows as null of version 1
		out.Version = 1
		if len(req.Topics) == 0 {
			out.Topics = nil
		}
	}
	var unknown []kmsg.MetadataResponseTopic
	if out.Topics != nil {
		out.Topics, unknown = e.knownTopics(out.Topics, req.Version)
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.MetadataResponse)
		r.Version = req.Version
		r.ControllerID = e.nodeID
		r.Topics = append(r.Topics, unknown...)
		for i := range r.Topics {
			r.Topics[i].ErrorCode = invalidName(r.Topics[i].ErrorCode, r.Topics[i].Topic)
			slices.SortFunc(r.Topics[i].Partitions, func(a, b kmsg.MetadataResponseTopicPartition) int {
				return cmp.Compare(a.Partition, b.Partition)
			})
		}
		return r, nil
	}}, nil
}

// knownTopics parts what a Metadata request asks for from unknown ids, and from an empty name, which the data plane answers without one.
func (e *Engine) knownTopics(asked []kmsg.MetadataRequestTopic, version int16) (known []kmsg.MetadataRequestTopic, unknown []kmsg.MetadataResponseTopic) {
	const idsFrom = 10
	known = make([]kmsg.MetadataRequestTopic, 0, len(asked)) // not nil: that would be all
	missing := kmsg.NewMetadataResponseTopic()
	missing.Topic, missing.ErrorCode = new(""), kerr.UnknownTopicOrPartition.Code
	empty := false
	ids := map[[16]byte]bool{}
	for _, t := range asked {
		switch {
		case version >= idsFrom && t.TopicID != [16]byte{}:
			if ids[t.TopicID] {
				continue
			}
			ids[t.TopicID] = true
			if _, there := e.topics.name(t.TopicID); there {
				known = append(known, t)
				continue
			}
			no := kmsg.NewMetadataResponseTopic()
			no.TopicID, no.ErrorCode = t.TopicID, kerr.UnknownTopicID.Code
			unknown = append(unknown, no)
		case t.Topic != nil && *t.Topic == "":
			empty = true
		default:
			known = append(known, t)
		}
	}
	if empty {
		unknown = append(unknown, missing)
	}
	return known, unknown
}

// invalidName is 17 for an unknown topic that no topic could be called.
func invalidName(code int16, name *string) int16 {
	if code == kerr.UnknownTopicOrPartition.Code && name != nil && CheckTopicName(*name) != "" {
		return kerr.InvalidTopicException.Code
	}
	return code
}

// admitDescribeCluster names the controller that clients know.
func admitDescribeCluster(e *Engine, req *kmsg.DescribeClusterRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.DescribeClusterResponse)
		r.ControllerID = e.nodeID
		return r, nil
	}}, nil
}

// admitDescribeTopicPartitions gives the eligible leader replicas as empty lists: Java's admin dies of the null ones.
// The data plane hangs up on a cursor that it does not like.
func admitDescribeTopicPartitions(_ *Engine, req *kmsg.DescribeTopicPartitionsRequest) (passage, error) {
	if c := req.Cursor; c != nil {
		if c.Partition < 0 {
			return passage{}, refuse(req, kerr.InvalidRequest, "the cursor's partition is negative")
		}
		named := len(req.Topics) == 0 || c.Topic == "" || slices.ContainsFunc(req.Topics,
			func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == c.Topic })
		if !named {
			return passage{}, refuse(req, kerr.InvalidRequest, "the cursor's topic is not among the topics")
		}
	}
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.DescribeTopicPartitionsResponse)
		for i := range r.Topics {
			r.Topics[i].ErrorCode = invalidName(r.Topics[i].ErrorCode, r.Topics[i].Topic)
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				if p.EligibleLeaderReplicas == nil {
					p.EligibleLeaderReplicas = []int32{}
				}
				if p.LastKnownELR == nil {
					p.LastKnownELR = []int32{}
				}
			}
		}
		return r, nil
	}}, nil
}

// admitListGroups writes the filters as the data plane compares them: Java sends "Classic" and "Consumer", and since
// Kafka 4.0 states are compared without regard to case.
func admitListGroups(_ *Engine, req *kmsg.ListGroupsRequest) (passage, error) {
	out := *req
	out.TypesFilter = make([]string, 0, len(req.TypesFilter))
	for _, t := range req.TypesFilter {
		out.TypesFilter = append(out.TypesFilter, strings.ToLower(t))
	}
	out.StatesFilter = make([]string, 0, len(req.StatesFilter))
	for _, s := range req.StatesFilter {
		out.StatesFilter = append(out.StatesFilter, groupState(s))
	}
	return passage{req: &out}, nil
}

// groupState spells a group state as the data plane does.
func groupState(s string) string {
	states := []string{
		"Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead",
	}
	for _, known := range states {
		if strings.EqualFold(s, known) {
			return known
		}
	}
	return s
}

func admitDescribeGroups(_ *Engine, req *kmsg.DescribeGroupsRequest) (passage, error) {
	out := *req
	out.Groups = distinct(req.Groups, same)
	return passage{req: &out}, nil
}

// admitConsumerGroupDescribe gives assigned topics their names, which the data plane knows by id only.
func admitConsumerGroupDescribe(e *Engine, req *kmsg.ConsumerGroupDescribeRequest) (passage, error) {
	out := *req
	out.Groups = distinct(req.Groups, same)
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.ConsumerGroupDescribeResponse)
		for i := range r.Groups {
			for j := range r.Groups[i].Members {
				m := &r.Groups[i].Members[j]
				e.nameAssigned(m.Assignment.TopicPartitions)
				e.nameAssigned(m.TargetAssignment.TopicPartitions)
			}
		}
		return r, nil
	}}, nil
}

func (e *Engine) nameAssigned(topics []kmsg.AssignmentTopicPartition) {
	for i := range topics {
		if t := &topics[i]; t.Topic == "" {
			t.Topic, _ = e.topics.name(t.TopicID)
		}
	}
}

func admitShareGroupDescribe(_ *Engine, req *kmsg.ShareGroupDescribeRequest) (passage, error) {
	out := *req
	out.GroupIDs = distinct(req.GroupIDs, same)
	return passage{req: &out}, nil
}

func admitDescribeShareGroupOffsets(_ *Engine, req *kmsg.DescribeShareGroupOffsetsRequest) (passage, error) {
	out := *req
	out.Groups = distinct(req.Groups, func(g *kmsg.DescribeShareGroupOffsetsRequestGroup) string { return g.GroupID })
	return passage{req: &out}, nil
}

func admitDescribeTransactions(_ *Engine, req *kmsg.DescribeTransactionsRequest) (passage, error) {
	out := *req
	out.TransactionalIDs = distinct(req.TransactionalIDs, same)
	return passage{req: &out}, nil
}

func admitFindCoordinator(_ *Engine, req *kmsg.FindCoordinatorRequest) (passage, error) {
	out := *req
	out.CoordinatorKeys = distinct(req.CoordinatorKeys, same)
	return passage{req: &out}, nil
}

// admitDescribeLogDirs names the directory that the records are in, with the size of its disk.
func admitDescribeLogDirs(e *Engine, req *kmsg.DescribeLogDirsRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.DescribeLogDirsResponse)
		path, total, usable := e.dir.disk()
		if len(r.Dirs) == 0 { // a directory without partitions is one all the same
			r.Dirs = append(r.Dirs, kmsg.NewDescribeLogDirsResponseDir())
		}
		for i := range r.Dirs {
			d := &r.Dirs[i]
			d.Dir, d.TotalBytes, d.UsableBytes = path, total, usable
		}
		return r, nil
	}}, nil
}
