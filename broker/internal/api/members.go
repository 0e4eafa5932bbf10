package api

import (
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/network"
)

// members are where the members of groups are that give signs of life through this broker. A data plane somewhere else sees only
// the broker. It is enough to know those: a group's coordinator is one node, and all its members, and whoever asks about them,
// come to the face of that. A broker that was started anew learns them with their next heartbeats; until then, and for a member
// that has not been heard of for long, it says nothing. Safe for concurrent use.
type members struct {
	mu    sync.Mutex
	known map[string]memberHost // by group and member
	swept int                   // how many there were when the forgotten ones were last removed
}

type memberHost struct {
	host string
	seen time.Time
}

// note remembers where a member has been heard from.
func (m *members) note(group, member, host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[string]memberHost{}
	}
	m.known[group+"\x00"+member] = memberHost{host, time.Now()}
	const few = 1000
	if len(m.known) > 2*max(m.swept, few) {
		maps.DeleteFunc(m.known, func(_ string, h memberHost) bool { return time.Since(h.seen) > forgottenAfter })
		m.swept = len(m.known)
	}
}

// host is where a member is, as Kafka prints it; "" when nobody knows.
func (m *members) host(group, member string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[group+"\x00"+member].host
}

// orElse is a text that an answer has, or that of the request where it has none.
func orElse(answered *string, asked string) string {
	if answered != nil && *answered != "" {
		return *answered
	}
	return asked
}

// noteMember remembers where the member of a group is that was answered code.
func (q *call) noteMember(code int16, group, member string) {
	if code == 0 && member != "" && q.server.o.Engine.Remote() {
		q.server.members.note(group, member, "/"+network.JavaAddr(q.conn.Remote().Addr()))
	}
}

// placeMembers replaces the hosts of a group's members where the data plane can only tell that of a broker.
func placeMembers[M any](q *call, group string, all []M, of func(*M) (member string, host *string)) {
	if !q.server.o.Engine.Remote() {
		return
	}
	for i := range all {
		member, host := of(&all[i])
		*host = q.server.members.host(group, member)
	}
}

// hosts of members, in the answers of each kind.
func classicMember(m *kmsg.DescribeGroupsResponseGroupMember) (string, *string) {
	return m.MemberID, &m.ClientHost
}

func consumerMember(m *kmsg.ConsumerGroupDescribeResponseGroupMember) (string, *string) {
	return m.MemberID, &m.ClientHost
}

func shareMember(m *kmsg.ShareGroupDescribeResponseGroupMember) (string, *string) {
	return m.MemberID, &m.ClientHost
}
