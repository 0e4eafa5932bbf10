package connbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Control is what a run asks of a target beside connecting to it. It holds its own connections, which count towards limits too.
type Control interface {
	// Limits reads the limits on connections and what they apply to.
	Limits(ctx context.Context) (*Limits, error)
	// List lists all connections and returns how many there are; [ErrNoList] where the target has no such request.
	List(ctx context.Context) (int, error)
	// Holds is the limit that the next connection waits for, as the target itself tells; "" where it does not tell, or none waits.
	// listener is set for a limit of the listener's own.
	Holds(ctx context.Context) (name, listener string)
	// Connections is how many connections the control itself has open.
	Connections() int
}

// The limits by Kafka's names.
const (
	MaxConnections    = "max.connections"
	MaxSSLConnections = "max.ssl.connections"
	MaxPerIP          = "max.connections.per.ip"
	CreationRate      = "max.connection.creation.rate"
	IPCreationRate    = "connection_creation_rate"

	perIPOverrides = "max.connections.per.ip.overrides"
)

// LimitValue is one limit that is set.
type LimitValue struct {
	Name     string  `json:"name"`               // one of the names above
	Key      string  `json:"key"`                // the config or quota that gives the value
	Listener string  `json:"listener,omitempty"` // whose connections it counts; "": those of the whole broker
	Value    float64 `json:"value"`
	Source   string  `json:"source,omitempty"` // where it was set, in DescribeConfigs' words
	Target   string  `json:"target,omitempty"` // of several
}

// rate tells whether l limits how many come a second.
func (l *LimitValue) rate() bool { return l.Name == CreationRate || l.Name == IPCreationRate }

// String is how a verdict names l.
func (l *LimitValue) String() string {
	text := l.Key + "=" + strconv.FormatFloat(l.Value, 'f', -1, 64)
	switch {
	case l.Name == MaxPerIP || l.Name == IPCreationRate:
		text += ", which each client address has to itself"
	case l.Listener != "":
		text += " of listener " + l.Listener
	default:
		text += " of the broker"
	}
	return text
}

// Limits is what a target says of its limits.
type Limits struct {
	Listener  string       // that the connections go to; "": not found
	Protected bool         // the inter-broker listener beside others: the broker's own limits do not hold it
	Apply     []LimitValue // to that listener, those that are set
	Windows   Windows
}

// Windows are in what Kafka measures rates.
type Windows struct {
	Samples int           `json:"samples"`
	Size    time.Duration `json:"sizeNanos"`
}

// Cluster is a [Control] over a kgo client with the option [admin.Versions].
type Cluster struct {
	Client *kgo.Client
	Admin  *admin.Client
	Name   string         // host:port of the target
	Addr   netip.AddrPort // what it stands for
	TLS    bool           // the clients speak TLS
	// Timeout bounds each question.
	Timeout time.Duration
}

var _ Control = (*Cluster)(nil)

// Connections is the one to the seed and the one to the broker that it named.
func (*Cluster) Connections() int { return 2 }

// List times KIP-1329's list. Only brokers with brokerlab's own requests are asked: Apache Kafka gave the key to another API.
func (c *Cluster) List(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if !c.offersList(ctx) {
		return 0, ErrNoList
	}
	node, err := c.node(ctx)
	if err != nil {
		return 0, err
	}
	rows, err := c.Admin.ListClientConnections(ctx, admin.ListFilter{Nodes: []int32{node}})
	return len(rows), err
}

// Holds asks brokers that have brokerlab's own request for limits.
func (c *Cluster) Holds(ctx context.Context) (name, listener string) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	node, err := c.node(ctx)
	if err != nil {
		return "", ""
	}
	if l := c.described(ctx, node); l != nil && l.Held != nil {
		if l.Held.Scope == protocol.ScopeListener {
			return l.Held.WaitsFor, l.ListenerName
		}
		return l.Held.WaitsFor, ""
	}
	return "", ""
}

