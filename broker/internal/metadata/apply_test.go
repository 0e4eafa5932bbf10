package metadata

import (
	"errors"
	"maps"
	"math"
	"testing"

	"github.com/brokerlab/brokerlab/broker/acl"
)

var broker1 = Resource{Type: ResourceBroker, Name: "1"}

func scramLevel() []Record {
	return []Record{SetFeature{Name: MetadataVersion, Level: newClusterLevel}}
}

// applied is the image after the changes, each an entry of its own; the last one's verdict comes with it.
func applied(t *testing.T, changes ...[]Record) (*Image, *RejectedError) {
	t.Helper()
	b := newBuilder(emptyImage(), acl.NewIndex())
	var verdict *RejectedError
	for n, records := range changes {
		e := &entry{node: 1, incarnation: 1, sequence: uint64(n + 1), records: records}
		var repeated bool
		if repeated, verdict = b.apply(e); repeated {
			t.Fatalf("change %d counts as repeated", n)
		}
	}
	return b.image(), verdict
}

func TestChangeIsAppliedWholeOrNotAtAll(t *testing.T) {
	before := [][]Record{
		scramLevel(),
		{
			SetConfig{Resource: broker1, Name: "a", Value: new("1")},
			SetQuota{Entity: Entity{{Type: EntityUser}}, Name: "producer_byte_rate", Value: new(10.0)},
			alice(),
		},
	}
	refused := []Record{
		SetConfig{Resource: broker1, Name: "a"}, // the resource is gone for a moment
		SetConfig{Resource: broker1, Name: "b", Value: new("2")},
		SetConfig{Resource: Resource{Type: ResourceGroup, Name: "g"}, Name: "c", Value: new("3")},
		SetQuota{Entity: Entity{{Type: EntityUser}}, Name: "producer_byte_rate"},
		SetQuota{Entity: Entity{{Type: EntityIP}}, Name: "connection_creation_rate", Value: new(1.0)},
		SetFeature{Name: "group.version", Level: 1},
		RemoveScram{User: "alice", Mechanism: ScramSHA256},
		RemoveScram{User: "alice", Mechanism: ScramSHA256},
	}
	got, verdict := applied(t, append(before, refused)...)
	if !errors.Is(verdict, ErrNotFound) || verdict.Index != len(refused)-1 {
		t.Fatalf("verdict = %v, want %v on the last record", verdict, ErrNotFound)
	}
	if c := got.Configs(broker1); !maps.Equal(c, map[string]string{"a": "1"}) {
		t.Errorf("configs of broker 1 = %v", c)
	}
	if n := len(got.Resources(ResourceGroup)); n != 0 {
		t.Errorf("%d groups have configs, want none", n)
	}
	if q := got.Quotas(); len(q) != 1 || q[0].Values["producer_byte_rate"] != 10 {
		t.Errorf("quotas = %v", q)
	}
	if f := got.Features(); len(f) != 1 || got.FeatureEpoch() != 1 {
		t.Errorf("features = %v at epoch %d", f, got.FeatureEpoch())
	}
	if _, ok := got.Scram("alice", ScramSHA256); !ok {
		t.Error("alice has lost her credential")
	}
}

func TestImageNeverChanges(t *testing.T) {
	b := newBuilder(emptyImage(), acl.NewIndex())
	sequence := uint64(0)
	apply := func(records ...Record) *Image {
		sequence++
		if _, rejected := b.apply(&entry{node: 1, incarnation: 1, sequence: sequence, records: records}); rejected != nil {
			t.Fatal(rejected)
		}
		return b.image()
	}
	user := Entity{{Type: EntityUser, Name: new("alice")}}
	first := apply(append(scramLevel(), alice(), SetConfig{Resource: broker1, Name: "a", Value: new("1")},
		SetQuota{Entity: user, Name: "request_percentage", Value: new(1.0)})...)
	apply(RemoveScram{User: "alice", Mechanism: ScramSHA256})
	apply(SetConfig{Resource: broker1, Name: "a", Value: new("2")}, SetConfig{Resource: broker1, Name: "b", Value: new("2")})
	apply(SetQuota{Entity: user, Name: "request_percentage", Value: new(2.0)})
	last := apply(SetFeature{Name: "group.version", Level: 1})

	if _, ok := first.Scram("alice", ScramSHA256); !ok || len(first.Users()) != 1 {
		t.Error("the first image has lost alice")
	}
	if c := first.Configs(broker1); !maps.Equal(c, map[string]string{"a": "1"}) {
		t.Errorf("configs in the first image = %v", c)
	}
	if q := first.Quota(user); q["request_percentage"] != 1 {
		t.Errorf("quotas in the first image = %v", q)
	}
	if first.Feature("group.version") != 0 || last.Feature("group.version") != 1 {
		t.Error("the first image shows a later feature")
	}
	if len(last.Users()) != 0 || last.Configs(broker1)["b"] != "2" || last.Quota(user)["request_percentage"] != 2 {
		t.Error("the last image lacks a change")
	}
}

