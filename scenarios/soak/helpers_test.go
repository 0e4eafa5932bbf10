//go:build soak

package soak

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
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
)

// number reads an environment variable that says how much to do.
func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number above 0", name, text)
	}
	return n
}

// progress prints a line now and then, and figures at the end, where a person sees them while the test runs.
type progress struct {
	what  string
	of    int
	begin time.Time
	last  time.Time
}

func newProgress(what string, of int) *progress {
	return &progress{what: what, of: of, begin: time.Now(), last: time.Now()}
}

// at says how far it is, at most every three seconds.
func (p *progress) at(n int, more string) {
	if time.Since(p.last) < 3*time.Second && n < p.of {
		return
	}
	p.last = time.Now()
	_, _ = fmt.Fprintf(os.Stderr, "%s: %d of %d (%d %%), %s%s\n", p.what, n, p.of, 100*n/p.of, time.Since(p.begin).Round(time.Second), more)
}

func (p *progress) summary(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "%s: done in %s: %s\n", p.what, time.Since(p.begin).Round(time.Second), fmt.Sprintf(format, args...))
}

// brokerlab is the binary, which `make soak` has built.
func brokerlab(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(os.Getenv("BROKERLAB_BINARY"))
	if err != nil || os.Getenv("BROKERLAB_BINARY") == "" {
		t.Fatal("BROKERLAB_BINARY must name brokerlab's binary; make soak sets it")
	}
	return path
}

// process is a broker of a properties file.
type process struct {
	cmd *exec.Cmd
	log *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startBroker runs `brokerlab broker`. It is killed with the test at the latest.
func startBroker(t *testing.T, config string) *process {
	t.Helper()
	p := &process{exec.CommandContext(context.WithoutCancel(t.Context()), brokerlab(t), "broker", "--config", config, "--log-level", "WARN"), &lockedBuffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text := p.log.String()
			t.Logf("the broker said:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone
	_ = p.cmd.Wait()
}

// files is how many file descriptors it has open.
func (p *process) files(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// resident is its resident memory in bytes.
func (p *process) resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// newClient is a client that tries for as long as its context lasts.
func newClient(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		admin.Versions(), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// untilAnswers waits until c's broker answers.
func untilAnswers(t *testing.T, c *kgo.Client) {
	t.Helper()
	until(t, "the broker answers", func() bool {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		return c.Ping(ctx) == nil
	})
}

// until polls for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		if ok() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

// metric is a series of a broker's metrics, or the sum of those that differ in labels only; 0 if it has none.
func metric(t *testing.T, address, name string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if series, value, ok := strings.Cut(line, " "); ok && (series == name || strings.HasPrefix(series, name+"{")) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				t.Fatalf("metric %s = %q", name, value)
			}
			sum += v
		}
	}
	return sum
}

// settled waits a moment: the time of a kill is the point of a round, not a condition.
func settled(ctx context.Context, d time.Duration) {
	wait, stop := context.WithTimeout(ctx, d)
	defer stop()
	<-wait.Done()
}

// selfSigned writes a key store, PEM, of a certificate that nobody vouches for.
func selfSigned(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	store := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	path := filepath.Join(t.TempDir(), "keystore.pem")
	if err := os.WriteFile(path, store, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
