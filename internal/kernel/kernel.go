// Package kernel finds out what this kernel, with these privileges, allows.
//
// Every [Feature] is tried: programs are loaded and attached, sockets made, namespaces entered. A version is never asked,
// because distributions move features between versions and containers take them away. What does not work is an
// [*Error] that says what is missing, what for, and how to get it.
//
// Each feature can be forced off ([Set]), so that what happens without it can be tried where it is there.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Feature is something that a kernel may have, by the name under which it can be forced off.
type Feature string

// Features.
const (
	BTF        Feature = "btf"        // the kernel describes its own types
	BPF        Feature = "bpf"        // BPF maps and programs may be made
	Cgroup2    Feature = "cgroup2"    // a cgroup2 hierarchy is mounted
	Accounting Feature = "accounting" // connections can be counted exactly: all programs load and attach
	Seeding    Feature = "seeding"    // connections from before can be counted
	Listing    Feature = "listing"    // counted connections can be listed
	SockDiag   Feature = "sock_diag"  // the socket table can be read
	Namespaces Feature = "namespaces" // network namespaces can be made
	Repair     Feature = "repair"     // a client can vanish without FIN or RST
	Files      Feature = "files"      // many connections fit into one process
)

// row is a feature: what it is for, how to get it, and how to find out.
type row struct {
	feature Feature
	serves  string
	get     string
	probe   func(context.Context) error
	need    []capability
}

const getPrivileges = "run as root, or give the binary its capabilities: setcap cap_bpf,cap_perfmon,cap_net_admin+ep"

// table has the features in the order in which they depend on each other.
func table() []row {
	bpf := []capability{capBPF, capPerfmon, capNetAdmin}
	return []row{
		{
			SockDiag, "lower bounds of all counts, without privileges",
			"use a kernel with CONFIG_INET_DIAG (modprobe tcp_diag)", probeSockDiag, nil,
		},
		{
			BTF, "BPF programs that fit any kernel",
			"use a kernel with CONFIG_DEBUG_INFO_BTF, as those of current distributions are", probeBTF, nil,
		},
		{BPF, "counting in the kernel", getPrivileges, probeBPF, bpf},
		{
			Cgroup2, "seeing the sockets of all network namespaces",
			"mount it: mount -t cgroup2 none /sys/fs/cgroup", probeCgroup2, nil,
		},
		{Accounting, "exact counts, TLS told from plaintext, the proof of a limit", getPrivileges, probeAccounting, bpf},
		{
			Seeding, "counting connections that were there before the programs (brokers and labs attach before they listen)",
			"run as root on Linux 6.12 or later", probeSeeding, bpf,
		},
		{Listing, "single connections with bytes and round-trip times", getPrivileges, probeListing, bpf},
		{Namespaces, "labs", "run as root (CAP_SYS_ADMIN), on a kernel with CONFIG_NET_NS", probeNamespaces, []capability{capSysAdmin}},
		{Repair, "fleets whose clients vanish", "run as root (CAP_NET_ADMIN)", probeRepair, []capability{capNetAdmin}},
		{
			Files, "thousands of connections in one process",
			fmt.Sprintf("raise the limit of open files to %d: ulimit -n, or LimitNOFILE= of the service", wantFiles), probeFiles, nil,
		},
	}
}

// Features lists all of them.
func Features() []Feature {
	var names []Feature
	for _, r := range table() {
		names = append(names, r.feature)
	}
	return names
}

// Error says that a feature does not work.
type Error struct {
	Feature Feature
	Serves  string // what it is for
	Get     string // how to get it; "" if it was forced off
	Err     error  // what happened
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %v", e.Feature, e.Err)
	if e.Get != "" {
		text += " (" + e.Get + ")"
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// ErrForcedOff says that the feature is in a [Set] of those not to be used.
var ErrForcedOff = errors.New("forced off")

// Explain makes an [*Error] of what happened when a feature was used; nil stays nil.
func Explain(f Feature, err error) error {
	if err == nil {
		return nil
	}
	for _, r := range table() {
		if r.feature == f {
			return &Error{Feature: f, Serves: r.serves, Get: r.get, Err: privileged(err, r.need...)}
		}
	}
	return &Error{Feature: f, Err: err}
}

// Set is a set of features that are not to be used. The zero value is empty.
type Set map[Feature]bool

// EnvOff is the environment variable that forces features off, as [ParseSet] reads it.
const EnvOff = "BROKERLAB_KERNEL_OFF"

// ParseSet reads names separated by commas.
func ParseSet(s string) (Set, error) {
	set := Set{}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if !slices.Contains(Features(), Feature(name)) {
			return nil, fmt.Errorf("%q is no kernel feature: they are %s", name, join(Features()))
		}
		set[Feature(name)] = true
	}
	return set, nil
}

func join(features []Feature) string {
	names := make([]string, 0, len(features))
	for _, f := range features {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// FromEnv reads [EnvOff].
func FromEnv() (Set, error) {
	set, err := ParseSet(os.Getenv(EnvOff))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvOff, err)
	}
	return set, nil
}

// needs says what a feature is built on.
func needs(f Feature) []Feature {
	switch f {
	case Accounting:
		return []Feature{BTF, BPF, Cgroup2}
	case Seeding, Listing:
		return []Feature{Accounting, BTF, BPF, Cgroup2}
	default:
		return nil
	}
}

// Has tells whether a feature, or one that it is built on, is forced off.
func (s Set) Has(f Feature) bool {
	return s[f] || slices.ContainsFunc(needs(f), func(n Feature) bool { return s[n] })
}

// Check returns an [*Error] if a feature is forced off.
func (s Set) Check(f Feature) error {
	if !s.Has(f) {
		return nil
	}
	return &Error{Feature: f, Err: ErrForcedOff}
}

// String lists the names.
func (s Set) String() string { return join(slices.Sorted(maps.Keys(s))) }

// Status is what was found out about one feature.
type Status struct {
	Feature Feature
	Serves  string
	Err     error // nil: it works
	Get     string
}

// Probe tries all features but those forced off, which count as missing. It takes well under a second.
func Probe(ctx context.Context, off Set) []Status {
	var found []Status
	for _, r := range table() {
		s := Status{Feature: r.feature, Serves: r.serves}
		switch {
		case off.Has(r.feature):
			s.Err, s.Get = ErrForcedOff, "unset "+EnvOff
		default:
			if s.Err = privileged(r.probe(ctx), r.need...); s.Err != nil {
				s.Get = r.get
			}
		}
		found = append(found, s)
	}
	return found
}

// Require returns nil if a feature works and is not forced off, else an [*Error].
func Require(ctx context.Context, f Feature, off Set) error {
	if err := off.Check(f); err != nil {
		return err
	}
	for _, r := range table() {
		if r.feature == f {
			return Explain(f, r.probe(ctx))
		}
	}
	return &Error{Feature: f, Err: errors.ErrUnsupported}
}

// privileged replaces err by the capabilities that this process lacks, if it lacks any: kernel and libraries answer with all
// sorts of texts then.
func privileged(err error, need ...capability) error {
	if err == nil {
		return nil
	}
	lacks := lacking(need)
	if len(lacks) == 0 {
		return err
	}
	return &privilegeError{lacks, err}
}

type privilegeError struct {
	lacks []string
	err   error
}

func (e *privilegeError) Error() string { return "this process lacks " + strings.Join(e.lacks, ", ") }

func (e *privilegeError) Unwrap() error { return e.err }
