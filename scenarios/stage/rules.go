package stage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// Authorizer makes the broker ask its rules. The stage's own client, who is anonymous, is a super user.
func Authorizer() Option {
	return Broker("authorizer.class.name="+broker.StandardAuthorizer, "super.users="+Anonymous)
}

// Rule reads a rule as specs write it, such as
//
//	allow alice READ Topic:orders from 10.1.0.0/24
//	deny * ALL Group:pay* from *
//
// A user is of type User; a name that ends in a star and is no star alone is a prefix; Cluster needs no name; without "from"
// the host is *.
func Rule(text string) acl.Binding {
	GinkgoHelper()
	words := strings.Fields(text)
	if len(words) == 4 {
		words = append(words, "from", "*")
	}
	Expect(words).To(HaveLen(6), "a rule: %s", text)
	Expect(words[4]).To(Equal("from"), "a rule: %s", text)
	b := acl.Binding{Principal: "User:" + words[1], Host: words[5], Pattern: acl.Pattern{Kind: acl.Literal}}
	kind, name, _ := strings.Cut(words[3], ":")
	var err error
	b.Permission, err = acl.ParsePermission(words[0])
	Expect(err).NotTo(HaveOccurred())
	b.Operation, err = acl.ParseOperation(words[2])
	Expect(err).NotTo(HaveOccurred())
	b.Type, err = acl.ParseResourceType(kind)
	Expect(err).NotTo(HaveOccurred())
	b.Name = name
	if b.Type == acl.Cluster {
		b.Name = acl.ClusterName
	}
	if prefix, ok := strings.CutSuffix(name, "*"); ok && prefix != "" {
		b.Name, b.Kind = prefix, acl.Prefixed
	}
	return b
}

// Refusal is what became of a rule that was to be created: code 0 is success.
type Refusal struct {
	Code int16
	Text string
}

// Create asks for rules in one request and tells what became of each.
func (s *Stage) Create(ctx context.Context, rules ...acl.Binding) []Refusal {
	GinkgoHelper()
	req := kmsg.NewPtrCreateACLsRequest()
	for _, b := range rules {
		one := kmsg.NewCreateACLsRequestCreation()
		one.ResourceType, one.ResourceName = kmsg.ACLResourceType(b.Type), b.Name
		one.ResourcePatternType = kmsg.ACLResourcePatternType(b.Kind)
		one.Principal, one.Host = b.Principal, b.Host
		one.Operation, one.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		req.Creations = append(req.Creations, one)
	}
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Results).To(HaveLen(len(rules)))
	all := make([]Refusal, len(rules))
	for i := range resp.Results {
		all[i] = Refusal{Code: resp.Results[i].ErrorCode, Text: textOf(resp.Results[i].ErrorMessage)}
		if all[i].Code == 0 {
			s.settle(ctx, "the rule", func() bool { return s.hasRule(ctx, rules[i]) })
		}
	}
	return all
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Grant creates rules as [Rule] reads them; each has to succeed.
func (s *Stage) Grant(ctx context.Context, rules ...string) {
	GinkgoHelper()
	bindings := make([]acl.Binding, len(rules))
	for i, text := range rules {
		bindings[i] = Rule(text)
	}
	for i, r := range s.Create(ctx, bindings...) {
		Expect(r).To(Equal(Refusal{}), "create: %s", rules[i])
	}
}

// Revoke removes rules as [Rule] reads them, each of which has to be there.
func (s *Stage) Revoke(ctx context.Context, rules ...string) {
	GinkgoHelper()
	req := kmsg.NewPtrDeleteACLsRequest()
	for _, text := range rules {
		b := Rule(text)
		one := kmsg.NewDeleteACLsRequestFilter()
		one.ResourceType, one.ResourceName = kmsg.ACLResourceType(b.Type), &b.Name
		one.ResourcePatternType = kmsg.ACLResourcePatternType(b.Kind)
		one.Principal, one.Host = &b.Principal, &b.Host
		one.Operation, one.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		req.Filters = append(req.Filters, one)
	}
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Results).To(HaveLen(len(rules)))
	for i := range resp.Results {
		Expect(resp.Results[i].ErrorCode).To(BeZero(), "remove: %s", rules[i])
		Expect(resp.Results[i].MatchingACLs).To(HaveLen(1), "remove: %s", rules[i])
		s.settle(ctx, "the removal", func() bool { return !s.hasRule(ctx, Rule(rules[i])) })
	}
}

