package fleet_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// kept is a policy that keeps the values of one key.
type kept struct {
	mu     sync.Mutex
	values map[string]int
}

func (*kept) Configure(map[string]string) error   { return nil }
func (*kept) Reconfigure(map[string]string) error { return nil }
func (*kept) Close() error                        { return nil }

func (k *kept) Process(_ context.Context, p *configpush.Push) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range p.Entries {
		if e.Key == "linger.ms" {
			k.values[fmt.Sprint(e.Value, " ", e.Type, " ", e.Default)]++
		}
	}
	return nil
}

func TestClientsOfOneGroupPushConfigurationsOfTheirOwn(t *testing.T) {
	g := NewWithT(t)
	policy := &kept{values: map[string]int{}}
	name := fmt.Sprintf("%s.%d", t.Name(), time.Now().UnixNano()) // the test may run again in this process
	configpush.Register(name, func() configpush.Policy { return policy })
	b := admintest.Real(t, []string{
		"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + t.TempDir(),
		"client.config.policy.class.name=" + name, "client.config.max.bytes=100",
	})
	const count = 50
	group := fleet.Group{
		Name: "pushing", Count: count, Target: b.Addr("PLAINTEXT"), Protocol: fleet.Plaintext,
		Push: []fleet.Config{{Key: "linger.ms", Value: fleet.Number, Type: 5, Default: true}},
	}
	large := group
	large.Name, large.Count = "too large", 1
	large.Push = []fleet.Config{{Key: "x", Value: string(make([]byte, 100))}}
	w, err := fleet.OpenWorkers(t.Context(), []fleet.Plan{{Groups: []fleet.Group{group, large}}}, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"=1")
		return cmd
	})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(w.Close()).To(Succeed()) }()
	records, err := w.Records()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(records).To(HaveLen(count + 1))
	for i := range records {
		r := &records[i]
		want := int16(0)
		if r.Group == large.Name {
			want = 137
		}
		if r.Outcome != fleet.Up || r.Push != want || r.Pushed == 0 || r.Pushed > r.Ready {
			t.Errorf("%s client %d = %s, error code %d after %v; want up, %d", r.Group, r.Index, r.Outcome, r.Push, r.Pushed, want)
		}
	}
	policy.mu.Lock()
	defer policy.mu.Unlock()
	g.Expect(policy.values).To(HaveLen(count))
	for i := range count {
		g.Expect(policy.values).To(HaveKeyWithValue(strconv.Itoa(i)+" 5 true", 1))
	}
	latencies, err := w.Latencies()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(latencies[fleet.PushLatency].TotalCount()).To(BeEquivalentTo(count + 1))
}
