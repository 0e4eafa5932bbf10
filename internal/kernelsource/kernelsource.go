// Package kernelsource answers a broker's questions about its own sockets ([broker.KernelSource]) from the kernel's counts.
//
// There are two ways to count. BPF programs ([sockacct]) see every state change and the first bytes of each connection: their
// numbers are exact, and each report says if something was lost. Without the privileges for that the kernel's socket table is
// polled ([sockdiag]): what lives shorter than the time between two polls is missed, nothing is known about TLS or about what
// was served, and each report says so. There is nothing between the two.
//
// And there are two places. [Local] counts in the broker's own process and network namespace. [Serve] counts for many brokers,
// each in a namespace of its own, in the process that owns their lab; [Dial] is the broker's end of that. Loading the programs
// once costs each connection of the machine less than loading them in every broker.
package kernelsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernel"
)

// Mode is what a broker wants: the values of kernel.accounting.
type Mode string

// Modes.
const (
	Auto    Mode = "auto"    // BPF where it works, else the socket table
	Require Mode = "require" // BPF, or an error
	Off     Mode = "off"     // nothing is counted
)

// labPrefix precedes the path of a lab owner's socket in kernel.accounting.
const labPrefix = "lab:"

// Options of all sources. The zero value is right for a broker.
type Options struct {
	// Without names features that are not used although the kernel has them, to try what degrades; nil asks the environment
	// ([kernel.EnvOff]).
	Without kernel.Set
	// Log takes what goes wrong between two reports; nil drops it.
	Log *slog.Logger
}

func (o *Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// Open makes the source that a value of kernel.accounting asks for: auto, require, off or lab:<socket>.
func Open(setting string, o Options) (broker.KernelSource, error) {
	if socket, ok := strings.CutPrefix(setting, labPrefix); ok {
		return Dial(socket, nil)
	}
	return Local(Mode(setting), o)
}

// Local counts the sockets of the network namespace of this process.
func Local(mode Mode, o Options) (broker.KernelSource, error) {
	switch mode {
	case Off:
		return off{}, nil
	case Auto, Require:
	default:
		return nil, fmt.Errorf("kernel.accounting: %q is none of auto, require, off and lab:<socket>", mode)
	}
	h, err := newHub(o)
	if err != nil {
		return nil, err
	}
	if mode == Require && h.counter == nil {
		return nil, errors.Join(fmt.Errorf("kernel.accounting=require: %s", h.why), h.close())
	}
	v, err := h.view(here)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return &local{view: v, hub: h}, nil
}

// here runs f where it is: in the network namespace of the process, which is that of every thread that a goroutine may find
// itself on.
func here(f func() error) error { return f() }

// local is a hub with one view.
type local struct {
	*view
	hub *hub
}

func (l *local) Close() error { return errors.Join(l.view.Close(), l.hub.close()) }

// off answers for nobody who counts.
type off struct{}

func (off) Watch([]uint16) error { return nil }

func (off) Report(context.Context) (broker.KernelReport, error) {
	return broker.KernelReport{
		Mode: broker.KernelModeOff, Exactness: broker.KernelUnavailable, Why: "kernel.accounting=off",
	}, nil
}

func (off) Sockets(context.Context, uint16) ([]broker.KernelSocket, error) {
	return nil, errors.New("kernel.accounting=off: nobody counts sockets")
}

func (off) Close() error { return nil }

var (
	_ broker.KernelSource = off{}
	_ broker.KernelSource = (*local)(nil)
	_ broker.KernelSource = (*Client)(nil)
)
