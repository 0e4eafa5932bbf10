// Package log is the policy log: each configuration that a client pushes becomes lines of the broker's log.
//
// One line says who pushed and how much; it is of level INFO. The configurations themselves are in a second line of level
// DEBUG only: they are what strangers say of themselves, and may be private. What looks like a secret is in neither.
package log

import (
	"context"
	"log/slog"

	"github.com/brokerlab/brokerlab/broker/configpush"
)

// Policy writes pushes to a log. It has no state; its methods are safe for concurrent use.
type Policy struct{ log *slog.Logger }

var _ configpush.Policy = (*Policy)(nil)

// New returns a policy that writes to log.
func New(log *slog.Logger) *Policy { return &Policy{log} }

// Configure does nothing: there is nothing to configure.
func (*Policy) Configure(map[string]string) error { return nil }

// Reconfigure does nothing.
func (*Policy) Reconfigure(map[string]string) error { return nil }

// Close does nothing.
func (*Policy) Close() error { return nil }

// Process writes one push.
func (p *Policy) Process(ctx context.Context, push *configpush.Push) error {
	own, redacted := 0, 0
	for i := range push.Entries {
		if !push.Entries[i].Default {
			own++
		}
		if push.Entries[i].Redacted {
			redacted++
		}
	}
	by := []slog.Attr{
		slog.String("principal", configpush.Printable(push.Principal)), slog.String("client_id", configpush.Printable(push.ClientID)),
		slog.String("address", push.Address.String()), slog.String("listener", push.Listener), slog.String("protocol", push.Protocol),
		slog.String("software", push.Software), slog.String("software_version", push.SoftwareVersion), slog.String("connection", push.ConnectionID),
	}
	p.log.LogAttrs(ctx, slog.LevelInfo, "a client pushed its configuration", append(by,
		slog.Int("configs", len(push.Entries)), slog.Int("not_default", own), slog.Int("redacted", redacted), slog.Int("bytes", push.Bytes))...)
	if p.log.Enabled(ctx, slog.LevelDebug) {
		p.log.LogAttrs(ctx, slog.LevelDebug, "the configuration of a client", append(by, slog.Any("configs", lines(push.Entries)))...)
	}
	return nil
}

// lines are entries as key=value, with what is not set by the user marked.
func lines(entries []configpush.Entry) []string {
	all := make([]string, len(entries))
	for i := range entries {
		e := &entries[i]
		all[i] = configpush.Printable(e.Key) + "=" + configpush.Printable(e.Value)
		if e.Default {
			all[i] += " (default)"
		}
	}
	return all
}