// RevokeAll removes every rule.
func (s *Stage) RevokeAll(ctx context.Context) {
	GinkgoHelper()
	req := kmsg.NewPtrDeleteACLsRequest()
	all := kmsg.NewDeleteACLsRequestFilter()
	all.ResourceType, all.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	all.Operation, all.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req.Filters = append(req.Filters, all)
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Results).To(HaveLen(1))
	Expect(resp.Results[0].ErrorCode).To(BeZero())
	s.settle(ctx, "the removal", func() bool { return !s.hasAnyRule(ctx) })
}

// Ask sends one request as the stage's own client, who is a super user under [Authorizer].
func (s *Stage) Ask(ctx context.Context, req kmsg.Request) kmsg.Response {
	GinkgoHelper()
	resp, err := s.self().Request(ctx, req)
	Expect(err).NotTo(HaveOccurred())
	return resp
}

// LogText is what the broker has printed so far.
func (s *Stage) LogText() string {
	GinkgoHelper()
	return readFile(s.node.LogPath())
}

// Client makes a kgo client that logs in as a user at a listener, by password (PLAIN) or by certificate, from one address of a
// subnet. It knows all brokers of the stage, and is closed when the spec ends.
func (s *Stage) Client(prefix, addr, listener, user string, options ...kgo.Opt) *kgo.Client {
	GinkgoHelper()
	l := s.listener(listener)
	dial := s.Network(prefix).Dialer(netip.MustParseAddr(addr))
	if protocol := fleet.Protocol(l.Protocol); protocol.TLS() {
		dial = overTLS(dial, s.tlsOf(user, protocol))
	}
	all := []kgo.Opt{kgo.SeedBrokers(strings.Split(s.Bootstrap(listener), ",")...), kgo.Dialer(dial)}
	if fleet.Protocol(l.Protocol).SASL() {
		all = append(all, kgo.SASL(plain.Auth{User: user, Pass: s.password(user)}.AsMechanism()))
	}
	c, err := kgo.NewClient(append(all, options...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Close)
	return c
}

// tlsOf is how a user speaks TLS in the lab.
func (s *Stage) tlsOf(user string, protocol fleet.Protocol) *tls.Config {
	GinkgoHelper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	Expect(config.RootCAs.AppendCertsFromPEM([]byte(readFile(s.lab.CAFile())))).To(BeTrue())
	if user != Nobody && !protocol.SASL() {
		pair, err := tls.LoadX509KeyPair(s.lab.UserPEM(user), s.lab.UserPEM(user))
		Expect(err).NotTo(HaveOccurred())
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// dialFunc is what kgo.Dialer takes.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// overTLS shakes hands on what dial connects to.
func overTLS(dial dialFunc, config *tls.Config) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		own.ServerName, _, _ = net.SplitHostPort(address) // what cannot be split was not dialed
		secure := tls.Client(c, own)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return secure, nil
	}
}

// Every is a source of each address of a prefix within the network: the first is Addr(0), the last is not left out.
func (n *Network) Every(prefix string) fleet.Source {
	GinkgoHelper()
	p := netip.MustParsePrefix(prefix)
	Expect(n.prefix.Overlaps(p) && n.prefix.Bits() <= p.Bits()).To(BeTrue(), "%s is not within %s", prefix, n.prefix)
	return &every{n, p}
}

// These is a source of just these addresses of the network.
func (n *Network) These(addresses ...string) fleet.Source {
	list := &these{network: n}
	for _, a := range addresses {
		list.addresses = append(list.addresses, netip.MustParseAddr(a))
	}
	return list
}

type every struct {
	network *Network
	prefix  netip.Prefix
}

func (e *every) Socket(family int) (int, error) { return e.network.Socket(family) }

func (e *every) Addr(i int) netip.Addr {
	a := e.prefix.Masked().Addr()
	for range i % (1 << min(e.prefix.Addr().BitLen()-e.prefix.Bits(), 16)) {
		a = a.Next()
	}
	return a
}

type these struct {
	network   *Network
	addresses []netip.Addr
}

func (t *these) Socket(family int) (int, error) { return t.network.Socket(family) }

func (t *these) Addr(i int) netip.Addr { return t.addresses[i%len(t.addresses)] }
