package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admitCreateTopics checks what the data plane takes on trust (names, counts, assignments, configs) and follows which
// topics there are. It goes to the controller, in the version whose answer carries the new topic ids.
func admitCreateTopics(e *Engine, req *kmsg.CreateTopicsRequest) (passage, error) {
	total, seen := 0, map[string]int{}
	for i := range req.Topics {
		seen[req.Topics[i].Topic]++
		total += e.newPartitions(&req.Topics[i])
	}
	full := !e.topics.room(total, e.maxPartitions)
	out := *req
	out.Version = 7
	out.Topics = make([]kmsg.CreateTopicsRequestTopic, 0, len(req.Topics))
	var refused []kmsg.CreateTopicsResponseTopic
	twice := map[string]bool{} // answered already
	for i := range req.Topics {
		t := &req.Topics[i]
		v := e.checkNewTopic(t)
		switch {
		case total > maxNewPartitions:
			v = verdict{kerr.PolicyViolation, "Excessively large number of partitions per request."}
		case full && v.err == nil:
			v = e.tooManyPartitions()
		case seen[t.Topic] > 1:
			v = verdict{kerr.InvalidRequest, "Duplicate topic name."}
		}
		if v.err == nil {
			out.Topics = append(out.Topics, *t)
			continue
		}
		if twice[t.Topic] {
			continue
		}
		twice[t.Topic] = true
		no := kmsg.NewCreateTopicsResponseTopic()
		no.Topic, no.ErrorCode, no.ErrorMessage = t.Topic, v.err.Code, &v.why
		refused = append(refused, no)
	}
	if len(out.Topics) == 0 {
		resp, _ := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		resp.Topics = refused
		return passage{answer: resp}, nil
	}
	return passage{req: &out, controller: true, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.CreateTopicsResponse)
		r.Version = req.Version
		for i := range r.Topics {
			e.created(&r.Topics[i], req.ValidateOnly)
		}
		r.Topics = append(r.Topics, refused...)
		return r, nil
	}}, nil
}

// created follows a topic that was made, or says in Kafka's words why it was not.
func (e *Engine) created(t *kmsg.CreateTopicsResponseTopic, validated bool) {
	switch t.ErrorCode {
	case 0:
		if !validated {
			e.policies.forget(t.Topic)
			e.topics.add(t.Topic, t.TopicID, int(t.NumPartitions))
		}
	case kerr.TopicAlreadyExists.Code:
		t.ErrorMessage = new(fmt.Sprintf("Topic '%s' already exists.", t.Topic))
	case kerr.InvalidTopicException.Code:
		if other := e.topics.colliding(t.Topic); other != "" {
			t.ErrorMessage = new(fmt.Sprintf("Topic '%s' collides with existing topic: %s", t.Topic, other))
		}
	}
}

// newPartitions is how many partitions a new topic is to have; 0 when it says nonsense.
func (e *Engine) newPartitions(t *kmsg.CreateTopicsRequestTopic) int {
	switch {
	case len(t.ReplicaAssignment) > 0:
		return len(t.ReplicaAssignment)
	case t.NumPartitions == -1:
		return e.defaultPartitions
	default:
		return int(max(t.NumPartitions, 0))
	}
}

// tooManyPartitions refuses what the process has no files for.
func (e *Engine) tooManyPartitions() verdict {
	return verdict{kerr.PolicyViolation, fmt.Sprintf(
		"This broker keeps at most %d partitions, with two open files for each.", e.maxPartitions)}
}

