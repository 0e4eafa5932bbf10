package broker_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaCase is a rule and what Kafka 4.4.0 answered to requests about client quotas, one after another. The file was
// written by a program that sent them to a real one.
type quotaCase struct {
	Rule  string
	Steps []struct {
		Alter        []quotaEntry
		ValidateOnly bool
		Describe     *[]struct {
			Type  string
			Kind  int8
			Match *string
		}
		Strict bool
		Answer []string
	}
}

type quotaEntry struct {
	Entity []struct {
		Type string
		Name *string
	}
	Ops []struct {
		Key    string
		Value  any // a number, or NaN or +Inf in letters
		Remove bool
	}
}

func TestClientQuotasAreAnsweredAsKafkaAnswers(t *testing.T) { //nolint:tparallel // one broker is asked by one case after the other
	t.Parallel()
	content, err := os.ReadFile("testdata/quotas-4.4.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []quotaCase
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	r := dial(t, start(t, plainConfig()).Addr("PLAINTEXT"))
	for _, c := range cases {
		t.Run(c.Rule, func(t *testing.T) {
			for i := range c.Steps {
				s := &c.Steps[i]
				var got []string
				if s.Describe == nil {
					got = alterQuotas(r, s.Alter, s.ValidateOnly)
				} else {
					req := kmsg.NewPtrDescribeClientQuotasRequest()
					req.Version, req.Strict = 1, s.Strict
					for _, d := range *s.Describe {
						component := kmsg.NewDescribeClientQuotasRequestComponent()
						component.EntityType, component.MatchType, component.Match = d.Type, kmsg.QuotasMatchType(d.Kind), d.Match
						req.Components = append(req.Components, component)
					}
					got = describedQuotas(r, req)
				}
				if !slices.Equal(got, s.Answer) {
					t.Errorf("step %d %+v %+v = %q, want %q", i, s.Alter, s.Describe, got, s.Answer)
				}
			}
			forgetQuotas(r)
		})
	}
}

// Kafka takes 10,000 changes in one request.
func TestTooManyQuotasInOneRequestAreAllRefused(t *testing.T) {
	t.Parallel()
	r := dial(t, start(t, plainConfig()).Addr("PLAINTEXT"))
	var entries []quotaEntry
	for i := range 10_001 {
		var e quotaEntry
		text := fmt.Sprintf(`{"entity": [{"type": "ip", "name": "10.0.%d.%d"}], "ops": [{"key": "connection_creation_rate", "value": 5}]}`, i/250, i%250)
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	refused := alterQuotas(r, entries, false)
	if len(refused) != 10_001 || refused[0] != "ip=10.0.0.0: 44 Request parameters do not satisfy the configured policy." || len(allQuotas(r)) != 1 {
		t.Errorf("10,001 quotas: %q …, want all refused", refused[:2])
	}
	if taken := alterQuotas(r, entries[1:], false); taken[0] != "ip=10.0.0.100: 0 <nil>" || len(allQuotas(r)) != 10_001 {
		t.Errorf("10,000 quotas: %q …, want all taken", taken[:2])
	}
}

func alterQuotas(r *raw, entries []quotaEntry, validateOnly bool) []string {
	r.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version, req.ValidateOnly = 1, validateOnly
	for _, e := range entries {
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for _, p := range e.Entity {
			part := kmsg.NewAlterClientQuotasRequestEntryEntity()
			part.Type, part.Name = p.Type, p.Name
			entry.Entity = append(entry.Entity, part)
		}
		for _, o := range e.Ops {
			op := kmsg.NewAlterClientQuotasRequestEntryOp()
			op.Key, op.Remove = o.Key, o.Remove
			switch value := o.Value.(type) {
			case float64:
				op.Value = value
			case string:
				op.Value = map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1)}[value]
			}
			entry.Ops = append(entry.Ops, op)
		}
		req.Entries = append(req.Entries, entry)
	}
	answers := []string{}
	for _, e := range ask[*kmsg.AlterClientQuotasResponse](r, req).Entries {
		var parts []string
		for _, p := range e.Entity {
			parts = append(parts, p.Type+"="+orNil(p.Name))
		}
		answers = append(answers, fmt.Sprintf("%s: %d %s", strings.Join(sorted(parts), ","), e.ErrorCode, orNil(e.ErrorMessage)))
	}
	return sorted(answers)
}

