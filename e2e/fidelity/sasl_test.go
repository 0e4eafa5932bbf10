package fidelity

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func handshake(version int16, mechanism string) *kmsg.SASLHandshakeRequest {
	r := kmsg.NewPtrSASLHandshakeRequest()
	r.Version, r.Mechanism = version, mechanism
	return r
}

func authenticate(version int16, token string) *kmsg.SASLAuthenticateRequest {
	r := kmsg.NewPtrSASLAuthenticateRequest()
	r.Version, r.SASLAuthBytes = version, []byte(token)
	return r
}

func metadataRequest(version int16) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.Version, r.Topics = version, []kmsg.MetadataRequestTopic{}
	return r
}

// sent is one thing that a client does: a request, or a token as it is.
type sent struct {
	req kmsg.Request
	raw []byte // a frame's content
}

func request(req kmsg.Request) sent { return sent{req: req} }

func token(s string) sent { return sent{raw: []byte(s)} }

// script is what a client sends, and reads an answer to, one after the other, until its connection ends.
type script struct {
	name  string
	sends []sent
}

// play plays a script and tells what came of each step; after the last one it asks for metadata, to see whether the connection
// is still there and where it stands. What SCRAM's server makes up is left out.
func (c *conn) play(sends []sent) any {
	var seen []any
	for _, s := range append(sends, request(metadataRequest(9))) {
		var what any
		switch {
		case s.req != nil:
			what = c.brief(s.req)
		default:
			if end := c.frame(s.raw); end != "" {
				what = end
				break
			}
			b, end := c.read(patience)
			if what = "token " + noncelessText(string(b)); end != "" {
				what = end
			}
		}
		if v, ok := what.(map[string]any); ok {
			if b, ok := v["SASLAuthBytes"].(string); ok {
				v["SASLAuthBytes"] = noncelessText(b)
			}
			if v["Brokers"] != nil {
				what = "metadata"
			}
		}
		seen = append(seen, what)
		if text, ok := what.(string); ok && (text == "EOF" || text == "reset" || text == "timeout") {
			// Which of the two it is depends, for what the peer had not read, on when it looked.
			seen[len(seen)-1] = "the end"
			break
		}
	}
	return seen
}

// noncelessText is a server's SCRAM message without what it chose at random.
func noncelessText(s string) string {
	if before, iterations, ok := strings.Cut(s, ",i="); ok && strings.Contains(before, "r=") && strings.Contains(before, ",s=") {
		return "first message of a server, iterations " + iterations
	}
	return s
}

// plainToken is what PLAIN sends.
func plainToken(authorize, user, password string) string {
	return authorize + "\x00" + user + "\x00" + password
}

