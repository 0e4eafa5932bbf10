package sasl_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdg-go/scram"

	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

const (
	metadata        int16 = 3
	saslHandshake   int16 = 17
	apiVersions     int16 = 18
	saslAuthenicate int16 = 36
	listener              = "EXTERNAL"
	invalidScram          = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
)

type credentialKey struct{ mechanism, user string }

// credentials are derived once: that takes thousands of hashes each.
var credentials = sync.OnceValues(func() (map[credentialKey]scram.StoredCredentials, error) {
	stored := map[credentialKey]scram.StoredCredentials{}
	for _, m := range []string{sasl.ScramSHA256, sasl.ScramSHA512} {
		for user, password := range map[string]string{"alice": "alice-secret", "bob": "bob-secret", "a=b,c": "odd", "weak": "weak"} {
			iterations := 4096
			if user == "weak" {
				iterations--
			}
			c, err := credential(m, password, iterations)
			if err != nil {
				return nil, err
			}
			stored[credentialKey{m, user}] = c
		}
	}
	return stored, nil
})

// credential derives what a broker stores of a password.
func credential(mechanism, password string, iterations int) (scram.StoredCredentials, error) {
	generator := scram.HashGeneratorFcn(sha256.New)
	if mechanism == sasl.ScramSHA512 {
		generator = sha512.New
	}
	client, err := generator.NewClientUnprepped("", password, "")
	if err != nil {
		return scram.StoredCredentials{}, err
	}
	return client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt of " + mechanism, Iters: iterations})
}

// client makes a SCRAM client's messages.
func client(t *testing.T, mechanism, user, password, authz string) *scram.ClientConversation {
	t.Helper()
	generator := scram.HashGeneratorFcn(sha256.New)
	if mechanism == sasl.ScramSHA512 {
		generator = sha512.New
	}
	c, err := generator.NewClientUnprepped(user, password, authz)
	if err != nil {
		t.Fatal(err)
	}
	return c.NewConversation()
}

// newServer knows alice and bob by every mechanism; weak has too few iterations.
func newServer(t *testing.T, maxReauth time.Duration) *sasl.Server {
	t.Helper()
	stored, err := credentials()
	if err != nil {
		t.Fatal(err)
	}
	return sasl.NewServer(sasl.Options{
		Mechanisms: map[string][]string{listener: sasl.Supported(), "INTERNAL": {sasl.Plain, "GSSAPI"}},
		Plain:      map[string]map[string]string{listener: {"alice": "alice-secret", "bob": "bob-secret", "empty": ""}},
		Scram: func(mechanism, user string) (salt, storedKey, serverKey []byte, iterations int, ok bool) {
			c, ok := stored[credentialKey{mechanism, user}]
			return []byte(c.Salt), c.StoredKey, c.ServerKey, c.Iters, ok
		},
		MaxReauth: func(l, _ string) time.Duration {
			if l != listener {
				return 0
			}
			return maxReauth
		},
	})
}

func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func plain(user, password string) []byte { return []byte("\x00" + user + "\x00" + password) }

// login authenticates a fresh or re-authenticating session by PLAIN.
func login(t *testing.T, x *sasl.Session, user, password string, now time.Time) sasl.TokenResult {
	t.Helper()
	if v := x.Admit(saslHandshake, 1, true, now); v.Action != sasl.Authenticate {
		t.Fatalf("Admit(SaslHandshake) = %+v, want Authenticate", v)
	}
	if h := x.Handshake(1, sasl.Plain, now); h.Code != 0 || h.Close {
		t.Fatalf("Handshake = %+v, want success", h)
	}
	if v := x.Admit(saslAuthenicate, 2, true, now); v.Action != sasl.Authenticate {
		t.Fatalf("Admit(SaslAuthenticate) = %+v, want Authenticate", v)
	}
	return x.Token(2, plain(user, password), now)
}

func wantVerdict(t *testing.T, what string, got, want sasl.Verdict) {
	t.Helper()
	if got != want {
		t.Errorf("%s: Admit = %+v, want %+v", what, got, want)
	}
}

