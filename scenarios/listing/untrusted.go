package listing

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// forged is a client certificate, with its key, by another CA that has the name of the trusted one: a client sends only what
// the broker says that it takes, and it says so by name. All is PEM.
func forged(trusted string) (certificate, key string) {
	GinkgoHelper()
	block, _ := pem.Decode([]byte(trusted))
	Expect(block).NotTo(BeNil())
	ca, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stranger"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, &x509.Certificate{RawSubject: ca.RawSubject}, private.Public(), private)
	Expect(err).NotTo(HaveOccurred())
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

var _ = Describe("Good clients", Label("listing"), stage.Needs(stage.Listing), func() {
	It("are served and listed while others try an untrusted certificate again and again", func(ctx SpecContext) {
		const lasting = 5 * time.Second
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "10.9.0.0/16"), stage.Broker("socket.listen.backlog.size=4096"))
		good := s.Group("10.1.0.0/24", "SSL", "alice", 20)
		good.Behaviour, good.Every = fleet.Metadata, 100*time.Millisecond
		working := s.Fleet(ctx, good)
		stage.AllUp(working)
		Eventually(working.Records).WithContext(ctx).WithTimeout(time.Minute).Should(HaveEach(HaveField("Requests", BeNumerically(">", 10))))
		quiet := stage.Since(working.Latencies()[fleet.RequestLatency], nil)

		bad := s.Group("10.9.0.0/16", "SSL", stage.Nobody, 1)
		bad.TLS.Certificate, bad.TLS.Key = forged(bad.TLS.CA)
		looping := s.NewFleet()
		rush, stop := context.WithTimeout(ctx, lasting)
		defer stop()
		begin, cpu := time.Now(), s.CPU(ctx)
		var going sync.WaitGroup
		going.Go(func() {
			defer GinkgoRecover()
			// As 20 clients do that try again after 100 ms.
			Expect(looping.Churn(rush, fleet.Churn{
				Plan: fleet.Plan{Rate: float64(stage.Scale(200)), Groups: []fleet.Group{bad}},
				Hold: time.Nanosecond, Seed: uint64(GinkgoRandomSeed()),
			})).To(Succeed())
		})
		for tick := time.NewTicker(200 * time.Millisecond); rush.Err() == nil; <-tick.C {
			Expect(s.ListWhere(ctx, admin.ListFilter{Principal: new("User:alice")})).To(HaveLen(20))
		}
		going.Wait()
		took, cpu := time.Since(begin), s.CPU(ctx)-cpu
		busy := stage.Since(working.Latencies()[fleet.RequestLatency], quiet)

		refused := looping.Records()
		delays := fleet.NewHistogram()
		for i := range refused {
			r := &refused[i]
			Expect(r.Outcome).To(Or(Equal(fleet.TLSFailed), Equal(fleet.Reset), Equal(fleet.ClosedByBroker)), "%+v", r)
			Expect(delays.RecordValue(r.Ended.Sub(r.Started).Microseconds())).To(Succeed())
		}
		Expect(len(refused)).To(BeNumerically(">", stage.Scale(100)))
		Expect(s.Closed(ctx)["tls_failed"]).To(Equal(len(refused)), "each has its reason")
		stage.AllUp(working)
		Expect(working.Stats().Failures).To(BeZero())
		Expect(busy.TotalCount()).To(BeNumerically(">", quiet.TotalCount()), "they were served all the time")
		Eventually(func() []string { return differences(working.Up(), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())

		report.Attach(report.Figure{Name: "refused handshakes", Value: round(float64(len(refused)) / took.Seconds()), Unit: "/s"})
		report.Attach(report.Figure{Name: "broker CPU", Value: round(100 * cpu.Seconds() / took.Seconds()), Unit: "%", Note: "of one processor, with the good clients' requests and the lists"})
		report.Attach(report.Figure{Name: "good clients' p99 before", Value: p99(quiet), Unit: "ms"})
		report.Attach(report.Figure{Name: "good clients' p99 meanwhile", Value: p99(busy), Unit: "ms"})
		report.Attach(report.NewLatency("from SYN to refusal, with connection.failed.authentication.delay.ms", delays))
	}, SpecTimeout(time.Minute))
})
