package clients

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// What a client is tried for over each pair, in the order of the page's columns.
func operations() []string {
	return []string{"metadata", "admin", "produce", "transact", "consume", "refused"}
}

// authorization matches how clients word that somebody has no right to a topic or a group.
var authorization = regexp.MustCompile(`(?i)authoriz|not authorized|\b(29|30)\b`)

// tryPair runs each operation over p, and notes how it went and how many connections it opened.
func (b *broker) tryPair(t *testing.T, c client, known, got *result, program *program, p pair) {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(p.String(), "/", "-"))
	topic := "t-" + name
	b.topics(topic)
	opened := func() int {
		return b.metric("kafka_server_socket_server_metrics_connection_creation_total", `listener="`+p.listener()+`"`)
	}
	try := func(op string, r request) *line {
		r.TimeoutMS *= int64(max(1, c.patience))
		enough := func(l *line) bool { return l.Error == "" }
		if known, ok := known.Cells[p.String()][op]; ok && !known.Works {
			r.TimeoutMS = 8000 // whether it still does not
			enough = func(*line) bool { return true }
		}
		var before int
		l := program.asks(t, r, enough, func() { before = opened() })
		got.note(p, op, cellOf(l), opened()-before)
		return l
	}
	try("metadata", b.request(p, "metadata", topic))
	try("admin", b.request(p, "admin", "a-"+name))
	transacted := try("transact", b.request(p, "transact", topic))
	produced := try("produce", b.request(p, "produce", topic))
	if produced.Idempotent != nil {
		got.idempotent(*produced.Idempotent)
	}
	consume := b.request(p, "consume", topic)
	if transacted.Unsupported == "" {
		consume.Count *= 2
	}
	if l := try("consume", consume); l.Error == "" && l.Aborted > 0 {
		got.note(p, "consume", cell{Works: true, Said: fmt.Sprintf("read %d records of an aborted transaction", l.Aborted)}, -1)
	}
	got.note(p, "refused", b.tryRanges(t, known, program, p), -1)
}

// tryRanges has a topic closed to the range that p comes from, and one closed to the other family's. The client must be told of
// the first and write to the second.
func (b *broker) tryRanges(t *testing.T, known *result, program *program, p pair) cell {
	t.Helper()
	ranges := map[string]string{"IPv4": "127.0.0.0/8", "IPv6": "::1/128"}
	topics := map[string]string{}
	for family, block := range ranges {
		topics[family] = fmt.Sprintf("not-from-%s-%s", strings.ToLower(family), strings.ToLower(p.listener()))
		b.topics(topics[family])
		b.rule(kadm.NewACLs().Topics(topics[family]).Allow("User:*").AllowHosts("*").Operations(kadm.OpAll))
		b.rule(kadm.NewACLs().Topics(topics[family]).Deny("User:*").DenyHosts(block).Operations(kadm.OpAll))
	}
	seen := cell{Works: true}
	for family, topic := range topics {
		r := b.request(p, "produce", topic)
		produce, ok := known.Cells[p.String()]["produce"]
		cannot := ok && !produce.Works
		if family == p.family || cannot {
			r.TimeoutMS = 20_000
		}
		l := program.asks(t, r, func(l *line) bool {
			switch {
			case cannot:
				return true
			case family != p.family:
				return l.Error == ""
			}
			remark := known.Cells[p.String()]["refused"].Said // some are told something else
			return authorization.MatchString(l.said()) || remark != "" && strings.HasSuffix(remark, steady(l.said()))
		}, nil)
		switch {
		case family != p.family && l.Error != "":
			return cell{Said: "is refused from outside the range: " + steady(l.said())}
		case family == p.family && l.Error == "":
			return cell{Said: "writes from inside the range"}
		case family == p.family && !authorization.MatchString(l.said()):
			seen.Said = "is told something else: " + steady(l.said())
		}
	}
	return seen
}

// rule adds ACLs.
func (b *broker) rule(rules *kadm.ACLBuilder) {
	b.t.Helper()
	made, err := b.admin.CreateACLs(b.ctx(), rules.ResourcePatternType(kadm.ACLPatternLiteral))
	if err != nil {
		b.t.Fatalf("create ACLs: %v", err)
	}
	for _, m := range made {
		if m.Err != nil {
			b.t.Fatalf("create ACLs: %v %s", m.Err, m.ErrMessage)
		}
	}
}

// tryRefusals finds out what a client says when it is not let in, and when it has no right. It may only have been slow to say
// what the page has.
func (b *broker) tryRefusals(t *testing.T, known, got *result, program *program) {
	t.Helper()
	plaintext := pair{"PLAINTEXT", "IPv4"}
	b.topics("refused", "open")
	b.rule(kadm.NewACLs().Topics("refused").Allow("User:*").AllowHosts("*").Operations(kadm.OpDescribe))
	b.rule(kadm.NewACLs().Groups("g-closed", "g-closed-again").Deny("User:*").DenyHosts("*").Operations(kadm.OpAll))
	try := func(what string, r request, told *regexp.Regexp, times func() int) {
		page, ok := known.Refusals[what]
		before := 0
		l := program.asks(t, r, func(l *line) bool { return ok && !page.Told || told.MatchString(l.said()) }, func() { before = times() })
		got.refusal(what, l, told, times()-before)
	}
	uncounted := func() int { return 0 }

	for name, op := range map[string]string{"write": "produce", "read": "consume"} {
		r := b.request(plaintext, op, "refused")
		r.TimeoutMS = 20_000
		try(name, r, authorization, uncounted)
	}
	group := b.request(plaintext, "consume", "open")
	group.Group, group.TimeoutMS = "g-closed", 20_000
	try("group", group, authorization, uncounted)

	wrong := b.request(pair{"SASL_PLAINTEXT", "IPv4"}, "metadata", "")
	wrong.Password, wrong.TimeoutMS = "wrong", 8000
	try("password", wrong, regexp.MustCompile(`(?i)authenticat|sasl|password|credential`), func() int {
		return b.metric("kafka_server_socket_server_metrics_failed_authentication_total", `listener="SASL_PLAINTEXT"`)
	})

	stranger := b.request(pair{"SSL", "IPv4"}, "metadata", "")
	stranger.CA, stranger.TimeoutMS = b.w.pki.Stranger, 8000
	try("certificate", stranger, regexp.MustCompile(`(?i)certificate|ssl|tls|x509|PKIX`), func() int {
		return b.metric("brokerlab_tls_handshakes_total", `listener="SSL"`, `result="failure"`)
	})
}
