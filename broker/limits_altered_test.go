package broker_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// hold connects n clients that are all served.
func hold(t *testing.T, n int, source string, b *broker.Broker, listener string) []*attempt {
	t.Helper()
	config := insecure()
	if listener == "CLIENT" || listener == "INSIDE" { // ADDED speaks TLS where clients are held there
		config = nil
	}
	var all []*attempt
	for i := range n {
		a := connect(t, source, b.Addr(listener), config)
		a.served(fmt.Sprintf("client %d of %d on %s", i+1, n, listener))
		all = append(all, a)
	}
	return all
}

// inUse is how many connections a limit counts.
func inUse(admin *raw, name, listener string) int {
	admin.t.Helper()
	return int(limitRow(describeLimits(admin, nil), name, listener).InUse)
}

// A name server that does not answer holds up who set the names, and not the end of the broker. It is the default of the
// whole process that is replaced: no other test runs meanwhile.
func TestABrokerStopsThoughNobodyKnowsTheNamesOfOverrides(t *testing.T) { //nolint:paralleltest // see above
	asked := make(chan struct{}, 100)
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	defer func() { net.DefaultResolver = usual }()
	b := limitable(t, "")
	admin := dial(t, b.Addr("INSIDE"))
	admin.request(alterRequest("1", map[string]*string{"max.connections.per.ip.overrides": new("a.example:1,b.example:1,c.example:1,d.example:1")}))
	<-asked
	stopsWithin(t, b, 4*time.Second) // one name alone takes longer
}

// Rule 60.
func TestAnAlteredMaximumOfAddressesHoldsForTheNextConnection(t *testing.T) {
	t.Parallel()
	b := limitable(t, "")
	admin := from(t, "127.0.0.9", b.Addr("INSIDE"))
	inside := hold(t, 2, "127.0.0.1", b, "CLIENT")
	mustAlter(admin, "1", map[string]*string{"max.connections.per.ip": new("5")})
	inside = append(inside, hold(t, 3, "127.0.0.1", b, "CLIENT")...)
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).refused("the sixth")
	mustAlter(admin, "1", map[string]*string{"max.connections.per.ip.overrides": new("localhost:7")})
	inside = append(inside, hold(t, 2, "127.0.0.1", b, "CLIENT")...)
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).refused("the eighth")

	// Lowered, it closes nobody.
	mustAlter(admin, "1", map[string]*string{"max.connections.per.ip.overrides": new("localhost:1")})
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).refused("one more")
	for _, a := range inside {
		a.stays("who was there before")
	}
	mustAlter(admin, "1", map[string]*string{"max.connections.per.ip.overrides": nil, "max.connections.per.ip": nil})
	hold(t, 2, "127.0.0.1", b, "CLIENT")
}

// Rule 61.
func TestAWaitingClientIsServedWhenAnotherGoesOrTheLimitIsRaised(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		free func(admin *raw, inside []*attempt)
	}{
		{"a client goes", func(_ *raw, inside []*attempt) { inside[2].close() }},
		{"the limit is raised", func(admin *raw, _ []*attempt) {
			mustAlter(admin, "1", map[string]*string{"max.connections": new("7")})
		}},
		{"the limit of all brokers comes into force", func(admin *raw, _ []*attempt) {
			mustAlter(admin, "", map[string]*string{"max.connections": new("9")})
			mustAlter(admin, "1", map[string]*string{"max.connections": nil})
		}},
		{"there is no limit any more", func(admin *raw, _ []*attempt) {
			mustAlter(admin, "1", map[string]*string{"max.connections": nil})
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			b := limitable(t, "")
			admin := dial(t, b.Addr("INSIDE"))
			mustAlter(admin, "1", map[string]*string{"max.connections": new("6")})
			inside := hold(t, 5, "127.0.0.1", b, "CLIENT")
			sixth := connect(t, "127.0.0.1", b.Addr("CLIENT"), nil)
			sixth.waits("the sixth client")
			c.free(admin, inside)
			sixth.served("the sixth client, when " + c.what)
		})
	}
}

