package netlab

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// reaches tells whether a node's port 80 can be reached from a subnet within a second.
func reaches(t *testing.T, s *Subnet, to netip.Addr) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c, err := s.Dial(ctx, netip.Addr{}, netip.AddrPortFrom(to, 80))
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// isCut holds a lab's status to what is cut.
func isCut(t *testing.T, lab *Lab, want ...Cut) {
	t.Helper()
	st, err := lab.Inspect(bounded(t))
	if err != nil || !slices.Equal(st.Cuts, want) {
		t.Errorf("Inspect = cuts %v, %v, want %v", st.Cuts, err, want)
	}
}

func TestACutStopsWhatPassesBetweenTwoAndNothingElse(t *testing.T) {
	t.Parallel()
	lab := raise(t, `
nodes:
  web: {kind: exec, SERVE "80"], ports: [80]}
  other: {kind: exec, SERVE "80"], ports: [80]}
subnets: {office: {cidr: [10.1.0.0/24, "fd00:1::/64"]}, home: {cidr: 10.2.0.0/24}}
`, Options{})
	office, home := subnet(t, lab, "office"), subnet(t, lab, "home")
	other, err := lab.Node("other")
	if err != nil {
		t.Fatal(err)
	}
	there, err := office.Dialer(netip.MustParseAddr("10.1.0.7"))(bounded(t), "tcp", "web:80")
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	greeting(t, there)
	for range 2 { // twice is fine
		if err := lab.Cut(bounded(t), "office", "web"); err != nil {
			t.Fatal(err)
		}
	}
	isCut(t, lab, Cut{"web", "office"})
	if _, err := there.Write([]byte("later\n")); err != nil {
		t.Fatal(err)
	}
	v6 := web(t, lab).Addr(true)
	for _, to := range []netip.Addr{web(t, lab).Addr(false), v6} {
		if to.IsValid() && reaches(t, office, to) {
			t.Errorf("dial %s from office = nil while the two are cut from each other, want an error", to)
		}
	}
	if !reaches(t, home, web(t, lab).Addr(false)) || !reaches(t, office, other.Addr(false)) {
		t.Error("the cut stopped others, want only those two")
	}
	for range 2 {
		if err := lab.Heal(bounded(t), "web", "office"); err != nil {
			t.Fatal(err)
		}
	}
	isCut(t, lab)
	patience(t, there)
	answer := make([]byte, 6)
	if _, err := there.Read(answer); err != nil || string(answer) != "later\n" {
		t.Errorf("the old connection answers %q, %v after the heal, want what was sent meanwhile", answer, err)
	}
	for _, wrong := range [][2]string{{"web", "nobody"}, {"web", "web"}} {
		if err := lab.Cut(bounded(t), wrong[0], wrong[1]); err == nil {
			t.Errorf("Cut(%q) = nil, want an error", wrong)
		}
	}
}

func TestOnlyBrokersOfItsClusterReachAnEngine(t *testing.T) {
	t.Parallel()
	lab := raise(t, `
nodes:
  web: {kind: exec, SERVE "80"], ports: [80]}
  other: {kind: exec, SERVE "80"], ports: [80]}
subnets: {face: {cidr: [10.1.0.0/24, "fd00:1::/64"]}, client: {cidr: [10.2.0.0/24, "fd00:2::/64"]}}
`, Options{})
	// The same network, with web as an engine whose one broker is where the subnet face is.
	as := &topology.Lab{Nodes: []topology.Node{{Name: "web", Kind: topology.Engine, Cluster: "c"}, {Name: "face", Kind: topology.Broker, Cluster: "c"}}}
	router := &place{path: lab.home.netns(routerName)}
	ns, err := router.Netns()
	if err != nil {
		t.Fatal(err)
	}
	defer router.close() //nolint:errcheck // the thread ends either way
	err = ns.Do(func() error { return fence(as, members(lab.state.Lab)) })
	if err != nil {
		t.Fatal(err)
	}
	face, client := subnet(t, lab, "face"), subnet(t, lab, "client")
	other, err := lab.Node("other")
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range web(t, lab).Addresses {
		if !reaches(t, face, to) {
			t.Errorf("dial %s from its broker = an error, want nil", to)
		}
		if reaches(t, client, to) {
			t.Errorf("dial %s from a client = nil, want an error", to)
		}
	}
	if !reaches(t, client, other.Addr(false)) {
		t.Error("a client reaches nobody else either")
	}
}

func TestBrokersOfAClusterAreToldOfItsEngine(t *testing.T) {
	t.Parallel()
	got := prepared(t, "brokers: 2", "")
	for key, want := range map[string]string{
		"node.id": "1", "engine.bootstrap.servers": "198.18.0.3:9192", "metadata.bootstrap.servers": "198.18.0.3:9191",
	} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
	got = prepared(t, "brokers: 2\nengine: kafka", "")
	for key, want := range map[string]string{
		"engine.bootstrap.servers": "kafka1:9093,kafka2:9093", "engine.security.protocol": "SSL", "engine.ssl.keystore.type": "PEM",
		"engine.ssl.keystore.location": "HOME/tls/node-broker1.pem", "engine.ssl.truststore.location": "HOME/tls/ca.pem", "metadata.bootstrap.servers": "",
	} {
		if got[key] != want {
			t.Errorf("%s = %q, want %q", key, got[key], want)
		}
	}
	got = prepared(t, "brokers: 1\nengine: kafka\ndefaults: {kafka: {listeners: 'SASL_SSL://:9095'}}", "")
	if want := `org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret";`; got["engine.sasl.jaas.config"] != want {
		t.Errorf("engine.sasl.jaas.config = %q, want %q", got["engine.sasl.jaas.config"], want)
	}
	got = prepared(t, "nodes: {a: {kind: kafka, cluster: c}, b: {kind: broker, cluster: c, addresses: 10.0.0.7}}", "")
	if want := "User:admin;User:CN=a;User:b"; got["super.users"] != want || got["max.connections.per.ip.overrides"] != "127.0.0.1:2147483647,10.0.0.7:2147483647" {
		t.Errorf("super.users, max.connections.per.ip.overrides = %q, %q, want %q and room for the broker", got["super.users"], got["max.connections.per.ip.overrides"], want)
	}
}

func TestPropertiesOfClientsNameAllBrokersOfACluster(t *testing.T) {
	t.Parallel()
	lab, err := topology.Parse("lab.yaml", []byte("name: x\nusers: {eve: {}}\nbrokers: 2\nengine: kafka\nnodes: {other: {kind: broker}}"))
	if err != nil {
		t.Fatal(err)
	}
	h := home(t.TempDir())
	if err := h.writeClientProperties(lab); err != nil {
		t.Fatal(err)
	}
	const want = "bootstrap.servers=broker1:9093,broker2:9093\n"
	if got := string(file(t, h.properties("SSL", "eve"))); got[:len(want)] != want {
		t.Errorf("eve.properties = %s, want both faces and nobody else", got)
	}
}