func (e *Engine) checkNewTopic(t *kmsg.CreateTopicsRequestTopic) verdict {
	if why := CheckTopicName(t.Topic); why != "" {
		return verdict{kerr.InvalidTopicException, why}
	}
	if t.Topic == ClusterMetadata {
		return verdict{kerr.InvalidRequest, "Creation of internal topic " + ClusterMetadata + " is prohibited."}
	}
	if len(t.ReplicaAssignment) == 0 {
		switch {
		case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
			return verdict{kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value."}
		case int(t.ReplicationFactor) > len(e.nodes):
			return verdict{kerr.InvalidReplicationFactor, fmt.Sprintf(
				"Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered.",
				t.ReplicationFactor, t.ReplicationFactor, len(e.nodes))}
		case t.NumPartitions < -1 || t.NumPartitions == 0:
			return verdict{kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value."}
		}
	}
	if v := e.checkAssignment(t); v.err != nil {
		return v
	}
	for _, c := range t.Configs {
		if why := checkTopicConfig(c.Name, c.Value); why != "" {
			return verdict{kerr.InvalidConfig, why}
		}
	}
	return verdict{}
}

// checkAssignment judges the replicas that a new topic brings, if it brings any.
func (e *Engine) checkAssignment(t *kmsg.CreateTopicsRequestTopic) verdict {
	switch {
	case len(t.ReplicaAssignment) == 0:
		return verdict{}
	case t.NumPartitions != -1:
		return verdict{kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1."}
	case t.ReplicationFactor != -1:
		return verdict{kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1."}
	}
	seen := map[int32]bool{}
	for _, a := range t.ReplicaAssignment {
		if v := e.checkReplicas(a.Replicas); v.err != nil {
			return v
		}
		seen[a.Partition] = true
	}
	for p := range int32(len(t.ReplicaAssignment)) {
		if !seen[p] {
			return verdict{kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence"}
		}
	}
	return verdict{}
}

// checkReplicas judges an assignment.
func (e *Engine) checkReplicas(replicas []int32) verdict {
	if len(replicas) == 0 {
		return verdict{kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list."}
	}
	for i, r := range replicas {
		switch {
		case !slices.Contains(e.nodes, r):
			return verdict{kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes broker %d, but no such broker is registered.", r)}
		case slices.Contains(replicas[:i], r):
			return verdict{kerr.InvalidReplicaAssignment, fmt.Sprintf("The manual partition assignment includes the broker %d more than once.", r)}
		}
	}
	return verdict{}
}

// ClusterMetadata is the topic of Kafka's own log, which nobody can make.
const ClusterMetadata = "__cluster_metadata"

// CheckTopicName says, in Kafka's words, what is wrong with a topic's name; "" when nothing is.
func CheckTopicName(name string) string {
	const longest = 249
	switch {
	case name == "":
		return "Topic name is invalid: the empty string is not allowed"
	case name == "." || name == "..":
		return fmt.Sprintf("Topic name is invalid: '%s' is not allowed", name)
	case len(name) > longest:
		return fmt.Sprintf("Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, longest)
	}
	legal := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if strings.ContainsFunc(name, func(c rune) bool { return !legal(c) }) {
		return fmt.Sprintf("Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	}
	return ""
}

// admitDeleteTopics refuses what names a topic twice, or in no way, and follows which topics there are. It goes to the
// controller.
func admitDeleteTopics(e *Engine, req *kmsg.DeleteTopicsRequest) (passage, error) {
	const namesOrIDsFrom = 6
	asked := req.Topics
	if req.Version < namesOrIDsFrom {
		asked = nil
		for i := range req.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = &req.TopicNames[i]
			asked = append(asked, t)
		}
	}
	out := *req
	out.TopicNames, out.Topics = nil, nil
	var refused []kmsg.DeleteTopicsResponseTopic
	seen, answered := map[string]int{}, map[string]bool{}
	for i := range asked {
		seen[e.deletedName(&asked[i])]++
	}
	for i := range asked {
		t := &asked[i]
		name := e.deletedName(t)
		why := ""
		switch {
		case t.Topic == nil && t.TopicID == ([16]byte{}):
			why = "Neither topic name nor id were specified."
		case t.Topic != nil && t.TopicID != ([16]byte{}):
			why = "You may not specify both topic name and topic id."
		case name != "" && seen[name] > 1:
			why = "Duplicate topic name."
		}
		switch {
		case why == "" && req.Version < namesOrIDsFrom:
			out.TopicNames = append(out.TopicNames, *t.Topic)
		case why == "":
			out.Topics = append(out.Topics, *t)
		case !answered[name]:
			answered[name] = true
			no := kmsg.NewDeleteTopicsResponseTopic()
			no.Topic, no.TopicID, no.ErrorCode, no.ErrorMessage = t.Topic, t.TopicID, kerr.InvalidRequest.Code, &why
			refused = append(refused, no)
		}
	}
	if len(refused) > 0 && len(out.TopicNames)+len(out.Topics) == 0 {
		resp, _ := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
		resp.Topics = refused
		return passage{answer: resp}, nil
	}
	return passage{req: &out, controller: true, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.DeleteTopicsResponse)
		e.deleted(r.Topics)
		r.Topics = append(r.Topics, refused...)
		return r, nil
	}}, nil
}

// deletedName is the name of a topic that is to be deleted; "" when it has none.
func (e *Engine) deletedName(t *kmsg.DeleteTopicsRequestTopic) string {
	if t.Topic != nil {
		return *t.Topic
	}
	name, _ := e.topics.name(t.TopicID)
	return name
}

// deleted follows deletions, and says in Kafka's words why others failed.
func (e *Engine) deleted(topics []kmsg.DeleteTopicsResponseTopic) {
	for i := range topics {
		t := &topics[i]
		switch t.ErrorCode {
		case 0:
			if t.Topic != nil {
				e.policies.forget(*t.Topic)
				e.topics.remove(*t.Topic)
			} else if name, ok := e.topics.name(t.TopicID); ok {
				e.policies.forget(name)
				e.topics.remove(name)
			}
		case kerr.UnknownTopicOrPartition.Code:
			t.ErrorMessage = new("This server does not host this topic-partition.")
		case kerr.UnknownTopicID.Code:
			t.ErrorMessage = new("This server does not host this topic ID.")
		}
	}
	nameless(topics)
}

// nameless gives unknown topic ids no name, as Kafka does, instead of an empty one.
func nameless(topics []kmsg.DeleteTopicsResponseTopic) {
	for i := range topics {
		if t := &topics[i]; t.ErrorCode == kerr.UnknownTopicID.Code && t.Topic != nil && *t.Topic == "" {
			t.Topic = nil
		}
	}
}

// admitCreatePartitions bounds the count, which the data plane believes, and refuses one that is no increase. It goes
// to the controller.
func admitCreatePartitions(e *Engine, req *kmsg.CreatePartitionsRequest) (passage, error) {
	total, more := 0, 0
	for i := range req.Topics {
		count := int(max(req.Topics[i].Count, 0))
		total += count
		more += max(0, count-e.topics.size(req.Topics[i].Topic))
	}
	full := !e.topics.room(more, e.maxPartitions)
	out := *req
	out.Topics = make([]kmsg.CreatePartitionsRequestTopic, 0, len(req.Topics))
	var refused []kmsg.CreatePartitionsResponseTopic
	for i := range req.Topics {
		t := &req.Topics[i]
		var v verdict
		switch now := e.topics.size(t.Topic); {
		case total > maxNewPartitions:
			v = verdict{kerr.PolicyViolation, "Unable to perform excessively large batch operation."}
		case full:
			v = e.tooManyPartitions()
		case now > 0 && int(t.Count) == now:
			v = verdict{kerr.InvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", now)}
		case int(t.Count) < now:
			v = verdict{kerr.InvalidPartitions, fmt.Sprintf(
				"The topic %s currently has %d partition(s); %d would not be an increase.", t.Topic, now, t.Count)}
		}
		for j := 0; j < len(t.Assignment) && v.err == nil; j++ {
			v = e.checkReplicas(t.Assignment[j].Replicas)
		}
		if v.err == nil {
			out.Topics = append(out.Topics, *t)
			continue
		}
		no := kmsg.NewCreatePartitionsResponseTopic()
		no.Topic, no.ErrorCode, no.ErrorMessage = t.Topic, v.err.Code, &v.why
		refused = append(refused, no)
	}
	if len(out.Topics) == 0 {
		resp, _ := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
		resp.Topics = refused
		return passage{answer: resp}, nil
	}
	return passage{req: &out, controller: true, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.CreatePartitionsResponse)
		for i := range out.Topics {
			made := slices.ContainsFunc(r.Topics, func(t kmsg.CreatePartitionsResponseTopic) bool {
				return t.Topic == out.Topics[i].Topic && t.ErrorCode == 0
			})
			if made && !req.ValidateOnly {
				e.topics.resize(out.Topics[i].Topic, int(out.Topics[i].Count))
			}
		}
		r.Topics = append(r.Topics, refused...)
		return r, nil
	}}, nil
}

// admitElectLeaders is answered from the topics that there are: with one node every partition has its preferred leader.
// The data plane would raise every leader epoch instead.
func admitElectLeaders(_ *Engine, req *kmsg.ElectLeadersRequest) (passage, error) {
	if len(req.Topics) == 0 { // Kafka leaves out partitions that need no election when it was asked for all
		return passage{answer: req.ResponseKind()}, nil
	}
	topics := kmsg.NewPtrMetadataRequest()
	topics.Version = 9
	for _, t := range distinct(req.Topics, func(t *kmsg.ElectLeadersRequestTopic) string { return t.Topic }) {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &t.Topic
		topics.Topics = append(topics.Topics, asked)
	}
	topics.AllowAutoTopicCreation = false
	return passage{req: topics, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		have := map[string]int{}
		metadata, _ := resp.(*kmsg.MetadataResponse)
		for i := range metadata.Topics {
			if t := &metadata.Topics[i]; t.Topic != nil {
				have[*t.Topic] = len(t.Partitions)
			}
		}
		r, _ := req.ResponseKind().(*kmsg.ElectLeadersResponse)
		for _, t := range req.Topics {
			answer := kmsg.NewElectLeadersResponseTopic()
			answer.Topic = t.Topic
			for _, p := range t.Partitions {
				one := kmsg.NewElectLeadersResponseTopicPartition()
				one.Partition = p
				if p >= 0 && int(p) < have[t.Topic] {
					one.ErrorCode = kerr.ElectionNotNeeded.Code
					one.ErrorMessage = new("Leader election not needed for topic partition.")
				} else {
					one.ErrorCode = kerr.UnknownTopicOrPartition.Code
					one.ErrorMessage = new("No such topic as " + t.Topic)
				}
				answer.Partitions = append(answer.Partitions, one)
			}
			r.Topics = append(r.Topics, answer)
		}
		return r, nil
	}}, nil
}

// admitAlterPartitionAssignments refuses replicas elsewhere, which the data plane would acknowledge and forget.
func admitAlterPartitionAssignments(e *Engine, req *kmsg.AlterPartitionAssignmentsRequest) (passage, error) {
	type partition struct {
		topic string
		index int32
	}
	bad := map[partition]verdict{}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.Replicas == nil { // cancels a reassignment
				continue
			}
			if v := e.checkReplicas(p.Replicas); v.err != nil {
				bad[partition{t.Topic, p.Partition}] = v
			}
		}
	}
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.AlterPartitionAssignmentsResponse)
		for i := range r.Topics {
			t := &r.Topics[i]
			for j := range t.Partitions {
				p := &t.Partitions[j]
				if v, ok := bad[partition{t.Topic, p.Partition}]; ok && p.ErrorCode == 0 {
					p.ErrorCode, p.ErrorMessage = v.err.Code, &v.why
				}
			}
		}
		return r, nil
	}}, nil
}
