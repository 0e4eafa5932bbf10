package log_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/configpush/log"
)

func pushed() *configpush.Push {
	p := &configpush.Push{
		Context: configpush.Context{Listener: "SSL", Protocol: "SSL", Principal: "User:alice", Address: netip.MustParseAddr("10.0.0.5"), ClientID: "a\x1b[2Jpp"},
		Entries: []configpush.Entry{
			{Key: "acks", Value: "all", Default: true}, {Key: "evil\nlevel=ERROR", Value: "\xff\u202e"}, {Key: "sasl.jaas.config", Value: "hunter2"},
		},
	}
	configpush.Redact(p.Entries)
	return p
}

func TestValuesAreInTheLogOnlyAtDebug(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for level, values := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
			var text bytes.Buffer
			o := &slog.HandlerOptions{Level: level}
			var h slog.Handler = slog.NewTextHandler(&text, o)
			if format == "json" {
				h = slog.NewJSONHandler(&text, o)
			}
			if err := log.New(slog.New(h)).Process(t.Context(), pushed()); err != nil {
				t.Fatal(err)
			}
			got := text.String()
			if n := strings.Count(got, "\n"); n != map[bool]int{false: 1, true: 2}[values] {
				t.Errorf("%s at %v has %d lines:\n%s", format, level, n, got)
			}
			if strings.Contains(got, "acks=all (default)") != values {
				t.Errorf("%s at %v = %s, want values: %v", format, level, got, values)
			}
			if !strings.Contains(got, "alice") || !strings.Contains(got, "10.0.0.5") {
				t.Errorf("%s at %v = %s, want who pushed in it", format, level, got)
			}
			for _, hostile := range []string{"hunter2", "\x1b", "\xff", "\u202e", "\nlevel=ERROR"} {
				if strings.Contains(got, hostile) {
					t.Errorf("%s at %v has %q in it: %s", format, level, hostile, got)
				}
			}
		}
	}
}