// Rule 62.
func TestListenersHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := limitable(t, "")
	admin := dial(t, b.Addr("LOGIN")) // never speaks; keeps its place in nobody's way
	admin.close()
	inside := dial(t, b.Addr("INSIDE"))
	mustAlter(inside, "", map[string]*string{
		"max.connections": new("10"), "listener.name.inside.max.connections": new("5"), "listener.name.client.max.connections": new("5"),
	})
	first := hold(t, 5, "127.0.0.1", b, "CLIENT")
	hold(t, 4, "127.0.0.1", b, "INSIDE")
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).waits("the sixth client")
	sixth := connect(t, "127.0.0.1", b.Addr("INSIDE"), nil)
	sixth.waits("the sixth of the inter-broker listener")
	mustAlter(inside, "1", map[string]*string{"listener.name.inside.max.connections": new("7")})
	sixth.served("the sixth, once its listener has seven")
	last := hold(t, 1, "127.0.0.1", b, "INSIDE")
	eighth := connect(t, "127.0.0.1", b.Addr("INSIDE"), nil)
	eighth.waits("the eighth")
	last[0].close()
	eighth.served("the eighth, when one of its listener has gone")

	// That is twelve with a limit of ten: clients have paid for it.
	eventually(t, "the total is ten again", func() bool { return inUse(inside, "max.connections", "") == 10 })
	if left := inUse(inside, "max.connections", "CLIENT"); left != 3 {
		t.Errorf("CLIENT has %d connections, want 3", left)
	}
	first[0].ended("the least recently active client")
}

// Rule 63.
func TestInterBrokerConnectionsComeInAtTheLimitAndOthersGo(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.connections=10\nlistener.name.inside.max.connections=20\n")
	admin := dial(t, b.Addr("INSIDE"))
	clients := hold(t, 5, "127.0.0.1", b, "CLIENT")
	brokers := hold(t, 4, "127.0.0.1", b, "INSIDE")
	for _, a := range clients[:3] {
		a.stays("a client that is active")
	}
	brokers = append(brokers, hold(t, 2, "127.0.0.1", b, "INSIDE")...)
	eventually(t, "the total is ten again", func() bool { return inUse(admin, "max.connections", "") == 10 })
	for _, a := range clients[3:] {
		a.ended("one of the two least recently active clients")
	}
	for _, a := range append(clients[:3], brokers...) {
		a.stays("everybody else")
	}
	waiting := connect(t, "127.0.0.1", b.Addr("CLIENT"), nil)
	waiting.waits("another client")
	brokers[0].close()
	waiting.served("another client, when a broker has gone")
}

// Rule 64: a connection's delay for a rate is bounded by one window, so that a lower bound of time can be held to it, and
// an upper one by how many there were.
func TestRatesAreAlteredWhileTheyHold(t *testing.T) {
	t.Parallel()
	b := limitable(t, "quota.window.num=2\nquota.window.size.seconds=1\n")
	admin := dial(t, b.Addr("INSIDE"))
	mustAlter(admin, "", map[string]*string{
		"max.connection.creation.rate": new("9"), "listener.name.client.max.connection.creation.rate": new("4"),
		"listener.name.secure.max.connection.creation.rate": new("4"), "listener.name.inside.max.connection.creation.rate": new("1000"),
	})
	pass := func(listener string, n int) time.Duration {
		began := time.Now()
		for _, a := range hold(t, n, "127.0.0.1", b, listener) {
			a.close()
		}
		return time.Since(began)
	}
	if took := pass("CLIENT", 16); took < 2*time.Second {
		t.Errorf("16 connections at 4 a second took %v, want 2 s at least", took)
	}
	if took := pass("INSIDE", 100); took > 10*time.Second {
		t.Errorf("100 inter-broker connections above the broker's rate took %v, want no delay", took)
	}
	mustAlter(admin, "", map[string]*string{"max.connection.creation.rate": nil, "listener.name.client.max.connection.creation.rate": nil})
	waited := func() time.Duration {
		for _, l := range describeLimits(admin, nil).Listeners {
			if l.ListenerName == "CLIENT" && l.Held != nil {
				return time.Duration(l.Held.DelayMillis) * time.Millisecond
			}
		}
		return 0
	}
	if took := pass("CLIENT", 100); took > 30*time.Second || waited() != 0 {
		t.Errorf("100 connections without a rate took %v", took)
	}
}

