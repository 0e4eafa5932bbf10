package fleet_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

const workerEnv = "BROKERLAB_TEST_FLEET_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		err := fleet.Serve(context.Background(), os.Stdin, os.Stdout, func(s fleet.SourceSpec) (fleet.Source, error) {
			return fleet.Loopback(s.Prefix), nil
		})
		if err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// authority is a CA and what it signed.
type authority struct {
	ca           string
	server       tls.Certificate
	clientCert   string
	clientKey    string
	serverConfig *tls.Config
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	g := NewWithT(t)
	sign := func(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (string, string, []byte) {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		g.Expect(err).NotTo(HaveOccurred())
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		g.Expect(err).NotTo(HaveOccurred())
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})), der
	}
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		g.Expect(err).NotTo(HaveOccurred())
		return k
	}
	caKey, serverKey, clientKey := newKey(), newKey(), newKey()
	valid := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
	}
	ca := valid("test ca")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caPEM, _, der := sign(ca, ca, caKey, caKey)
	parent, err := x509.ParseCertificate(der)
	g.Expect(err).NotTo(HaveOccurred())
	server := valid("server")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	serverPEM, serverKeyPEM, _ := sign(server, parent, serverKey, caKey)
	pair, err := tls.X509KeyPair([]byte(serverPEM), []byte(serverKeyPEM))
	g.Expect(err).NotTo(HaveOccurred())
	clientPEM, clientKeyPEM, _ := sign(valid("client"), parent, clientKey, caKey)
	pool := x509.NewCertPool()
	pool.AddCert(parent)
	return authority{
		ca: caPEM, server: pair, clientCert: clientPEM, clientKey: clientKeyPEM,
		serverConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool},
	}
}

// kafka starts an engine on loopback and returns its address.
func kafka(t *testing.T, opts ...kfake.Opt) netip.AddrPort {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "t")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return netip.MustParseAddrPort(c.ListenAddrs()[0])
}

func open(t *testing.T, plan fleet.Plan) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Open(t.Context(), plan)
	if f != nil {
		t.Cleanup(func() {
			if closed := f.Close(); closed != nil {
				t.Errorf("Close() = %v", closed)
			}
		})
	}
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	return f
}

func TestAClientOfEachProtocolAndMechanismComesUp(t *testing.T) {
	pki := newAuthority(t)
	mutual := pki.serverConfig.Clone()
	mutual.ClientAuth = tls.RequireAndVerifyClientCert
	trust := fleet.TLS{CA: pki.ca}
	both := fleet.TLS{CA: pki.ca, Certificate: pki.clientCert, Key: pki.clientKey}
	sasl := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "a"), kfake.Superuser("SCRAM-SHA-256", "bob", "b"), kfake.Superuser("SCRAM-SHA-512", "carol", "c")}
	for _, test := range []struct {
		name  string
		opts  []kfake.Opt
		group fleet.Group
	}{
		{"plaintext", nil, fleet.Group{Protocol: fleet.Plaintext}},
		{"tls", []kfake.Opt{kfake.TLS(pki.serverConfig)}, fleet.Group{Protocol: fleet.SSL, TLS: trust}},
		{"tls 1.2", []kfake.Opt{kfake.TLS(pki.serverConfig)}, fleet.Group{Protocol: fleet.SSL, TLS: fleet.TLS{CA: pki.ca, MaxVersion: tls.VersionTLS12}}},
		{"tls unverified", []kfake.Opt{kfake.TLS(pki.serverConfig)}, fleet.Group{Protocol: fleet.SSL}},
		{"mutual tls", []kfake.Opt{kfake.TLS(mutual)}, fleet.Group{Protocol: fleet.SSL, TLS: both}},
		{"plain", sasl, fleet.Group{Protocol: fleet.SASLPlaintext, Username: "alice", Password: "a"}},
		{"scram 256", sasl, fleet.Group{Protocol: fleet.SASLPlaintext, Username: "bob", Password: "b", Mechanism: fleet.ScramSHA256}},
		{"scram 512 over tls", append(sasl, kfake.TLS(pki.serverConfig)), fleet.Group{Protocol: fleet.SASLSSL, TLS: trust, Username: "carol", Password: "c", Mechanism: fleet.ScramSHA512}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			group := test.group
			group.Name, group.Count, group.Target = test.name, 20, kafka(t, test.opts...)
			group.Software, group.SoftwareVersion, group.ClientID = "fleet-test", "1.0", "c"
			group.Source = fleet.Loopback(netip.MustParsePrefix("127.3.0.0/24"))
			f := open(t, fleet.Plan{Groups: []fleet.Group{group}})
			g.Expect(f.FirstError()).NotTo(HaveOccurred())
			g.Expect(f.Stats()).To(HaveField("Up", 20))
			for _, r := range f.Records() {
				g.Expect(r.Local.Addr()).To(Equal(fleet.Nth(netip.MustParsePrefix("127.3.0.0/24"), r.Index)))
				g.Expect(r.Local.Port()).NotTo(BeZero())
				g.Expect(r.Phase).To(Equal(fleet.Held))
				g.Expect(r.Hello).To(BeZero())
				g.Expect(r.Software).To(Equal("fleet-test"))
				g.Expect(r.Connect).To(BeNumerically(">", 0))
				g.Expect(r.First).To(BeNumerically(">", r.Connect))
				g.Expect(r.Ready).To(BeNumerically(">=", r.First))
				g.Expect(r.TLS != 0).To(Equal(group.Protocol.TLS()))   //nolint:ginkgolinter // both ways are expected
				g.Expect(r.SASL != 0).To(Equal(group.Protocol.SASL())) //nolint:ginkgolinter // both ways are expected
			}
			// A held connection still works: one request over it.
			req := kmsg.NewPtrMetadataRequest()
			req.Version = 12
			resp, err := f.Call(t.Context(), 3, req)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(resp.(*kmsg.MetadataResponse).Brokers).To(HaveLen(1))
			g.Expect(f.Stats()).To(HaveField("Up", 20))
		})
	}
}

