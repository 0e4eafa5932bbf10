package cluster

import (
	"encoding/json"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// branch is a second network of clients.
const branch = "10.2.0.0/24"

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("is loaded by workers in two networks, and the clients of one that is killed are told of as lost", func(ctx SpecContext) {
		const meet, load, connections = "fleet", "load", 60
		s := stage.New(ctx, stage.Brokers(3), stage.Subnet(office), stage.Subnet(branch))
		binary, err := stage.Binary(ctx)
		Expect(err).NotTo(HaveOccurred())
		at := s.Bootstrap("PLAINTEXT")
		say := func(who string) *stage.Lines {
			return &stage.Lines{Each: func(line string) { GinkgoWriter.Println(who, line) }}
		}
		work := func(name, prefix string) *stage.Job {
			return s.Job(ctx, prefix, netlab.Command{
				Args:   []string{binary, "fleet", "worker", "--bootstrap-server", at, "--topic", meet, "--name", name},
				Stdout: say(name), Stderr: say(name),
			})
		}
		dies, lives := work("dies", branch), work("lives", office)

		var printed struct {
			Up, Lost, Failed int
			Workers          []struct {
				Name              string
				Clients, Up, Lost int
			}
			LostShares []struct{ Worker string }
		}
		var text []byte
		run := s.Job(ctx, office, netlab.Command{
			Args: []string{
				binary, "fleet", "run", "--bootstrap-server", at, "--topic", meet, "--workers", "2", "--target", at, "--connections", strconv.Itoa(connections),
				"--client-id", load, "--behaviour", "metadata", "--hold", "10s", "--yes", "--format", "json",
			},
			Stdout: &stage.Lines{Each: func(line string) { text = append(text, line+"\n"...) }}, Stderr: say("run"),
		})
		var there map[string]int // the fleet's clients, by network
		Eventually(func() int {
			there = map[string]int{}
			for _, b := range s.All() {
				for _, prefix := range []string{office, branch} {
					for _, c := range b.Describe(ctx, admin.DescribeFilter{Address: &prefix}) {
						if c.ClientID != nil && *c.ClientID == load {
							there[prefix]++
						}
					}
				}
			}
			return there[office] + there[branch]
		}).WithContext(ctx).WithTimeout(patience).Should(Equal(connections), "clients of the fleet")
		Expect(there).To(HaveLen(2), "networks that they come from")
		dies.Kill()
		Expect(dies.Code(ctx)).To(Equal(-1), "a signal ended it")
		Expect(run.Code(ctx)).To(Equal(1), "what the run ends with when a share is lost")

		Expect(json.Unmarshal(text, &printed)).To(Succeed(), "%s", text)
		GinkgoWriter.Printf("%+v\n", printed)
		Expect(printed.Lost).To(Equal(there[branch]), "clients that are lost")
		Expect(printed.Up).To(Equal(there[office]), "clients that stayed")
		Expect(printed.Failed).To(BeZero())
		Expect(printed.LostShares).NotTo(BeEmpty())
		for _, l := range printed.LostShares {
			Expect(l.Worker).To(Equal("dies"), "whose share is lost")
		}
		for _, w := range printed.Workers {
			if w.Name == "lives" {
				Expect([]int{w.Clients, w.Up, w.Lost}).To(Equal([]int{there[office], there[office], 0}), "clients, up and lost of the worker that lives")
			}
		}
		Expect(lives.Ended()).NotTo(BeClosed(), "it waits for the next run")
		lives.Kill()
		nobodyLeft(ctx, s)
	}, SpecTimeout(4*time.Minute))
})
