package reproduce

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// kafkaPlace is a real Kafka, which may be changed, asked from addresses of this machine's loopback.
type kafkaPlace struct{ server string }

func (kafkaPlace) changes() bool { return true }
func (kafkaPlace) node() int32   { return 1 }

func (p kafkaPlace) take(_ context.Context, r *Row) (*seat, string, error) {
	user := r.Principal[len("User:"):]
	s, err := newSeat(kgo.SeedBrokers(p.server), kgo.SASL(plain.Auth{User: user, Pass: user + "-secret"}.AsMechanism()),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: r.From.AsSlice()}, Timeout: 10 * time.Second}
			return d.DialContext(ctx, network, address)
		}))
	return s, "", err
}

// Each probe shows what Kafka itself decides. BROKERLAB_KAFKA is PLAINTEXT,SASL_PLAINTEXT: two listeners of a Kafka 4.4 on this
// machine, the first for a super user, the second with users alice and bob (PLAIN, NAME-secret), with the StandardAuthorizer and without auto-creation.
func TestProbesShowWhatKafkaDecides(t *testing.T) {
	servers := os.Getenv("BROKERLAB_KAFKA")
	plaintext, password, ok := strings.Cut(servers, ",")
	if !ok {
		t.Skip("BROKERLAB_KAFKA names no Kafka to compare with")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(plaintext))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := seedTopics(t.Context(), client, []topology.Topic{{Name: "orders", Partitions: 1}, {Name: "audit-1", Partitions: 1}, {Name: "unnamed", Partitions: 1}}); err != nil {
		t.Fatal(err)
	}
	const near, far = "127.0.1.5", "127.0.2.5"
	kinds := []acl.Pattern{
		{Type: acl.Topic, Name: "orders", Kind: acl.Literal},
		{Type: acl.Topic, Name: "audit-", Kind: acl.Prefixed},
		{Type: acl.Topic, Name: "*", Kind: acl.Literal},
		{Type: acl.Group, Name: "g", Kind: acl.Literal},
		{Type: acl.TransactionalID, Name: "t", Kind: acl.Prefixed},
		{Type: acl.Cluster, Name: acl.ClusterName, Kind: acl.Literal},
	}
	things := []thing{
		{acl.Topic, "orders"},
		{acl.Topic, "audit-1"},
		{acl.Topic, "unnamed"},
		{acl.Group, "g"},
		{acl.Group, "other"},
		{acl.TransactionalID, "t1"},
		{acl.Cluster, acl.ClusterName},
	}
	asked, unproven := 0, 0
	for _, pattern := range kinds {
		for _, op := range append(operations(pattern.Type), acl.All) {
			for _, permission := range []acl.Permission{acl.Allow, acl.Deny} {
				rules := []acl.Binding{{Pattern: pattern, Principal: "User:alice", Host: "127.0.1.0/24", Operation: op, Permission: permission}}
				if permission == acl.Deny {
					rules = append(rules, acl.Binding{Pattern: pattern, Principal: "User:alice", Host: "*", Operation: acl.All, Permission: acl.Allow})
				}
				book := &Book{Rules: rules, Node: &topology.Node{}}
				if err := book.configure(map[string]string{"authorizer.class.name": broker.StandardAuthorizer, "super.users": anonymous}); err != nil {
					t.Fatal(err)
				}
				if err := book.seedRules(t.Context(), client); err != nil {
					t.Fatal(err)
				}
				for _, from := range []string{near, far} {
					for _, principal := range []string{"User:alice", "User:bob"} {
						for _, th := range things {
							if th.kind != pattern.Type {
								continue
							}
							row := Row{Principal: principal, From: netip.MustParseAddr(from), Type: th.kind, Name: th.name}
							for _, o := range operations(th.kind) {
								allowed, e := book.explain(principal, row.From, th.kind, th.name, o)
								cell := Expected{Operation: o, Allow: allowed}
								if allowed && e.Deciding != nil {
									cell.Rule = 1
									if *e.Deciding != rules[0] {
										cell.Rule = 2
									}
								}
								row.Cells = append(row.Cells, cell)
							}
							book.Rows, book.Lines = append(book.Rows, row), append(book.Lines, 0)
						}
					}
				}
				results, err := book.check(t.Context(), kafkaPlace{password}, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := range results {
					r := &results[i]
					switch r.Outcome {
					case Unproven:
						unproven++
					case Kept:
					default:
						t.Errorf("with %s: %s: expected %s, seen %s (%s): %s", short(rules[0]), r, r.Expected, r.Seen, r.Request, r.Why)
					}
				}
				asked += len(results)
				for _, rule := range rules {
					dropRule(t, client, rule)
				}
			}
		}
	}
	t.Logf("%d decisions, %d unproven", asked, unproven)
}

func dropRule(t *testing.T, client *kgo.Client, b acl.Binding) {
	t.Helper()
	req := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName = kmsg.ACLResourceType(b.Type), &b.Name
	f.ResourcePatternType = kmsg.ACLResourcePatternType(b.Kind)
	f.Principal, f.Host = &b.Principal, &b.Host
	f.Operation, f.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
	req.Filters = append(req.Filters, f)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil || len(resp.Results) != 1 || resp.Results[0].ErrorCode != 0 {
		t.Fatalf("remove %s = %+v, %v", short(b), resp, err)
	}
}