var (
	handOver    = sasl.Verdict{Action: sasl.Authenticate}
	closeAtOnce = sasl.Verdict{Action: sasl.CloseSilently, Close: true, Reason: sasl.Malformed}
)

func TestTheFirstRequestIsApiVersionsOrSaslHandshake(t *testing.T) {
	t.Parallel()
	s := newServer(t, 0)
	wantVerdict(t, "ApiVersions first", s.Session(listener).Admit(apiVersions, 3, true, start()), handOver)
	wantVerdict(t, "SaslHandshake first", s.Session(listener).Admit(saslHandshake, 1, true, start()), handOver)
	wantVerdict(t, "ApiVersions of an unknown version", s.Session(listener).Admit(apiVersions, 99, false, start()), handOver)
	wantVerdict(t, "Metadata first", s.Session(listener).Admit(metadata, 12, true, start()), closeAtOnce)
	wantVerdict(t, "SaslAuthenticate first", s.Session(listener).Admit(saslAuthenicate, 2, true, start()), closeAtOnce)
	wantVerdict(t, "SaslHandshake of an unknown version", s.Session(listener).Admit(saslHandshake, 7, false, start()), closeAtOnce)
	wantVerdict(t, "an unknown key", s.Session(listener).Admit(999, 0, false, start()), closeAtOnce)
}

func TestAfterOneSuccessfulApiVersionsOnlySaslHandshakeIsTaken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		key      int16
		version  int16
		served   bool
		want     sasl.Verdict
		outcomes []int16 // codes of the ApiVersions before
	}{
		{"SaslHandshake", saslHandshake, 1, true, handOver, []int16{0}},
		{"a second ApiVersions", apiVersions, 3, true, closeAtOnce, []int16{0}},
		{"a second ApiVersions of an unknown version", apiVersions, 99, false, closeAtOnce, []int16{0}},
		{"Metadata", metadata, 1, true, closeAtOnce, []int16{0}},
		{"ApiVersions after 35", apiVersions, 3, true, handOver, []int16{35}},
		{"ApiVersions after 42, 42 and 35", apiVersions, 3, true, handOver, []int16{42, 42, 35}},
		{"ApiVersions after 35 and success", apiVersions, 3, true, closeAtOnce, []int16{35, 0}},
	} {
		x := newServer(t, 0).Session(listener)
		for _, code := range c.outcomes {
			wantVerdict(t, c.what+" (before)", x.Admit(apiVersions, 3, true, start()), handOver)
			x.APIVersions(code)
		}
		wantVerdict(t, c.what, x.Admit(c.key, c.version, c.served, start()), c.want)
	}
}

func TestAnUnsupportedMechanismIsAnswered33WithTheListThenClosed(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"plain", "GSSAPI", "OAUTHBEARER", "", "SCRAM-SHA-1"} {
		x := newServer(t, 0).Session("INTERNAL")
		x.Admit(saslHandshake, 1, true, start())
		h := x.Handshake(1, mechanism, start())
		if h.Code != 33 || !h.Close || !h.Delay || h.NoAnswer || h.Reason != sasl.AuthenticationFailed || !slices.Equal(h.Mechanisms, []string{sasl.Plain}) {
			t.Errorf("Handshake(%q) = %+v, want 33 with [PLAIN], delayed close", mechanism, h)
		}
	}
}

