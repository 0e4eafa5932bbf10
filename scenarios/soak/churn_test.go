//go:build soak

package soak

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/admin"
)

const (
	churnPlain   = "127.0.0.1:29821"
	churnSASL    = "127.0.0.1:29822"
	churnMetrics = "127.0.0.1:29823"
	churnTLS     = "127.0.0.1:29824"
	churnSASLTLS = "127.0.0.1:29825"
)

// what is what a broker holds.
type what struct {
	files, goroutines, listed, resident int
}

// A million clients come over all four protocols, say ApiVersions, some authenticate, and leave by FIN or RST; in between some only
// connect, and some stop in the middle of SASL. Afterwards the broker has the files, goroutines and listed connections of before, and the kernel counts none.
func TestAMillionConnectionsLeaveNothing(t *testing.T) {
	total := number(t, "SOAK_CONNECTIONS", 1_000_000)
	dir := t.TempDir()
	config := filepath.Join(dir, "server.properties")
	const alice = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";"
	properties := "node.id=1\nlisteners=PLAINTEXT://" + churnPlain + ",SASL_PLAINTEXT://" + churnSASL +
		",SSL://" + churnTLS + ",SASL_SSL://" + churnSASLTLS + "\nssl.keystore.type=PEM\nssl.keystore.location=" + selfSigned(t) + "\nsasl.enabled.mechanisms=PLAIN\n" +
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=" + alice + "\nlistener.name.sasl_ssl.plain.sasl.jaas.config=" + alice + "\n" +
		"metrics.listener=" + churnMetrics + "\nsocket.listen.backlog.size=4096\nlog.dirs=" + dir + "/data\n"
	if err := os.WriteFile(config, []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startBroker(t, config)
	c := newClient(t, kgo.SeedBrokers(churnPlain))
	until(t, "the broker answers", func() bool { return c.Ping(t.Context()) == nil })
	a := admin.New(c)
	look := func() what {
		rows, err := a.ListClientConnections(t.Context(), admin.ListFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return what{b.files(t), int(metric(t, churnMetrics, "go_goroutines")), len(rows), b.resident(t)}
	}
	before, most := look(), 0
	p := newProgress("churn", total)
	var (
		n       atomic.Int64
		working sync.WaitGroup
		failed  = make(chan error, 64)
	)
	for worker := range 64 {
		working.Go(func() {
			for i := n.Add(1); i <= int64(total); i = n.Add(1) {
				if err := visit(t.Context(), worker, i); err != nil {
					failed <- fmt.Errorf("connection %d: %w", i, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-tick.C:
			now := b.resident(t)
			most = max(most, now)
			p.at(int(min(n.Load(), int64(total))), fmt.Sprintf(", broker's VmRSS %d MiB", now>>20))
		}
	}
	close(failed)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	took := time.Since(p.begin)
	var after what
	until(t, "files, goroutines and the list are as before", func() bool {
		after = look()
		return after.files <= before.files+1 && after.goroutines <= before.goroutines+4 && after.listed <= before.listed
	})
	const room = 32 << 20
	until(t, "memory has settled", func() bool {
		after = look()
		return after.resident <= before.resident+room
	})
	established := metric(t, churnMetrics, "brokerlab_kernel_established")
	if int(established) > before.listed {
		t.Errorf("the kernel counts %v established, want at most %d", established, before.listed)
	}
	if closed := int(metric(t, churnMetrics, "brokerlab_connections_closed_total")); closed < total*95/100 {
		t.Errorf("the broker counts %d closed connections of %d", closed, total) // those that leave before accept are not its own
	}
	p.summary("%d connections, %.0f a second; before: %d files, %d goroutines, %d listed, VmRSS %d MiB; after: %d, %d, %d, %d MiB (most %d MiB); kernel: %.0f established",
		total, float64(total)/took.Seconds(), before.files, before.goroutines, before.listed, before.resident>>20,
		after.files, after.goroutines, after.listed, after.resident>>20, most>>20, established)
}

// visit is one connection from an address of the loopback network. One in ten is over TLS, one in twenty authenticates, half of those
// over TLS; every other is reset at its end, and some say nothing or stop in the middle.
func visit(ctx context.Context, worker int, i int64) error {
	target, s := churnPlain, speech{}
	switch {
	case i%20 == 5:
		target, s = churnTLS, speech{tls: true}
	case i%40 == 10:
		target, s = churnSASL, speech{sasl: true}
	case i%40 == 30:
		target, s = churnSASLTLS, speech{tls: true, sasl: true}
	}
	tcp, err := dialFrom(ctx, net.IPv4(127, 1, byte(worker), byte(1+i%250)), target)
	if err != nil {
		return err
	}
	defer func() { _ = tcp.Close() }()
	return converse(tcp, s, i)
}

// dialFrom connects from an address of the loopback network.
func dialFrom(ctx context.Context, from net.IP, target string) (net.Conn, error) {
	d := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: from},
		Control: func(_, _ string, c syscall.RawConn) error {
			var set error
			return errors.Join(c.Control(func(fd uintptr) {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
			}), set)
		},
	}
	return d.DialContext(ctx, "tcp", target)
}

// speech is what a listener wants to hear.
type speech struct{ tls, sasl bool }

// converse is what the i-th connection says before it leaves.
func converse(tcp net.Conn, s speech, i int64) error {
	if i%2 == 0 {
		if err := tcp.(*net.TCPConn).SetLinger(0); err != nil { //nolint:forcetypeassert // dialled as TCP
			return err
		}
	}
	if i%17 == 0 {
		return nil // says nothing
	}
	if err := tcp.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	conn := tcp
	if s.tls {
		conn = tls.Client(tcp, &tls.Config{InsecureSkipVerify: true})
	}
	if err := ask(conn, apiVersions()); err != nil {
		return err
	}
	if !s.sasl {
		return nil
	}
	if i%60 == 10 { // leaves in the middle
		_, err := conn.Write([]byte{0, 0, 0, 17, 0, 17, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0, 5, 'P'})
		return err
	}
	if err := ask(conn, append([]byte{0, 17, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0, 5}, "PLAIN"...)); err != nil {
		return err
	}
	const token = "\x00alice\x00secret"
	return ask(conn, append([]byte{0, 36, 0, 1, 0, 0, 0, 3, 0xff, 0xff, 0, 0, 0, byte(len(token))}, token...))
}

// apiVersions is an ApiVersions request without a client id.
func apiVersions() []byte { return []byte{0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff} }

// ask sends a request and reads its answer.
func ask(conn net.Conn, request []byte) error {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:])))
	return err
}
