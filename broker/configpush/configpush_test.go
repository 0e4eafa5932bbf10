package configpush

import (
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

func TestSizeCountsBytesOfKeysAndValues(t *testing.T) {
	for _, c := range []struct {
		entries []Entry
		want    int
	}{
		{nil, 0},
		{[]Entry{{Key: "acks", Value: "all"}}, 7},
		{[]Entry{{Key: "acks", Value: "all"}, {Key: "acks", Value: "all"}}, 14},
		{[]Entry{{Key: "ключ", Value: "日本"}}, 8 + 6},
		{[]Entry{{Key: "", Value: "\xff\x00"}}, 2},
	} {
		if got := Size(c.entries); got != c.want {
			t.Errorf("Size(%v) = %d, want %d", c.entries, got, c.want)
		}
	}
}

func TestSensitiveConfigurationsAreKnownByNameAndType(t *testing.T) {
	for _, key := range []string{
		"bootstrap.servers", "sasl.jaas.config", "SASL.Mechanism", "listener.name.x.ssl.keystore.location", "security.protocol",
		"my.password", "password", "my.secret", "api.key", "oauth.token", "some.credentials.file", "jaasfile", "PASSWORD_FILE", " api.key ",
		"key.passphrase", "ApiKey", "api_key.id", "schema.registry.basic.auth.user.info",
	} {
		if !Sensitive(key, protocol.ConfigTypeString) {
			t.Errorf("Sensitive(%q) = false, want true", key)
		}
	}
	for _, key := range []string{"acks", "client.id", "key.serializer.encoding", "partitioner.ignore.keys", "", "group.id", "monkey", "enable.config.push"} {
		if Sensitive(key, protocol.ConfigTypeString) {
			t.Errorf("Sensitive(%q) = true, want false", key)
		}
	}
	for typ, want := range map[int8]bool{
		protocol.ConfigTypePassword: true, protocol.ConfigTypeClass: true,
		protocol.ConfigTypeList: false, protocol.ConfigTypeUnknown: false, -128: false, 127: false,
	} {
		if got := Sensitive("acks", typ); got != want {
			t.Errorf("Sensitive(acks, %d) = %v, want %v", typ, got, want)
		}
	}
}

func TestValuesThatGiveThemselvesAwayAreSensitive(t *testing.T) {
	for value, want := range map[string]bool{
		"password=x": true, `a.PASSWORD = "x"`: true, `{"password": "x"}`: true, `{\"password\":\"x\"}`: true, "the password of a, password\t=x": true,
		"passwd=x": true, "client_secret=x": true, "secret:x": true, "com.example.LoginModule required;": true,
		"https://app:hunter2@db/x": true, "https://a,https://app:p@ss@db:80": true, "postgres://:hunter2@db": true,
		"": false, "password": false, "forgot-password, twice": false, "secret=": true, "secrets": false, "secretary": false,
		"https://db:80/x:y@z": false, "https://app@db": false, "app:x@db": false, "://": false, "https://db:80,mail:a": false, "https://db:80 a@b": false,
	} {
		if got := SensitiveValue(value); got != want {
			t.Errorf("SensitiveValue(%q) = %v, want %v", value, got, want)
		}
	}
	if long := strings.Repeat("password ;://", 100_000); SensitiveValue(long) {
		t.Error("SensitiveValue() of names to which nothing is assigned = true, want false")
	}
}

func TestRedactTakesSecretsOutOfValues(t *testing.T) {
	entries := []Entry{
		{Key: "acks", Value: "all"},
		{Key: "sasl.jaas.config", Value: "hunter2"},
		{Key: "x", Value: `org.example.PlainLoginModule required username="a" password="hunter2";`},
		{Key: "y", Value: "-----BEGIN PRIVATE KEY-----hunter2"},
		{Key: "z", Value: "hunter2", Type: protocol.ConfigTypePassword},
		{Key: "linger.ms", Value: "5"},
	}
	if n := Redact(entries); n != 4 {
		t.Errorf("Redact() = %d, want 4", n)
	}
	for i, redacted := range []bool{false, true, true, true, true, false} {
		if e := entries[i]; e.Redacted != redacted || (e.Value == Redacted) != redacted {
			t.Errorf("%s is %q, redacted %v, want redacted %v", e.Key, e.Value, e.Redacted, redacted)
		}
	}
}

func TestPrintableShowsWhatIsHidden(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"all", "all"},
		{`C:\temp`, `C:\temp`},
		{"日本 é ¡", "日本 é ¡"},
		{"\x1b[2J", `\x1b[2J`},
		{"a\x00b\nc\td", `a\x00b\nc\td`},
		{"\u202egnp.exe", `\u202egnp.exe`},
		{"\xff\xfea\x80", `\xff\xfea\x80`},
		{"\u200b\u2028\ufeff", `\u200b\u2028\ufeff`},
		{"\ufffd", "\ufffd"},
		{"\ufffd\x01", `�\x01`},
		{"\x7f\u0085", `\x7f\u0085`},
	} {
		if got := Printable(c.in); got != c.want {
			t.Errorf("Printable(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// Whatever comes, what is shown is valid UTF-8 without a control character, and is not escaped again.
func FuzzPrintable(f *testing.F) {
	f.Add("a\x00\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Printable(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, hidden) {
			t.Errorf("Printable(%q) = %q, which is not printable", s, got)
		}
		if again := Printable(got); again != got {
			t.Errorf("Printable(%q) = %q, want it as it is", got, again)
		}
	})
}

type none struct{}

func (none) Configure(map[string]string) error    { return nil }
func (none) Reconfigure(map[string]string) error  { return nil }
func (none) Process(context.Context, *Push) error { return nil }
func (none) Close() error                         { return nil }

func TestRegisteredPoliciesAreFoundByName(t *testing.T) {
	anew := func() Policy { return none{} }
	Register("configpush.test", anew)
	if got, ok := Lookup("configpush.test"); !ok || got() != (none{}) {
		t.Error("Lookup() does not find what was registered")
	}
	if _, ok := Lookup("nobody"); ok {
		t.Error("Lookup() finds what nobody registered")
	}
	if got, want := Names(), []string{"configpush.test", "fault", "log", "store"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %q, want %q", got, want)
	}
	for name, policy := range map[string]func() Policy{"configpush.test": anew, "": anew, "log": anew, "store": anew, "fault": anew, "nil": nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Register(%q) does not panic", name)
				}
			}()
			Register(name, policy)
		}()
	}
}
