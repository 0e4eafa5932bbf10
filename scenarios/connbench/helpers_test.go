package connbench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// workerEnv makes the test binary a fleet worker.
const workerEnv = "BROKERLAB_CONNBENCH_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		err := fleet.Serve(context.Background(), os.Stdin, os.Stdout, func(s fleet.SourceSpec) (fleet.Source, error) {
			return fleet.Loopback(s.Prefix), nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func worker(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), workerEnv+"=1"), os.Stderr
	return cmd
}

// store is a PEM key store for 127.0.0.1 in a file, and its certificate.
func store(t *testing.T) (path string, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	path = filepath.Join(t.TempDir(), "server.pem")
	if err = os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return path, cert
}

// against starts a broker with one listener of protocol and these properties, and returns options for a short run against it. Its
// process is the test's own.
func against(t *testing.T, protocol fleet.Protocol, properties ...string) *Options {
	t.Helper()
	name, security := "CLIENTS", string(protocol)
	properties = append(properties, "listeners="+name+"://127.0.0.1:0,INTERNAL://127.0.0.1:0", "inter.broker.listener.name=INTERNAL",
		"listener.security.protocol.map="+name+":"+security+",INTERNAL:PLAINTEXT")
	var trust *x509.Certificate
	if protocol.TLS() {
		var path string
		path, trust = store(t)
		properties = append(properties, "ssl.keystore.type=PEM", "ssl.keystore.location="+path)
	}
	b := admintest.Real(t, properties)
	addr := netip.MustParseAddrPort(b.Addr(name).String())
	o := &Options{
		Protocol: protocol, Steps: []int{5, 30}, Parallel: 16, Timeout: time.Second, Worker: worker,
		Sources: []fleet.SourceSpec{{Prefix: netip.MustParsePrefix("127.1.0.0/24")}},
	}
	target := Target{Name: addr.String(), Addr: addr, PID: os.Getpid()}
	dial := Dial((&net.Dialer{}).DialContext)
	clientDial := dial
	if trust != nil {
		roots := x509.NewCertPool()
		roots.AddCert(trust)
		config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		clientDial = dial.TLS(config)
		pin, err := Verify(t.Context(), dial, target.Name, addr, config)
		if err != nil {
			t.Fatal(err)
		}
		target.Pin = pin
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(target.Name), kgo.Dialer(clientDial), admin.Versions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	target.Control = &Cluster{
		Client: cl, Admin: admin.New(cl), Name: target.Name, Addr: addr, TLS: protocol.TLS(), Timeout: 10 * time.Second,
	}
	o.Targets = []Target{target}
	return o
}

// ran is the result of a run that has to begin.
func ran(t *testing.T, o *Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("Run() = %v", err)
	}
	return r
}
