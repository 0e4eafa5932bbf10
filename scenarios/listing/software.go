package listing

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func saslHandshake(mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, mechanism
	return req
}

func apiVersions(version int16, name, softwareVersion string) *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, name, softwareVersion
	return req
}

var _ = Describe("The software column of the list", Label("listing"), stage.Needs(stage.Listing), func() {
	const invalidRequest = 42

	It("shows only names that KIP-511 allows, and a bad one costs an answer, not the connection", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"))
		fresh := s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 1)
		fresh.HelloVersion = -1
		software := func(f *fleet.Fleet) string {
			GinkgoHelper()
			rows := s.Connections(ctx)
			Expect(rows).To(HaveLen(1))
			Expect(f.Up()).To(HaveLen(1))
			return rows[0].SoftwareName + "/" + rows[0].SoftwareVersion
		}
		code := func(f *fleet.Fleet, req *kmsg.ApiVersionsRequest) int16 {
			GinkgoHelper()
			resp, err := f.Call(ctx, 0, req)
			Expect(err).NotTo(HaveOccurred())
			return resp.(*kmsg.ApiVersionsResponse).ErrorCode //nolint:forcetypeassert // the answer to ApiVersions
		}
		f := s.Fleet(ctx, fresh)
		stage.AllUp(f)
		Expect(software(f)).To(Equal("/"), "without ApiVersions")
		for _, bad := range []struct{ name, version string }{
			{"my client", "1"},
			{"a_b", "1"},
			{"", "1"},
			{"a", ""},
			{"", ""},
			{"-a", "1"},
			{"a-", "1"},
			{".a", "1"},
			{"a", "1."},
			{"é", "1"},
			{"a\nb", "1"},
			{"a\x1b[31m", "1"},
			{"a\x00", "1"},
			{strings.Repeat("x", 10<<10) + "_", "1"},
		} {
			Expect(code(f, apiVersions(3, bad.name, bad.version))).To(BeEquivalentTo(invalidRequest), "name %q version %q", bad.name, bad.version)
			Expect(software(f)).To(Equal("/"), "after name %q version %q", bad.name, bad.version)
		}
		Expect(code(f, apiVersions(2, "", ""))).To(BeZero())
		Expect(software(f)).To(Equal("/"), "after ApiVersions v2")
		long := strings.Repeat("x", 10<<10)
		for _, good := range []struct{ name, version string }{
			{"apache-kafka-java", "4.4.0"}, {"a", "1"}, {"a.b-c", "1-2.3"}, {long, "1"}, {"librdkafka", "2.16.0"},
		} {
			Expect(code(f, apiVersions(3, good.name, good.version))).To(BeZero())
			Expect(software(f)).To(Equal(good.name + "/" + good.version))
		}
		Expect(code(f, apiVersions(3, "a_b", "1"))).To(BeEquivalentTo(invalidRequest))
		Expect(software(f)).To(Equal("librdkafka/2.16.0"), "a bad name leaves the good one")
	}, SpecTimeout(time.Minute))
})