func TestAfterTheHandshakeAnythingElseIsAnswered34ThenClosed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key    int16
		served bool
		text   string
	}{
		{metadata, true, "Unexpected Kafka request of type METADATA during SASL authentication."},
		{apiVersions, true, "Unexpected Kafka request of type API_VERSIONS during SASL authentication."},
		{apiVersions, false, "Unexpected Kafka request of type API_VERSIONS during SASL authentication."},
		{saslHandshake, true, "Unexpected Kafka request of type SASL_HANDSHAKE during SASL authentication."},
		{22, true, "Unexpected Kafka request of type INIT_PRODUCER_ID during SASL authentication."},
		{50, true, "Unexpected Kafka request of type DESCRIBE_USER_SCRAM_CREDENTIALS during SASL authentication."},
	} {
		x := newServer(t, 0).Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(1, sasl.Plain, start())
		wantVerdict(t, c.text, x.Admit(c.key, 1, c.served, start()), sasl.Verdict{
			Action: sasl.RefuseState, Message: c.text, Close: true, Delay: true, Reason: sasl.AuthenticationFailed,
		})
		wantVerdict(t, "after a refusal", x.Admit(saslAuthenicate, 1, true, start()), closeAtOnce)
	}
	x := newServer(t, 0).Session(listener)
	x.Admit(saslHandshake, 1, true, start())
	x.Handshake(1, sasl.Plain, start())
	wantVerdict(t, "SaslAuthenticate of an unknown version", x.Admit(saslAuthenicate, 9, false, start()), closeAtOnce)
}

func TestPlainFailuresAreToldInKafkasWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ token, want string }{
		{"\x00alice\x00wrong", "Authentication failed: Invalid username or password"},
		{"\x00nobody\x00x", "Authentication failed: Invalid username or password"},
		{"\x00\x00x", "Authentication failed: username not specified"},
		{"\x00alice\x00", "Authentication failed: password not specified"},
		{"\x00empty\x00", "Authentication failed: password not specified"},
		{"bob\x00alice\x00alice-secret", "Authentication failed: Client requested an authorization id that is different from username"},
		{"bob\x00alice\x00wrong", "Authentication failed: Invalid username or password"},
		{"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"},
		{"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"},
		{"a\x00b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"},
		{"a\x00b\x00c\x00d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"},
		{"a\x00b\x00c\x00d\x00e\x00f", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"},
	} {
		x := newServer(t, 0).Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(1, sasl.Plain, start())
		x.Admit(saslAuthenicate, 1, true, start())
		r := x.Token(1, []byte(c.token), start())
		if r.Code != 58 || r.Message != c.want || !r.Close || !r.Delay || r.NoAnswer || r.Reason != sasl.AuthenticationFailed || r.Principal != nil {
			t.Errorf("Token(%q) = %+v, want 58 %q", c.token, r, c.want)
		}
		if x.Authenticated() {
			t.Errorf("Token(%q) leaves the session authenticated", c.token)
		}
	}
}

func TestPlainAuthenticates(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"\x00alice\x00alice-secret", "alice\x00alice\x00alice-secret"} {
		x := newServer(t, 0).Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(1, sasl.Plain, start())
		r := x.Token(2, []byte(token), start())
		if r.Code != 0 || r.Message != "" || r.Close || r.Principal == nil || *r.Principal != (sasl.Principal{Type: "User", Name: "alice", Mechanism: sasl.Plain}) || r.Token == nil || r.LifetimeMs != 0 || r.Reauthenticated {
			t.Errorf("Token(%q) = %+v, want User:alice", token, r)
		}
		wantVerdict(t, "Metadata when authenticated", x.Admit(metadata, 1, true, start().Add(1000*time.Hour)), sasl.Verdict{Action: sasl.Serve})
		wantVerdict(t, "ApiVersions when authenticated", x.Admit(apiVersions, 1, true, start()), sasl.Verdict{Action: sasl.Serve})
	}
}

func TestAfterAuthenticationSaslRequestsAreAnswered34AndTheConnectionKept(t *testing.T) {
	t.Parallel()
	x := newServer(t, 0).Session(listener)
	login(t, x, "alice", "alice-secret", start())
	v := x.Admit(saslAuthenicate, 1, true, start())
	wantVerdict(t, "SaslAuthenticate", v, sasl.Verdict{Action: sasl.RefuseState, Message: "SaslAuthenticate request received after successful authentication"})
	v = x.Admit(saslHandshake, 1, true, start())
	if v.Action != sasl.RefuseState || v.Close {
		t.Errorf("Admit(SaslHandshake) without a session lifetime = %+v, want 34 and kept", v)
	}
	wantVerdict(t, "Metadata after them", x.Admit(metadata, 1, true, start()), sasl.Verdict{Action: sasl.Serve})
}