// scripts are all that a client may do before it is authenticated, right or wrong.
func scripts() []script {
	long := strings.Repeat("x", 524_288)
	hello := request(handshake(1, "PLAIN"))
	in := request(authenticate(1, plainToken("", "alice", "alice")))
	first := func(message string) []sent {
		return []sent{request(handshake(1, "SCRAM-SHA-256")), request(authenticate(2, message))}
	}
	all := []script{
		{"right", []sent{hello, in}},
		{"wrong password", []sent{hello, request(authenticate(1, plainToken("", "alice", "nonsense")))}},
		{"unknown user", []sent{hello, request(authenticate(1, plainToken("", "nobody", "x")))}},
		{"no user", []sent{hello, request(authenticate(1, plainToken("", "", "x")))}},
		{"no password", []sent{hello, request(authenticate(1, plainToken("", "alice", "")))}},
		{"nothing at all", []sent{hello, request(authenticate(1, ""))}},
		{"two parts", []sent{hello, request(authenticate(1, "alice\x00alice"))}},
		{"four parts", []sent{hello, request(authenticate(1, "\x00alice\x00alice\x00more"))}},
		{"one part", []sent{hello, request(authenticate(1, "alice"))}},
		{"not UTF-8", []sent{hello, request(authenticate(1, "\x00ali\xffce\x00alice"))}},
		{"another's authorization", []sent{hello, request(authenticate(1, plainToken("bob", "alice", "alice")))}},
		{"its own authorization", []sent{hello, request(authenticate(1, plainToken("alice", "alice", "alice")))}},
		{"a blank behind the user", []sent{hello, request(authenticate(1, plainToken("", "alice ", "alice")))}},
		{"another case", []sent{hello, request(authenticate(1, plainToken("", "ALICE", "alice")))}},
		{"the longest token", []sent{hello, request(authenticate(1, plainToken("", "alice", long[:524_000])))}},
		{"a token too long", []sent{hello, request(authenticate(1, plainToken("", "alice", long)))}},
		{"tokens after success", []sent{hello, in, in}},
		{"a handshake after success", []sent{hello, in, hello}},
		{"versions before", []sent{request(apiVersions(3, "fidelity", "1")), hello, in}},
		{"versions twice before", []sent{request(apiVersions(3, "fidelity", "1")), request(apiVersions(3, "fidelity", "1"))}},
		{"versions after the handshake", []sent{hello, request(apiVersions(3, "fidelity", "1"))}},
		{"handshake twice", []sent{hello, hello}},
		{"metadata at first", nil},
		{"metadata after versions", []sent{request(apiVersions(3, "fidelity", "1"))}},
		{"metadata after the handshake", []sent{hello}},
		{"authenticate at first", []sent{in}},
		{"a raw token at first", []sent{token(plainToken("", "alice", "alice"))}},
		{"an empty frame at first", []sent{{raw: []byte{}}}},
		{"a raw token after handshake v1", []sent{hello, token(plainToken("", "alice", "alice"))}},
		{"authenticate after handshake v0", []sent{request(handshake(0, "PLAIN")), in}},
		{"raw", []sent{request(handshake(0, "PLAIN")), token(plainToken("", "alice", "alice"))}},
		{"raw and wrong", []sent{request(handshake(0, "PLAIN")), token(plainToken("", "alice", "x"))}},
		{"raw of one part", []sent{request(handshake(0, "PLAIN")), token("alice")}},
		{"raw SCRAM", []sent{request(handshake(0, "SCRAM-SHA-256")), token("n,,n=sasl-sam,r=abc")}},
		{"raw SCRAM of nobody", []sent{request(handshake(0, "SCRAM-SHA-256")), token("n,,n=nobody,r=abc")}},
		{"SCRAM of nobody", first("n,,n=nobody,r=abc")},
		{"SCRAM of a PLAIN user", first("n,,n=alice,r=abc")},
		{"SCRAM without a nonce", first("n,,n=sasl-sam")},
		{"SCRAM with an empty nonce", first("n,,n=sasl-sam,r=")},
		{"SCRAM without a user", first("n,,n=,r=abc")},
		{"SCRAM with a channel", first("y,,n=sasl-sam,r=abc")},
		{"SCRAM that wants a channel", first("p=tls-unique,,n=sasl-sam,r=abc")},
		{"SCRAM without a header", first("n=sasl-sam,r=abc")},
		{"SCRAM garbage", first("\xff\xfe\x00garbage")},
		{"SCRAM nothing", first("")},
		{"SCRAM for another", first("n,a=bob,n=sasl-sam,r=abc")},
		{"SCRAM for itself", first("n,a=sasl-sam,n=sasl-sam,r=abc")},
		{"SCRAM extension", first("n,,m=x,n=sasl-sam,r=abc")},
		{"SCRAM more behind", first("n,,n=sasl-sam,r=abc,tokenauth=true")},
		{"SCRAM escapes", first("n,,n=sasl=2Csam=3D,r=abc")},
		{"SCRAM bad escape", first("n,,n=sasl=2csam,r=abc")},
		{"SCRAM long", first("n,,n=" + long[:1000] + ",r=abc")},
	}
	finals := map[string]string{
		"proof of nothing": "c=biws,r=NONCE,p=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "short proof": "c=biws,r=NONCE,p=AAAA", "no proof": "c=biws,r=NONCE",
		"bad base64": "c=biws,r=NONCE,p=*", "empty": "", "garbage": "\xff\x00", "another nonce": "c=biws,r=abc,p=AAAA",
	}
	for _, name := range ordered(finals) {
		all = append(all, script{"SCRAM final " + name, append(first("n,,n=sasl-sam,r=abc"), request(authenticate(2, finals[name])))})
	}
	for _, mechanism := range []string{"plain", "PLAIN ", "", "GSSAPI", "OAUTHBEARER", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "é", strings.Repeat("M", 5000)} {
		for version := range int16(2) {
			all = append(all, script{fmt.Sprintf("mechanism %.20q v%d", mechanism, version), []sent{request(handshake(version, mechanism))}})
		}
	}
	for version := range int16(3) {
		all = append(all,
			script{fmt.Sprintf("authenticate v%d", version), []sent{hello, request(authenticate(version, plainToken("", "alice", "alice")))}},
			script{fmt.Sprintf("authenticate v%d wrong", version), []sent{hello, request(authenticate(version, plainToken("", "alice", "x")))}},
		)
	}
	// What a request meets that is in the middle of an authentication has the shape of its own answer.
	produce := kmsg.NewPtrProduceRequest()
	produce.Version, produce.Acks = 9, 1
	others := map[string]kmsg.Request{
		"CreateTopics": at(kmsg.NewPtrCreateTopicsRequest(), 7), "DescribeConfigs": at(kmsg.NewPtrDescribeConfigsRequest(), 4),
		"Produce": produce, "FindCoordinator": at(kmsg.NewPtrFindCoordinatorRequest(), 3), "ListGroups": at(kmsg.NewPtrListGroupsRequest(), 4),
		"DescribeACLs": aclsOfAll(), "UpdateFeatures": updateFeatures(1, true), "DescribeCluster": at(kmsg.NewPtrDescribeClusterRequest(), 1),
		"InitProducerID": at(kmsg.NewPtrInitProducerIDRequest(), 4), "DeleteACLs": at(kmsg.NewPtrDeleteACLsRequest(), 3),
		"AlterClientQuotas": at(kmsg.NewPtrAlterClientQuotasRequest(), 1), "OffsetFetch": at(kmsg.NewPtrOffsetFetchRequest(), 7),
	}
	for _, name := range ordered(others) {
		all = append(all, script{"in the middle " + name, []sent{hello, request(others[name])}})
	}
	return all
}

