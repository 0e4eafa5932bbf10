package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// server is a process under measurement with one listener.
type server struct {
	cmd  *exec.Cmd
	addr netip.AddrPort
	dir  string
	ca   string // PEM
}

// brokerBinary builds brokerlab unless BROKERLAB_BINARY names one.
func brokerBinary(b *testing.B) string {
	b.Helper()
	if path := os.Getenv("BROKERLAB_BINARY"); path != "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			b.Fatal(err)
		}
		return abs
	}
	path := filepath.Join(b.TempDir(), "brokerlab")
	build := exec.Command("go", "build", "-o", path, "github.com/brokerlab/brokerlab/cmd/brokerlab")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build brokerlab: %v\n%s", err, out)
	}
	return path
}

// startBroker starts `brokerlab broker` with one listener of protocol on a free port of 127.0.0.1.
func startBroker(b *testing.B, protocol string, lines ...string) *server {
	b.Helper()
	s := &server{dir: b.TempDir()}
	store := s.makeCertificate(b)
	s.addr = freeAddr(b)
	properties := strings.Join(append([]string{
		"node.id=1",
		fmt.Sprintf("listeners=%s://%s", protocol, s.addr),
		"ssl.keystore.type=PEM",
		"ssl.keystore.location=" + store,
		"log.dirs=" + s.dir + "/data",
		"kernel.accounting=off",
	}, lines...), "\n")
	config := filepath.Join(s.dir, "server.properties")
	if err := os.WriteFile(config, []byte(properties), 0o600); err != nil {
		b.Fatal(err)
	}
	s.start(b, brokerCommand(b, config))
	return s
}

// brokerCommand is a broker of a properties file.
func brokerCommand(b *testing.B, config string) *exec.Cmd {
	b.Helper()
	return exec.Command(brokerBinary(b), "broker", "--config", config)
}

// startPlainGo starts a server to compare with: crypto/tls with a goroutine a connection, see serveGoroutines.
func startPlainGo(b *testing.B, comparison string) *server {
	b.Helper()
	s := &server{dir: b.TempDir()}
	store := s.makeCertificate(b)
	s.addr = freeAddr(b)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), comparisonEnv+"="+s.addr.String()+" "+store+" "+comparison)
	s.start(b, cmd)
	return s
}

// start runs cmd, waits until it accepts connections and ends it with the benchmark.
func (s *server) start(b *testing.B, cmd *exec.Cmd) {
	b.Helper()
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		b.Fatalf("start %s: %v", cmd.Path, err)
	}
	s.cmd = cmd
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if b.Failed() {
			b.Logf("%s said:\n%s", cmd.Path, tail(log.String(), 4000))
		}
	})
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	if err := waitAccepting(ctx, s.addr); err != nil {
		b.Fatalf("%s: %v", cmd.Path, err)
	}
}

// waitAccepting polls addr until it takes a connection.
func waitAccepting(ctx context.Context, addr netip.AddrPort) error {
	return poll(ctx, addr, net.Conn.Close)
}

// waitAnswering polls addr until it has answered an ApiVersions request.
func waitAnswering(ctx context.Context, addr netip.AddrPort) error {
	return poll(ctx, addr, func(c net.Conn) error {
		apiVersionsV0 := []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}
		_, err := c.Write(apiVersionsV0)
		if err == nil {
			_, err = io.ReadFull(c, make([]byte, 8)) // size and correlation id
		}
		return errors.Join(err, c.Close())
	})
}

// poll connects until it can, and then does act.
func poll(ctx context.Context, addr netip.AddrPort, act func(net.Conn) error) error {
	var d net.Dialer
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		c, err := d.DialContext(ctx, "tcp", addr.String())
		if err == nil {
			return act(c)
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// memory is the resident set of the process in bytes, anonymous pages only: what connections cost, not mapped files.
func (s *server) memory(b *testing.B) int64 {
	b.Helper()
	return s.status(b, "RssAnon:")
}

// status is a size in bytes of /proc/PID/status.
func (s *server) status(b *testing.B, field string) int64 {
	b.Helper()
	f, err := os.Open("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/status")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), field); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb << 10
		}
	}
	b.Fatalf("no %s in /proc/PID/status", field)
	return 0
}

// cpu is the processor time that all threads of the process have had, to the nanosecond.
func (s *server) cpu(b *testing.B) time.Duration {
	b.Helper()
	const ofProcess = 2 // CPUCLOCK_SCHED of linux/posix-timers.h: what the scheduler gave it
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^s.cmd.Process.Pid<<3|ofProcess), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// settled is the memory once it has not fallen for three seconds: a server gives pages back some time after a burst.
func (s *server) settled(b *testing.B) int64 {
	b.Helper()
	low, since := s.memory(b), time.Now()
	for tick := time.NewTicker(100 * time.Millisecond); ; <-tick.C {
		if now := s.memory(b); now < low-64<<10 {
			low, since = now, time.Now()
		}
		if time.Since(since) > 3*time.Second {
			tick.Stop()
			return low
		}
	}
}

func (s *server) makeCertificate(b *testing.B) (store string) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	store = filepath.Join(s.dir, "server.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), s.ca...)
	if err := os.WriteFile(store, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return store
}

func freeAddr(b *testing.B) netip.AddrPort {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