// Acceptance 1, 2 and 6.
func TestAllTLSListenersShareOneLimitAndOthersDoNotWait(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.ssl.connections=2\nmetrics.listener=127.0.0.1:0\n")
	admin := dial(t, b.Addr("INSIDE"))
	secure, login := hold(t, 1, "127.0.0.1", b, "SECURE"), hold(t, 1, "127.0.0.1", b, "LOGIN")
	third, fourth := connect(t, "127.0.0.1", b.Addr("SECURE"), insecure()), connect(t, "127.0.0.1", b.Addr("LOGIN"), insecure())
	third.waits("a third over TLS")
	fourth.waits("a fourth over TLS")
	hold(t, 5, "127.0.0.1", b, "CLIENT")
	if n := inUse(admin, "max.ssl.connections", ""); n != 2 {
		t.Errorf("max.ssl.connections counts %d, want 2", n)
	}
	login[0].close()
	first, second := third, fourth // who gets the place is the luck of two listeners
	select {
	case err := <-third.done:
		third.done <- err
	case err := <-fourth.done:
		fourth.done <- err
		first, second = fourth, third
	}
	first.served("the one that got the place")
	second.waits("the one that did not")
	secure[0].close()
	second.served("the other, for the next that goes")
	for _, l := range describeLimits(admin, nil).Listeners {
		blocked := l.Blocked > 0
		if want := l.ListenerName == "SECURE" || l.ListenerName == "LOGIN"; blocked != want {
			t.Errorf("the acceptor of %s was blocked: %v, want %v", l.ListenerName, blocked, want)
		}
	}
}

// Acceptance 4.
func TestALoweredTLSLimitEndsTheLeastRecentlyActiveOfTLSAlone(t *testing.T) {
	t.Parallel()
	b := limitable(t, "")
	admin := dial(t, b.Addr("INSIDE"))
	plain := hold(t, 3, "127.0.0.1", b, "CLIENT")
	secure := hold(t, 3, "127.0.0.1", b, "SECURE")
	secure[0].stays("the first over TLS, now the most recently active")
	mustAlter(admin, "1", map[string]*string{"max.ssl.connections": new("1")})
	secure[1].ended("the least recently active over TLS")
	secure[2].ended("the next")
	secure[0].stays("the most recently active over TLS")
	more := connect(t, "127.0.0.1", b.Addr("SECURE"), insecure())
	more.waits("one more over TLS")
	mustAlter(admin, "1", map[string]*string{"max.ssl.connections": new("10")})
	more.served("one more over TLS, when there is room")
	for _, a := range plain {
		a.stays("a client without TLS")
	}
}

// Acceptance 5.
func TestATLSListenerOfBrokersIsExemptAndCounted(t *testing.T) {
	t.Parallel()
	b := limitable(t, "inter.broker.listener.name=SECURE\nmax.ssl.connections=1\n")
	admin := dial(t, b.Addr("INSIDE"))
	login := hold(t, 1, "127.0.0.1", b, "LOGIN")
	brokers := hold(t, 3, "127.0.0.1", b, "SECURE")
	login[0].ended("a client over TLS that brokers have pushed out")
	if n := inUse(admin, "max.ssl.connections", ""); n != 3 {
		t.Errorf("max.ssl.connections counts %d, want 3", n)
	}
	waiting := connect(t, "127.0.0.1", b.Addr("LOGIN"), insecure())
	waiting.waits("a client over TLS")
	for _, a := range brokers[:2] {
		a.close()
	}
	waiting.waits("a client over TLS, while a broker has the place")
	brokers[2].close()
	waiting.served("a client over TLS, when the place is free")
}

