package stage

import (
	"errors"
	"testing"
	"time"
)

func TestATargetIsNamedAsItIsGiven(t *testing.T) {
	for text, want := range map[string]struct{ name, title string }{
		"":             {"broker", "brokerlab's broker"},
		"broker":       {"broker", "brokerlab's broker"},
		"kafka":        {"kafka:4.4.0", "Apache Kafka 4.4.0"},
		"kafka:4.3.0":  {"kafka:4.3.0", "Apache Kafka 4.3.0"},
		"kafka:4.10.1": {"kafka:4.10.1", "Apache Kafka 4.10.1"},
	} {
		p, err := ParseTarget(text)
		if err != nil || p.String() != want.name || p.Title() != want.title {
			t.Errorf("ParseTarget(%q) = %v, %q, %v, want %v", text, p, p.Title(), err, want)
		}
		if again, err := ParseTarget(p.String()); err != nil || again != p {
			t.Errorf("ParseTarget(%q) = %v, %v, want %v", p, again, err, p)
		}
	}
	for _, text := range []string{"redpanda", "kafka:", "kafka:4", "kafka:4.4.x", "kafka:../4.4.0", "broker:1", "Kafka", "kafka:3.9.0"} {
		if p, err := ParseTarget(text); !errors.Is(err, ErrTarget) {
			t.Errorf("ParseTarget(%q) = %v, %v, want an error", text, p, err)
		}
	}
}

func TestATargetSaysWhatItLacks(t *testing.T) {
	kafka := func(version string) Product { return Product{Kafka: version} }
	for _, test := range []struct {
		product Product
		needs   []Ability
		want    string
	}{
		{Product{}, []Ability{Listing, ConfigPush, MaxSSL, Ranges, Metrics}, ""},
		{kafka("4.4.0"), nil, ""},
		{kafka("4.4.0"), []Ability{Ranges}, ""},
		{kafka("5.0.0"), []Ability{Ranges}, ""},
		{kafka("4.3.0"), []Ability{Ranges}, "Apache Kafka 4.3.0 has no hosts in ACLs that are ranges (KIP-1276, since 4.4)"},
		{kafka("4.4.0"), []Ability{Listing, MaxSSL}, "Apache Kafka 4.4.0 has no list of connections (KIP-1329), and no max.ssl.connections (KIP-1015)"},
		{kafka("4.4.0"), []Ability{"nonsense"}, `Apache Kafka 4.4.0 has no "nonsense", which brokerlab does not know`},
	} {
		labels := append([]string{"limits", "slow"}, Needs(test.needs...)...)
		if got := test.product.Lacks(labels); got != test.want {
			t.Errorf("Lacks(%v) of %v = %q, want %q", labels, test.product, got, test.want)
		}
	}
}

func TestASpecMayTakeLongerAgainstKafka(t *testing.T) {
	t.Setenv(TargetVariable, "")
	if got := Within(time.Minute); got != time.Minute {
		t.Errorf("Within(1m) = %v, want 1m", got)
	}
	t.Setenv(TargetVariable, "kafka")
	if got := Within(time.Minute); got < time.Minute+startTime {
		t.Errorf("Within(1m) = %v against Kafka, want a start more", got)
	}
}
