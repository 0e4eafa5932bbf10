package network

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"testing"
)

func TestEchoesFramesOfAnySizeOverPlaintext(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext})
	conn := s.dial(t)
	for _, size := range []int{1, 100, 16 << 10, 65532, 65533, 1 << 20, 5 << 20} {
		roundTrip(t, conn, bytes.Repeat([]byte{byte(size)}, size))
	}
}

func TestEchoesFramesOfAnySizeOverTLS(t *testing.T) {
	keys := newPKI(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			s := serve(t, &echo{}, keys.tlsListener())
			config := keys.clientConfig()
			config.MaxVersion = version
			conn := s.dialTLS(t, config)
			for _, size := range []int{1, 100, 16 << 10, 65532, 65533, 1 << 20, 5 << 20} {
				roundTrip(t, conn, bytes.Repeat([]byte{byte(size)}, size))
			}
			for c := range s.Connections() {
				if got := c.TLS(); got == nil || got.Version != version || got.ServerName != "broker.test" {
					t.Errorf("TLS() = %+v, want version %x", got, version)
				}
			}
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrderOneAtATime(t *testing.T) {
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		for _, how := range []string{"at once", "from another goroutine"} {
			t.Run(fmt.Sprint(l.Protocol, " ", how), func(t *testing.T) {
				handler := &echo{}
				if how != "at once" {
					handler.onFrame = func(c *Conn, frame []byte) {
						go c.Reply(framed(bytes.Clone(frame)))
					}
				}
				s := serve(t, handler, l)
				var conn interface {
					Read([]byte) (int, error)
					Write([]byte) (int, error)
				} = nil
				if l.Protocol.TLS() {
					conn = s.dialTLS(t, keys.clientConfig())
				} else {
					conn = s.dial(t)
				}
				var all []byte
				for i := range 500 {
					all = append(all, framed(fmt.Appendf(nil, "request %d", i))...)
				}
				go func() { _, _ = conn.Write(all) }()
				for i := range 500 {
					wantFrame(t, conn, fmt.Appendf(nil, "request %d", i))
				}
			})
		}
	}
}
