package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const (
	// office is where clients are; nobody else is there.
	office = "10.1.0.0/24"
	// topic is what they produce to and consume; each kind's group is groups and its name. Each broker leads several of its partitions.
	topic, partitions, groups = "orders", 12, "billing-"
	// pace is the time between two records of a producer.
	pace = 5 * time.Millisecond
	// patience bounds what has to come by itself, on a machine that is busy with other things.
	patience = 60 * time.Second
)

// clients are those of one library: idempotent producers that wait for every acknowledgement, and a group that consumes what all
// producers of the load produce. They tell the journal.
type clients interface {
	// settle ends the producing, and waits until each record that was sent has an answer, or ctx ends.
	settle(ctx context.Context) error
	// end ends the rest within the bounds of ctx. It may be called twice.
	end(ctx context.Context)
}

// load is what goes on throughout a spec: clients of several libraries, and somebody who creates rules and users.
type load struct {
	*journal

	s       *stage.Stage
	kinds   []kind
	clients []clients // of each kind
	clerk   *clerk
}

// begin starts the load with clients of all kinds that are on this machine, and waits until records of each flow.
func begin(ctx context.Context, s *stage.Stage) *load {
	GinkgoHelper()
	return beginWith(ctx, s, everyKind()...)
}

// beginWith is [begin] with clients of some kinds only.
func beginWith(ctx context.Context, s *stage.Stage, kinds ...kind) *load {
	GinkgoHelper()
	s.CreateTopic(ctx, topic, partitions)
	l := &load{journal: newJournal(), s: s}
	table := report.Table{Name: "Clients of the load", Columns: []string{"library", "is there"}}
	DeferCleanup(func(ctx SpecContext) { l.end(ctx) }, NodeTimeout(2*patience)) //nolint:contextcheck // the spec's own context has ended by then
	for _, k := range kinds {
		line, err := k.command(ctx)
		if err != nil {
			table.Rows = append(table.Rows, []string{string(k), "no: " + err.Error()})
			GinkgoWriter.Printf("without clients of %s: %v\n", k, err)
			continue
		}
		table.Rows = append(table.Rows, []string{string(k), "yes"})
		l.kinds = append(l.kinds, k)
		if k == franzGo {
			l.clients = append(l.clients, beginFranz(ctx, s, l.journal))
		} else {
			l.clients = append(l.clients, beginProgram(ctx, s, k, line, l.journal))
		}
	}
	report.Attach(table)
	l.clerk = beginClerk(ctx, s)
	l.flows(ctx)
	return l
}

// flows waits until records of each kind of client are acknowledged again in every partition.
func (l *load) flows(ctx context.Context) {
	GinkgoHelper()
	since := time.Now()
	Eventually(func() []lane { return l.silent(l.kinds, since) }).WithContext(ctx).WithTimeout(patience).
		Should(BeEmpty(), func() string { return "where nothing is acknowledged; so far was refused: " + counted(l.refusals()) })
}

// end stops the load: what is not acknowledged by now never is. It may be called twice.
func (l *load) end(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.clerk != nil {
		l.clerk.end()
	}
	var ending sync.WaitGroup
	for _, c := range l.clients {
		ending.Go(func() { c.end(bounded) })
	}
	ending.Wait()
}

// finish stops the producers, reads the topic anew and holds it to what was acknowledged, waits until each group has consumed all of
// that, and holds every broker to the rules and users that were acknowledged; then it ends the clients, and holds the brokers' counts to
// the kernel's.
func (l *load) finish(ctx context.Context) {
	GinkgoHelper()
	l.flows(ctx)
	settled, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, c := range l.clients {
		Expect(c.settle(settled)).To(Succeed(), "clients of %s", l.kinds[i])
	}
	l.compare(l.read(ctx))
	for _, k := range l.kinds {
		Eventually(func() []string { return l.unconsumed(k) }).WithContext(ctx).WithTimeout(patience).
			Should(BeEmpty(), "acknowledged, and not consumed by the group of %s", k)
	}
	l.clerk.finish(ctx)
	agree(ctx, l.s)
	l.end(ctx)
	nobodyLeft(ctx, l.s)
}

// compare holds what is in the topic to what was acknowledged.
func (l *load) compare(found map[string][]place) {
	GinkgoHelper()
	var lost, again []string
	for value, at := range l.all() {
		if len(found[value]) == 0 {
			lost = append(lost, fmt.Sprintf("%s %v", value, at))
		}
	}
	for value, at := range found {
		if len(at) > 1 {
			again = append(again, fmt.Sprintf("%s %v", value, at))
		}
	}
	count, longest := l.by()
	for _, k := range l.kinds {
		report.Attach(report.Figure{Name: "records of " + string(k) + " acknowledged", Value: float64(count[k])})
		report.Attach(report.Figure{Name: "longest wait of " + string(k) + " for an acknowledgement", Value: longest[k].Seconds(), Unit: "s"})
	}
	report.Attach(report.Figure{Name: "records not acknowledged", Value: float64(sum(l.refusals()))})
	GinkgoWriter.Printf("not acknowledged: %s\n", counted(l.refusals()))
	Expect(lost).To(BeEmpty(), "acknowledged records that are not there")
	Expect(again).To(BeEmpty(), "records that are there more than once, of producers that are idempotent")
}

// read tells where each record of the topic is, from its beginning to its end of now.
func (l *load) read(ctx context.Context) map[string][]place {
	GinkgoHelper()
	ends := map[int32]int64{}
	for p := range int32(partitions) {
		var end int64
		Eventually(func() (err error) { // a broker that was cut off may have a link to its engine left that is none any more
			end, err = l.s.EndOffset(ctx, topic, p)
			return err
		}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
		if end > 0 {
			ends[p] = end
		}
	}
	c := l.s.Client(office, "10.1.0.30", "SASL_PLAINTEXT", "bob", append(fault(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	defer c.Close()
	found := map[string][]place{}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(ends) > 0 {
		fetches := c.PollFetches(bounded)
		Expect(bounded.Err()).NotTo(HaveOccurred(), "read %s to its end: %v are left", topic, ends)
		fetches.EachRecord(func(r *kgo.Record) {
			found[string(r.Value)] = append(found[string(r.Value)], place{lane{partition: r.Partition}, r.Offset})
		})
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if r.Offset >= ends[p.Partition]-1 {
					delete(ends, p.Partition)
				}
			}
		})
	}
	return found
}

func sum[K comparable, N int | int64](counts map[K]N) N {
	n := N(0)
	for _, c := range counts {
		n += c
	}
	return n
}

// counted is counts as people read them.
func counted(counts map[string]int) string {
	var all []string
	for what, n := range counts {
		all = append(all, fmt.Sprintf("%s ×%d", what, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