// described is what a broker with brokerlab's own request tells of the target; nil: nothing.
func (c *Cluster) described(ctx context.Context, node int32) *protocol.DescribeLimitsResponseListener {
	answers, err := c.Admin.DescribeLimits(ctx, admin.LimitsFilter{Nodes: []int32{node}})
	if err != nil {
		return nil
	}
	for _, a := range answers {
		for i := range a.Listeners {
			if uint16(a.Listeners[i].Port) == c.Addr.Port() {
				return &a.Listeners[i]
			}
		}
	}
	return nil
}

func (c *Cluster) listenerOf(ctx context.Context, node int32) string {
	if l := c.described(ctx, node); l != nil {
		return l.ListenerName
	}
	return ""
}

// ErrNoList is of a target that does not have the request.
var ErrNoList = errors.New("the target has no request that lists its connections")

func (c *Cluster) offersList(ctx context.Context) bool {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "brokerlab", "1" // names that a broker takes
	resp, err := c.Client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return false
	}
	versions, ok := resp.(*kmsg.ApiVersionsResponse)
	return ok && slices.ContainsFunc(versions.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
		return k.ApiKey == protocol.DefaultDescribeConnectionsKey
	})
}

// node is the id of the broker that the target is: the one that is advertised so, or the only one.
func (c *Cluster) node(ctx context.Context) (int32, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; null would be all
	resp, err := req.RequestWith(ctx, c.Client.SeedBrokers()[0])
	if err != nil {
		return 0, fmt.Errorf("find out which broker %s is: %w", c.Name, err)
	}
	for _, b := range resp.Brokers {
		at := fmt.Sprintf("%s:%d", b.Host, b.Port)
		if at == c.Name || at == c.Addr.String() {
			return b.NodeID, nil
		}
	}
	if len(resp.Brokers) == 1 {
		return resp.Brokers[0].NodeID, nil
	}
	return 0, fmt.Errorf("find out which broker %s is: none of the cluster's %d is advertised so", c.Name, len(resp.Brokers))
}

// Limits reads the broker's configs, and the quotas of addresses.
func (c *Cluster) Limits(ctx context.Context) (*Limits, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	node, err := c.node(ctx)
	if err != nil {
		return nil, err
	}
	configs, err := c.describe(ctx, node)
	if err != nil {
		return nil, err
	}
	listener, beside := configs.listenerOf(c.Addr.Port())
	if listener == "" { // bound to a port of the kernel's choice
		listener = c.listenerOf(ctx, node)
	}
	l := configs.limits(listener, beside, c.TLS)
	quotas, err := c.ipRates(ctx)
	if err != nil {
		return l, err
	}
	l.Apply = append(l.Apply, quotas...)
	return l, nil
}

// brokerConfigs are a broker's configs by name.
type brokerConfigs map[string]kmsg.DescribeConfigsResponseResourceConfig

func (c *Cluster) describe(ctx context.Context, node int32) (brokerConfigs, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(node))
	req.Resources, req.IncludeSynonyms = append(req.Resources, resource), true
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, fmt.Errorf("read the configs of %s: %w", c.Name, err)
	}
	configs := brokerConfigs{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, fmt.Errorf("read the configs of %s: %w", c.Name, err)
		}
		for _, config := range r.Configs {
			configs[config.Name] = config
		}
	}
	return configs, nil
}

func (b brokerConfigs) text(name string) string {
	if c := b[name]; c.Value != nil {
		return *c.Value
	}
	return ""
}

// number is a config's value; ok is false where it is not set to one.
func (b brokerConfigs) number(name string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(b.text(name)), 64)
	return n, err == nil
}

