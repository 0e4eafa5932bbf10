package broker_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker"
)

// attempt is a client that connects, shakes hands where it has to, and asks once: done says how that ended.
type attempt struct {
	*raw

	done chan error
}

// connect begins an attempt from an address of the loopback network; config is nil without TLS. The kernel takes the
// connection whatever the broker does, unless the accept queue is full.
func connect(t *testing.T, source string, to netip.AddrPort, config *tls.Config) *attempt {
	t.Helper()
	a := &attempt{from(t, source, to), make(chan error, 1)}
	if config != nil {
		a.conn = tls.Client(a.conn, config)
	}
	go func() { a.done <- a.exchange() }()
	return a
}

// exchange asks once and reads the whole answer.
func (a *attempt) exchange() error {
	req := versionsRequest(3)
	if _, err := a.conn.Write(framed(req.Key(), req.Version, true, req.AppendTo(nil))); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(a.conn, size[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, a.conn, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// served fails unless the broker answers.
func (a *attempt) served(what string) {
	a.t.Helper()
	select {
	case err := <-a.done:
		if err != nil {
			a.t.Fatalf("%s: %v, want it served", what, err)
		}
	case <-time.After(30 * time.Second):
		a.t.Fatalf("%s waits, want it served", what)
	}
}

// silence is how long nothing must come for a client to be waiting. A broker that serves it answers in far less, and a
// longer one would fail nobody.
const silence = 250 * time.Millisecond

// waits fails unless the connection is open and nobody answers; what becomes of it later is still to be asked.
func (a *attempt) waits(what string) {
	a.t.Helper()
	select {
	case err := <-a.done:
		a.t.Fatalf("%s: done with %v, want it to wait", what, err)
	case <-time.After(silence):
	}
}

// refused fails unless the broker closes without an answer.
func (a *attempt) refused(what string) {
	a.t.Helper()
	select {
	case err := <-a.done:
		if !errors.Is(err, io.EOF) && !isReset(err) {
			a.t.Fatalf("%s: %v, want it closed", what, err)
		}
	case <-time.After(30 * time.Second):
		a.t.Fatalf("%s waits, want it closed", what)
	}
}

// ended fails unless the broker ends a connection that it has served.
func (a *attempt) ended(what string) {
	a.t.Helper()
	if err := a.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		a.t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, a.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		a.t.Errorf("%s: open after %d bytes, want it closed", what, n)
	}
}

// stays fails unless a connection that was served still is.
func (a *attempt) stays(what string) {
	a.t.Helper()
	if err := a.exchange(); err != nil {
		a.t.Fatalf("%s: %v, want it served still", what, err)
	}
}

// insecure asks for no certificate that is known.
func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// limitable is a broker with a listener of every kind: CLIENT, SECURE (SSL), LOGIN (SASL_SSL), and INSIDE for brokers.
// Each has one network thread. What is more comes last.
func limitable(t *testing.T, more string) *broker.Broker {
	t.Helper()
	return start(t, load(t, limitableProperties(t)+more))
}

func limitableProperties(t *testing.T) string {
	t.Helper()
	store := filepath.Join(t.TempDir(), "one.pem")
	writeStore(t, store, "one", []string{"localhost"})
	return fmt.Sprintf(`listeners=CLIENT://127.0.0.1:0,SECURE://127.0.0.1:0,LOGIN://127.0.0.1:0,INSIDE://127.0.0.1:0
listener.security.protocol.map=CLIENT:PLAINTEXT,SECURE:SSL,LOGIN:SASL_SSL,INSIDE:PLAINTEXT
inter.broker.listener.name=INSIDE
sasl.enabled.mechanisms=SCRAM-SHA-256
num.network.threads=1
ssl.keystore.type=PEM
ssl.keystore.location=%s
`, store)
}

// limitKey is one limit, N of which are let in and not one more.
type limitKey struct {
	name     string
	static   string             // properties
	dynamic  map[string]*string // the same, altered
	listener string
	clients  int    // that are served besides the one that asks, which is on INSIDE and from 127.0.0.1
	fate     string // of one more: waits, refused, held
}

// limitKeys are all there are, each so that it alone is in the way. A rate of one a second over two windows of ten seconds
// lets ten through, and delays the next.
func limitKeys() []limitKey {
	const slow = "quota.window.num=2\nquota.window.size.seconds=10\n"
	one := new("1")
	return []limitKey{
		{
			"max.connections", "max.connections=3\n",
			map[string]*string{"max.connections": new("3")},
			"CLIENT", 2, "waits",
		},
		{
			"max.connections of a TLS listener's clients", "max.connections=3\n",
			map[string]*string{"max.connections": new("3")},
			"SECURE", 2, "waits",
		},
		{
			"max.connections as the limit of a listener that has none", "max.connections=2\nlistener.name.inside.max.connections=9\n",
			map[string]*string{"max.connections": new("2"), "listener.name.inside.max.connections": new("9")},
			"CLIENT", 1, "waits",
		},
		{
			"max.connections as the limit of the inter-broker listener", "max.connections=3\n",
			map[string]*string{"max.connections": new("3")},
			"INSIDE", 2, "waits",
		},
		{
			"listener.name.client.max.connections", "listener.name.client.max.connections=3\n",
			map[string]*string{"listener.name.client.max.connections": new("3")},
			"CLIENT", 3, "waits",
		},
		{
			"listener.name.inside.max.connections", "listener.name.inside.max.connections=3\n",
			map[string]*string{"listener.name.inside.max.connections": new("3")},
			"INSIDE", 2, "waits",
		},
		{
			"max.ssl.connections", "max.ssl.connections=3\n",
			map[string]*string{"max.ssl.connections": new("3")},
			"SECURE", 3, "waits",
		},
		{
			"max.ssl.connections on SASL_SSL", "max.ssl.connections=3\n",
			map[string]*string{"max.ssl.connections": new("3")},
			"LOGIN", 3, "waits",
		},
		{
			"max.connections.per.ip", "max.connections.per.ip=3\n",
			map[string]*string{"max.connections.per.ip": new("3")},
			"CLIENT", 3, "refused",
		},
		{
			"max.connections.per.ip on TLS", "max.connections.per.ip=3\n",
			map[string]*string{"max.connections.per.ip": new("3")},
			"SECURE", 3, "refused",
		},
		{
			"max.connections.per.ip.overrides", "max.connections.per.ip.overrides=127.0.0.1:9,127.0.0.2:3\n",
			map[string]*string{"max.connections.per.ip.overrides": new("127.0.0.1:9,127.0.0.2:3")},
			"CLIENT", 3, "refused",
		},
		{
			"max.connection.creation.rate", slow + "max.connection.creation.rate=1\nlistener.name.client.max.connection.creation.rate=100\n",
			map[string]*string{"max.connection.creation.rate": one, "listener.name.client.max.connection.creation.rate": new("100")},
			"CLIENT", 10, "waits",
		},
		{
			"listener.name.client.max.connection.creation.rate", slow + "listener.name.client.max.connection.creation.rate=1\n",
			map[string]*string{"listener.name.client.max.connection.creation.rate": one},
			"CLIENT", 10, "waits",
		},
		{
			"listener.name.inside.max.connection.creation.rate", slow + "listener.name.inside.max.connection.creation.rate=1\n",
			map[string]*string{"listener.name.inside.max.connection.creation.rate": one},
			"INSIDE", 9, "waits",
		},
	}
}

// A limit that is read and shown and not enforced would let one more in.
func TestEachLimitLetsInAsManyAsItSaysAndNoMore(t *testing.T) {
	t.Parallel()
	for _, k := range limitKeys() {
		for _, level := range []string{"static", "dynamic", "dynamic default"} {
			t.Run(k.name+" "+level, func(t *testing.T) {
				t.Parallel()
				more := k.static
				if level != "static" {
					more = "quota.window.num=2\nquota.window.size.seconds=10\n"
				}
				b := limitable(t, more)
				admin := dial(t, b.Addr("INSIDE"))
				switch level {
				case "dynamic":
					mustAlter(admin, "1", k.dynamic)
				case "dynamic default":
					mustAlter(admin, "", k.dynamic)
				}
				exhaust(t, b, &k)
			})
		}
	}
}

// exhaust takes a limit up to its last connection, sees what becomes of one more, and that one is let in for one that goes.
func exhaust(t *testing.T, b *broker.Broker, k *limitKey) {
	t.Helper()
	at, config := b.Addr(k.listener), (*tls.Config)(nil)
	if k.listener == "SECURE" || k.listener == "LOGIN" {
		config = insecure()
	}
	var inside []*attempt
	for i := range k.clients {
		a := connect(t, "127.0.0.2", at, config)
		a.served(fmt.Sprintf("client %d of %d", i+1, k.clients))
		inside = append(inside, a)
	}
	more := connect(t, "127.0.0.2", at, config)
	if k.fate == "refused" {
		more.refused("one more")
		inside[0].close()
		eventually(t, "a place is free again", func() bool {
			again := connect(t, "127.0.0.2", at, config)
			return <-again.done == nil
		})
		return
	}
	more.waits("one more")
	inside[0].close()
	more.served("one more, once one has gone") // or, with a rate, after its delay
}

func TestARateOfAnAddressHoldsTheNextConnectionAndClosesIt(t *testing.T) {
	t.Parallel()
	b := limitable(t, "quota.window.num=2\nquota.window.size.seconds=1\n")
	admin := dial(t, b.Addr("INSIDE"))
	setIPRate(admin, new("127.0.0.2"), 2)
	for range 2 {
		connect(t, "127.0.0.2", b.Addr("CLIENT"), nil).served("a connection within the rate")
	}
	held := connect(t, "127.0.0.2", b.Addr("CLIENT"), nil)
	elsewhere := connect(t, "127.0.0.2", b.Addr("SECURE"), insecure())
	connect(t, "127.0.0.3", b.Addr("CLIENT"), nil).served("another address")
	held.refused("a connection too many, when its time is up")
	elsewhere.refused("one too many over all listeners")
	removeIPRate(admin, new("127.0.0.2"))
	connect(t, "127.0.0.2", b.Addr("CLIENT"), nil).served("a connection without a rate")

	// The default holds for addresses that have none; next to nothing is nothing.
	setIPRate(admin, nil, 1e-7)
	setIPRate(admin, new("127.0.0.1"), 1000)
	connect(t, "127.0.0.4", b.Addr("CLIENT"), nil).refused("an address with the default")
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).served("an address with its own")
	removeIPRate(admin, nil)
	connect(t, "127.0.0.4", b.Addr("CLIENT"), nil).served("an address once there is no default")
}

func TestLimitsOfPropertiesHoldForHostNames(t *testing.T) {
	t.Parallel()
	b := limitable(t, "max.connections.per.ip=0\nmax.connections.per.ip.overrides=127.0.0.2:1, localhost:9 ,127.2:3\n")
	dial(t, b.Addr("INSIDE")) // 127.0.0.1
	var inside []*attempt
	for range 3 { // the last entry of the address
		a := connect(t, "127.0.0.2", b.Addr("CLIENT"), nil)
		a.served("an address with an override")
		inside = append(inside, a)
	}
	connect(t, "127.0.0.2", b.Addr("CLIENT"), nil).refused("one more than the override")
	connect(t, "127.0.0.3", b.Addr("CLIENT"), nil).refused("an address without one")
	connect(t, "127.0.0.1", b.Addr("CLIENT"), nil).served("an address by its name")
	for _, a := range inside {
		a.stays("an address with an override")
	}
}

func TestAStaticZeroAdmitsNobody(t *testing.T) {
	t.Parallel()
	for limit, listener := range map[string]string{"max.ssl.connections": "SECURE", "listener.name.client.max.connections": "CLIENT"} {
		b := limitable(t, limit+"=0\n")
		connect(t, "127.0.0.1", b.Addr("INSIDE"), nil).served("another listener")
		config := insecure()
		if listener == "CLIENT" {
			config = nil
		}
		connect(t, "127.0.0.1", b.Addr(listener), config).waits(limit)
	}
}

// stopsWithin shuts a broker down that nobody serves any more.
func stopsWithin(t *testing.T, b *broker.Broker, patience time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown = %v, want nil", err)
	}
}

// Kafka's shutdown hangs then: its acceptor waits for a slot that never comes.
func TestABrokerStopsThoughAClientWaitsForASlotThatNeverComes(t *testing.T) {
	t.Parallel()
	b, err := broker.New(load(t, limitableProperties(t)+"listener.name.client.max.connections=0\n"), broker.WithLog(testLog(t)))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(context.WithoutCancel(t.Context())) }()
	<-b.Ready()
	waiting := connect(t, "127.0.0.1", b.Addr("CLIENT"), nil)
	waiting.waits("a client of a listener for nobody")
	stopsWithin(t, b, 20*time.Second)
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	waiting.refused("a client that waited")
}
