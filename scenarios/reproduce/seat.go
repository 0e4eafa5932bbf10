package reproduce

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// askTime bounds one question.
const askTime = 20 * time.Second

// seat is one principal at one address, connected to a broker. It belongs to one goroutine.
type seat struct {
	client *kgo.Client
	bits   map[string]int32 // authorized operations by resource, as far as they were asked for
	err    error            // why nothing can be asked here
}

func newSeat(options ...kgo.Opt) (*seat, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.ClientID("brokerlab-check"), kgo.MaxVersions(versions()), kgo.RequestRetries(1), kgo.RetryTimeout(askTime), kgo.DisableClientMetrics(),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	return &seat{client: client, bits: map[string]int32{}}, nil
}

func (s *seat) close() {
	if s.client != nil {
		s.client.Close()
	}
}

func (s *seat) ask(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if s.err != nil {
		return nil, s.err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return s.client.SeedBrokers()[0].Request(ctx, req)
}

// noBits is what a broker answers about authorized operations that it does not tell.
const noBits = -2147483648

// authorized tells what the broker itself says that this seat may do to a resource; ok is false where it does not say.
func (s *seat) authorized(ctx context.Context, t acl.ResourceType, name string) (bits int32, ok bool, err error) {
	key := resourceText(t, name)
	if bits, ok = s.bits[key]; ok {
		return bits, bits != noBits, nil
	}
	bits = noBits
	switch t { //nolint:exhaustive // for the others Kafka has no such field
	case acl.Topic:
		resp, err := s.ask(ctx, metadata(name))
		if err != nil {
			return 0, false, err
		}
		if topics := resp.(*kmsg.MetadataResponse).Topics; len(topics) == 1 && topics[0].ErrorCode == 0 { //nolint:forcetypeassert // the answer to Metadata
			bits = topics[0].AuthorizedOperations
		}
	case acl.Group:
		resp, err := s.ask(ctx, describeGroup(name))
		if err != nil {
			return 0, false, err
		}
		if groups := resp.(*kmsg.DescribeGroupsResponse).Groups; len(groups) == 1 && groups[0].ErrorCode == 0 { //nolint:forcetypeassert // the answer to DescribeGroups
			bits = groups[0].AuthorizedOperations
		}
	case acl.Cluster:
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations = true
		resp, err := s.ask(ctx, req)
		if err != nil {
			return 0, false, err
		}
		// Without DESCRIBE it is 0, which says nothing.
		if r := resp.(*kmsg.DescribeClusterResponse); r.ErrorCode == 0 && r.ClusterAuthorizedOperations != 0 { //nolint:forcetypeassert // the answer to DescribeCluster
			bits = r.ClusterAuthorizedOperations
		}
	}
	s.bits[key] = bits
	return bits, bits != noBits, nil
}

// place is where questions are asked: a lab, or a cluster of somebody's own.
type place interface {
	// take gives a seat for the row, or says why there is none: why is for cells that cannot be proven here, err for what went wrong.
	take(ctx context.Context, r *Row) (s *seat, why string, err error)
	// changes tells whether probes may change resources.
	changes() bool
	node() int32
}

// labPlace is a lab: everybody can be everywhere.
type labPlace struct {
	lab    *netlab.Lab
	broker *netlab.Node
	book   *Book
	id     int32
}

func (*labPlace) changes() bool { return true }
func (p *labPlace) node() int32 { return p.id }

func (p *labPlace) take(ctx context.Context, r *Row) (*seat, string, error) {
	l, err := p.book.login(p.lab.Topology().Users, r.Principal, r.Listener)
	if err != nil {
		return nil, "", err
	}
	s, err := p.open(ctx, l, r.From)
	return s, "", err
}

// open connects a user of the lab from an address.
func (p *labPlace) open(_ context.Context, l login, from netip.Addr) (*seat, error) {
	subnet := p.subnetOf(from)
	if subnet == nil {
		return nil, fmt.Errorf("no subnet of the lab has %s", from)
	}
	target := p.broker.Addr(from.Is6())
	if !target.IsValid() {
		return nil, fmt.Errorf("broker %s has no %s address", p.broker.Name, family(from.Is6()))
	}
	config, err := admin.LoadClientConfig(p.lab.Properties(l.listener, l.user))
	if err != nil {
		return nil, err
	}
	port, err := p.broker.Port(l.listener)
	if err != nil {
		return nil, err
	}
	options, err := through(config, subnet.Dialer(from))
	if err != nil {
		return nil, err
	}
	return newSeat(append(options, kgo.SeedBrokers(netip.AddrPortFrom(target, port).String()))...)
}

// dialer connects to host:port.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// through gives the options of a client that logs in as config says over connections of dial: kgo takes a dialer or TLS, not both.
func through(config *admin.ClientConfig, dial dialer) ([]kgo.Opt, error) {
	model, err := kgo.NewClient(config.Options...)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	options := []kgo.Opt{kgo.Dialer(dial)}
	if mechanisms, ok := model.OptValue(kgo.SASL).([]sasl.Mechanism); ok && len(mechanisms) > 0 {
		options = append(options, kgo.SASL(mechanisms...))
	}
	settings, ok := model.OptValue(kgo.DialTLSConfig).(*tls.Config)
	if !ok || settings == nil {
		return options, nil
	}
	return append(options, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		own := settings.Clone()
		own.ServerName = cmp.Or(own.ServerName, host)
		c := tls.Client(raw, own)
		if err := c.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return c, nil
	})), nil
}

