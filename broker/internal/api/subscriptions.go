package api

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// subscriptions are the members of consumer groups that subscribe by a regular expression. Kafka's coordinator gives a member the
// topics that match and that it may describe; the data plane knows nothing of rights, nor of what is hidden. So it gets, in place
// of the expression, one that matches those topics and no other, and gets it anew when there are other topics or other rules. Safe
// for concurrent use.
type subscriptions struct {
	mu      sync.Mutex
	members map[string]*subscription // by memberKey
	swept   int                      // how many there were when the forgotten ones were last removed
}

// subscription is one member's.
type subscription struct {
	pattern *regexp.Regexp // as the member gave it, of whole names
	sent    string         // what the data plane has
	made    expansion      // of what
	seen    time.Time

	// What the member said last, which it says again only when it changes. The data plane takes a subscription together with these.
	timeout int32
	owned   []kmsg.ConsumerGroupHeartbeatRequestTopic
}

// expansion is what the topics that a member gets depend on.
type expansion struct {
	topics, rules uint64
	sender        string
	from          netip.Addr
}

const (
	// forgottenAfter is how long a member is remembered that is heard of no more; no session lasts as long.
	forgottenAfter = 10 * time.Minute
	// nothing is an expression that no topic's name matches.
	nothing = `[^\x00-\x{10FFFF}]`
)

func memberKey(req *kmsg.ConsumerGroupHeartbeatRequest) string {
	return req.Group + "\x00" + req.MemberID
}

// find returns a member's subscription; nil where it has none.
func (s *subscriptions) find(key string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[key]
}

// keep replaces a member's subscription; nil forgets it.
func (s *subscriptions) keep(key string, m *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m == nil {
		delete(s.members, key)
		return
	}
	if s.members == nil {
		s.members = map[string]*subscription{}
	}
	s.members[key] = m
	const few = 1000
	if len(s.members) > 2*max(s.swept, few) {
		maps.DeleteFunc(s.members, func(_ string, m *subscription) bool { return time.Since(m.seen) > forgottenAfter })
		s.swept = len(s.members)
	}
}

// expand puts the topics that a member may describe in place of its regular expression. What is to be remembered if the data plane
// takes it is kept in the call.
func (q *call) expand(req *kmsg.ConsumerGroupHeartbeatRequest) {
	a := q.server.o.Authorizer
	if a == nil && !q.server.o.Engine.Remote() {
		return // it may describe all that there is
	}
	if req.MemberEpoch < 0 {
		return // it leaves
	}
	last := q.server.subscriptions.find(memberKey(req))
	next := subscription{seen: time.Now()}
	given := req.SubscribedTopicRegex
	switch {
	case given != nil && *given == "", given == nil && last == nil:
		return
	case given != nil:
		pattern, err := regexp.Compile("^(?:" + *given + ")$")
		if err != nil {
			return // the data plane's guard says so
		}
		next.pattern = pattern
	default:
		next.pattern, next.sent, next.made = last.pattern, last.sent, last.made
	}
	next.timeout, next.owned = req.RebalanceTimeoutMillis, req.Topics
	if last != nil && next.timeout == -1 {
		next.timeout = last.timeout
	}
	if last != nil && next.owned == nil {
		next.owned = last.owned
	}
	now := expansion{topics: q.server.o.Engine.TopicChanges(), sender: q.sender(), from: q.conn.Remote().Addr()}
	if a != nil {
		now.rules = a.Index.Changes()
	}
	if given != nil || now != next.made {
		next.made = now
		topics := q.matching(next.pattern)
		if given != nil || topics != next.sent {
			req.SubscribedTopicRegex, req.RebalanceTimeoutMillis, req.Topics = &topics, next.timeout, next.owned
		}
		next.sent = topics
	}
	q.subscribed = &next
}

// matching is an expression of the topics that one matches and that the sender may describe.
func (q *call) matching(pattern *regexp.Regexp) string {
	names := slices.DeleteFunc(q.server.o.Engine.TopicNames(), func(name string) bool {
		return !pattern.MatchString(name) || !q.mayQuietly(acl.Describe, acl.Topic, name)
	})
	if len(names) == 0 {
		return nothing
	}
	slices.Sort(names)
	for i := range names {
		names[i] = regexp.QuoteMeta(names[i])
	}
	return strings.Join(names, "|")
}

// settleSubscription remembers what the data plane has taken, and forgets a member that it does not have.
func (q *call) settleSubscription(req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) {
	switch {
	case q.server.o.Authorizer == nil && !q.server.o.Engine.Remote():
	case resp.ErrorCode == 0 || req.MemberEpoch < 0:
		q.server.subscriptions.keep(memberKey(req), q.subscribed)
	default: // it is as it was, or joins again
	}
}
