package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An answer that cannot be decoded, or none, is what a client of just that version would meet.
func TestEveryServedVersionOfEveryAPIAnswersAnEmptyRequest(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	served := ask[*kmsg.ApiVersionsResponse](r, versionsRequest(4)).ApiKeys
	if len(served) < 60 {
		t.Errorf("%d APIs are served, want more than 60", len(served))
	}
	for _, k := range served {
		for version := k.MinVersion; version <= k.MaxVersion; version++ {
			req := requestFor(k.ApiKey)
			if produce, ok := req.(*kmsg.ProduceRequest); ok {
				produce.Acks = 1
				if version < 3 { // advertised and not served, as in Kafka
					continue
				}
			}
			req.SetVersion(version)
			ask[kmsg.Response](r, req)
		}
	}
}
