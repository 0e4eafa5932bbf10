package fidelity

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// part is one type and name of an entity that quotas are for; a nil name is the default.
type part struct {
	kind string
	name *string
}

func quotas(validate bool, entries ...kmsg.AlterClientQuotasRequestEntry) *kmsg.AlterClientQuotasRequest {
	r := kmsg.NewPtrAlterClientQuotasRequest()
	r.Version, r.ValidateOnly, r.Entries = 1, validate, entries
	return r
}

// quota is what an AlterClientQuotas does to one entity: NaN removes.
func quota(values map[string]float64, parts ...part) kmsg.AlterClientQuotasRequestEntry {
	e := kmsg.NewAlterClientQuotasRequestEntry()
	for _, p := range parts {
		one := kmsg.NewAlterClientQuotasRequestEntryEntity()
		one.Type, one.Name = p.kind, p.name
		e.Entity = append(e.Entity, one)
	}
	for _, key := range ordered(values) {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		if op.Key, op.Value = key, values[key]; op.Key != "" && math.IsInf(op.Value, -1) {
			op.Value, op.Remove = 0, true
		}
		e.Ops = append(e.Ops, op)
	}
	return e
}

// sought is one part of a filter of DescribeClientQuotas: exact 0, default 1, any 2.
type sought struct {
	kind  string
	match int8
	name  *string
}

func quotasOf(strict bool, parts ...sought) *kmsg.DescribeClientQuotasRequest {
	r := kmsg.NewPtrDescribeClientQuotasRequest()
	r.Version, r.Strict = 1, strict
	for _, p := range parts {
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		c.EntityType, c.MatchType, c.Match = p.kind, kmsg.QuotasMatchType(p.match), p.name
		r.Components = append(r.Components, c)
	}
	return r
}