// limits are those that are set for a listener. beside tells whether the broker has others.
func (b brokerConfigs) limits(listener string, beside, tls bool) *Limits {
	l := &Limits{Listener: listener, Windows: b.windows()}
	l.Protected = beside && strings.EqualFold(l.Listener, b.interBroker())
	add := func(name, key, listener string) {
		if n, ok := b.number(key); ok && n < math.MaxInt32 {
			l.Apply = append(l.Apply, LimitValue{Name: name, Key: key, Listener: listener, Value: n, Source: sourceName(b[key].Source)})
		}
	}
	// A listener without a value of its own has the broker's, as Kafka reads them: what holds the protected listener too.
	for _, name := range []string{MaxConnections, CreationRate} {
		own := "listener.name." + strings.ToLower(l.Listener) + "." + name
		if _, ok := b.number(own); ok && l.Listener != "" {
			add(name, own, l.Listener)
		} else if l.Protected {
			add(name, name, l.Listener)
		}
		if !l.Protected {
			add(name, name, "")
		}
	}
	if tls && !l.Protected {
		add(MaxSSLConnections, MaxSSLConnections, "")
	}
	add(MaxPerIP, MaxPerIP, "")
	l.Apply = append(l.Apply, b.overrides()...)
	return l
}

// listenerOf is the name of the listener at port, "" where there is none, and whether there are others beside it. Those of
// controllers count for themselves.
func (b brokerConfigs) listenerOf(port uint16) (name string, beside bool) {
	controllers := strings.Split(b.text("controller.listener.names"), ",")
	all := map[string]bool{}
	for _, key := range []string{"advertised.listeners", "listeners"} { // a listener's own port is the surer one
		for entry := range strings.SplitSeq(b.text(key), ",") {
			one, rest, ok := strings.Cut(strings.TrimSpace(entry), "://")
			n, err := strconv.ParseUint(rest[strings.LastIndex(rest, ":")+1:], 10, 16)
			if !ok || err != nil || slices.Contains(controllers, one) {
				continue
			}
			all[one] = true
			if n == uint64(port) {
				name = one
			}
		}
	}
	return name, len(all) > 1
}

// overrides are the addresses that have a maximum of their own.
func (b brokerConfigs) overrides() []LimitValue {
	var all []LimitValue
	for entry := range strings.SplitSeq(b.text(perIPOverrides), ",") {
		i := strings.LastIndex(entry, ":")
		if i < 0 {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSpace(entry[i+1:]), 64); err == nil {
			all = append(all, LimitValue{
				Name: MaxPerIP, Key: perIPOverrides + " " + strings.TrimSpace(entry[:i]), Value: n, Source: sourceName(b[perIPOverrides].Source),
			})
		}
	}
	return all
}

func (b brokerConfigs) interBroker() string {
	if name := b.text("inter.broker.listener.name"); name != "" {
		return name
	}
	if name := b.text("security.inter.broker.protocol"); name != "" {
		return name
	}
	return "PLAINTEXT"
}

func (b brokerConfigs) windows() Windows {
	w := Windows{Samples: 11, Size: time.Second} // Kafka's defaults
	if n, ok := b.number("quota.window.num"); ok {
		w.Samples = int(n)
	}
	if n, ok := b.number("quota.window.size.seconds"); ok {
		w.Size = time.Duration(n * float64(time.Second))
	}
	return w
}

// sourceName is where a config was set.
func sourceName(s kmsg.ConfigSource) string {
	switch s { //nolint:exhaustive // others are not a broker's
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return "dynamic broker"
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "dynamic default"
	case kmsg.ConfigSourceStaticBrokerConfig:
		return "static"
	case kmsg.ConfigSourceDefaultConfig:
		return "default"
	}
	return ""
}

// ipRates are the rates that addresses may not exceed.
func (c *Cluster) ipRates(ctx context.Context) ([]LimitValue, error) {
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	component := kmsg.NewDescribeClientQuotasRequestComponent()
	component.EntityType, component.MatchType = "ip", kmsg.QuotasMatchTypeAny
	req.Components = append(req.Components, component)
	resp, err := req.RequestWith(ctx, c.Client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("read the quotas of addresses from %s: %w", c.Name, err)
	}
	var all []LimitValue
	for _, entry := range resp.Entries {
		name := "default"
		for _, e := range entry.Entity {
			if e.Type == "ip" && e.Name != nil {
				name = *e.Name
			}
		}
		for _, v := range entry.Values {
			if v.Key == IPCreationRate {
				all = append(all, LimitValue{Name: IPCreationRate, Key: IPCreationRate + " of ip " + name, Value: v.Value, Source: "client quota"})
			}
		}
	}
	return all, nil
}