// Acceptance 3: counts are the truth, whichever way a connection goes.
func TestCountsAreTrueHoweverAConnectionEnds(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.connections.per.ip.overrides=127.0.0.3:1\n")
	admin := dial(t, b.Addr("INSIDE"))
	setIPRate(admin, new("127.0.0.4"), 1e-7)
	at := func(what string, connections, ssl int) {
		t.Helper()
		eventually(t, what, func() bool {
			return inUse(admin, "max.connections", "") == connections && inUse(admin, "max.ssl.connections", "") == ssl
		})
	}
	at("the admin alone", 1, 0)
	secure, plain := hold(t, 2, "127.0.0.1", b, "SECURE"), hold(t, 2, "127.0.0.1", b, "CLIENT")
	at("four more", 5, 2)
	secure[0].close()
	plain[0].close()
	at("two gone", 3, 1)
	reset(t, connect(t, "127.0.0.1", b.Addr("SECURE"), insecure()))
	reset(t, &attempt{raw: from(t, "127.0.0.1", b.Addr("SECURE"))}) // before its handshake
	at("two reset", 3, 1)
	failed := from(t, "127.0.0.1", b.Addr("SECURE"))
	failed.bytes([]byte("no hello at all, but long enough to be judged"))
	at("a handshake that failed", 3, 1)
	only := hold(t, 1, "127.0.0.3", b, "SECURE")
	connect(t, "127.0.0.3", b.Addr("SECURE"), insecure()).refused("one too many of an address")
	at("one refused", 4, 2)
	only[0].close()
	connect(t, "127.0.0.4", b.Addr("SECURE"), insecure()).refused("an address whose rate is nothing, held and never counted")
	at("one held", 3, 1)
}

// Acceptance 7.
func TestATLSLimitThatIsNoneIsRefusedInKafkasWords(t *testing.T) {
	t.Parallel()
	b := limitable(t, "")
	admin := dial(t, b.Addr("INSIDE"))
	mixUp := func(key, value string) string {
		return "Invalid value org.apache.kafka.common.config.ConfigException: Invalid " + key + " " + value + " for configuration Invalid dynamic configuration"
	}
	for value, want := range map[string]string{
		"-1": "Invalid value -1 for configuration max.ssl.connections: Value must be at least 0", "0": mixUp("max.ssl.connections", "0"),
		"abc":        "Invalid value abc for configuration max.ssl.connections: Not a number of type INT",
		"2147483648": "Invalid value 2147483648 for configuration max.ssl.connections: Not a number of type INT",
		"":           "Invalid value  for configuration max.ssl.connections: Not a number of type INT",
	} {
		for _, resource := range []string{"", "1"} {
			if code, text := alter(admin, resource, map[string]*string{"max.ssl.connections": &value}); code != 42 || text != want {
				t.Errorf("max.ssl.connections=%q of %q = %d %s, want 42 %s", value, resource, code, text, want)
			}
		}
	}
	mustAlter(admin, "1", map[string]*string{"max.ssl.connections": new(" +1 ")})
	hold(t, 1, "127.0.0.1", b, "SECURE")
	waiting := connect(t, "127.0.0.1", b.Addr("SECURE"), insecure())
	waiting.waits("a second over TLS")
	mustAlter(admin, "1", map[string]*string{"max.ssl.connections": nil})
	waiting.served("a second over TLS, without a limit")
}

// Acceptance 8.
func TestAPlaceOfTheBrokerIsNoneOfTLS(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.ssl.connections=1\nmax.connections=3\nlistener.name.inside.max.connections=9\n")
	dial(t, b.Addr("INSIDE"))
	plain, secure := hold(t, 1, "127.0.0.1", b, "CLIENT"), hold(t, 1, "127.0.0.1", b, "SECURE")
	waiting := connect(t, "127.0.0.1", b.Addr("SECURE"), insecure())
	waiting.waits("a client over TLS")
	plain[0].close()
	waiting.waits("a client over TLS, when another protocol's has gone")
	plain = hold(t, 1, "127.0.0.1", b, "CLIENT")
	secure[0].close()
	waiting.served("a client over TLS, when one over TLS has gone")
	plain[0].stays("the other protocol's")
}