// at is a request of a version.
func at[R kmsg.Request](req R, version int16) R {
	req.SetVersion(version)
	return req
}

func aclsOfAll() *kmsg.DescribeACLsRequest {
	r := kmsg.NewPtrDescribeACLsRequest()
	r.Version, r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = 3, 1, 1, 1, 1
	return r
}

func TestAuthenticationsEndAlike(t *testing.T) {
	b := shared(t)
	for _, p := range b.peers() {
		p.scram(t, "sasl-sam")
	}
	for _, listener := range []string{"SASL_PLAINTEXT", "SASL_SSL"} {
		for i, s := range scripts() {
			if listener == "SASL_SSL" && i%4 != 0 {
				continue // what TLS changes is how it ends
			}
			b.compare(t, "sasl/"+listener+"/"+s.name, func(t *testing.T, p *peer) any {
				return p.dial(t, listener, how{noSASL: true}).play(s.sends)
			})
		}
	}
	for _, listener := range []string{"PLAINTEXT", "SSL"} {
		for name, sends := range map[string][]sent{
			"handshake": {request(handshake(1, "PLAIN"))}, "handshake v0": {request(handshake(0, "PLAIN"))}, "unknown mechanism": {request(handshake(1, "X"))},
			"authenticate": {request(authenticate(2, plainToken("", "alice", "alice")))}, "authenticate v0": {request(authenticate(0, "x"))},
		} {
			b.compare(t, "sasl/"+listener+"/"+name, func(t *testing.T, p *peer) any { return p.dial(t, listener, how{}).play(sends) })
		}
	}
	b.compare(t, "sasl/users", func(t *testing.T, p *peer) any {
		seen := map[string]any{}
		for name, as := range map[string]how{
			"plain": {user: "alice"}, "wrong": {user: "alice", password: "x"}, "scram 256": {user: "sasl-sam", mechanism: "SCRAM-SHA-256"},
			"scram 512": {user: "sasl-sam", mechanism: "SCRAM-SHA-512"}, "scram wrong": {user: "sasl-sam", password: "x", mechanism: "SCRAM-SHA-256"},
			"scram unknown": {user: "nobody", mechanism: "SCRAM-SHA-512"}, "plain of a scram user": {user: "sasl-sam"},
		} {
			c, err := p.connect(t.Context(), "SASL_PLAINTEXT", as)
			seen[name] = fmt.Sprint(err)
			if err == nil {
				c.close()
			}
		}
		return seen
	})
}