func TestScramAuthenticates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mechanism, user, password, authz string }{
		{sasl.ScramSHA256, "alice", "alice-secret", ""},
		{sasl.ScramSHA512, "alice", "alice-secret", ""},
		{sasl.ScramSHA256, "alice", "alice-secret", "alice"},
		{sasl.ScramSHA256, "a=b,c", "odd", ""},
	} {
		x := newServer(t, time.Hour).Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(1, c.mechanism, start())
		conversation := client(t, c.mechanism, c.user, c.password, c.authz)
		message, err := conversation.Step("")
		if err != nil {
			t.Fatal(err)
		}
		r := x.Token(2, []byte(message), start())
		if r.Code != 0 || r.Close || r.Principal != nil || r.LifetimeMs != 0 {
			t.Fatalf("%s: first Token = %+v, want a challenge", c.user, r)
		}
		if message, err = conversation.Step(string(r.Token)); err != nil {
			t.Fatal(err)
		}
		r = x.Token(2, []byte(message), start())
		if r.Code != 0 || r.Principal == nil || r.Principal.Name != c.user || r.Principal.Mechanism != c.mechanism || r.LifetimeMs != time.Hour.Milliseconds() {
			t.Fatalf("%s: second Token = %+v, want User:%s for an hour", c.user, r, c.user)
		}
		if _, err = conversation.Step(string(r.Token)); err != nil || !conversation.Valid() {
			t.Errorf("%s: the client does not accept the server's signature: %v", c.user, err)
		}
	}
}

// Kafka takes an attribute that RFC 5802 reserves for extensions, and proves nothing of it.
func TestScramPassesOverAReservedExtension(t *testing.T) {
	t.Parallel()
	x := newServer(t, 0).Session(listener)
	x.Admit(saslHandshake, 1, true, start())
	x.Handshake(1, sasl.ScramSHA256, start())
	conversation := client(t, sasl.ScramSHA256, "alice", "alice-secret", "")
	message, err := conversation.Step("")
	if err != nil {
		t.Fatal(err)
	}
	r := x.Token(2, []byte(strings.Replace(message, ",,n=", ",,m=later,n=", 1)), start())
	if r.Code != 0 {
		t.Fatalf("first Token = %+v, want a challenge", r)
	}
	if message, err = conversation.Step(string(r.Token)); err != nil {
		t.Fatal(err)
	}
	if r = x.Token(2, []byte(message), start()); r.Code != 0 || r.Principal == nil || r.Principal.Name != "alice" {
		t.Errorf("second Token = %+v, want User:alice", r)
	}
}

// The order is that of a Java set, as Kafka 4.4.0 answers.
func TestMechanismsAreToldInKafkasOrder(t *testing.T) {
	t.Parallel()
	x := newServer(t, 0).Session(listener)
	x.Admit(saslHandshake, 1, true, start())
	if h, want := x.Handshake(1, sasl.Plain, start()), []string{sasl.Plain, sasl.ScramSHA512, sasl.ScramSHA256}; !slices.Equal(h.Mechanisms, want) {
		t.Errorf("Handshake tells %v, want %v", h.Mechanisms, want)
	}
}