func TestClientQuotasAreKeptAlike(t *testing.T) {
	b := shared(t)
	gone := math.Inf(-1)
	user, client, ip := part{"user", new("quota-u")}, part{"client-id", new("quota-c")}, part{"ip", new("192.0.2.7")}
	anyUser, anyClient, anyIP := part{"user", nil}, part{"client-id", nil}, part{"ip", nil}
	rate := func(v float64) map[string]float64 { return map[string]float64{"producer_byte_rate": v} }
	conns := func(v float64) map[string]float64 { return map[string]float64{"connection_creation_rate": v} }
	requests := map[string]*kmsg.AlterClientQuotasRequest{
		"none": quotas(true), "user": quotas(true, quota(rate(1000), user)), "client": quotas(true, quota(rate(1000), client)), "both": quotas(true, quota(rate(1000), user, client)),
		"both the other way": quotas(true, quota(rate(1000), client, user)), "defaults": quotas(true, quota(rate(1), anyUser, anyClient)), "ip": quotas(true, quota(conns(7), ip)),
		"default ip": quotas(true, quota(conns(7), anyIP)), "ip with a user": quotas(true, quota(conns(7), ip, user)), "ip's bytes": quotas(true, quota(rate(7), ip)),
		"user's connections": quotas(true, quota(conns(7), user)), "no parts": quotas(true, quota(rate(1))), "unknown type": quotas(true, quota(rate(1), part{"group", new("g")})),
		"empty type": quotas(true, quota(rate(1), part{"", new("g")})), "a type twice": quotas(true, quota(rate(1), user, part{"user", new("other")})),
		"empty user": quotas(true, quota(rate(1), part{"user", new("")})), "empty client": quotas(true, quota(rate(1), part{"client-id", new("")})), "empty ip": quotas(true, quota(conns(1), part{"ip", new("")})),
		"a range": quotas(true, quota(conns(1), part{"ip", new("10.0.0.0/8")})), "a star": quotas(true, quota(conns(1), part{"ip", new("*")})), "a bad ip": quotas(true, quota(conns(1), part{"ip", new("300.1.1.1")})),
		"IPv6": quotas(true, quota(conns(1), part{"ip", new("2001:db8::1")})), "a blank": quotas(true, quota(conns(1), part{"ip", new(" 127.0.0.2")})),
		"unknown key": quotas(true, quota(map[string]float64{"no_such": 1}, user)), "an empty key": quotas(true, quota(map[string]float64{"": 1}, user)), "no ops": quotas(true, quota(nil, user)),
		"zero": quotas(true, quota(rate(0), user)), "negative": quotas(true, quota(rate(-1), user)), "a fraction": quotas(true, quota(rate(1.5), user)), "NaN": quotas(true, quota(rate(math.NaN()), user)),
		"infinite": quotas(true, quota(rate(math.Inf(1)), user)), "huge": quotas(true, quota(rate(1e300), user)), "too much": quotas(true, quota(rate(9.3e18), user)), "ip 0": quotas(true, quota(conns(0), ip)),
		"ip fraction": quotas(true, quota(conns(0.5), ip)), "ip too much": quotas(true, quota(conns(2147483648), ip)), "ip negative": quotas(true, quota(conns(-1), ip)), "ip NaN": quotas(true, quota(conns(math.NaN()), ip)),
		"request percentage": quotas(true, quota(map[string]float64{"request_percentage": 12.5}, user)), "mutations": quotas(true, quota(map[string]float64{"controller_mutation_rate": 0.5}, user)),
		"consumer fraction": quotas(true, quota(map[string]float64{"consumer_byte_rate": 0.5}, user)), "removed that is not": quotas(true, quota(rate(gone), user)), "unknown removed": quotas(true, quota(map[string]float64{"no_such": gone}, user)),
		"twice": quotas(true, quota(rate(1), user), quota(rate(2), user)), "good and bad": quotas(true, quota(rate(1), user), quota(rate(-1), client)), "long": quotas(true, quota(rate(1), part{"user", new(strings.Repeat("u", 5000))})),
		"two problems": quotas(true, quota(map[string]float64{"no_such": 1, "producer_byte_rate": -1}, user)), "not ASCII": quotas(true, quota(rate(1), part{"user", new("ü/%")})),
	}
	again := quota(rate(1), user)
	again.Ops = append(again.Ops, again.Ops[0])
	requests["a key twice"] = quotas(true, again)
	for name, req := range requests {
		b.compare(t, "quotas/validated/"+name, func(t *testing.T, p *peer) any { return p.seenByRoot(t, req) })
	}

	ask := map[string]*kmsg.DescribeClientQuotasRequest{
		"all": quotasOf(false), "all strictly": quotasOf(true), "user": quotasOf(false, sought{"user", 0, user.name}), "user strictly": quotasOf(true, sought{"user", 0, user.name}), "any user": quotasOf(false, sought{"user", 2, nil}),
		"any user strictly": quotasOf(true, sought{"user", 2, nil}), "default user": quotasOf(false, sought{"user", 1, nil}), "user and client": quotasOf(true, sought{"user", 0, user.name}, sought{"client-id", 0, client.name}),
		"ip": quotasOf(false, sought{"ip", 0, ip.name}), "any ip": quotasOf(false, sought{"ip", 2, nil}), "default ip": quotasOf(true, sought{"ip", 1, nil}), "ip and user": quotasOf(false, sought{"ip", 2, nil}, sought{"user", 2, nil}),
		"unknown type": quotasOf(false, sought{"group", 2, nil}), "empty type": quotasOf(false, sought{"", 2, nil}), "twice": quotasOf(false, sought{"user", 2, nil}, sought{"user", 1, nil}), "match 3": quotasOf(false, sought{"user", 3, nil}),
		"exact of null": quotasOf(false, sought{"user", 0, nil}), "default with a name": quotasOf(false, sought{"user", 1, user.name}), "any with a name": quotasOf(false, sought{"user", 2, user.name}), "nobody": quotasOf(false, sought{"user", 0, new("nobody")}),
	}
	describe := func(when string) {
		for name, req := range ask {
			b.compare(t, "quotas/"+when+"/"+name, func(t *testing.T, p *peer) any {
				return sortedIn(p.seenByRoot(t, req), "Entity", "Values", "Entries")
			})
		}
	}
	describe("before")
	put := quotas(false, quota(map[string]float64{"producer_byte_rate": 1000, "consumer_byte_rate": 2000.0, "request_percentage": 12.5}, user), quota(rate(3), user, client), quota(rate(4), anyUser),
		quota(rate(5), anyUser, anyClient), quota(rate(6), client), quota(conns(700), ip), quota(conns(800), anyIP), quota(rate(-1), part{"user", new("bad")}))
	b.compare(t, "quotas/put", func(t *testing.T, p *peer) any { return sortedIn(p.seenByRoot(t, put), "Entries") })
	seen := func(n int) {
		for _, p := range b.peers() {
			kit.Eventually(t, fmt.Sprintf("%s has %d quotas", p.name, n), func() bool {
				resp, _ := p.root(t, quotasOf(false)).(*kmsg.DescribeClientQuotasResponse)
				return len(resp.Entries) == n
			})
		}
	}
	seen(7)
	describe("set")
	b.compare(t, "quotas/changed", func(t *testing.T, p *peer) any {
		return sortedIn(p.seenByRoot(t, quotas(false, quota(map[string]float64{"producer_byte_rate": 1001, "request_percentage": gone}, user), quota(rate(gone), user, client))), "Entries")
	})
	seen(6)
	describe("changed")
	b.compare(t, "quotas/removed", func(t *testing.T, p *peer) any {
		return sortedIn(p.seenByRoot(t, quotas(false, quota(map[string]float64{"producer_byte_rate": gone, "consumer_byte_rate": gone}, user), quota(rate(gone), anyUser),
			quota(rate(gone), anyUser, anyClient), quota(rate(gone), client), quota(conns(gone), ip), quota(conns(gone), anyIP))), "Entries")
	})
	seen(0)
	b.compare(t, "quotas/denied", func(t *testing.T, p *peer) any {
		alter, err := p.request(t, "alice", quotas(true, quota(rate(1), user), quota(rate(-1), client)))
		if err != nil {
			return err.Error()
		}
		described, err := p.request(t, "alice", quotasOf(false, sought{"group", 2, nil}))
		if err != nil {
			return err.Error()
		}
		return []any{p.view(alter, "ErrorMessage"), p.view(described, "ErrorMessage")}
	})
}

