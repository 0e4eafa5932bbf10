package dynamicconfig_test

import (
	"slices"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
)

// Java's split drops what is empty at the end, and keeps what is empty before.
func TestOverridesMayEndInCommas(t *testing.T) {
	t.Parallel()
	one := []dynamicconfig.Override{{Host: "127.0.0.1", Count: 5}}
	for text, want := range map[string][]dynamicconfig.Override{
		"": nil, " ": nil, ",": nil, " , ,": nil, "127.0.0.1:5": one, "127.0.0.1:5,": one, " 127.0.0.1 : 5 , ": one,
	} {
		values := dynamicconfig.Merge(nil, nil, map[string]string{dynamicconfig.PerIPOverrides: text})
		if got, err := values.PerIP(); err != nil || !slices.Equal(got, want) {
			t.Errorf("PerIP() of %q = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{",127.0.0.1:5", "127.0.0.1:5,,127.0.0.2:5"} {
		values := dynamicconfig.Merge(nil, nil, map[string]string{dynamicconfig.PerIPOverrides: text})
		const want = "Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, length 0"
		if _, err := values.PerIP(); err == nil || err.Error() != want {
			t.Errorf("PerIP() of %q = %v, want %s", text, err, want)
		}
	}
}
