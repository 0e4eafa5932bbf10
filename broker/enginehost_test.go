package broker

import (
	"context"
	"strings"
	"testing"
)

func TestAnEngineMakesEachBatchDurableWhereItIsAskedTo(t *testing.T) {
	for _, test := range []struct {
		value   string
		durable bool
		problem string
	}{
		{"1", true, ""},
		{"1000", false, ""},
		{"0", false, "log.flush.interval.messages=0: want 1, or a higher number"},
		{"often", false, "log.flush.interval.messages=often: want 1"},
	} {
		given := map[string]string{"log.flush.interval.messages": test.value, "num.partitions": "3"}
		rest, durable, err := flushed(given)
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("flushed(%s) = %v, want %q", test.value, err, test.problem)
			}
			continue
		}
		if err != nil || durable != test.durable || len(rest) != 1 || len(given) != 2 {
			t.Errorf("flushed(%s) = %v, %t, %v, want num.partitions alone and %t", test.value, rest, durable, err, test.durable)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := ServeEngine(ctx, EngineConfig{
		Nodes: 1, Listen: "127.0.0.1:0", Dir: t.TempDir(), Properties: map[string]string{"log.flush.interval.messages": "1"},
		Ready: func(string, string) { cancel() },
	})
	if err != nil {
		t.Errorf("ServeEngine with log.flush.interval.messages=1 = %v", err)
	}
}
