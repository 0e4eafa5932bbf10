package network

import (
	"crypto/tls"
	"encoding/hex"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// lockOf is the lock that a slot is taken and given back under.
func lockOf(q *quota.Connections) *sync.Mutex {
	return (*sync.Mutex)(reflect.ValueOf(q).Elem().FieldByName("mu").Addr().UnsafePointer())
}

// establishedOn lists the peers of sockets of this namespace that are
// established on a local port.
func establishedOn(port uint16) (peers []string, err error) {
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		return nil, err
	}
	local := ":" + strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)}))
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], local) && f[3] == "01" {
			peers = append(peers, f[2])
		}
	}
	return peers, nil
}

// While the test holds the lock of the slots none can come back; the kernel
// closes the socket all the same. An order the other way round would wait here.
func TestASlotComesBackAfterTheKernelHasClosedTheSocket(t *testing.T) {
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		t.Run(l.Protocol.String(), func(t *testing.T) {
			l.IdleTimeout = 2 * time.Second
			s := serve(t, &echo{}, l, limited(quota.Default()))
			lock := lockOf(s.limits)
			for _, way := range []struct {
				name string
				end  func(net.Conn)
			}{
				{"FIN", func(conn net.Conn) { _ = conn.Close() }},
				{"RST", func(conn net.Conn) { _ = netConn(conn).SetLinger(0); _ = conn.Close() }},
				{"killed", func(net.Conn) { s.Close(s.only().ID()) }},
				{"frame", func(conn net.Conn) { _, _ = conn.Write([]byte{0xff, 0xff, 0xff, 0xff}) }},
				{"idleness", func(net.Conn) {}},
			} {
				var conn net.Conn = s.dial(t)
				if l.Protocol.TLS() {
					conn = tls.Client(conn, keys.clientConfig())
				}
				roundTrip(t, conn, []byte("served"))
				lock.Lock()
				way.end(conn)
				eventually(t, func() bool {
					open, err := establishedOn(s.addr.Port())
					return err == nil && len(open) == 0
				}, "the kernel to close the socket after %s, its slot being taken", way.name)
				lock.Unlock()
				s.wantSlots(t, 0, 0)
				_ = conn.Close()
			}
		})
	}
}

func netConn(conn net.Conn) *net.TCPConn {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	return conn.(*net.TCPConn)
}