// P16.
func TestALimitThatIsLoweredEndsConnectionsIfItIsTheBrokers(t *testing.T) {
	t.Parallel()
	b := limitable(t, "listener.name.inside.max.connections=9\n")
	admin := dial(t, b.Addr("INSIDE"))
	all := hold(t, 40, "127.0.0.1", b, "CLIENT")
	mustAlter(admin, "1", map[string]*string{"listener.name.client.max.connections": new("20")})
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).waits("one more than the listener has room for")
	for i, a := range slices.Backward(all) {
		a.stays(fmt.Sprintf("client %d of a listener whose limit was lowered", i))
	}
	for _, a := range all[:20] { // an answer counts as activity when it has left, which may be after the next client's question
		a.stays("a client that will have been active last")
	}
	mustAlter(admin, "1", map[string]*string{"max.connections": new("21"), "listener.name.client.max.connections": new("100")})
	eventually(t, "there are as many as the broker's limit", func() bool { return inUse(admin, "max.connections", "") == 21 })
	for i, a := range all {
		if i < 20 {
			a.stays(fmt.Sprintf("client %d of a broker whose limit was lowered, one of the most recently active", i))
		} else {
			a.ended(fmt.Sprintf("client %d, one of the least recently active", i))
		}
	}
}

// P6.
func TestAMaximumOfAddressesThatIsToggledIsAlwaysOneOfItsValues(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.connections.per.ip.overrides=127.0.0.1:1000\n")
	admin, watch := dial(t, b.Addr("INSIDE")), dial(t, b.Addr("INSIDE"))
	stop := time.Now().Add(2 * time.Second)
	toggled := make(chan int)
	go func() {
		n := 0
		for ; time.Now().Before(stop); n++ {
			mustAlter(admin, "1", map[string]*string{"max.connections.per.ip": &[]string{"1", "100"}[n%2]})
		}
		toggled <- n
	}()
	served, refused := 0, 0
	for time.Now().Before(stop) {
		first, second := connect(t, "127.0.0.5", b.Addr("CLIENT"), nil), connect(t, "127.0.0.5", b.Addr("CLIENT"), nil)
		outcomes := []error{<-first.done, <-second.done}
		for _, err := range outcomes {
			if err == nil {
				served++
			} else {
				refused++
			}
		}
		if outcomes[0] != nil && outcomes[1] != nil {
			t.Fatal("two of an address that may have one at least were both refused")
		}
		first.close()
		second.close()
		eventually(t, "the address has none", func() bool { return inUse(watch, "max.connections", "CLIENT") == 0 })
	}
	if n := <-toggled; n < 2 || served == 0 || refused == 0 {
		t.Errorf("toggled %d times, %d served, %d refused: want all of them to have happened", n, served, refused)
	}
	eventually(t, "the two that watch alone", func() bool { return inUse(admin, "max.connections", "") == 2 })
}

// P10: what a rate of ten lets through at once is the burst of its windows.
func TestAStaticRateActsFromTheFirstConnectionOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		properties string
		atOnce     int // that pass without a delay, at least
		delayed    bool
	}{
		{"quota.window.num=2\n", 10, true},
		{"", 50, false},
	} {
		b := limitable(t, "listener.name.client.max.connection.creation.rate=10\n"+c.properties)
		admin := dial(t, b.Addr("INSIDE"))
		var all []*attempt
		for range 50 {
			all = append(all, connect(t, "127.0.0.1", b.Addr("CLIENT"), nil))
		}
		for i, a := range all[:c.atOnce] {
			a.served(fmt.Sprintf("connection %d", i))
		}
		if !c.delayed {
			continue
		}
		var held *protocol.DescribeLimitsResponseHeld
		eventually(t, "the acceptor holds one for the rate", func() bool {
			held = limitListener(describeLimits(admin, nil), "CLIENT").Held
			return held != nil && held.DelayMillis > 0
		})
		if held.WaitsFor != "max.connection.creation.rate" || held.Scope != "listener" || held.DelayMillis > 1000 {
			t.Errorf("held = %+v, want it for the listener's rate, for a window at most", held)
		}
	}
}

