package kernel

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerlab/brokerlab/internal/testenv"
)

func TestEveryFeatureCanBeForcedOffAndTakesAlongWhatIsBuiltOnIt(t *testing.T) {
	for f, also := range map[Feature][]Feature{
		SockDiag: nil, BTF: {Accounting, Seeding, Listing}, BPF: {Accounting, Seeding, Listing},
		Cgroup2: {Accounting, Seeding, Listing}, Accounting: {Seeding, Listing}, Seeding: nil, Listing: nil,
		Namespaces: nil, Repair: nil, Files: nil,
	} {
		set, err := ParseSet(" " + string(f) + ",")
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range Features() {
			want := other == f || slices.Contains(also, other)
			err := set.Check(other)
			if forced := errors.Is(err, ErrForcedOff); forced != want {
				t.Errorf("without %s, %s forced off = %v (%v), want %v", f, other, forced, err, want)
			}
		}
		if err := Require(t.Context(), f, set); !errors.Is(err, ErrForcedOff) {
			t.Errorf("Require(%s) = %v, want it forced off", f, err)
		}
	}
	all := Set{}
	for _, f := range Features() {
		all[f] = true
	}
	for _, s := range Probe(t.Context(), all) {
		if !errors.Is(s.Err, ErrForcedOff) || !strings.Contains(s.Get, EnvOff) {
			t.Errorf("Probe() of %s = %v (%s), want it forced off by %s", s.Feature, s.Err, s.Get, EnvOff)
		}
	}
}

func TestUnknownFeaturesAreRefusedWithTheirNames(t *testing.T) {
	if _, err := ParseSet("seeding,tracing"); err == nil || !strings.Contains(err.Error(), `"tracing"`) || !strings.Contains(err.Error(), "seeding") {
		t.Errorf("ParseSet() = %v, want an error that lists the names", err)
	}
	t.Setenv(EnvOff, "x")
	if _, err := FromEnv(); err == nil || !strings.Contains(err.Error(), EnvOff) {
		t.Errorf("FromEnv() = %v, want an error that names the variable", err)
	}
	t.Setenv(EnvOff, "seeding, bpf")
	set, err := FromEnv()
	if err != nil || set.String() != "bpf, seeding" {
		t.Errorf("FromEnv() = %v, %v, want bpf and seeding", set, err)
	}
}

func TestEveryFeatureSaysWhatItIsForAndHowToGetIt(t *testing.T) {
	for _, r := range table() {
		if r.serves == "" || r.get == "" || r.probe == nil {
			t.Errorf("%s: for %q, get it by %q", r.feature, r.serves, r.get)
		}
	}
	if err := Explain(SockDiag, nil); err != nil {
		t.Errorf("Explain(nil) = %v, want nil", err)
	}
	err := Explain(SockDiag, errors.New("no such thing"))
	if e, ok := errors.AsType[*Error](err); !ok || e.Get == "" || !strings.Contains(err.Error(), "sock_diag: no such thing (") {
		t.Errorf("Explain() = %v, want what, and how to get it", err)
	}
}

// unprivilegedEnv marks the copy of a test that has no privileges.
const unprivilegedEnv = "KERNEL_TEST_UNPRIVILEGED"

func TestWithoutPrivilegesTheErrorsNameTheCapabilities(t *testing.T) {
	if os.Getenv(unprivilegedEnv) != "" {
		for f, want := range map[Feature]string{
			BPF: "CAP_BPF", Accounting: "CAP_PERFMON", Seeding: "CAP_NET_ADMIN", Listing: "CAP_BPF", Namespaces: "CAP_SYS_ADMIN", Repair: "CAP_NET_ADMIN",
		} {
			err := Require(t.Context(), f, nil)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %v, want an error that names %s", f, err, want)
			}
		}
		if err := Require(t.Context(), SockDiag, nil); err != nil {
			t.Errorf("sock_diag = %v, want it to work without privileges", err)
		}
		return
	}
	testenv.NeedRoot(t)
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Dir = "/"
	c.Env = []string{unprivilegedEnv + "=1", "PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as user 65534: %v\n%s", err, out)
	}
}

func TestProbingLeavesNothingOpen(t *testing.T) {
	Probe(t.Context(), nil) // what a first time opens for good
	testenv.NoLeakedFiles(t)
	for _, s := range Probe(t.Context(), nil) {
		t.Logf("%-12s %v", s.Feature, s.Err)
	}
}
