package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// pushConfig hands what a client says it is configured with to the policy (KIP-1324). Only the client that pushes waits
// for the policy: no worker does.
//
// Versions: 0.
// Needs: nothing but authentication.
// Errors: CONFIG_TOO_LARGE (137) for more bytes of keys and values than client.config.max.bytes, before the policy sees
// them; INVALID_REQUEST for a key that is empty or comes twice; UNKNOWN_SERVER_ERROR when the policy fails, panics, takes
// longer than client.config.policy.timeout.ms, or has more to do than it can; UNSUPPORTED_VERSION where there is no policy:
// the API is not advertised then. ErrorMessage says which.
// Differs from Kafka: Kafka has no such API yet. Where the proposal leaves a choice: bytes are counted before anything is
// taken out; types are kept as they come; what looks like a secret is taken out before the policy sees it; a push
// without entries is one; a connection that pushes over and over is refused for a while.
func pushConfig(q *call, req *protocol.PushConfigRequest) {
	p := q.server.pushes
	if p == nil {
		q.refuse(req, kerr.UnsupportedVersion, "This broker has no policy for client configurations (client.config.policy.class.name).")
		return
	}
	entries := make([]configpush.Entry, len(req.Configs))
	for i := range req.Configs {
		c := &req.Configs[i]
		entries[i] = configpush.Entry{Key: c.Key, Value: c.Value, Type: c.Type, Default: c.IsDefault}
	}
	size, most := configpush.Size(entries), int(p.maxBytes.Load())
	p.metrics.bytes.Add(float64(size))
	if size > most {
		p.refused(q, entries, size, most)
		q.answer(errorResponse(req, protocol.CodeConfigTooLarge, fmt.Sprintf(
			"The client configuration has %d bytes of keys and values, which is more than client.config.max.bytes, %d.", size, most)))
		return
	}
	if why := strangeKey(entries); why != "" {
		p.metrics.result(pushInvalid)
		q.refuse(req, kerr.InvalidRequest, why)
		return
	}
	configpush.Redact(entries)
	p.submit(q, req, &configpush.Push{Context: q.pushContext(), Entries: entries, Bytes: size, Received: q.received})
}

// strangeKey says what is wrong with the keys of a push.
func strangeKey(entries []configpush.Entry) string {
	seen := make(map[string]bool, len(entries))
	for i := range entries {
		key := entries[i].Key
		switch {
		case key == "":
			return fmt.Sprintf("The key of configuration %d is empty.", i+1)
		case seen[key]:
			const most = 200
			return "The client configuration has a key twice: " + configpush.Printable(key[:min(len(key), most)])
		}
		seen[key] = true
	}
	return ""
}

// pushContext is what the broker knows of who pushes.
func (q *call) pushContext() configpush.Context {
	c := contextOf(q.conn)
	c.CorrelationID, c.Version = q.header.CorrelationID, q.header.Version
	return c
}

// contextOf is what the broker knows of a connection.
func contextOf(conn *network.Conn) configpush.Context {
	c := configpush.Context{
		Listener: conn.Listener().Name, Protocol: conn.Listener().Protocol.String(), Address: conn.Remote().Addr(),
		ConnectionID: conn.ID(), Connected: conn.Since(),
	}
	c.Principal, _ = who(conn)
	if id := conn.Identity(); id != nil {
		c.ClientID, c.Software, c.SoftwareVersion = id.ClientID, id.Software, id.SoftwareVersion
	}
	return c
}
