package hostile

import (
	"bytes"
	"net"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Clients that come in storms", Label("hostile"), func() {
	It("leave nothing behind and keep nobody from being served", func(ctx SpecContext) {
		f := newField(ctx)
		shake := kmsg.NewPtrSASLHandshakeRequest()
		shake.Version, shake.Mechanism = 1, "PLAIN"
		versions := kmsg.NewPtrApiVersionsRequest()
		versions.Version, versions.ClientSoftwareName, versions.ClientSoftwareVersion = 3, "storm", "1"
		f.endure(ctx,
			attack{name: "connect and reset", listener: "PLAINTEXT", count: many(3000), reason: "client_reset", do: resets},
			attack{name: "connect and reset, on TLS", listener: "SSL", count: many(3000), reason: "client_reset", do: resets},
			attack{name: "shake hands and reset", listener: "SSL", count: many(500), reason: "client_reset", do: func(a *assailant) error {
				if err := overTLS(says(nil))(a); err != nil {
					return err
				}
				return resets(a)
			}},
			attack{name: "connect, ask once, leave", listener: "PLAINTEXT", count: many(3000), reason: "client_closed", do: func(a *assailant) error { return a.ask(versions) }},
			attack{name: "1,000 SASL handshakes after authentication", listener: "SASL_PLAINTEXT", count: many(50), reason: "client_closed", do: loggedIn(f.password(), func(a *assailant) error {
				for range 1000 {
					if err := a.ask(shake); err != nil {
						return err
					}
				}
				return nil
			})},
			attack{name: "a request in single bytes", listener: "PLAINTEXT", count: many(500), reason: "client_closed", do: func(a *assailant) error {
				for _, b := range request(versions) {
					if _, err := a.Write([]byte{b}); err != nil {
						return err
					}
				}
				return a.answer()
			}},
			attack{name: "1,000 requests in one write, each answered", listener: "SSL", count: many(50), reason: "client_closed", do: overTLS(func(a *assailant) error {
				const requests = 1000
				go func() { _, _ = a.Write(bytes.Repeat(request(versions), requests)) }()
				for range requests {
					if err := a.answer(); err != nil {
						return err
					}
				}
				return nil
			})},
		)
	}, SpecTimeout(stage.Within(4*time.Minute)))
})

// resets ends the connection with RST instead of FIN.
func resets(a *assailant) error { return a.Conn.(*net.TCPConn).SetLinger(0) } //nolint:forcetypeassert // it was dialled by TCP
