package configpush

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const (
	clientNet = "10.1.0.0/16"
	otherNet  = "10.2.0.0/16"
	// patience bounds what should happen at once on a machine that is busy with other things.
	patience = 30 * time.Second

	tooLarge           = protocol.CodeConfigTooLarge
	illegalSASLState   = 34
	unsupportedVersion = 35
	invalidRequest     = 42
	unknownServerError = -1

	policy = "client.config.policy.class.name="
	store  = policy + "store"
)

// Keys of requests.
const (
	keyHandshake    = 17
	keyVersions     = 18
	keyAuthenticate = 36
	keyPush         = protocol.DefaultPushConfigKey
)

// protocols are the listeners of a stage, and users that their clients can be.
func protocols() []struct{ listener, user string } {
	return []struct{ listener, user string }{
		{"PLAINTEXT", stage.Nobody}, {"SSL", "alice"}, {"SASL_PLAINTEXT", "alice"}, {"SASL_SSL", "alice"},
	}
}

// newGround is a stage whose broker has these properties.
func newGround(ctx SpecContext, properties ...string) *stage.Stage {
	GinkgoHelper()
	return stage.New(ctx, stage.Subnet(clientNet, otherNet), stage.Broker(properties...))
}

// in opens clients that all have to come up.
func in(ctx context.Context, s *stage.Stage, groups ...fleet.Group) *fleet.Fleet {
	GinkgoHelper()
	f := s.Fleet(ctx, groups...)
	stage.AllUp(f)
	return f
}

// one is a group of one client that pushes configs.
func one(s *stage.Stage, listener, user string, configs ...fleet.Config) fleet.Group {
	GinkgoHelper()
	g := s.Group(clientNet, listener, user, 1)
	g.Push = configs
	return g
}

// kept is what the broker's store has, with the entries.
func kept(ctx context.Context, s *stage.Stage) []protocol.DescribeClientConfigsResponseClient {
	GinkgoHelper()
	return s.ClientConfigs(ctx, admin.ClientConfigsFilter{Entries: true})
}

// counted is how many pushes the broker says had a result.
func counted(ctx context.Context, s *stage.Stage, result string) int {
	GinkgoHelper()
	return int(s.Metrics(ctx)[`brokerlab_config_pushes_total{result="`+result+`"}`])
}

// repush sends a push over the first client's connection and returns the answer.
func repush(ctx context.Context, f *fleet.Fleet, configs ...fleet.Config) *protocol.PushConfigResponse {
	GinkgoHelper()
	resp, err := f.Call(ctx, 0, fleet.PushRequest(configs, 0))
	Expect(err).NotTo(HaveOccurred())
	return resp.(*protocol.PushConfigResponse) //nolint:forcetypeassert // the answer to a PushConfig
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// client is a franz-go client of a listener, whose connections are written down inside TLS.
func client(s *stage.Stage, listener, user string, r *recorder, options ...kgo.Opt) *kgo.Client {
	GinkgoHelper()
	network := s.Network(clientNet)
	g := s.Group(clientNet, listener, user, 1)
	dial := network.Dialer(network.Addr(0))
	all := []kgo.Opt{
		kgo.SeedBrokers(fmt.Sprintf("broker:%d", g.Target.Port())), kgo.ClientID("of " + listener), kgo.AllowAutoTopicCreation(),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err == nil && g.Protocol.TLS() {
				host, _, _ := strings.Cut(address, ":")
				conn, err = shake(ctx, conn, g.TLS, host)
			}
			if err != nil {
				return nil, err
			}
			return r.record(conn), nil
		}),
	}
	if g.Protocol.SASL() {
		all = append(all, kgo.SASL(plain.Auth{User: g.Username, Pass: g.Password}.AsMechanism()))
	}
	c, err := kgo.NewClient(append(all, options...)...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Close)
	return c
}

func shake(ctx context.Context, conn net.Conn, t fleet.TLS, host string) (net.Conn, error) {
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: host, MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
		return nil, fmt.Errorf("no certificate in %q", t.CA)
	}
	if t.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(t.Key))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	c := tls.Client(conn, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return c, nil
}