func TestScramTellsAnUnknownUserFirstAndAWrongPasswordSecond(t *testing.T) {
	t.Parallel()
	first := func(t *testing.T, user, authz string) (*sasl.Session, *scram.ClientConversation, sasl.TokenResult) {
		t.Helper()
		x := newServer(t, 0).Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(1, sasl.ScramSHA256, start())
		conversation := client(t, sasl.ScramSHA256, user, "wrong", authz)
		message, err := conversation.Step("")
		if err != nil {
			t.Fatal(err)
		}
		r := x.Token(1, []byte(message), start())
		return x, conversation, r
	}
	failed := func(t *testing.T, what string, r sasl.TokenResult, message string) {
		t.Helper()
		if r.Code != 58 || r.Message != message || !r.Close || !r.Delay || r.Principal != nil || r.Reason != sasl.AuthenticationFailed || r.Err == nil {
			t.Errorf("%s: %+v, want 58 %q", what, r, message)
		}
	}
	_, _, r := first(t, "nobody", "")
	failed(t, "unknown user", r, invalidScram)
	_, _, r = first(t, "weak", "")
	failed(t, "too few iterations", r, invalidScram)
	_, _, r = first(t, "alice", "bob")
	failed(t, "other authorization id", r, "Authentication failed: Client requested an authorization id that is different from username")
	_, _, r = first(t, "nobody", "bob")
	failed(t, "unknown user with another authorization id", r, invalidScram)

	x, conversation, r := first(t, "alice", "")
	if r.Code != 0 {
		t.Fatalf("wrong password: first Token = %+v, want a challenge", r)
	}
	message, err := conversation.Step(string(r.Token))
	if err != nil {
		t.Fatal(err)
	}
	failed(t, "wrong password", x.Token(1, []byte(message), start()), invalidScram)
}

func TestScramRefusesMessagesOfAnotherForm(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		"", "n", "n,,", "n,,n=alice", "n,,n=,r=abc", "n,,n=alice,r=", "y,,n=alice,r=abc", "p=tls-unique,,n=alice,r=abc", "n,,n=al=ice,r=abc", "n,,n=älice,r=abc",
		"n,,n=alice,r=a b", "n,,n=alice,r=abc,", "n,,n=alice,r=abc,=x", "n,b=c,n=alice,r=abc", "\x00alice\x00alice-secret", "n,,n=alice,r=abc,tokenauth=true", "n,,n=alice,r=abc,tokenauth=TRUE",
		strings.Repeat("n", 100000),
	} {
		x := newServer(t, 0).Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(1, sasl.ScramSHA256, start())
		if r := x.Token(1, []byte(message), start()); r.Code != 58 || r.Message != invalidScram {
			t.Errorf("Token(%.60q) = %+v, want 58", message, r)
		}
	}
	for _, final := range []string{"", "c=biws", "c=biws,r=NONCE", "c=biws,r=NONCE,p=", "c=biws,r=NONCE,p=AAAA", "c=biws,r=other,p=AAAA", "c=eSws,r=NONCE,p=AAAA", "c=bi,r=NONCE,p=AAAA", "c=biws,r=NONCE,p=AAAA,x=y", "e=other-error"} {
		x := newServer(t, 0).Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(1, sasl.ScramSHA256, start())
		r := x.Token(1, []byte("n,,n=alice,r=abc,foo=bar"), start())
		nonce, _, _ := strings.Cut(strings.TrimPrefix(string(r.Token), "r="), ",")
		if r = x.Token(1, []byte(strings.ReplaceAll(final, "NONCE", nonce)), start()); r.Code != 58 || r.Message != invalidScram || r.Principal != nil {
			t.Errorf("final %q: Token = %+v, want 58", final, r)
		}
	}
}

func TestVersion0OfTheHandshakeIsFollowedByRawTokens(t *testing.T) {
	t.Parallel()
	s := newServer(t, time.Hour)
	raw := func(mechanism string) *sasl.Session {
		x := s.Session(listener)
		if x.Raw() {
			t.Error("Raw before the handshake")
		}
		x.Admit(saslHandshake, 0, true, start())
		if h := x.Handshake(0, mechanism, start()); h.Code != 0 || !x.Raw() {
			t.Errorf("Handshake v0 = %+v, Raw = %v, want raw tokens", h, x.Raw())
		}
		return x
	}
	x := raw(sasl.Plain)
	r := x.Token(-1, plain("alice", "alice-secret"), start())
	if r.Principal == nil || len(r.Token) != 0 || r.Token == nil || r.Close || x.Raw() {
		t.Errorf("Token = %+v, want success by an empty frame", r)
	}
	if !x.Expires().Equal(start().Add(time.Hour)) {
		t.Errorf("Expires = %v: clients that are not told the lifetime expire too", x.Expires())
	}
	r = raw(sasl.Plain).Token(-1, plain("alice", "wrong"), start())
	if !r.NoAnswer || !r.Close || !r.Delay || r.Reason != sasl.AuthenticationFailed {
		t.Errorf("wrong password: Token = %+v, want a delayed close without answer", r)
	}
	r = raw(sasl.Plain).Token(-1, nil, start())
	if !r.NoAnswer || !r.Close {
		t.Errorf("empty token: Token = %+v, want close without answer", r)
	}
	r = raw(sasl.ScramSHA256).Token(-1, []byte("n,,n=nobody,r=abc"), start())
	if !r.NoAnswer || !r.Close || r.Delay {
		t.Errorf("unknown SCRAM user: Token = %+v, want a close at once", r)
	}
}

