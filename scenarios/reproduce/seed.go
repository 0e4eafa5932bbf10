package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Wants tells whether a lab file asks for anything that [Seed] gives.
func Wants(lab *topology.Lab) bool {
	return len(lab.Topics)+len(lab.ACLs) > 0 || lab.ACLFile != "" || len(lab.Expect) > 0
}

// Seed gives every cluster of a lab that is up, at its first broker, the file's topics, SCRAM users where a listener has no PLAIN,
// and rules. Apache Kafka behind brokers of ours gets them from those. What is there already stays. It works as a super user of the lab, who needs a listener for passwords or certificates.
func Seed(ctx context.Context, lab *netlab.Lab, file *topology.Lab) error {
	book, err := Open(file)
	if err != nil {
		return err
	}
	seeded := map[string]bool{}
	for _, node := range lab.Nodes() {
		if !node.Serves() || seeded[node.ClusterName()] || lab.Topology().Behind(&node.Node) {
			continue
		}
		seeded[node.ClusterName()] = true
		if err := seedNode(ctx, lab, node, file, book); err != nil {
			return fmt.Errorf("prepare %s: %w", node.Name, err)
		}
	}
	return nil
}

func seedNode(ctx context.Context, lab *netlab.Lab, node *netlab.Node, file *topology.Lab, book *Book) error {
	own := *book
	own.Node = &node.Node
	if err := own.configure(node.Config); err != nil {
		return err
	}
	client, err := own.administer(lab, node)
	if err != nil {
		return err
	}
	defer client.Close()
	return errors.Join(seedTopics(ctx, client, file.Topics), seedUsers(ctx, client, node, file.Users), own.seedRules(ctx, client))
}

// administer connects as somebody who may do everything.
func (b *Book) administer(lab *netlab.Lab, node *netlab.Node) (*kgo.Client, error) {
	p := &labPlace{lab: lab, broker: node, book: b}
	from, err := p.anyAddress()
	if err != nil {
		return nil, err
	}
	var super []string
	if b.authorizer == nil {
		super = []string{anonymous}
		for _, u := range lab.Topology().Users {
			super = append(super, "User:"+u.Name)
		}
	} else {
		super = slices.Sorted(maps.Keys(b.super))
	}
	for _, principal := range super {
		for _, l := range node.Listeners {
			found, err := b.login(lab.Topology().Users, principal, l.Name)
			if err != nil || strings.HasPrefix(l.Protocol, "SASL") && netlab.Mechanism(&node.Node, l) != "PLAIN" {
				continue // SCRAM users come to be only now
			}
			config, err := admin.LoadClientConfig(lab.Properties(found.listener, found.user))
			if err != nil {
				return nil, err
			}
			target := netip.AddrPortFrom(node.Addr(from.Is6()), l.Port).String()
			options, err := through(config, p.subnetOf(from).Dialer(from))
			if err != nil {
				return nil, err
			}
			return kgo.NewClient(append(options, kgo.SeedBrokers(target), kgo.DisableClientMetrics())...)
		}
	}
	return nil, fmt.Errorf("none of the super users (%s) can log in to create topics and rules: a lab file needs one among its users, and a listener for passwords (PLAIN) or certificates",
		strings.Join(super, ", "))
}

// anyAddress is an address from which the broker can be reached.
func (p *labPlace) anyAddress() (netip.Addr, error) {
	for _, s := range p.lab.Subnets() {
		for _, prefix := range s.Prefixes {
			if a := prefix.Addr(); p.broker.Addr(a.Is6()).IsValid() {
				if next := a.Next(); prefix.Contains(next) {
					return next, nil
				}
				return a, nil
			}
		}
	}
	return netip.Addr{}, errors.New("no subnet of the lab has addresses of the broker's family: nobody could ask")
}

func seedTopics(ctx context.Context, client *kgo.Client, topics []topology.Topic) error {
	if len(topics) == 0 {
		return nil
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	const asUsual = -1 // replicas, by the broker's default.replication.factor
	for _, t := range topics {
		one := kmsg.NewCreateTopicsRequestTopic()
		one.Topic, one.NumPartitions, one.ReplicationFactor = t.Name, int32(t.Partitions), asUsual
		req.Topics = append(req.Topics, one)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var errs []error
	const exists = 36
	for _, t := range resp.Topics {
		if t.ErrorCode != 0 && t.ErrorCode != exists {
			errs = append(errs, fmt.Errorf("create topic %s: code %d %s", t.Topic, t.ErrorCode, deref(t.ErrorMessage)))
		}
	}
	return errors.Join(errs...)
}

// seedUsers makes SCRAM credentials for every user and mechanism that a listener without PLAIN has.
func seedUsers(ctx context.Context, client *kgo.Client, node *netlab.Node, users []topology.User) error {
	wanted := map[string]bool{}
	for _, l := range node.Listeners {
		if strings.HasPrefix(l.Protocol, "SASL") {
			wanted[netlab.Mechanism(&node.Node, l)] = true
		}
	}
	for name, mechanism := range map[string]kadm.ScramMechanism{"SCRAM-SHA-256": kadm.ScramSha256, "SCRAM-SHA-512": kadm.ScramSha512} {
		if !wanted[name] {
			continue
		}
		var all []kadm.UpsertSCRAM
		for _, u := range users {
			all = append(all, kadm.UpsertSCRAM{User: u.Name, Mechanism: mechanism, Iterations: 4096, Password: u.Password})
		}
		answers, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, all)
		if err == nil {
			err = answers.Error()
		}
		if err != nil {
			return fmt.Errorf("make users of %s: %w", name, err)
		}
	}
	return nil
}

// seedRules creates the rules.
func (b *Book) seedRules(ctx context.Context, client *kgo.Client) error {
	if len(b.Rules) > 0 && b.authorizer == nil {
		return errors.New("there are rules, and no authorizer: set authorizer.class.name in the broker's config")
	}
	const atOnce = 1000
	var errs []error
	number := 0
	for rules := range slices.Chunk(b.Rules, atOnce) {
		req := kmsg.NewPtrCreateACLsRequest()
		for _, r := range rules {
			req.Creations = append(req.Creations, creation(r))
		}
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("create rules: %w", err)
		}
		for i := range resp.Results {
			number++
			if r := &resp.Results[i]; r.ErrorCode != 0 {
				errs = append(errs, fmt.Errorf("rule %d (%s): code %d %s", number, short(rules[i]), r.ErrorCode, deref(r.ErrorMessage)))
			}
		}
	}
	return errors.Join(errs...)
}

func creation(b acl.Binding) kmsg.CreateACLsRequestCreation {
	one := kmsg.NewCreateACLsRequestCreation()
	one.ResourceType, one.ResourceName = kmsg.ACLResourceType(b.Type), b.Name
	one.ResourcePatternType = kmsg.ACLResourcePatternType(b.Kind)
	one.Principal, one.Host = b.Principal, b.Host
	one.Operation, one.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
	return one
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// nodeID is the broker's number.
func nodeID(node *topology.Node) int32 {
	id, _ := strconv.ParseInt(cmp.Or(node.Config["node.id"], node.Config["broker.id"]), 10, 32) // the broker has judged it
	return int32(id)
}
