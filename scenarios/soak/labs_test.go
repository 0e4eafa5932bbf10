//go:build soak

package soak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const soakLab = `
name: NAME
nodes: {broker: {kind: broker}}
subnets: {many: {count: 20, from: [10.8.0.0/13, "fd00:8::/48"], prefix: [24, 64]}}
users: {alice: {}}
`

// programs is how many BPF programs the kernel has. Another program of this machine may change it at any time.
func programs(t *testing.T) int {
	t.Helper()
	n := 0
	for id := ebpf.ProgramID(0); ; n++ {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
	}
}

// pidsIn are the processes of a cgroup of a lab; none if it does not exist.
func pidsIn(folder string) (pids []int) {
	text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs")) // it may not exist yet, or any more
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A lab is brought up, something of it is killed at any moment, and it is taken down. Nothing is left: no file, mount, cgroup or
// process of it, no link in the host's namespace and no BPF program.
func TestLabsLeaveNothingWhateverIsKilled(t *testing.T) {
	rounds := number(t, "SOAK_LABS", 50)
	release, err := stage.TakeTurn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release() //nolint:errcheck // the process ends
	name := fmt.Sprintf("soak-%d", os.Getpid())
	path := filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(soakLab, "NAME", name, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Load(path); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	links, loaded := countLinks(t), programs(t)
	victims := []string{"up", "owner", "broker"}
	killed := map[string]int{}
	p := newProgress("labs", rounds)
	for round := range rounds {
		victim := victims[round%len(victims)]
		up := exec.CommandContext(context.WithoutCancel(t.Context()), brokerlab(t), "lab", "up", path)
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		settled(t.Context(), time.Duration(random.IntN(900))*time.Millisecond)
		killed[victim] += kill(up, name, victim)
		_ = up.Wait() // however it ended
		down := exec.CommandContext(t.Context(), brokerlab(t), "lab", "down", name)
		if out, err := down.CombinedOutput(); err != nil && !strings.Contains(string(out), "no lab") {
			t.Errorf("round %d, %s killed: lab down = %v: %s", round, victim, err, out)
		}
		if left, err := netlab.Leaks(name, netlab.Options{}); err != nil || len(left) > 0 {
			t.Fatalf("round %d, %s killed: left %v, %v", round, victim, left, err)
		}
		p.at(round+1, fmt.Sprintf(", killed %v", killed))
	}
	until(t, "the host's links are as before", func() bool { return countLinks(t) <= links })
	until(t, "the kernel's BPF programs are as before", func() bool { return programs(t) <= loaded })
	p.summary("%d labs of 20 subnets, killed %v (victims that lived at that moment); left: no file, mount, cgroup, process, link (%d) or BPF program (%d)",
		rounds, killed, countLinks(t), programs(t))
}

func kill(up *exec.Cmd, name, victim string) (killed int) {
	if victim == "up" {
		if up.Process.Kill() == nil {
			return 1
		}
		return 0
	}
	group := "broker*"
	if victim == "owner" {
		group = ".owner"
	}
	// cgroup2 is at either place.
	alone, _ := filepath.Glob("/sys/fs/cgroup/brokerlab/" + name + "/" + group)          // the pattern is good
	hybrid, _ := filepath.Glob("/sys/fs/cgroup/unified/brokerlab/" + name + "/" + group) // likewise
	for _, folder := range append(alone, hybrid...) {
		for _, pid := range pidsIn(folder) {
			if p, err := os.FindProcess(pid); err == nil && p.Kill() == nil {
				killed++
			}
		}
	}
	return killed
}

func countLinks(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