func TestWrongCredentialsAndUntrustedCertificatesAreToldApart(t *testing.T) {
	g := NewWithT(t)
	pki, other := newAuthority(t), newAuthority(t)
	mutual := pki.serverConfig.Clone()
	mutual.ClientAuth = tls.RequireAndVerifyClientCert
	sasl := kafka(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "a"), kfake.Superuser("SCRAM-SHA-256", "bob", "b"))
	f := open(t, fleet.Plan{Groups: []fleet.Group{
		{Name: "password", Count: 2, Target: sasl, Protocol: fleet.SASLPlaintext, Username: "alice", Password: "wrong"},
		{Name: "scram", Count: 2, Target: sasl, Protocol: fleet.SASLPlaintext, Username: "bob", Password: "wrong", Mechanism: fleet.ScramSHA256},
		{Name: "trust", Count: 2, Target: kafka(t, kfake.TLS(pki.serverConfig)), Protocol: fleet.SSL, TLS: fleet.TLS{CA: other.ca}},
		{Name: "no certificate", Count: 2, Target: kafka(t, kfake.TLS(mutual)), Protocol: fleet.SSL, TLS: fleet.TLS{CA: pki.ca}},
		{Name: "plaintext to tls", Count: 2, Target: kafka(t, kfake.TLS(pki.serverConfig)), Protocol: fleet.Plaintext},
	}})
	want := map[string]fleet.Outcome{
		"trust": fleet.TLSFailed, "no certificate": fleet.TLSFailed,
	}
	for _, r := range f.Records() {
		if outcome, ok := want[r.Group]; ok {
			g.Expect(r.Outcome).To(Equal(outcome), "%s: %+v", r.Group, r)
		}
		if r.Group == "password" || r.Group == "scram" {
			g.Expect(r.Phase).To(Equal(fleet.Authenticating)) // the engine closes; a broker answers first
		}
		g.Expect(r.Err()).To(HaveOccurred(), r.Group)
		g.Expect(r.Connect).To(BeNumerically(">", 0), r.Group)
	}
	g.Expect(f.FirstError()).To(MatchError(ContainSubstring("client 0 of group")))
}

func TestAPinnedCertificateIsTheOnlyOneThatIsTaken(t *testing.T) {
	g := NewWithT(t)
	pki, other := newAuthority(t), newAuthority(t)
	target := kafka(t, kfake.TLS(pki.serverConfig))
	pin := func(a authority) fleet.TLS {
		block := &pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate[0]}
		return fleet.TLS{Pin: string(pem.EncodeToMemory(block)), ServerName: "not.its.name"}
	}
	f := open(t, fleet.Plan{Groups: []fleet.Group{
		{Name: "its own", Count: 2, Target: target, Protocol: fleet.SSL, TLS: pin(pki)},
		{Name: "another", Count: 2, Target: target, Protocol: fleet.SSL, TLS: pin(other)},
	}})
	for _, r := range f.Records() {
		want := map[string]fleet.Outcome{"its own": fleet.Up, "another": fleet.TLSFailed}[r.Group]
		g.Expect(r.Outcome).To(Equal(want), "%s: %+v", r.Group, r)
	}
	bad := fleet.Plan{Groups: []fleet.Group{{Count: 1, Target: target, Protocol: fleet.SSL, TLS: fleet.TLS{Pin: "x"}}}}
	none, err := fleet.Open(t.Context(), bad)
	g.Expect(err).To(MatchError(ContainSubstring("pinned")))
	g.Expect(none.Close()).To(Succeed())
}

