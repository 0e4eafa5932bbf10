package network

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// kernelView is a Limits that looks, whenever a slot comes back, whether the
// kernel still has the socket established.
type kernelView struct {
	port uint16

	mu       sync.Mutex
	released int
	wrong    []string
}

func (k *kernelView) Acquire(context.Context, string, netip.Addr, Protocol) (func(), error) {
	return func() {
		open, err := establishedOn(k.port)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.released++
		if err != nil || len(open) > 0 {
			k.wrong = append(k.wrong, fmt.Sprint(open, err))
		}
	}, nil
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

func TestASlotComesBackAfterTheKernelHasClosedTheSocket(t *testing.T) {
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		t.Run(l.Protocol.String(), func(t *testing.T) {
			l.IdleTimeout = 2 * time.Second
			view := &kernelView{}
			s := serve(t, &echo{}, l, func(o *Options) {
				o.Limits = view
				o.BeforeListen = func(port int) error {
					view.port = uint16(port)
					return nil
				}
			})
			ways := map[string]func(net.Conn){
				"FIN":    func(conn net.Conn) { _ = conn.Close() },
				"RST":    func(conn net.Conn) { _ = netConn(conn).SetLinger(0); _ = conn.Close() },
				"killed": func(net.Conn) { s.only().Close(ReasonKilled) },
				"frame":  func(conn net.Conn) { _, _ = conn.Write([]byte{0xff, 0xff, 0xff, 0xff}) },
			}
			const rounds = 3 // the kernel's table may be long, and is read at each close
			total := 0
			for round := range rounds + 1 {
				if round == rounds {
					ways = map[string]func(net.Conn){"idleness": func(net.Conn) {}}
				}
				for name, end := range ways {
					var conn net.Conn = s.dial(t)
					if l.Protocol.TLS() {
						conn = tls.Client(conn, keys.clientConfig())
					}
					roundTrip(t, conn, []byte("served"))
					end(conn)
					_, _ = io.ReadAll(conn)
					total++
					eventually(t, func() bool {
						view.mu.Lock()
						defer view.mu.Unlock()
						return view.released == total
					}, "the slot after %s to come back", name)
				}
			}
			view.mu.Lock()
			defer view.mu.Unlock()
			if len(view.wrong) > 0 {
				t.Errorf("%d of %d slots came back while the kernel had the socket established: %v", len(view.wrong), total, view.wrong[0])
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
