package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// The other specs take the libraries that are there. Here one that is missing is a promise that could not be tried, with the reason.
var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	names := map[kind]string{java: "apache-kafka-java", librdkafka: "confluent-kafka-python"}
	for _, k := range []kind{java, librdkafka} {
		It("serves clients of "+string(k)+" by themselves, and lists them by the name of their library", func(ctx SpecContext) {
			if _, err := k.command(ctx); err != nil {
				stage.Without(string(k), err)
			}
			s := three(ctx)
			l := beginWith(ctx, s, k)
			Eventually(func() map[string]string {
				principals := map[string]string{}
				for _, b := range s.All() {
					for _, c := range b.Connections(ctx) {
						principals[c.Principal] = c.SoftwareName
					}
				}
				return principals
			}).WithContext(ctx).WithTimeout(patience).Should(Equal(map[string]string{"User:alice": names[k], "User:bob": names[k]}), "who uses the cluster with what")
			l.finish(ctx)
		}, SpecTimeout(3*time.Minute))
	}
})