// accept serves each connection with serve and closes the listener at the end.
func accept(t *testing.T, serve func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

func TestHowTheBrokerEndsAClientIsRecorded(t *testing.T) {
	for _, test := range []struct {
		name   string
		linger int
		want   fleet.Outcome
	}{{"FIN", -1, fleet.ClosedByBroker}, {"RST", 0, fleet.Reset}} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			held := make(chan *net.TCPConn, 10)
			target := accept(t, func(c *net.TCPConn) { held <- c })
			f := open(t, fleet.Plan{Groups: []fleet.Group{{Count: 10, Target: target, Protocol: fleet.Plaintext, Behaviour: fleet.Silent}}})
			g.Expect(f.Stats()).To(HaveField("Up", 10))
			for range 10 {
				c := <-held
				g.Expect(c.SetLinger(test.linger)).To(Succeed())
				g.Expect(c.Close()).To(Succeed())
			}
			g.Eventually(func() int { return f.Stats().Outcomes[test.want] }, time.Minute, 5*time.Millisecond).Should(Equal(10))
			for _, r := range f.Records() {
				g.Expect(r.Ended).To(BeTemporally(">", r.Started))
				g.Expect(r.Phase).To(Equal(fleet.Held))
			}
		})
	}
}

func TestAClientLeavesInTheChosenWay(t *testing.T) {
	for _, how := range []fleet.How{fleet.FIN, fleet.RST, fleet.Vanish} {
		t.Run(string(how), func(t *testing.T) {
			if how == fleet.Vanish && os.Geteuid() != 0 {
				t.Skip("TCP_REPAIR needs CAP_NET_ADMIN")
			}
			g := NewWithT(t)
			held := make(chan *net.TCPConn, 1)
			target := accept(t, func(c *net.TCPConn) { held <- c })
			f := open(t, fleet.Plan{Groups: []fleet.Group{{Count: 1, Target: target, Protocol: fleet.Plaintext, Behaviour: fleet.Silent}}})
			c := <-held
			defer func() { _ = c.Close() }()
			g.Expect(f.CloseWhere(nil, how)).To(Equal(1))
			g.Expect(f.Records()[0]).To(And(HaveField("Outcome", fleet.ClosedByClient), HaveField("How", how)))
			read := make(chan error, 1)
			go func() {
				_, err := c.Read(make([]byte, 1))
				read <- err
			}()
			switch how {
			case fleet.FIN:
				g.Eventually(read, time.Minute).Should(Receive(MatchError(io.EOF)))
			case fleet.RST:
				g.Eventually(read, time.Minute).Should(Receive(MatchError(ContainSubstring("connection reset"))))
			case fleet.Vanish:
				g.Consistently(read, 200*time.Millisecond).ShouldNot(Receive())
				g.Expect(c.CloseRead()).To(Succeed())
				g.Eventually(read, time.Minute).Should(Receive())
			}
		})
	}
}

func TestHalfOpenClientsSayWhatTheyShouldAndNoMore(t *testing.T) {
	g := NewWithT(t)
	heard := make(chan []byte, 10)
	target := accept(t, func(c *net.TCPConn) {
		defer func() { _ = c.Close() }()
		_ = c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		b, _ := io.ReadAll(c)
		heard <- b
	})
	for _, test := range []struct {
		group fleet.Group
		want  func([]byte) bool
	}{
		{fleet.Group{Behaviour: fleet.Silent}, func(b []byte) bool { return len(b) == 0 }},
		{fleet.Group{Behaviour: fleet.HalfHello}, func(b []byte) bool {
			return len(b) > 50 && bytes.HasPrefix(b, []byte{22, 3}) && int(b[3])<<8|int(b[4])+5 > len(b)
		}},
		{fleet.Group{Behaviour: fleet.Raw, Payload: []byte("hello"), Segment: 1}, func(b []byte) bool { return string(b) == "hello" }},
	} {
		group := test.group
		group.Count, group.Target, group.Protocol = 1, target, fleet.SSL
		f := open(t, fleet.Plan{Groups: []fleet.Group{group}})
		g.Expect(f.Records()[0].Outcome).To(Equal(fleet.Up))
		var b []byte
		g.Eventually(heard, time.Minute).Should(Receive(&b))
		g.Expect(test.want(b)).To(BeTrue(), "%s said %x", group.Behaviour, b)
	}

	sasl := kafka(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "alice", "a"))
	f := open(t, fleet.Plan{Groups: []fleet.Group{{Count: 3, Target: sasl, Protocol: fleet.SASLPlaintext, Behaviour: fleet.HalfSASL}}})
	g.Expect(f.Records()).To(HaveEach(And(HaveField("Outcome", fleet.Up), HaveField("SASL", BeZero()), HaveField("Requests", int64(2)))))
}

