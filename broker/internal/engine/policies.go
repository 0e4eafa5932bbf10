package engine

import (
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// policies remembers which topics are compacted: a record without a key must not get into one, since the first
// compaction would take it away. What is not known is asked of the data plane once. The zero value knows nothing; safe
// for concurrent use.
type policies struct {
	mu      sync.RWMutex
	topics  map[string]bool // compacted or not
	changes uint64          // how often something was forgotten
}

const policyConfig = "cleanup.policy"

// compacted tells whether a topic is known to be compacted.
func (p *policies) compacted(topic string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.topics[topic]
}

// unknown picks the topics of which nothing is known, and says of when that is.
func (p *policies) unknown(topics []string) (out []string, since uint64) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, t := range topics {
		if _, ok := p.topics[t]; !ok {
			out = append(out, t)
		}
	}
	return out, p.changes
}

// forget drops what is known of a topic whose configs change, or that comes or goes.
func (p *policies) forget(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.topics, topic)
	p.changes++
}

// learn takes in what the data plane said, unless something has changed since it was asked.
func (p *policies) learn(since uint64, described *kmsg.DescribeConfigsResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes != since {
		return
	}
	if p.topics == nil {
		p.topics = map[string]bool{}
	}
	for i := range described.Resources {
		r := &described.Resources[i]
		if r.ErrorCode != 0 {
			continue
		}
		compacted := false
		for _, c := range r.Configs {
			compacted = compacted || c.Name == policyConfig && c.Value != nil && strings.Contains(*c.Value, "compact")
		}
		p.topics[r.ResourceName] = compacted
	}
}

// askPolicies is the question about the topics of a request that nothing is known of; nil when there are none.
func (e *Engine) askPolicies(req *kmsg.ProduceRequest) (question *kmsg.DescribeConfigsRequest, since uint64) {
	names := make([]string, 0, len(req.Topics))
	for i := range req.Topics {
		name := req.Topics[i].Topic
		if req.Version >= firstProduceByID {
			name, _ = e.topics.name(req.Topics[i].TopicID)
		}
		if _, there := e.topics.id(name); there {
			names = append(names, name)
		}
	}
	names, since = e.policies.unknown(names)
	if len(names) == 0 {
		return nil, since
	}
	question = kmsg.NewPtrDescribeConfigsRequest()
	question.Version = 4
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{policyConfig}
		question.Resources = append(question.Resources, r)
	}
	return question, since
}