// A session that ends: connections.max.reauth.ms.
func TestSessionsAreRenewedAlike(t *testing.T) { //nolint:tparallel // its steps follow each other
	t.Parallel()
	b := pair(t, "connections.max.reauth.ms=6000", "listener.name.sasl_ssl.plain.connections.max.reauth.ms=60000",
		"listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms=0")
	for _, p := range b.peers() {
		p.scram(t, "sasl-sam")
	}
	alice := func(version int16) []sent {
		return []sent{request(handshake(1, "PLAIN")), request(authenticate(version, plainToken("", "alice", "alice")))}
	}
	then := func(parts ...[]sent) []sent {
		var all []sent
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for _, s := range []script{
		{"lifetime v0", alice(0)},
		{"lifetime v1", alice(1)},
		{"lifetime v2", alice(2)},
		{"at once", then(alice(1), alice(1))},
		{"twice at once", then(alice(1), alice(1), alice(1))},
		{"another user", then(alice(1), []sent{request(handshake(1, "PLAIN")), request(authenticate(1, plainToken("", "bob", "bob")))})},
		{"wrong password", then(alice(1), []sent{request(handshake(1, "PLAIN")), request(authenticate(1, plainToken("", "alice", "x")))})},
		{"another mechanism", then(alice(1), []sent{request(handshake(1, "SCRAM-SHA-256")), request(authenticate(1, "n,,n=alice,r=abc"))})},
		{"unknown mechanism", then(alice(1), []sent{request(handshake(1, "GSSAPI"))})},
		{"no mechanism", then(alice(1), []sent{request(handshake(1, ""))})},
		{"metadata between", then(alice(1), []sent{request(handshake(1, "PLAIN")), request(metadataRequest(9))})},
		{"versions between", then(alice(1), []sent{request(handshake(1, "PLAIN")), request(apiVersions(3, "fidelity", "1"))})},
		{"handshake v0", then(alice(1), []sent{request(handshake(0, "PLAIN")), token(plainToken("", "alice", "alice"))})},
		{"authenticate alone", then(alice(1), []sent{request(authenticate(1, plainToken("", "alice", "alice")))})},
		{"raw client", []sent{request(handshake(0, "PLAIN")), token(plainToken("", "alice", "alice"))}},
	} {
		b.compare(t, "sasl/renewal/"+s.name, func(t *testing.T, p *peer) any {
			c, begun := p.dial(t, "SASL_PLAINTEXT", how{noSASL: true}), time.Now()
			seen := c.play(s.sends)
			// A second after a renewal the next one may begin; what was to be at once has to be sooner.
			if time.Since(begun) > 900*time.Millisecond && strings.Contains(s.name, "at once") || time.Since(begun) > 5*time.Second {
				t.Skip("this machine is too slow for what has to be sooner than a session's end")
			}
			return seen
		})
		if strings.HasPrefix(s.name, "lifetime") {
			b.compare(t, "sasl/renewal/own/"+s.name, func(t *testing.T, p *peer) any {
				return p.dial(t, "SASL_SSL", how{noSASL: true}).play(s.sends)
			})
		}
	}
	b.compare(t, "sasl/renewal/none for a mechanism", func(t *testing.T, p *peer) any {
		c := p.dial(t, "SASL_PLAINTEXT", how{user: "sasl-sam", mechanism: "SCRAM-SHA-512"})
		return c.play([]sent{request(handshake(1, "SCRAM-SHA-512"))})
	})

	// When the lifetime is over, the next request decides. All wait for it together.
	late := []script{
		{"then metadata", nil},
		{"then versions", []sent{request(apiVersions(3, "fidelity", "1"))}},
		{"then authenticate", []sent{request(authenticate(1, plainToken("", "alice", "alice")))}},
		{"then a renewal", alice(1)},
		{"then a renewal v0", []sent{request(handshake(0, "PLAIN")), token(plainToken("", "alice", "alice"))}},
		{"then another user", []sent{request(handshake(1, "PLAIN")), request(authenticate(1, plainToken("", "bob", "bob")))}},
		{"then garbage", []sent{token("garbage")}},
	}
	b.compare(t, "sasl/renewal/after the end", func(t *testing.T, p *peer) any {
		var open []*conn
		for i := range 2 * len(late) { // of clients that were told the lifetime, and of those that were not
			c := p.dial(t, "SASL_PLAINTEXT", how{noSASL: true})
			c.brief(handshake(1, "PLAIN"))
			c.brief(authenticate(int16(i%2), plainToken("", "alice", "alice")))
			open = append(open, c)
		}
		seen := map[string]any{"while idle": open[len(open)-1].ended(6500 * time.Millisecond)} // nobody who only waits is cut off
		for i, c := range open {
			seen[fmt.Sprintf("%s v%d", late[i/2].name, i%2)] = c.play(late[i/2].sends)
		}
		return seen
	})
}