// P11.
func TestAWaitForASlotIsToldApartFromOneForARate(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.connection.creation.rate=5\nlistener.name.inside.max.connection.creation.rate=1000\nmax.connections=6\n")
	admin := dial(t, b.Addr("INSIDE"))
	inside := hold(t, 5, "127.0.0.1", b, "CLIENT")
	waiting := connect(t, "127.0.0.1", b.Addr("CLIENT"), nil)
	waiting.waits("one more")
	inside[0].close()
	waiting.served("one more, when one has gone")
	req := protocol.NewPtrDescribeConnectionTimelineRequest()
	req.ClientPort = int32(local(waiting.raw).Port())
	got := ask[*protocol.DescribeConnectionTimelineResponse](admin, req).Connections
	if len(got) != 1 {
		t.Fatalf("timelines = %+v, want one", got)
	}
	slot, rate := event(got[0], protocol.EventWaitedSlot), event(got[0], protocol.EventWaitedRate)
	if slot.Limit != "max.connections" || time.Duration(slot.Micros)*time.Microsecond < silence/2 || rate.Name != "" {
		t.Errorf("events = %+v, want a wait for a slot and none for a rate, which is cold", got[0].Events)
	}
}

// An override whose host is unknown is stored and described, and the former ones stay.
func TestOverridesOfAnUnknownHostLeaveTheFormerOnes(t *testing.T) {
	t.Parallel()
	for resource, line := range map[string]string{
		"1": "Per-broker configs of 1 could not be applied: [max.connections.per.ip.overrides]",
		"":  "Cluster default configs could not be applied: [max.connections.per.ip.overrides]",
	} {
		text := &logText{}
		dir := t.TempDir()
		properties := limitableProperties(t) + "log.dirs=" + dir + "\n"
		b, stop := startLogged(t, properties, text)
		admin := dial(t, b.Addr("INSIDE"))
		mustAlter(admin, resource, map[string]*string{"max.connections.per.ip.overrides": new("127.0.0.2:1")})
		mustAlter(admin, resource, map[string]*string{
			"max.connections.per.ip.overrides": new("127.0.0.2:2,no-such-host.invalid:3"), "max.connections.per.ip": new("4"),
		})
		if log := text.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, line[:len(line)-len("[max.connections.per.ip.overrides]")]) {
			t.Errorf("the log lacks %q:\n%s", line, log)
		}
		hold(t, 1, "127.0.0.2", b, "CLIENT")
		connect(t, "127.0.0.2", b.Addr("CLIENT"), nil).refused("a second of an address with the former override")
		hold(t, 4, "127.0.0.3", b, "CLIENT")
		connect(t, "127.0.0.3", b.Addr("CLIENT"), nil).refused("a fifth of another: the other config of the alteration holds")
		if c := brokerConfig(admin, resource)["max.connections.per.ip.overrides"]; c.Value == nil || *c.Value != "127.0.0.2:2,no-such-host.invalid:3" {
			t.Errorf("described as %+v, want what was stored", c)
		}
		stop()

		text = &logText{}
		b, stop = startLogged(t, properties, text)
		if log := text.String(); !strings.Contains(log, "could not be applied") {
			t.Errorf("the log of the next start does not say it:\n%s", log)
		}
		hold(t, 3, "127.0.0.2", b, "CLIENT") // there are no former ones now
		stop()
	}
}

// startLogged serves until stop, with a log that can be read.
func startLogged(t *testing.T, properties string, text *logText) (b *broker.Broker, stop func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelInfo}))
	b, err := broker.New(load(t, properties), broker.WithLog(log))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(t.Context()) }()
	<-b.Ready()
	return b, func() {
		t.Helper()
		if err := b.Shutdown(limit(t)); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

func TestLimitsAndRatesSurviveKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startChild(t, dir)
	admin := dial(t, seedOf(t, first))
	mustAlter(admin, "", map[string]*string{"max.connections": new("9")})
	mustAlter(admin, "1", map[string]*string{"max.connections": new("4"), "max.connections.per.ip.overrides": new("127.0.0.2:1")})
	setIPRate(admin, new("127.0.0.3"), 1e-7)
	quotas := allQuotas(admin)
	first.kill()

	second := startChild(t, dir)
	at := seedOf(t, second)
	admin = dial(t, at)
	if got := allQuotas(admin); !slices.Equal(got, quotas) {
		t.Errorf("after kill -9 quotas are %q, want %q", got, quotas)
	}
	connect(t, "127.0.0.3", at, nil).refused("an address whose rate is nothing")
	connect(t, "127.0.0.2", at, nil).served("the first of an address with an override")
	connect(t, "127.0.0.2", at, nil).refused("the second")
	for range 2 {
		connect(t, "127.0.0.1", at, nil).served("one of four")
	}
	connect(t, "127.0.0.1", at, nil).waits("the fifth")
}

