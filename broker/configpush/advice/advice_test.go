package advice_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/configpush/advice"
)

// entries reads key=value words.
func entries(text string) (all []configpush.Entry) {
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		all = append(all, configpush.Entry{Key: key, Value: value})
	}
	return all
}

func TestTroubleIsFound(t *testing.T) {
	for _, c := range []struct {
		pushed string
		keys   string // of the findings
	}{
		{"acks=0", "acks"},
		{"acks=1", "acks"},
		{"acks=1 enable.idempotence=false", "acks enable.idempotence"},
		{"acks=all enable.idempotence=true max.in.flight.requests.per.connection=5", ""},
		{"max.in.flight.requests.per.connection=6", "max.in.flight.requests.per.connection"},
		{"max.in.flight.requests.per.connection=2 enable.idempotence=false", "enable.idempotence max.in.flight.requests.per.connection"},
		{"max.in.flight.requests.per.connection=1 enable.idempotence=false", "enable.idempotence"},
		{"retries=0", "retries"},
		{"check.crcs=false", "check.crcs"},
		{"transaction.timeout.ms=900000", ""},
		{"transaction.timeout.ms=900001", "transaction.timeout.ms"},
		{"delivery.timeout.ms=30005 request.timeout.ms=30000 linger.ms=5", ""},
		{"delivery.timeout.ms=30004 request.timeout.ms=30000 linger.ms=5", "delivery.timeout.ms"},
		{"fetch.max.wait.ms=500 request.timeout.ms=30000", ""},
		{"fetch.max.wait.ms=30000 request.timeout.ms=30000", "fetch.max.wait.ms"},
		{"retry.backoff.ms=2000 retry.backoff.max.ms=1000", "retry.backoff.ms"},
		{"batch.size=16384 buffer.memory=16383", "batch.size"},
		{"heartbeat.interval.ms=15000 session.timeout.ms=45000", ""},
		{"heartbeat.interval.ms=15001 session.timeout.ms=45000", "heartbeat.interval.ms"},
		{"max.poll.interval.ms=300000 max.poll.records=500", ""},
		{"max.poll.interval.ms=9999 max.poll.records=500", "max.poll.interval.ms"},
		{"connections.max.idle.ms=540000", ""},
		{"connections.max.idle.ms=600001", "connections.max.idle.ms"},
		{"connections.max.idle.ms=-1", "connections.max.idle.ms"},
		{"metadata.max.age.ms=9999", "metadata.max.age.ms"},
		{"reconnect.backoff.ms=0", "reconnect.backoff.ms"},
		{"reconnect.backoff.ms=2000 reconnect.backoff.max.ms=1000", "reconnect.backoff.ms"},
		{"client.id=", "client.id"},
		{"client.id=a", ""},
		{"acks= retries=many max.poll.records=0 max.poll.interval.ms=1", ""},
		{"max.poll.interval.ms=9223372036854775807 max.poll.records=1", ""},
		{"", ""},
	} {
		var keys []string
		for _, f := range advice.Check(entries(c.pushed), advice.Options{}) {
			keys = append(keys, f.Key)
			if f.Reason == "" || f.Default == "" {
				t.Errorf("Check(%s) finds %+v, without a reason or Kafka's default", c.pushed, f)
			}
		}
		if got := strings.Join(keys, " "); got != c.keys {
			t.Errorf("Check(%s) finds %q, want %q", c.pushed, got, c.keys)
		}
	}
}

func TestProcessingTimeIsHeldAgainstThePollInterval(t *testing.T) {
	pushed := entries("max.poll.interval.ms=300000 max.poll.records=500")
	for took, want := range map[time.Duration]int{600 * time.Millisecond: 0, 601 * time.Millisecond: 1} {
		if got := advice.Check(pushed, advice.Options{Processing: took}); len(got) != want {
			t.Errorf("Check() with %v a record = %v, want %d findings", took, got, want)
		}
	}
	slow := entries("max.poll.interval.ms=9000 max.poll.records=500")
	if got := advice.Check(slow, advice.Options{Processing: time.Millisecond}); len(got) != 0 {
		t.Errorf("Check() of a fast application = %v, want none", got)
	}
}

func TestWhatIsRedactedHasNoFindings(t *testing.T) {
	pushed := entries("acks=0")
	pushed[0].Redacted = true
	if got := advice.Check(pushed, advice.Options{}); !slices.Equal(got, nil) {
		t.Errorf("Check() = %v, want none", got)
	}
}