func (p *labPlace) subnetOf(a netip.Addr) *netlab.Subnet {
	for _, s := range p.lab.Subnets() {
		for _, prefix := range s.Prefixes {
			if prefix.Contains(a) {
				return s
			}
		}
	}
	return nil
}

// login finds the user and listener that make a principal; listener "" leaves the choice.
func (b *Book) login(users []topology.User, principal, listener string) (login, error) {
	for _, l := range b.Node.Listeners {
		if listener != "" && !strings.EqualFold(listener, l.Name) {
			continue
		}
		if l.Protocol == "PLAINTEXT" {
			if principal == anonymous {
				return login{principal, "anonymous", "", l.Name}, nil
			}
			continue
		}
		for _, u := range users {
			if name, err := b.nameOf(&u, l); err == nil && "User:"+name == principal {
				return login{principal, u.Name, u.DN, l.Name}, nil
			}
		}
	}
	if listener != "" {
		return login{}, fmt.Errorf("no user of the lab is %s at listener %s", principal, listener)
	}
	return login{}, fmt.Errorf("no user of the lab is %s at any listener", principal)
}

// LogIns returns all that is wrong with who asks in a lab: principals that no user of the file is, each with its line.
func (b *Book) LogIns(users []topology.User) error {
	said := map[string]bool{}
	var errs []error
	for i := range b.Rows {
		if _, err := b.login(users, b.Rows[i].Principal, b.Rows[i].Listener); err != nil && !said[err.Error()] {
			said[err.Error()] = true
			errs = append(errs, fmt.Errorf("line %d: %w", b.Lines[i], err))
		}
	}
	return errors.Join(errs...)
}

// nameOf is what a broker calls a user at a listener.
func (b *Book) nameOf(u *topology.User, l topology.Listener) (string, error) {
	if l.Protocol != "SSL" {
		return u.Name, nil
	}
	text := u.DN
	if text == "" {
		text = "CN=" + escapeDN(u.Name)
	}
	subject, err := printed(text)
	if err != nil {
		return "", err
	}
	rules := b.mapping
	if own, ok := b.Node.Config["listener.name."+strings.ToLower(l.Name)+".ssl.principal.mapping.rules"]; ok {
		if rules, err = newMapping(own); err != nil {
			return "", err
		}
	}
	return rules.rules.Map(subject)
}

// clusterPlace is a cluster that is nobody's lab: one principal, this machine's address, and nothing may change.
type clusterPlace struct {
	seeds     []string
	options   []kgo.Opt
	principal string
	book      *Book

	mu   sync.Mutex // guards what follows
	self netip.Addr // this machine's address as the first connection had it
}

func (*clusterPlace) changes() bool { return false }
func (*clusterPlace) node() int32   { return 0 }

func (p *clusterPlace) take(ctx context.Context, r *Row) (*seat, string, error) {
	if r.Principal != p.principal {
		return nil, fmt.Sprintf("asked as %s only", p.principal), nil
	}
	self, err := p.address(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, rule := range p.book.Rules {
		if acl.Matches(rule.Host, self) != acl.Matches(rule.Host, r.From) {
			return nil, fmt.Sprintf("this machine's address %s is not as %s to the rules", self, r.From), nil
		}
	}
	s, err := newSeat(p.options...)
	return s, "", err
}

// address is this machine's own, as its connections to the cluster have it.
func (p *clusterPlace) address(ctx context.Context) (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.self.IsValid() {
		return p.self, nil
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	var errs []error
	for _, seed := range p.seeds {
		c, err := dialer.DialContext(ctx, "tcp", seed)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		local, err := netip.ParseAddrPort(c.LocalAddr().String())
		if wrong := errors.Join(err, c.Close()); wrong != nil {
			return netip.Addr{}, wrong
		}
		p.self = local.Addr().Unmap().WithZone("")
		return p.self, nil
	}
	return netip.Addr{}, errors.Join(errs...)
}
