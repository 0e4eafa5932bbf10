package broker_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// writer makes rules, ten with each request, until its broker is gone.
type writer struct {
	name         string
	acknowledged []string // the topics of requests that were answered: each request has a topic of its own
	asked        int
}

// rulesOf is how many rules one request of a writer makes, and how many it removes again.
const rulesOf, removedOf = 10, 3

// write goes on until the connection breaks. Every third request's rules are removed in part again.
func (w *writer) write(t *testing.T, addr netip.AddrPort) {
	t.Helper()
	r := dial(t, addr)
	for {
		topic := fmt.Sprintf("%s-%d", w.name, w.asked)
		w.asked++
		req := kmsg.NewPtrCreateACLsRequest()
		req.Version, req.Creations = 3, many(topic, rulesOf)
		if !r.answered(req) {
			return
		}
		w.acknowledged = append(w.acknowledged, topic)
		if w.asked%3 != 0 {
			continue
		}
		remove := kmsg.NewPtrDeleteACLsRequest()
		remove.Version = 3
		for i := range removedOf {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = 1, 1, 1, 1
			f.ResourceName, f.Host = &topic, new(fmt.Sprintf("10.0.%d.0/24", i))
			remove.Filters = append(remove.Filters, f)
		}
		w.acknowledged = w.acknowledged[:len(w.acknowledged)-1] // until it is known
		if !r.answered(remove) {
			return
		}
		w.acknowledged = append(w.acknowledged, topic+" less")
	}
}

// answered sends a request about ACLs and tells whether an answer came that says 0 for every part of it.
func (r *raw) answered(req kmsg.Request) bool {
	body := req.AppendTo(nil)
	b := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = append(b, 0, 0, 0, 7, 0xff, 0xff, 0)
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(b)+len(body))), b...)
	if _, err := r.conn.Write(append(frame, body...)); err != nil {
		return false
	}
	var size [4]byte
	if _, err := io.ReadFull(r.conn, size[:]); err != nil {
		return false
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r.conn, answer); err != nil {
		return false
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(answer[5:]); err != nil {
		r.t.Errorf("decode: %v", err)
		return false
	}
	switch resp := resp.(type) {
	case *kmsg.CreateACLsResponse:
		return !slices.ContainsFunc(resp.Results, func(r kmsg.CreateACLsResponseResult) bool { return r.ErrorCode != 0 })
	case *kmsg.DeleteACLsResponse:
		return !slices.ContainsFunc(resp.Results, func(r kmsg.DeleteACLsResponseResult) bool { return r.ErrorCode != 0 || len(r.MatchingACLs) != 1 })
	}
	return false
}

// rulesByTopic counts the rules of each topic.
func (r *raw) rulesByTopic() map[string]int {
	r.t.Helper()
	count := map[string]int{}
	for _, rule := range r.allACLs("") {
		topic, _, _ := strings.Cut(rule, " ")
		count[topic]++
	}
	return count
}

// A request's rules are one change: a kill leaves all of them or, where nobody was told that they are there, none.
func TestRulesSurviveKill9UnderLoadAllOfARequestOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var writers []*writer
	for round := range 4 {
		b := startChild(t, dir, childAuthorizer+"=1")
		addr := netip.MustParseAddrPort(b.seed)
		reader := dial(t, addr)
		there := reader.rulesByTopic()
		total := 0
		for topic, n := range there {
			total += n
			if n != rulesOf && n != rulesOf-removedOf {
				t.Errorf("%d rules of %s are there: a request in part", n, topic)
			}
		}
		for _, w := range writers {
			for _, said := range w.acknowledged {
				topic, less := strings.CutSuffix(said, " less")
				if want := map[bool]int{false: rulesOf, true: rulesOf - removedOf}[less]; there[topic] != want {
					t.Errorf("%d rules of %s are there, and %d were acknowledged", there[topic], topic, want)
				}
			}
			if lost := w.asked - len(w.acknowledged); lost > 1 {
				t.Errorf("%s has %d requests without an answer", w.name, lost)
			}
		}
		if round == 3 {
			break
		}
		var writing sync.WaitGroup
		for i := range 4 {
			w := &writer{name: fmt.Sprintf("w%d-%d", round, i)}
			writers = append(writers, w)
			writing.Go(func() { w.write(t, addr) })
		}
		for len(reader.allACLs("")) < total+500 { // in the middle of it
		}
		b.kill()
		writing.Wait()
	}
}
