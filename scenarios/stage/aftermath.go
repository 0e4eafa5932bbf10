package stage

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
)

// Image is what a broker has of its cluster's metadata.
type Image struct {
	Offset int64  // of the next entry of the log that it is to apply
	Hash   string // of all metadata up to there
	Level  int16  // metadata.version
}

// Images is what each broker has that answers, is in touch with the metadata log and is not fenced, in order.
func (s *Stage) Images(ctx context.Context) []Image {
	answers, err := s.admin.DescribeMetadata(ctx, admin.MetadataFilter{Hash: true})
	if err != nil {
		GinkgoWriter.Printf("ask for the metadata that brokers have: %v\n", err)
	}
	var all []Image
	for _, a := range answers {
		if a.Connected && !a.Fenced && a.Hash != nil {
			all = append(all, Image{a.Offset, *a.Hash, a.Level})
		}
	}
	return all
}

// Held is what the broker counts for clients: slots of addresses that are not the stage's own, slots of its listeners that no
// connection in its list has, and who waits for one.
func (s *Stage) Held(ctx context.Context) []string {
	GinkgoHelper()
	answers, err := s.admin.DescribeLimits(ctx, admin.LimitsFilter{Nodes: s.nodes()})
	Expect(err).NotTo(HaveOccurred())
	Expect(answers).To(HaveLen(1))
	var held []string
	for i := range answers[0].Addresses {
		if a := &answers[0].Addresses[i]; a.Connections != 0 && !own(a.Address) {
			held = append(held, fmt.Sprintf("%s has %d slots", a.Address, a.Connections))
		}
	}
	for i := range answers[0].Listeners {
		l := &answers[0].Listeners[i]
		if listed := s.Own(ctx, l.ListenerName); l.Connections > listed { // the stage asks over one of them
			held = append(held, fmt.Sprintf("%s has %d slots, and lists %d connections of the stage", l.ListenerName, l.Connections, listed))
		}
		if n := l.Throttled + l.Queued; n != 0 || l.Held != nil {
			held = append(held, fmt.Sprintf("%s has %d sockets that wait", l.ListenerName, n))
		}
	}
	return held
}