func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	const lifetime = 10 * time.Second
	x := newServer(t, lifetime).Session(listener)
	if r := login(t, x, "alice", "alice-secret", start()); r.LifetimeMs != 10000 {
		t.Errorf("LifetimeMs = %d, want 10000", r.LifetimeMs)
	}
	wantVerdict(t, "at the last moment", x.Admit(metadata, 1, true, start().Add(lifetime)), sasl.Verdict{Action: sasl.Serve})
	late := start().Add(lifetime + time.Millisecond)
	expired := sasl.Verdict{Action: sasl.CloseSilently, Close: true, Reason: sasl.SessionExpired}
	for _, key := range []int16{metadata, apiVersions, saslAuthenicate} {
		y := newServer(t, lifetime).Session(listener)
		login(t, y, "alice", "alice-secret", start())
		wantVerdict(t, fmt.Sprintf("key %d after expiry", key), y.Admit(key, 1, true, late), expired)
	}
	if r := login(t, x, "alice", "alice-secret", late.Add(time.Hour)); !r.Reauthenticated || r.LifetimeMs != 10000 {
		t.Errorf("re-authentication of an expired session = %+v, want success", r)
	}
	wantVerdict(t, "after re-authentication", x.Admit(metadata, 1, true, late.Add(time.Hour)), sasl.Verdict{Action: sasl.Serve})
}

// A mechanism that is taken away in the middle of an exchange leaves that its lifetime.
func TestAnExchangeEndsAsItBegan(t *testing.T) {
	s := newServer(t, 10*time.Second)
	x := s.Session(listener)
	if h := x.Handshake(1, sasl.Plain, start()); h.Code != 0 {
		t.Fatalf("Handshake = %+v, want success", h)
	}
	s.Update(nil, nil, nil)
	r := x.Token(2, plain("alice", "alice-secret"), start())
	if want := start().Add(10 * time.Second); r.Code != 0 || r.LifetimeMs != 10_000 || !x.Expires().Equal(want) {
		t.Errorf("Token = %+v, expires %v, want a session until %v", r, x.Expires(), want)
	}
	if h := s.Session(listener).Handshake(1, sasl.Plain, start()); h.Code == 0 {
		t.Error("a mechanism that was taken away is begun")
	}
}

func TestReauthenticationsStartASecondApart(t *testing.T) {
	t.Parallel()
	x := newServer(t, time.Minute).Session(listener)
	login(t, x, "alice", "alice-secret", start())
	if r := login(t, x, "alice", "alice-secret", start()); !r.Reauthenticated {
		t.Errorf("the first re-authentication, at once = %+v, want success", r)
	}
	if v := x.Admit(saslHandshake, 1, true, start().Add(999*time.Millisecond)); v.Action != sasl.RefuseState || v.Close {
		t.Errorf("Admit(SaslHandshake) within a second = %+v, want 34 and kept", v)
	}
	if r := login(t, x, "alice", "alice-secret", start().Add(time.Second)); !r.Reauthenticated {
		t.Errorf("re-authentication a second later = %+v, want success", r)
	}
	// Too early and too late at once: the session has expired in less than a second.
	y := newServer(t, 500*time.Millisecond).Session(listener)
	login(t, y, "alice", "alice-secret", start())
	login(t, y, "alice", "alice-secret", start())
	wantVerdict(t, "SaslHandshake within a second of an expired session", y.Admit(saslHandshake, 1, true, start().Add(900*time.Millisecond)),
		sasl.Verdict{Action: sasl.CloseSilently, Close: true, Reason: sasl.SessionExpired})
}