func TestRepeatedEntryIsAppliedOnce(t *testing.T) {
	b := newBuilder(emptyImage(), acl.NewIndex())
	e := func(incarnation int64, sequence uint64, value string) *entry {
		return &entry{node: 1, incarnation: incarnation, sequence: sequence, records: []Record{SetConfig{Resource: broker1, Name: "a", Value: &value}}}
	}
	for _, step := range []struct {
		entry    *entry
		repeated bool
		want     string
	}{
		{e(5, 1, "first"), false, "first"},
		{e(5, 2, "second"), false, "second"},
		{e(5, 1, "first"), true, "second"},
		{e(5, 2, "second"), true, "second"},
		{e(4, 9, "from before a restart"), true, "second"},
		{e(6, 1, "after a restart"), false, "after a restart"},
		{e(5, 3, "late"), true, "after a restart"},
	} {
		repeated, rejected := b.apply(step.entry)
		if got := b.image().Configs(broker1)["a"]; repeated != step.repeated || rejected != nil || got != step.want {
			t.Errorf("apply(%d/%d) = %v, %v and leaves %q, want %v and %q",
				step.entry.incarnation, step.entry.sequence, repeated, rejected, got, step.repeated, step.want)
		}
	}
	other := e(5, 1, "another node")
	other.node = 2
	if repeated, _ := b.apply(other); repeated {
		t.Error("an entry of another node counts as repeated")
	}
}

func TestRulesRefuse(t *testing.T) {
	weak, strong, unknown, nobody := alice(), alice(), alice(), alice()
	weak.Iterations, strong.Iterations = MinScramIterations-1, MaxScramIterations+1
	unknown.Mechanism, nobody.User = "SCRAM-SHA-1", ""
	ip, user := EntityPart{Type: EntityIP, Name: new("10.0.0.5")}, EntityPart{Type: EntityUser}
	for name, c := range map[string]struct {
		record Record
		want   error
	}{
		"too few iterations":       {weak, ErrInvalid},
		"too many iterations":      {strong, ErrInvalid},
		"unknown mechanism":        {unknown, ErrInvalid},
		"no user":                  {nobody, ErrInvalid},
		"credential that is not":   {RemoveScram{User: "bob", Mechanism: ScramSHA256}, ErrNotFound},
		"removal of no mechanism":  {RemoveScram{User: "bob", Mechanism: "PLAIN"}, ErrInvalid},
		"topic configs":            {SetConfig{Resource: Resource{Type: 2, Name: "t"}, Name: "a", Value: new("1")}, ErrInvalid},
		"nameless config":          {SetConfig{Resource: broker1, Value: new("1")}, ErrInvalid},
		"negative level":           {SetFeature{Name: "x", Level: -1}, ErrInvalid},
		"nameless feature":         {SetFeature{Level: 1}, ErrInvalid},
		"quota of nobody":          {SetQuota{Name: "q", Value: new(1.0)}, ErrInvalid},
		"ip and user":              {SetQuota{Entity: Entity{ip, user}, Name: "q", Value: new(1.0)}, ErrInvalid},
		"two users":                {SetQuota{Entity: Entity{user, user}, Name: "q", Value: new(1.0)}, ErrInvalid},
		"unknown entity":           {SetQuota{Entity: Entity{{Type: "tribe"}}, Name: "q", Value: new(1.0)}, ErrInvalid},
		"quota that is no number":  {SetQuota{Entity: Entity{user}, Name: "q", Value: new(math.NaN())}, ErrInvalid},
		"quota of zero":            {SetQuota{Entity: Entity{user}, Name: "q", Value: new(0.0)}, ErrInvalid},
		"another cluster's record": {setCluster{ID: "other"}, ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, verdict := applied(t, append(scramLevel(), setCluster{ID: "this"}), []Record{c.record})
			if !errors.Is(verdict, c.want) {
				t.Errorf("verdict on %+v = %v, want %v", c.record, verdict, c.want)
			}
		})
	}
	t.Run("scram before metadata.version 3.5-IV2", func(t *testing.T) {
		_, verdict := applied(t, []Record{SetFeature{Name: MetadataVersion, Level: metadataVersionScram - 1}}, []Record{alice()})
		if !errors.Is(verdict, ErrUnsupported) {
			t.Errorf("verdict = %v, want %v", verdict, ErrUnsupported)
		}
		_, verdict = applied(t, []Record{SetFeature{Name: MetadataVersion, Level: metadataVersionScram}, alice()})
		if verdict != nil {
			t.Errorf("verdict = %v at the level that has SCRAM", verdict)
		}
	})
}

func TestEntityIsTheSameInAnyOrder(t *testing.T) {
	a := Entity{{Type: EntityUser, Name: new("u")}, {Type: EntityClientID, Name: new("c")}}
	b := Entity{a[1], a[0]}
	if a.Identity() != b.Identity() {
		t.Errorf("Identity() = %q and %q", a.Identity(), b.Identity())
	}
	different := map[string]Entity{}
	for _, e := range []Entity{
		a,
		{{Type: EntityUser}, {Type: EntityClientID}},
		{{Type: EntityUser, Name: new("u\x00client-id\x00+c")}},
		{{Type: EntityUser, Name: new("u")}},
		{{Type: EntityUser}},
		{{Type: EntityUser, Name: new("-")}},
	} {
		if other, ok := different[e.Identity()]; ok {
			t.Errorf("%v and %v have one identity", e, other)
		}
		different[e.Identity()] = e
	}
}