// describedQuotas is the outcome, then each entity with its values.
func describedQuotas(r *raw, req *kmsg.DescribeClientQuotasRequest) []string {
	r.t.Helper()
	resp := ask[*kmsg.DescribeClientQuotasResponse](r, req)
	head := fmt.Sprintf("%d %s", resp.ErrorCode, orNil(resp.ErrorMessage))
	if resp.Entries == nil {
		head += " null"
	}
	var entries []string
	for _, e := range resp.Entries {
		var parts, values []string
		for _, p := range e.Entity {
			parts = append(parts, p.Type+"="+orNil(p.Name))
		}
		for _, v := range e.Values {
			values = append(values, fmt.Sprintf("%s=%v", v.Key, v.Value))
		}
		entries = append(entries, strings.Join(sorted(parts), ",")+": "+strings.Join(sorted(values), " "))
	}
	return append([]string{head}, sorted(entries)...)
}

func allQuotas(r *raw) []string {
	r.t.Helper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Version = 1
	return describedQuotas(r, req)
}

func orNil(s *string) string {
	if s == nil {
		return "<nil>"
	}
	return *s
}

// forgetQuotas removes all.
func forgetQuotas(r *raw) {
	r.t.Helper()
	all := kmsg.NewPtrDescribeClientQuotasRequest()
	all.Version = 1
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = 1
	for _, e := range ask[*kmsg.DescribeClientQuotasResponse](r, all).Entries {
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		for _, p := range e.Entity {
			part := kmsg.NewAlterClientQuotasRequestEntryEntity()
			part.Type, part.Name = p.Type, p.Name
			entry.Entity = append(entry.Entity, part)
		}
		for _, v := range e.Values {
			op := kmsg.NewAlterClientQuotasRequestEntryOp()
			op.Key, op.Remove = v.Key, true
			entry.Ops = append(entry.Ops, op)
		}
		req.Entries = append(req.Entries, entry)
	}
	ask[*kmsg.AlterClientQuotasResponse](r, req)
	if left := allQuotas(r); len(left) != 1 {
		r.t.Errorf("after removing all, there are %q", left)
	}
}

// removeIPRate takes the rate of an address away, or that of all with nil.
func removeIPRate(r *raw, name *string) {
	r.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = 1
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	part := kmsg.NewAlterClientQuotasRequestEntryEntity()
	part.Type, part.Name = "ip", name
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Remove = "connection_creation_rate", true
	entry.Entity, entry.Ops = append(entry.Entity, part), append(entry.Ops, op)
	req.Entries = append(req.Entries, entry)
	if e := ask[*kmsg.AlterClientQuotasResponse](r, req).Entries[0]; e.ErrorCode != 0 {
		r.t.Fatalf("remove the rate of %s = %d %s", orNil(name), e.ErrorCode, orNil(e.ErrorMessage))
	}
}

func TestAnAddressHasOneRateHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	r := dial(t, start(t, plainConfig()).Addr("PLAINTEXT"))
	for _, c := range []struct {
		kept  string
		names []string
	}{
		{"::1", []string{"::1", "0:0:0:0:0:0:0:1", "[::1]", "0000::0001"}},
		{"127.0.0.1", []string{"127.0.0.1", "127.1", "2130706433", "::ffff:127.0.0.1", "localhost"}},
		{"2001:db8::a", []string{"2001:DB8::A", "2001:db8:0::a"}},
	} {
		for i, name := range c.names {
			setIPRate(r, &name, float64(i+1))
			want := []string{"0 ", fmt.Sprintf("ip=%s: connection_creation_rate=%d", c.kept, i+1)}
			if got := allQuotas(r); !slices.Equal(got, want) {
				t.Errorf("after setting it for %s: %q, want %q", name, got, want)
			}
			req := kmsg.NewPtrDescribeClientQuotasRequest()
			req.Version = 1
			component := kmsg.NewDescribeClientQuotasRequestComponent()
			component.EntityType, component.Match = "ip", &name
			req.Components = append(req.Components, component)
			if got := describedQuotas(r, req); !slices.Equal(got, want) {
				t.Errorf("described by %s: %q, want %q", name, got, want)
			}
		}
		removeIPRate(r, &c.names[len(c.names)-1])
		if got := allQuotas(r); len(got) != 1 {
			t.Errorf("removed by another spelling than it was set by: %q, want none", got)
		}
	}
	spellings := []quotaEntry{}
	if err := json.Unmarshal([]byte(`[
		{"entity": [{"type": "ip", "name": "::1"}], "ops": [{"key": "connection_creation_rate", "value": 5}]},
		{"entity": [{"type": "ip", "name": "0:0:0:0:0:0:0:1"}], "ops": [{"key": "connection_creation_rate", "value": 6}]}
	]`), &spellings); err != nil {
		t.Fatal(err)
	}
	if got, want := alterQuotas(r, spellings, false), []string{"ip=::1: 42 Ignoring duplicate entity ClientQuotaEntity(entries={ip=::1})"}; !slices.Equal(got, want) {
		t.Errorf("two spellings in one request: %q, want %q", got, want)
	}
}