// seedOf is where a child listens.
func seedOf(t *testing.T, c *child) netip.AddrPort {
	t.Helper()
	addr, err := netip.ParseAddrPort(c.seed)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// Precedence: this broker's value, that of all brokers, the static one, the default; a listener's own beats them all.
func TestTheStrongestLevelOfALimitHoldsAndIsDescribed(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.connections=30\nlistener.name.client.max.connections=3\n")
	admin := dial(t, b.Addr("INSIDE"))
	mustAlter(admin, "", map[string]*string{"max.connections": new("20"), "listener.name.secure.max.connections": new("2")})
	mustAlter(admin, "1", map[string]*string{"max.connections": new("6")})
	hold(t, 3, "127.0.0.1", b, "CLIENT")
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).waits("a fourth of a listener that has three in the properties file")
	hold(t, 2, "127.0.0.1", b, "SECURE")
	connect(t, "127.0.0.1", b.Addr("SECURE"), insecure()).waits("a third of a listener that all brokers give two")

	configs := brokerConfig(admin, "1")
	for name, want := range map[string]string{
		"max.connections":                      "6 2 false: 2 max.connections=6, 3 max.connections=20, 4 max.connections=30, 5 max.connections=2147483647",
		"listener.name.client.max.connections": "3 4 true: 4 listener.name.client.max.connections=3, 4 max.connections=30, 5 max.connections=2147483647",
		"listener.name.secure.max.connections": "2 3 true: 3 listener.name.secure.max.connections=2, 3 max.connections=20, 4 max.connections=30, 5 max.connections=2147483647",
		"max.ssl.connections":                  "2147483647 5 false: 5 max.ssl.connections=2147483647",
		"connections.max.idle.ms":              "600000 5 true: 5 connections.max.idle.ms=600000",
		"listener.name.login.max.connections":  "",
		"listener.name.CLIENT.max.connections": "",
		"max.connection.creation.rate":         "2147483647 5 false: 5 max.connection.creation.rate=2147483647",
		"quota.window.num":                     "11 5 true: 5 quota.window.num=11",
		"max.connections.per.ip.overrides":     " 5 false: 5 max.connections.per.ip.overrides=",
	} {
		c, there := configs[name]
		got := ""
		if there {
			got = fmt.Sprintf("%s %d %v: %s", orNil(c.Value), c.Source, c.ReadOnly, synonyms(c))
		}
		if got != want {
			t.Errorf("%s is described as %q, want %q", name, got, want)
		}
	}
	clusterWide := brokerConfig(admin, "")
	if len(clusterWide) != 3 || orNil(clusterWide["max.connections"].Value) != "20" {
		t.Errorf("for all brokers there are %+v, want the two that are set and what a new cluster has", clusterWide)
	}
}

func synonyms(c kmsg.DescribeConfigsResponseResourceConfig) string {
	var all []string
	for _, s := range c.ConfigSynonyms {
		all = append(all, fmt.Sprintf("%d %s=%s", s.Source, s.Name, orNil(s.Value)))
	}
	return strings.Join(all, ", ")
}

// reset ends a connection at once, with what was sent unread.
func reset(t *testing.T, a *attempt) {
	t.Helper()
	conn := a.conn
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // the broker may have been first
}