func TestBehavioursRepeatUntilTheClientLeaves(t *testing.T) {
	g := NewWithT(t)
	target := kafka(t)
	f := open(t, fleet.Plan{Groups: []fleet.Group{
		{Name: "metadata", Count: 5, Target: target, Protocol: fleet.Plaintext, Behaviour: fleet.Metadata, Every: 10 * time.Millisecond},
		{Name: "produce", Count: 5, Target: target, Protocol: fleet.Plaintext, Behaviour: fleet.Produce, Topic: "t", Every: 10 * time.Millisecond},
		{Name: "lost", Count: 1, Target: target, Protocol: fleet.Plaintext, Behaviour: fleet.Produce, Topic: "no-such-topic", Every: 10 * time.Millisecond},
	}})
	g.Eventually(f.Records, time.Minute, 10*time.Millisecond).Should(HaveEach(HaveField("Requests", BeNumerically(">", 5))))
	for _, r := range f.Records() {
		g.Expect(r.Failures != 0).To(Equal(r.Group == "lost"), "%+v", r) //nolint:ginkgolinter // both ways are expected
	}
	g.Expect(f.UpCount()).To(Equal(11))
	g.Expect(f.CloseWhere(nil, fleet.FIN)).To(Equal(11))
	g.Expect(f.Stats()).To(And(HaveField("Up", 0), HaveField("Outcomes", Equal(map[fleet.Outcome]int{fleet.ClosedByClient: 11}))))
	g.Expect(f.UpCount()).To(BeZero())
	g.Expect(f.Latencies()[fleet.RequestLatency].TotalCount()).To(BeNumerically(">", 10))
}

