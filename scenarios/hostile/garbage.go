package hostile

import (
	"bytes"
	"crypto/tls"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Clients that talk nonsense", Label("hostile"), func() {
	It("are ended with the reason, before authentication and after it", func(ctx SpecContext) {
		f := newField(ctx)
		const hundred = 100
		hello, err := fleet.ClientHello(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // an attacker does not care whom it talks to
		Expect(err).NotTo(HaveOccurred())
		noise := make([]byte, 4096)
		source := rand.NewChaCha8([32]byte{byte(GinkgoRandomSeed())})
		_, _ = source.Read(noise) // never fails
		http := []byte("GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Version = 1
		unknown, future := frame(header(9999, 0)), frame(header(3, 99))
		f.endure(ctx,
			attack{name: "HTTP on a plaintext listener", listener: "PLAINTEXT", count: many(hundred), reason: "oversize_frame", do: says(http)},
			attack{name: "HTTP on a TLS listener", listener: "SSL", count: many(hundred), reason: "plaintext_on_tls", do: says(http)},
			attack{name: "Kafka on a TLS listener", listener: "SSL", count: many(hundred), reason: "plaintext_on_tls", do: says(request(metadata))},
			attack{name: "SSH on a TLS listener", listener: "SASL_SSL", count: many(hundred), reason: "plaintext_on_tls", do: says([]byte("SSH-2.0-OpenSSH_9.2\r\n"))},
			attack{name: "TLS on a plaintext listener", listener: "PLAINTEXT", count: many(hundred), reason: "tls_on_plaintext", do: says(hello)},
			attack{name: "TLS on a SASL listener without TLS", listener: "SASL_PLAINTEXT", count: many(hundred), reason: "tls_on_plaintext", do: says(hello)},
			attack{name: "a frame of noise", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(frame(append([]byte{0xff}, noise...)))},
			attack{name: "noise where a TLS record should be", listener: "SSL", count: many(hundred), reason: "tls_failed", do: says(append([]byte{22, 3, 1, 0, 200}, noise[:200]...))},
			attack{name: "noise into a TLS session", listener: "SSL", count: many(hundred), reason: "tls_failed", do: func(a *assailant) error {
				if err := overTLS(says(nil))(a); err != nil {
					return err
				}
				_, err := a.Write(append([]byte{23, 3, 3, 1, 0}, noise[:256]...))
				return err
			}},
			attack{name: "a frame of noise inside TLS", listener: "SSL", count: many(hundred), reason: "malformed_request", do: overTLS(says(frame(append([]byte{0xff}, noise...))))},
			attack{name: "an API that does not exist", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(unknown)},
			attack{name: "a version that does not exist", listener: "PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(future)},
			attack{name: "a request before authentication", listener: "SASL_PLAINTEXT", count: many(hundred), reason: "malformed_request", do: says(request(metadata))},
			attack{name: "a wrong password", listener: "SASL_PLAINTEXT", count: many(hundred), reason: "authentication_failed", do: loggedIn("wrong", says(nil))},
			attack{name: "a wrong password, inside TLS", listener: "SASL_SSL", count: many(hundred), reason: "authentication_failed", do: overTLS(loggedIn("wrong", says(nil)))},
			attack{name: "noise for a password", listener: "SASL_PLAINTEXT", count: many(hundred), reason: "authentication_failed", do: loggedIn(string(bytes.ReplaceAll(noise, []byte{0}, []byte{1})), says(nil))},
			attack{name: "noise after authentication", listener: "SASL_PLAINTEXT", count: many(hundred), reason: "malformed_request", do: loggedIn(f.password(), says(frame(append([]byte{0xff}, noise...))))},
			attack{name: "an unknown API after authentication, inside TLS", listener: "SASL_SSL", count: many(hundred), reason: "malformed_request", do: overTLS(loggedIn(f.password(), says(unknown)))},
		)
	}, SpecTimeout(stage.Within(4*time.Minute)))
})