// A listener comes, is full, goes and comes again with another protocol: counts stay right, and who waited is told.
func TestALimitedListenerMayGoAndComeBackOverTLS(t *testing.T) {
	t.Parallel()
	properties := limitableProperties(t)
	b := start(t, load(t, strings.Replace(properties, "INSIDE:PLAINTEXT\n", "INSIDE:PLAINTEXT,ADDED:PLAINTEXT\n", 1)+
		"advertised.listeners=CLIENT://127.0.0.1:0,SECURE://127.0.0.1:0,LOGIN://127.0.0.1:0,INSIDE://127.0.0.1:0\nmax.ssl.connections=2\n"))
	admin := dial(t, b.Addr("INSIDE"))
	const others = "CLIENT://127.0.0.1:0,SECURE://127.0.0.1:0,LOGIN://127.0.0.1:0,INSIDE://127.0.0.1:0"
	add := map[string]*string{"listeners": new(others + ",ADDED://127.0.0.1:0"), "listener.name.added.max.connections": new("2")}
	mustAlter(admin, "1", add)
	inside := hold(t, 2, "127.0.0.1", b, "INSIDE")
	full := []*attempt{connect(t, "127.0.0.1", b.Addr("ADDED"), nil), connect(t, "127.0.0.1", b.Addr("ADDED"), nil)}
	for _, a := range full {
		a.served("a client of the added listener")
	}
	waiting := connect(t, "127.0.0.1", b.Addr("ADDED"), nil)
	waiting.waits("one more")
	mustAlter(admin, "1", map[string]*string{"listeners": nil})
	waiting.refused("who waited for a listener that goes")
	for _, a := range full {
		a.ended("who was served by a listener that goes")
	}
	eventually(t, "the others alone are counted", func() bool { return inUse(admin, "max.connections", "") == 3 })

	add["listener.security.protocol.map"] = new("CLIENT:PLAINTEXT,SECURE:SSL,LOGIN:SASL_SSL,INSIDE:PLAINTEXT,ADDED:SSL")
	mustAlter(admin, "1", add)
	secure := hold(t, 1, "127.0.0.1", b, "ADDED")
	if connections, ssl := inUse(admin, "max.connections", ""), inUse(admin, "max.ssl.connections", ""); connections != 4 || ssl != 1 {
		t.Errorf("%d connections are counted, %d over TLS, want 4 and 1", connections, ssl)
	}
	hold(t, 1, "127.0.0.1", b, "SECURE")
	third := connect(t, "127.0.0.1", b.Addr("ADDED"), insecure())
	third.waits("a third over TLS")
	secure[0].close()
	third.served("a third over TLS, when one has gone")
	mustAlter(admin, "1", map[string]*string{"listeners": nil, "listener.name.added.max.connections": nil, "listener.security.protocol.map": nil})
	third.ended("who was served by the listener")
	eventually(t, "TLS has the other one", func() bool {
		return inUse(admin, "max.ssl.connections", "") == 1 && inUse(admin, "max.connections", "") == 4
	})
	for _, a := range inside {
		a.stays("another listener's")
	}
}

// The inter-broker listener is the one that is named, or the one of the protocol that is named, or PLAINTEXT; if there is
// no such listener, or no other one, nobody is spared.
func TestOnlyTheInterBrokerListenerIsSpared(t *testing.T) {
	t.Parallel()
	const two = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT\nlisteners="
	for _, c := range []struct{ properties, spared string }{
		{two + "A://127.0.0.1:0,B://127.0.0.1:0\ninter.broker.listener.name=B\n", "B"},
		{two + "A://127.0.0.1:0,PLAINTEXT://127.0.0.1:0\nsecurity.inter.broker.protocol=PLAINTEXT\n", "PLAINTEXT"},
		{two + "A://127.0.0.1:0,PLAINTEXT://127.0.0.1:0\n", "PLAINTEXT"},
		{two + "A://127.0.0.1:0,B://127.0.0.1:0\n", ""},
		{two + "PLAINTEXT://127.0.0.1:0\n", ""},
	} {
		b := start(t, load(t, c.properties+"max.connections=2\n"))
		var spared []string
		for _, name := range []string{"A", "B", "PLAINTEXT"} {
			if !b.Addr(name).IsValid() {
				continue
			}
			a := connect(t, "127.0.0.1", b.Addr(name), nil)
			a.served("a question to " + name)
			if limitListener(describeLimits(a.raw, nil), name).Protected {
				spared = append(spared, name)
			}
			a.close()
		}
		if got := strings.Join(spared, ","); got != c.spared {
			t.Errorf("with %q the limit spares %q, want %q", c.properties, got, c.spared)
		}
	}
}