func TestARefusedClientIsNotAShortage(t *testing.T) {
	g := NewWithT(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	target := netip.MustParseAddrPort(l.Addr().String())
	g.Expect(l.Close()).To(Succeed())
	f := open(t, fleet.Plan{Groups: []fleet.Group{{Count: 1, Target: target, Protocol: fleet.Plaintext}}})
	g.Expect(f.FirstError()).To(MatchError(ContainSubstring("refused (connect)")))
}

// scarce is a source that has run out of something.
type scarce struct {
	err  error
	port int
}

func (s scarce) Socket(family int) (int, error) {
	if s.err != nil {
		return -1, s.err
	}
	return fleet.Socket(family)
}
func (scarce) Addr(int) netip.Addr            { return netip.MustParseAddr("127.0.0.1") }
func (s scarce) PortRange() (int, int, error) { return 1, s.port, nil }

func TestShortagesAreFoundBeforeTheFirstSocket(t *testing.T) {
	g := NewWithT(t)
	one := fleet.Group{Count: 1, Target: netip.MustParseAddrPort("127.0.0.1:1"), Protocol: fleet.Plaintext}
	short := func(g fleet.Group) error {
		f, err := fleet.Open(t.Context(), fleet.Plan{Groups: []fleet.Group{g}})
		if f != nil {
			_ = f.Close()
		}
		return err
	}
	many := one
	many.Count = 1 << 30
	g.Expect(short(many)).To(MatchError(And(ContainSubstring("file descriptors"), ContainSubstring("bytes of memory"), ContainSubstring("ports from"))))
	ports := one
	ports.Count, ports.Source = 11, scarce{port: 10}
	err := short(ports)
	shortage, ok := errors.AsType[*fleet.ShortageError](err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(shortage).To(And(HaveField("Need", int64(11)), HaveField("Have", int64(10))))
}

func TestRunningOutWhileOpeningIsTheClientsShortage(t *testing.T) {
	g := NewWithT(t)
	group := fleet.Group{Count: 1, Target: netip.MustParseAddrPort("127.0.0.1:1"), Protocol: fleet.Plaintext}
	group.Source = scarce{err: os.NewSyscallError("socket", errAddrNotAvail), port: 10}
	f := open(t, fleet.Plan{Groups: []fleet.Group{group}})
	g.Expect(f.Records()[0].Outcome).To(Equal(fleet.Shortage))
}

func TestAPlanTellsAllThatIsWrongWithIt(t *testing.T) {
	g := NewWithT(t)
	plan := fleet.Plan{Rate: -1, Groups: []fleet.Group{
		{Name: "a", Count: -1, Protocol: "TLS"},
		{Name: "b", Target: netip.MustParseAddrPort("127.0.0.1:1"), Protocol: fleet.SSL, Behaviour: fleet.HalfSASL, Mechanism: "GSSAPI", TLS: fleet.TLS{Key: "x"}},
		{Name: "c", Target: netip.MustParseAddrPort("127.0.0.1:1"), Protocol: fleet.SSL, Behaviour: fleet.Produce},
	}}
	for _, want := range []string{"negative", "is not an address and port", `protocol "TLS"`, "needs a SASL protocol", "GSSAPI", "come together", "time between"} {
		g.Expect(plan.Validate()).To(MatchError(ContainSubstring(want)))
	}
}

func TestACancelledOpeningEndsSoonAndLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	// Nobody accepts: the backlog of 1 fills up and the other clients stay in SYN_SENT.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	f, err := fleet.Open(ctx, fleet.Plan{Groups: []fleet.Group{{Count: 300, Target: netip.MustParseAddrPort(l.Addr().String()), Protocol: fleet.Plaintext}}})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(f.Stats().Outcomes).To(HaveKey(fleet.Abandoned))
	g.Expect(f.Stats().Outcomes).NotTo(HaveKey(fleet.Opening))
	g.Expect(f.Close()).To(Succeed())
}

func TestAChurnComesAndGoesAndEveryConnectionIsRecorded(t *testing.T) {
	g := NewWithT(t)
	target := kafka(t)
	f, err := fleet.New(0)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = f.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	g.Expect(f.Churn(ctx, fleet.Churn{
		Plan: fleet.Plan{Rate: 200, Groups: []fleet.Group{{Count: 1, Target: target, Protocol: fleet.Plaintext}}},
		Hold: 50 * time.Millisecond, How: []fleet.How{fleet.FIN, fleet.RST},
	})).To(Succeed())
	g.Eventually(func() int { return f.Stats().Up }, time.Minute, 10*time.Millisecond).Should(BeZero())
	s := f.Stats()
	g.Expect(s.Begun).To(BeNumerically(">", 10))
	g.Expect(s.Outcomes).To(Equal(map[fleet.Outcome]int{fleet.ClosedByClient: s.Begun}))
	ways := map[fleet.How]int{}
	for _, r := range f.Records() {
		ways[r.How]++
	}
	g.Expect(ways).To(And(HaveKey(fleet.FIN), HaveKey(fleet.RST), HaveLen(2)))
}

func TestAFleetInWorkersIsOneFleet(t *testing.T) {
	g := NewWithT(t)
	target := kafka(t)
	plan := func(prefix string) fleet.Plan {
		return fleet.Plan{Groups: []fleet.Group{{
			Name: prefix, Count: 10, Target: target, Protocol: fleet.Plaintext,
			From: &fleet.SourceSpec{Prefix: netip.MustParsePrefix(prefix)},
		}}}
	}
	w, err := fleet.OpenWorkers(t.Context(), []fleet.Plan{plan("127.1.0.0/24"), plan("127.2.0.0/24")}, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"=1")
		return cmd
	})
	g.Expect(err).NotTo(HaveOccurred())
	records, err := w.Records()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(records).To(And(HaveLen(20), HaveEach(HaveField("Outcome", fleet.Up))))
	first := slices.IndexFunc(records, func(r fleet.Record) bool { return r.Group == "127.2.0.0/24" })
	g.Expect(records[first].Local.Addr()).To(Equal(netip.MustParseAddr("127.2.0.1")))
	latencies, err := w.Latencies()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(latencies[fleet.ConnectLatency].TotalCount()).To(Equal(int64(20)))
	g.Expect(w.CloseAll(fleet.RST)).To(Equal(20))
	g.Expect(w.Close()).To(Succeed())
}

