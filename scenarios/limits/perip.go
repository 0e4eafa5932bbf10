package limits

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("max.connections.per.ip=0", Label("limits"), func() {
	It("is refused at the start without overrides, in a text that names both keys", func(ctx SpecContext) {
		stage.Alone()
		out, err := start(ctx, "max.connections.per.ip=0")
		exit, failed := errors.AsType[*exec.ExitError](err)
		Expect(failed).To(BeTrue(), "%v: %s", err, out)
		Expect(exit.ExitCode()).NotTo(BeZero())
		Expect(out).To(ContainSubstring("max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."))
	}, SpecTimeout(stage.Within(time.Minute)))

	It("lets in only the addresses that have overrides", func(ctx SpecContext) {
		g := newGround(ctx)
		overrides := []string{"10.1.0.10:3"}
		for _, address := range g.OwnAddresses(ctx) {
			overrides = append(overrides, address+":1000")
		}
		// In one request: without overrides a maximum of 0 is refused.
		g.Set(ctx, "max.connections.per.ip.overrides="+strings.Join(overrides, ","), "max.connections.per.ip=0")
		w := g.watch(ctx, 3, plain, ssl, saslPlain, saslSSL)
		stranger := g.Group(clientNet, plain, "", 1)
		stranger.Source = g.Network(clientNet).At("10.1.0.11")
		Eventually(func() error { return g.Fleet(ctx, stranger).FirstError() }).WithContext(ctx).WithTimeout(patience).Should(HaveOccurred())
		known := g.Group(clientNet, ssl, "alice", 5)
		known.Source = g.Network(clientNet).At("10.1.0.10")
		f := g.Fleet(ctx, known)
		Expect(f.UpCount()).To(Equal(3), "%v", f.Stats().Outcomes)
		const invalidRequest = 42
		Expect(g.TrySet(ctx, "max.connections.per.ip.overrides=")).To(HaveField("Code", BeEquivalentTo(invalidRequest)))
		w.end(ctx, "")
		leave(f, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})

// start runs a broker with one more property, which is to end by itself, and returns what it said.
func start(ctx context.Context, property string) (string, error) {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	config := filepath.Join(folder, "server.properties")
	properties := []string{"node.id=1", "listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + filepath.Join(folder, "data"), property}
	if stage.Target().IsKafka() {
		properties = append(properties, "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "process.roles=broker,controller",
			"controller.listener.names=CONTROLLER", "controller.quorum.bootstrap.servers=127.0.0.1:1")
	}
	Expect(os.WriteFile(config, []byte(strings.Join(properties, "\n")+"\n"), 0o600)).To(Succeed())
	cmd, err := stage.Target().Command(ctx, config)
	Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}
