package fleet_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// plainUser is a sasl.jaas.config of PLAIN with one user.
func plainUser(name, password string) string {
	return fmt.Sprintf("org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=%q;", name, password)
}

// expiring is a broker of ours whose SASL sessions end after lifetime, and a client that may alter it.
func expiring(t *testing.T, lifetime time.Duration) (*broker.Broker, *kadm.Client) {
	t.Helper()
	g := NewWithT(t)
	pki := newAuthority(t)
	key, err := x509.MarshalPKCS8PrivateKey(pki.server.PrivateKey)
	g.Expect(err).NotTo(HaveOccurred())
	store := filepath.Join(t.TempDir(), "server.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pki.server.Certificate[0]})...)
	g.Expect(os.WriteFile(store, text, 0o600)).To(Succeed())
	b := admintest.Real(t, []string{
		"listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0", "log.dirs=" + t.TempDir(),
		"metrics.listener=127.0.0.1:0", "ssl.keystore.type=PEM", "ssl.keystore.location=" + store,
		fmt.Sprint("connections.max.reauth.ms=", lifetime.Milliseconds()), "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=" + plainUser("alice", "a"),
		"listener.name.sasl_ssl.plain.sasl.jaas.config=" + plainUser("alice", "a"),
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr("PLAINTEXT").String()))
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(cl.Close)
	return b, kadm.NewClient(cl)
}

// series are the values of the metrics of b that are named so, by listener.
func series(t *testing.T, b *broker.Broker, name string) map[string]int64 {
	t.Helper()
	g := NewWithT(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.MetricsAddr().String()+"/metrics", http.NoBody)
	g.Expect(err).NotTo(HaveOccurred())
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	g.Expect(err).NotTo(HaveOccurred())
	values := map[string]int64{}
	for line := range strings.Lines(string(body)) {
		rest, ok := strings.CutPrefix(line, name+`{listener="`)
		listener, value, cut := strings.Cut(rest, `"} `)
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); ok && cut && err == nil && n > 0 {
			values[listener] = n
		}
	}
	return values
}

func TestClientsAuthenticateAgainWhileTheyAreUp(t *testing.T) {
	const lifetime, lifetimes = 3 * time.Second, 2 // a request that takes 150 ms of it may come too late
	g := NewWithT(t)
	b, adm := expiring(t, lifetime)
	scram := func(password string, m kadm.ScramMechanism, users ...string) {
		var all []kadm.UpsertSCRAM
		for _, user := range users {
			all = append(all, kadm.UpsertSCRAM{User: user, Mechanism: m, Iterations: 4096, Password: password})
		}
		answers, err := adm.AlterUserSCRAMs(t.Context(), nil, all)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answers.Error()).NotTo(HaveOccurred())
	}
	scram("s", kadm.ScramSha256, "bob", "dave")
	scram("s", kadm.ScramSha512, "carol")
	_, err := adm.CreateTopic(t.Context(), 1, 1, nil, "t")
	g.Expect(err).NotTo(HaveOccurred())

	group := func(name string, count int, p fleet.Protocol, mechanism, user, password string) fleet.Group {
		return fleet.Group{
			Name: name, Count: count, Target: b.Addr(string(p)), Protocol: p, Listener: string(p),
			Mechanism: mechanism, Username: user, Password: password, Topic: "t", Every: 200 * time.Millisecond,
		}
	}
	busy := func(how fleet.Behaviour, g fleet.Group) fleet.Group {
		g.Behaviour = how
		return g
	}
	old := busy(fleet.Metadata, group("old", 5, fleet.SASLPlaintext, fleet.ScramSHA256, "dave", "s"))
	old.NoReauth = true
	began := time.Now()
	f := open(t, fleet.Plan{Rate: 400, Groups: []fleet.Group{
		group("plain, idle", 100, fleet.SASLPlaintext, fleet.Plain, "alice", "a"),
		group("scram 256, idle", 100, fleet.SASLSSL, fleet.ScramSHA256, "bob", "s"),
		group("scram 512, idle", 50, fleet.SASLSSL, fleet.ScramSHA512, "carol", "s"),
		busy(fleet.Metadata, group("plain, busy", 20, fleet.SASLSSL, fleet.Plain, "alice", "a")),
		busy(fleet.Produce, group("scram 256, busy", 20, fleet.SASLPlaintext, fleet.ScramSHA256, "dave", "s")),
	}})
	g.Expect(f.FirstError()).NotTo(HaveOccurred())
	g.Expect(f.Add(t.Context(), fleet.Plan{Groups: []fleet.Group{old}})).To(Succeed())

	again := func() map[string]int64 {
		by := map[string]int64{}
		for _, r := range f.Records() {
			if r.Reauths > 0 {
				by[r.Listener] += r.Reauths
			}
		}
		return by
	}
	g.Eventually(func() bool {
		for _, r := range f.Records() {
			if r.Outcome == fleet.Up && r.Reauths < lifetimes {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond).Should(BeTrue())
	most := int64(time.Since(began)/(lifetime*85/100)) + 1
	for _, r := range f.Records() {
		switch {
		case r.Group == old.Name && (r.Outcome != fleet.ClosedByBroker && r.Outcome != fleet.Reset || r.Reauths != 0):
			t.Errorf("%s client %d = %s, %d re-authentications; want ended by the broker, none", r.Group, r.Index, r.Outcome, r.Reauths)
		case r.Group != old.Name && (r.Outcome != fleet.Up || r.Failures != 0 || r.Reauths > most):
			t.Errorf("%s client %d = %s (%s), %d failures, %d re-authentications; want up, 0, at most %d", r.Group, r.Index, r.Outcome, r.Error, r.Failures, r.Reauths, most)
		}
	}
	g.Eventually(func(g Gomega) {
		g.Expect(series(t, b, "kafka_server_socket_server_metrics_successful_reauthentication_total")).To(Equal(again()))
	}, time.Minute, 10*time.Millisecond).Should(Succeed())
	g.Expect(f.Latencies()[fleet.ReauthLatency].TotalCount()).To(BeNumerically(">=", lifetimes*290))

	// With another password each finds out in time, and nobody else.
	alter(t, adm, "listener.name.sasl_plaintext.plain.sasl.jaas.config", plainUser("alice", "other"))
	scram("other", kadm.ScramSha256, "bob")
	g.Eventually(f.UpCount, time.Minute, 10*time.Millisecond).Should(Equal(90))
	for _, r := range f.Records() {
		ends := r.Group == "plain, idle" || r.Group == "scram 256, idle"
		if ends && (r.Outcome != fleet.ReauthFailed || r.Phase != fleet.Reauthenticating || !strings.Contains(r.Error, "error code 58")) {
			t.Errorf("%s client %d = %s (%s): %s; want %s: error code 58", r.Group, r.Index, r.Outcome, r.Phase, r.Error, fleet.ReauthFailed)
		}
	}
	g.Expect(f.Stats().Outcomes).To(And(HaveKeyWithValue(fleet.ReauthFailed, 200), HaveKeyWithValue(fleet.Up, 90)))
	g.Expect(series(t, b, "kafka_server_socket_server_metrics_failed_reauthentication_total")).To(Equal(map[string]int64{"SASL_PLAINTEXT": 100, "SASL_SSL": 100}))
}

func alter(t *testing.T, adm *kadm.Client, key, value string) {
	t.Helper()
	answers, err := adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, 1)
	if err != nil || answers[0].Err != nil {
		t.Fatalf("alter %s = %+v, %v", key, answers, err)
	}
}
