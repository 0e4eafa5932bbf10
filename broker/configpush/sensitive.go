package configpush

import (
	"strings"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Redacted stands for a value that was taken out.
const Redacted = "redacted"

// Sensitive tells whether a configuration may hold a secret, by its name in any case and its type. It is the one list: a
// client does not send such a configuration, and a broker that is sent one by another's client keeps no value of it.
//
// The list is that of the proposal's first implementation, and what else names of secrets have in them. A class is on it
// because its name can be code to load.
func Sensitive(key string, typ int8) bool {
	if typ == protocol.ConfigTypePassword || typ == protocol.ConfigTypeClass {
		return true
	}
	key = strings.ToLower(strings.TrimSpace(key))
	if key == "bootstrap.servers" {
		return true
	}
	for _, part := range []string{"sasl.", "ssl.", "security.", "jaas", "credential", "token", "password", "passwd", "secret"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return strings.HasSuffix(key, ".key")
}

// SensitiveValue tells whether a value gives itself away as a secret, whatever its key is: a JAAS configuration, a password
// that is assigned, or a private key.
func SensitiveValue(value string) bool {
	if strings.Contains(value, "-----BEGIN ") {
		return true
	}
	lower := strings.ToLower(value)
	for _, part := range []string{"loginmodule", "password=", "secret="} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return false
}

// Redact takes the values out of entries that look like secrets, and returns how many.
func Redact(entries []Entry) int {
	n := 0
	for i := range entries {
		e := &entries[i]
		if Sensitive(e.Key, e.Type) || SensitiveValue(e.Value) {
			e.Value, e.Redacted = Redacted, true
			n++
		}
	}
	return n
}