func TestAddressesOfAPrefixAreCountedInside(t *testing.T) {
	for _, test := range []struct {
		prefix string
		i      int
		want   string
	}{
		{"10.1.0.0/24", 0, "10.1.0.1"},
		{"10.1.0.0/24", 253, "10.1.0.254"},
		{"10.1.0.0/24", 254, "10.1.0.1"},
		{"10.1.0.0/16", 300, "10.1.1.45"},
		{"10.1.0.7/32", 5, "10.1.0.7"},
		{"10.1.0.6/31", 1, "10.1.0.7"},
		{"2001:db8::/64", 0, "2001:db8::1"},
		{"2001:db8::/64", 65535, "2001:db8::1:0"},
		{"::1/128", 9, "::1"},
	} {
		if got := fleet.Nth(netip.MustParsePrefix(test.prefix), test.i); got.String() != test.want {
			t.Errorf("Nth(%s, %d) = %v, want %s", test.prefix, test.i, got, test.want)
		}
	}
}

// TestThousandsOfTLSClientsFitInOneProcess holds the fleet to what it is for: no goroutine per client.
func TestThousandsOfTLSClientsHoldNoGoroutines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	g := NewWithT(t)
	pki := newAuthority(t)
	target := kafka(t, kfake.TLS(pki.serverConfig))
	before := goroutinesIn(t, "scenarios/fleet.")
	f := open(t, fleet.Plan{Groups: []fleet.Group{{
		Count: 2000, Target: target, Protocol: fleet.SSL, Source: fleet.Loopback(netip.MustParsePrefix("127.4.0.0/24")),
	}}})
	g.Expect(f.FirstError()).NotTo(HaveOccurred())
	g.Expect(f.Stats().Up).To(Equal(2000))
	g.Eventually(func() int { return goroutinesIn(t, "scenarios/fleet.") - before }, time.Minute, 10*time.Millisecond).Should(BeNumerically("<=", 4))
}

func goroutinesIn(t *testing.T, pkg string) int {
	t.Helper()
	b := make([]byte, 64<<20)
	n := 0
	for stack := range strings.SplitSeq(string(b[:stackOf(b)]), "\n\n") {
		if strings.Contains(stack, pkg) {
			n++
		}
	}
	return n
}

func TestNthOfAnInvalidPrefixLeavesItToTheKernel(t *testing.T) {
	if got := fleet.Nth(netip.Prefix{}, 3); got.IsValid() {
		t.Errorf("Nth of no prefix = %v, want an invalid address", strconv.Quote(got.String()))
	}
}

func TestWorkersTakeMoreClientsAndStopWhenToldTo(t *testing.T) {
	g := NewWithT(t)
	target, silent := kafka(t), deaf(t)
	group := func(target netip.AddrPort, count int) fleet.Plan {
		return fleet.Plan{Groups: []fleet.Group{{
			Name: "more", Count: count, Target: target, Protocol: fleet.Plaintext,
		}}, Timeout: time.Minute}
	}
	w, err := fleet.StartWorkers(t.Context(), 2, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"=1")
		return cmd
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.PIDs()).To(HaveLen(2))
	for range 2 {
		g.Expect(w.Add(t.Context(), []fleet.Plan{group(target, 5), group(target, 5)}, nil)).To(Succeed())
	}
	latencies, err := w.Latencies()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(latencies[fleet.FirstLatency].TotalCount()).To(Equal(int64(20)))

	// Nobody answers these: without a stop they would wait for a minute.
	var told fleet.Progress
	g.Expect(w.Add(t.Context(), []fleet.Plan{group(target, 1), group(silent, 3)}, func(p fleet.Progress) bool {
		told = p
		return p.Up < 21
	})).To(Succeed())
	g.Expect(told.Up).To(Equal(21))
	g.Expect(told.Failed).To(BeZero())
	g.Expect(w.Failures(0)).To(BeEmpty())
	latencies, err = w.Latencies()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(latencies[fleet.FirstLatency].TotalCount()).To(Equal(int64(1)), "those before were taken already")

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	g.Expect(w.Add(ctx, []fleet.Plan{group(silent, 3), group(silent, 3)}, nil)).To(MatchError(context.DeadlineExceeded))
	g.Expect(w.CloseSome(1, fleet.FIN)).To(Equal(2))
	g.Expect(w.CloseAll(fleet.RST)).To(Equal(19))
	g.Expect(w.Close()).To(Succeed())
}

// deaf is a listener that accepts in the kernel and never answers.
func deaf(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return netip.MustParseAddrPort(l.Addr().String())
}