// credential is what an AlterUserScramCredentials gives a user.
func credential(user string, mechanism int8, iterations int32, salt, salted []byte) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = user, mechanism, iterations, salt, salted
	return u
}

func withdrawn(user string, mechanism int8) kmsg.AlterUserSCRAMCredentialsRequestDeletion {
	d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	d.Name, d.Mechanism = user, mechanism
	return d
}

func TestUsersOfSCRAMAreKeptAlike(t *testing.T) {
	b := shared(t)
	salt := []byte("salt")
	salted, err := pbkdf2.Key(sha256.New, "secret", salt, 4096, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	type (
		puts  = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion
		drops = []kmsg.AlterUserSCRAMCredentialsRequestDeletion
	)
	alter := func(puts puts, drops drops) *kmsg.AlterUserSCRAMCredentialsRequest {
		r := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		r.Upsertions, r.Deletions = puts, drops
		return r
	}
	describe := func(users ...string) *kmsg.DescribeUserSCRAMCredentialsRequest {
		r := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, user := range users {
			u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
			u.Name = user
			r.Users = append(r.Users, u)
		}
		return r
	}
	one := func(name string, req kmsg.Request) {
		b.compare(t, "scram/"+name, func(t *testing.T, p *peer) any { return sortedIn(p.seenByRoot(t, req), "Results", "CredentialInfos") })
	}
	known := func(user string, n int) {
		for _, p := range b.peers() {
			kit.Eventually(t, fmt.Sprintf("%s has %d credentials of %s", p.name, n, user), func() bool {
				resp, _ := p.root(t, describe(user)).(*kmsg.DescribeUserSCRAMCredentialsResponse)
				return len(resp.Results) == 1 && len(resp.Results[0].CredentialInfos) == n
			})
		}
	}
	one("nothing", alter(nil, nil))
	one("too few", alter(puts{credential("scram-a", 1, 4095, salt, salted)}, nil))
	one("too many", alter(puts{credential("scram-a", 1, 16385, salt, salted)}, nil))
	one("negative", alter(puts{credential("scram-a", 2, -1, salt, salted)}, nil))
	one("no name", alter(puts{credential("", 1, 4096, salt, salted)}, drops{withdrawn("", 1)}))
	for _, mechanism := range []int8{-1, 0, 3, 127} {
		one(fmt.Sprintf("mechanism %d", mechanism), alter(puts{credential("scram-a", mechanism, 4096, salt, salted)}, nil))
		one(fmt.Sprintf("mechanism %d dropped", mechanism), alter(nil, drops{withdrawn("scram-a", mechanism)}))
	}
	one("drop nobody", alter(nil, drops{withdrawn("nobody", 1)}))
	one("twice", alter(puts{credential("scram-a", 1, 4096, salt, salted), credential("scram-a", 1, 8192, salt, salted)}, nil))
	one("two mechanisms at once", alter(puts{credential("scram-a", 1, 4096, salt, salted), credential("scram-a", 2, 4096, salt, salted)}, nil))
	one("put and drop", alter(puts{credential("scram-a", 1, 4096, salt, salted)}, drops{withdrawn("scram-a", 2)}))
	one("twice and bad", alter(puts{credential("scram-a", 1, 1, salt, salted), credential("scram-a", 1, 4096, salt, salted), credential("scram-b", 1, 4097, salt, salted)}, nil))
	known("scram-b", 1)
	one("good and bad", alter(puts{credential("scram-a", 1, 4096, salt, salted), credential("scram-c", 1, 1, salt, salted)}, drops{withdrawn("nobody", 2)}))
	known("scram-a", 1)
	one("a second mechanism", alter(puts{credential("scram-a", 2, 16384, salt, slices.Repeat(salted, 2))}, nil))
	known("scram-a", 2)
	one("empty salt", alter(puts{credential("scram-d", 1, 4096, nil, salted)}, nil))
	one("empty password", alter(puts{credential("scram-e", 1, 4096, salt, nil)}, nil))
	known("scram-e", 0)
	one("a short password", alter(puts{credential("scram-f", 2, 4096, salt, []byte("x"))}, nil))
	one("strange name", alter(puts{credential("scram ü,=", 1, 4096, salt, salted)}, nil))
	for _, user := range []string{"scram-d", "scram-f", "scram ü,="} {
		known(user, 1)
	}
	one("describe one", describe("scram-a"))
	one("describe several", describe("scram-a", "scram-b", "nobody"))
	one("describe twice", describe("scram-a", "scram-a"))
	one("describe no name", describe(""))
	none := describe()
	none.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{}
	b.compare(t, "scram/describe all", func(t *testing.T, p *peer) any {
		var seen []any
		for _, req := range []*kmsg.DescribeUserSCRAMCredentialsRequest{describe(), none} {
			resp, _ := p.root(t, req).(*kmsg.DescribeUserSCRAMCredentialsResponse)
			resp.Results = slices.DeleteFunc(resp.Results, func(r kmsg.DescribeUserSCRAMCredentialsResponseResult) bool {
				return !strings.HasPrefix(r.User, "scram")
			})
			seen = append(seen, sortedIn(p.view(resp), "Results", "CredentialInfos"))
		}
		return seen
	})
	one("drop one of two", alter(nil, drops{withdrawn("scram-a", 1)}))
	known("scram-a", 1)
	one("drop it again", alter(nil, drops{withdrawn("scram-a", 1)}))
	one("drop the rest", alter(nil, drops{withdrawn("scram-a", 2), withdrawn("scram-b", 1), withdrawn("scram-d", 1), withdrawn("scram-e", 1), withdrawn("scram-f", 2), withdrawn("scram ü,=", 1)}))
	known("scram-a", 0)
	one("describe who is gone", describe("scram-a"))
	b.compare(t, "scram/denied", func(t *testing.T, p *peer) any {
		var seen []any
		for _, req := range []kmsg.Request{alter(puts{credential("scram-a", 1, 1, salt, salted)}, drops{withdrawn("nobody", 1)}), describe("scram-a", "nobody")} {
			resp, err := p.request(t, "alice", req)
			if err != nil {
				return err.Error()
			}
			seen = append(seen, sortedIn(p.view(resp, "ErrorMessage"), "Results"))
		}
		return seen
	})
}
