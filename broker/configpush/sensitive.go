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
	for _, part := range []string{
		"sasl.", "ssl.", "security.", "jaas", "credential", "token", "password", "passwd", "passphrase", "secret", "apikey", "api_key", "basic.auth.",
	} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return strings.HasSuffix(key, ".key")
}

// SensitiveValue tells whether a value gives itself away as a secret, whatever its key is: a JAAS configuration, a password
// that is assigned, as in x.password = "y" or {"password": "y"}, one in a URL, or a private key.
func SensitiveValue(value string) bool {
	if strings.Contains(value, "-----BEGIN ") || passwordInURL(value) {
		return true
	}
	lower := strings.ToLower(value)
	if strings.Contains(lower, "loginmodule") {
		return true
	}
	for _, name := range []string{"password", "passwd", "passphrase", "secret"} {
		if assigned(lower, name) {
			return true
		}
	}
	return false
}

// assigned tells whether something is assigned to a name that ends as this does, in quotes or not.
func assigned(text, name string) bool {
	for {
		_, after, found := strings.Cut(text, name)
		if !found {
			return false
		}
		if rest := strings.TrimLeft(after, "\"'\\ \t"); rest != "" && (rest[0] == '=' || rest[0] == ':') {
			return true
		}
		text = after
	}
}

// passwordInURL tells whether a URL has one before its host, as https://user:password@host.
func passwordInURL(text string) bool {
	for {
		_, after, found := strings.Cut(text, "://")
		if !found {
			return false
		}
		authority := after
		if end := strings.IndexAny(after, "/?# \t\n\"'"); end >= 0 {
			authority = after[:end]
		}
		if at := strings.LastIndexByte(authority, '@'); at >= 0 && strings.Contains(authority[:at], ":") {
			return true
		}
		text = after
	}
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
