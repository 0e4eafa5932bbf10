package fidelity

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The harness itself: every way in works on both peers.
func TestEveryProtocolLeadsIn(t *testing.T) {
	b := shared(t)
	b.compare(t, "harness/protocols", func(t *testing.T, p *peer) any {
		p.scram(t, "sam")
		seen := map[string]any{}
		for name, as := range map[string]struct {
			listener string
			how      how
		}{
			"plaintext": {"PLAINTEXT", how{}}, "ssl": {"SSL", how{}}, "mutual": {"SSL", how{carol: true}},
			"plain": {"SASL_PLAINTEXT", how{user: "alice"}}, "plain over TLS": {"SASL_SSL", how{user: "alice"}},
			"scram 256": {"SASL_SSL", how{user: "sam", mechanism: "SCRAM-SHA-256"}},
			"scram 512": {"SASL_PLAINTEXT", how{user: "sam", mechanism: "SCRAM-SHA-512"}},
		} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.Version = 1
			seen[name] = p.view(p.dial(t, as.listener, as.how).ask(t, req))
		}
		return seen
	})
}
