package sockacct

import (
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/brokerlab/brokerlab/internal/testenv"
)

// An optional program that the kernel refuses is left out, and takes no other along.
func TestOptionalProgramsThatAreRefusedAreLeftOut(t *testing.T) {
	testenv.NeedRoot(t)
	for _, tt := range []struct {
		broken           string
		seeding, listing bool
	}{
		{sockacctProgSeed, false, true},
		{sockacctProgList, true, false},
	} {
		t.Run(tt.broken, func(t *testing.T) {
			spec, err := specWith(Options{})
			if err != nil {
				t.Fatal(err)
			}
			spec.Programs[tt.broken].Instructions = asm.Instructions{asm.Return()} // of a register that was never written
			c := &Counter{}
			t.Cleanup(func() { quit(c) })
			if err := c.load(spec, Options{}); err != nil {
				t.Fatalf("load() = %v, want the others to load", err)
			}
			if seeding, listing := c.Seeding() == nil, c.Listing() == nil; seeding != tt.seeding || listing != tt.listing {
				t.Errorf("seeding works %v (%v), listing %v (%v), want %v and %v",
					seeding, c.Seeding(), listing, c.Listing(), tt.seeding, tt.listing)
			}
			if c.progs.OnState == nil || c.progs.OnIngress == nil || c.progs.OnEgress == nil {
				t.Error("a program that counts is missing")
			}
		})
	}
}

func TestLoadFailsWhereAProgramThatCountsIsRefused(t *testing.T) {
	testenv.NeedRoot(t)
	spec, err := specWith(Options{})
	if err != nil {
		t.Fatal(err)
	}
	spec.Programs[sockacctProgOnEgress].Instructions = asm.Instructions{asm.Return()}
	c := &Counter{}
	t.Cleanup(func() { quit(c) })
	if err := c.load(spec, Options{}); err == nil {
		t.Error("load() = nil, want the verifier's refusal")
	}
}

func TestLoadFailsWhereThereIsNoCgroup(t *testing.T) {
	testenv.NeedRoot(t)
	testenv.NoLeakedFiles(t)
	if c, err := Load(Options{Cgroup: t.TempDir()}); err == nil {
		quit(c)
		t.Error("Load(a folder that is no cgroup) = nil, want an error")
	}
}