func TestReauthenticationKeepsPrincipalAndMechanism(t *testing.T) {
	t.Parallel()
	s := newServer(t, time.Minute)
	fresh := func() *sasl.Session {
		x := s.Session(listener)
		login(t, x, "alice", "alice-secret", start())
		return x
	}
	r := login(t, fresh(), "bob", "bob-secret", start())
	if r.Code != 58 || r.Message != "Cannot change principals during re-authentication from User.alice: User.bob" || !r.Close || !r.Delay {
		t.Errorf("another principal: Token = %+v, want 58", r)
	}

	x := fresh()
	x.Admit(saslHandshake, 1, true, start())
	if x.Authenticated() {
		t.Error("Authenticated during a re-authentication")
	}
	if h := x.Handshake(1, sasl.ScramSHA256, start()); h.Code != 0 || h.Close {
		t.Errorf("another mechanism: Handshake = %+v, want 0", h)
	}
	wantVerdict(t, "what follows", x.Admit(saslAuthenicate, 1, true, start()), sasl.Verdict{Action: sasl.CloseSilently, Close: true, Delay: true, Reason: sasl.AuthenticationFailed})

	x = fresh()
	x.Admit(saslHandshake, 1, true, start())
	if h := x.Handshake(1, "GSSAPI", start()); !h.NoAnswer || !h.Close || h.Delay {
		t.Errorf("a mechanism not enabled: Handshake = %+v, want a close at once without 33", h)
	}

	x = fresh()
	x.Admit(saslHandshake, 1, true, start())
	x.Handshake(1, sasl.Plain, start())
	v := x.Admit(metadata, 1, true, start())
	if v.Action != sasl.RefuseState || !v.Close || !v.Delay {
		t.Errorf("Metadata during a re-authentication = %+v, want 34, then close", v)
	}

	y := s.Session(listener)
	y.Admit(saslHandshake, 1, true, start())
	y.Handshake(1, sasl.ScramSHA256, start())
	scramLogin(t, y)
	y.Admit(saslHandshake, 1, true, start())
	y.Handshake(1, sasl.ScramSHA256, start())
	if r := y.Token(1, []byte("n,,n=nobody,r=abc"), start()); r.Message != "Authentication failed during re-authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256" {
		t.Errorf("SCRAM failure during a re-authentication: %+v", r)
	}
}

func scramLogin(t *testing.T, x *sasl.Session) {
	t.Helper()
	c := client(t, sasl.ScramSHA256, "alice", "alice-secret", "")
	message := ""
	var r sasl.TokenResult
	for range 2 {
		next, err := c.Step(message)
		if err != nil {
			t.Fatal(err)
		}
		r = x.Token(1, []byte(next), start())
		message = string(r.Token)
	}
	if r.Principal == nil {
		t.Fatalf("SCRAM login = %+v", r)
	}
}

func TestUsersOfAPlainLoginModule(t *testing.T) {
	t.Parallel()
	modules, err := sasl.JAAS(`org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="x" user_admin="x" "user_with space"="y";
		com.example.Other required user_eve="z";`)
	if err != nil {
		t.Fatal(err)
	}
	users := sasl.PlainUsers(modules)
	if len(users) != 2 || users["admin"] != "x" || users["with space"] != "y" {
		t.Errorf("PlainUsers = %v, want admin and with space", users)
	}
}

