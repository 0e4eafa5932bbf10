package netlab

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

const twoHundred = `
nodes: {web: {kind: exec, SERVE "80"], ports: [80]}}
subnets: {many: {count: 200, from: [10.8.0.0/13, "fd00:8::/48"], prefix: [24, 64]}}
`

func TestTwoHundredSubnetsComeAndGoAgainAndAgain(t *testing.T) {
	testenv.NeedRoot(t)
	rounds := 5 // make soak has fifty
	if testing.Short() {
		rounds = 2
	}
	file := resolved(t, twoHundred)
	var up, down time.Duration
	for range rounds {
		begin := time.Now()
		lab, err := Up(bounded(t), file, Options{})
		if err != nil {
			t.Fatalf("Up = %v, want nil", err)
		}
		up += time.Since(begin)
		for _, name := range []string{"many-1", "many-100", "many-200"} {
			s := subnet(t, lab, name)
			for i := range 2 {
				source := s.In(i == 1).Addr(255)
				if got := seen(t, s, source.String()); got != source {
					t.Errorf("source seen = %s, want %s", got, source)
				}
			}
		}
		begin = time.Now()
		lower(t, lab)
		down += time.Since(begin)
	}
	t.Logf("mean of %d rounds: up %v, down %v", rounds, up/time.Duration(rounds), down/time.Duration(rounds))
}

// Whatever is killed, at whatever moment: one down, and nothing is left.
func TestDownCleansUpAfterAnyKill(t *testing.T) {
	testenv.NeedRoot(t)
	rounds := 15 // make soak has many more; each victim has its turn thrice
	if testing.Short() {
		rounds = 5
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range rounds {
		file := resolved(t, strings.Replace(twoHundred, "200", "40", 1))
		victim := []string{"up", "owner", "node", "owner, then down", "up, then up"}[i%5]
		command := upCommand(t, file)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, time.Duration(random.Int64N(int64(700*time.Millisecond))))
		switch victim {
		case "up", "up, then up":
			_ = command.Process.Kill()
		case "node":
			_ = cgroupOf(t, file.Name).node("web").kill(bounded(t))
		default:
			_ = cgroupOf(t, file.Name).node(ownerCgroup).kill(bounded(t))
		}
		if victim != "owner, then down" {
			_ = command.Wait()
		}
		if victim == "up, then up" {
			if _, err := Up(bounded(t), file, Options{}); err != nil {
				t.Errorf("round %d: Up after a killed up = %v, want nil", i, err)
			}
		}
		if err := Down(bounded(t), file.Name, Options{}); err != nil && !errors.Is(err, ErrNoLab) {
			t.Errorf("round %d, %s killed: Down = %v, want nil", i, victim, err)
		}
		if victim == "owner, then down" {
			_ = command.Wait() // an up that was waiting may have built the lab again, or given up
			if err := Down(bounded(t), file.Name, Options{}); err != nil && !errors.Is(err, ErrNoLab) {
				t.Errorf("round %d, %s killed: second Down = %v, want nil", i, victim, err)
			}
		}
		noLeaks(t, file.Name)
	}
}

// A down that is killed leaves a lab that the next down removes.
func TestDownCleansUpAfterAKilledDown(t *testing.T) {
	testenv.NeedRoot(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 8 {
		file := resolved(t, strings.Replace(twoHundred, "200", "40", 1))
		if _, err := Up(bounded(t), file, Options{}); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(bounded(t), os.Args[0], "down", file.Name)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, time.Duration(random.Int64N(int64(200*time.Millisecond))))
		_ = command.Process.Kill()
		_ = command.Wait()
		if err := Down(bounded(t), file.Name, Options{}); err != nil && !errors.Is(err, ErrNoLab) {
			t.Errorf("Down after a killed down = %v, want nil", err)
		}
		noLeaks(t, file.Name)
	}
}

// wait lets time pass: the moment of a kill is the point of the test, not a condition.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

func cgroupOf(t *testing.T, name string) cgroup {
	t.Helper()
	c, err := Options{}.cgroup(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// upCommand is a process of its own that brings the lab up.
func upCommand(t *testing.T, file *topology.Lab) *exec.Cmd {
	t.Helper()
	path := t.TempDir() + "/lab.json"
	if err := writeJSON(path, file); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(bounded(t), os.Args[0], "up", path)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}
