package hostile

import (
	"crypto/tls"
	"encoding/binary"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Clients that stop in the middle", Label("hostile"), func() {
	It("are ended when they have been idle for long enough, 5,000 half handshakes among them", func(ctx SpecContext) {
		f := newField(ctx, "connections.max.idle.ms=4000")
		hello, err := fleet.ClientHello(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // an attacker does not care whom it talks to
		Expect(err).NotTo(HaveOccurred())
		shake := kmsg.NewPtrSASLHandshakeRequest()
		shake.Version, shake.Mechanism = 1, "PLAIN"
		f.endure(ctx,
			attack{name: "no byte at all, on TLS", listener: "SSL", count: many(1000), reason: "idle", do: says(nil)},
			attack{name: "half a ClientHello", listener: "SSL", count: many(5000), reason: "idle", do: says(hello[:len(hello)/2])},
			attack{name: "a ClientHello and nothing more", listener: "SSL", count: many(1000), reason: "idle", do: says(hello)},
			attack{name: "a handshake and nothing more", listener: "SSL", count: many(500), reason: "idle", do: overTLS(says(nil))},
			attack{name: "half a length", listener: "PLAINTEXT", count: many(1000), reason: "idle", do: says([]byte{0, 0})},
			attack{name: "half a request", listener: "PLAINTEXT", count: many(1000), reason: "idle", do: says(append(binary.BigEndian.AppendUint32(nil, 4096), header(3, 1)...))},
			attack{name: "a SASL handshake without a token", listener: "SASL_PLAINTEXT", count: many(1000), reason: "idle", do: func(a *assailant) error { return a.ask(shake) }},
			attack{name: "a SASL handshake without a token, inside TLS", listener: "SASL_SSL", count: many(500), reason: "idle", do: overTLS(func(a *assailant) error { return a.ask(shake) })},
		)
	}, SpecTimeout(stage.Within(5*time.Minute)))
})