// Whatever bytes arrive, in whatever order, nobody is authenticated without the secret.
func FuzzSessionNeverAuthenticatesWithoutTheSecret(f *testing.F) {
	f.Add(uint8(0), []byte("\x00alice\x00wrong"), []byte("x"))
	f.Add(uint8(1), []byte("n,,n=alice,r=abc"), []byte("c=biws,r=abc,p="+base64.StdEncoding.EncodeToString(make([]byte, 32))))
	f.Add(uint8(2), []byte("n,a=alice,n=alice,r=abc,ext=1"), []byte("c=biws,r=abc,p=AAAA"))
	stored := scram.StoredCredentials{KeyFactors: scram.KeyFactors{Salt: "s", Iters: 4096}, StoredKey: make([]byte, 32), ServerKey: make([]byte, 32)}
	s := sasl.NewServer(sasl.Options{
		Mechanisms: map[string][]string{listener: sasl.Supported()},
		Plain:      map[string]map[string]string{listener: {"alice": "a-secret-that-no-fuzzer-finds"}},
		Scram: func(_, user string) (salt, storedKey, serverKey []byte, iterations int, ok bool) {
			return []byte(stored.Salt), stored.StoredKey, stored.ServerKey, 4096, user == "alice"
		},
	})
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte) {
		x := s.Session(listener)
		x.Admit(saslHandshake, 1, true, start())
		x.Handshake(int16(which>>7), sasl.Supported()[int(which)%3], start())
		for _, token := range [][]byte{first, second} {
			r := x.Token(1, token, start())
			if r.Principal != nil || x.Authenticated() {
				t.Fatalf("Token(%q) authenticates %v", token, r.Principal)
			}
			if (r.Code != 0) != r.Close {
				t.Fatalf("Token(%q) = %+v: an error without a close, or a close without an error", token, r)
			}
		}
	})
}

// A text that is read has modules with a known flag; none makes the reader fail otherwise.
func FuzzJAAS(f *testing.F) {
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b\"\101" /* c */ x='y';`)
	f.Add("a required b=c;//\nd optional;")
	f.Fuzz(func(t *testing.T, text string) {
		modules, err := sasl.JAAS(text)
		if err != nil {
			return
		}
		if len(modules) == 0 {
			t.Fatalf("JAAS(%q) has no modules and no error", text)
		}
		for _, m := range modules {
			if m.Class == "" || !slices.Contains([]string{"required", "requisite", "sufficient", "optional"}, m.Flag) {
				t.Fatalf("JAAS(%q) = %+v", text, m)
			}
		}
	})
}

// Rules that are read map every subject to a name or to an UnmappedError, and DEFAULT alone changes nothing.
func FuzzRules(f *testing.F) {
	f.Add(`RULE:^CN=(.*?),.*$/$1/L,DEFAULT`, "CN=a,O=b")
	f.Add(`RULE:.*/x$12\/${n}/U`, "")
	f.Add(`RULE:[\Qa]\E&&\x41-\p{Lu}]*|\R?/$0/`, "Ä\r\n")
	f.Fuzz(func(t *testing.T, rules, dn string) {
		m, err := sasl.ParseRules(rules)
		if err != nil {
			return
		}
		name, err := m.Map(dn)
		if err == nil && strings.TrimSpace(rules) == "DEFAULT" && name != dn {
			t.Fatalf("DEFAULT maps %q to %q", dn, name)
		}
	})
}

func TestPatternsThatNeedBacktrackingAreRefusedByName(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]error{
		`CN=(?=a).*`: sasl.ErrLookAround, `CN=(?!a).*`: sasl.ErrLookAround, `.*(?<=a)`: sasl.ErrLookAround, `.*(?<!a)`: sasl.ErrLookAround,
		`(.)\1`: sasl.ErrBackReference, `(?<x>.)\k<x>`: sasl.ErrBackReference, `a*+b`: sasl.ErrPossessive, `a++`: sasl.ErrPossessive, `a{2}+`: sasl.ErrPossessive,
		`(?>a)`: sasl.ErrPossessive, `[a-z&&[^b]]*`: sasl.ErrClassAlgebra, `[a[b]]`: sasl.ErrClassAlgebra,
	} {
		_, err := sasl.ParseRules("RULE:" + pattern + "/x/")
		if !strings.Contains(fmt.Sprint(err), want.Error()) || !strings.Contains(err.Error(), pattern) {
			t.Errorf("ParseRules of %q = %v, want %v", pattern, err, want)
		}
	}
}
