// Package fault is the policy fault, for who tests clients: it panics, fails or sleeps when it is given the pushes that its
// properties name, and takes all others without a trace.
//
// What a client does when the policy of its broker is broken is for its authors to know, and a broken policy is hard to come
// by. With this one a client picks its own fate by what it pushes:
//
//	client.config.policy.class.name=fault
//	client.config.fault.panic=client.id=unlucky
//	client.config.fault.sleep=fault=sleep, linger.ms=7
//	client.config.fault.sleep.ms=10000
//
// It fails as a bad policy would: a panic is one of the Go runtime, and a sleep goes on though the client's time is up. Only
// the end of the broker wakes it. It keeps nothing, and says when it begins that it is there.
package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
)

// The properties. Each of the first three names the pushes that are met: a list of KEY, of KEY=VALUE, or * for all. The
// broker takes secrets out of values first.
const (
	Panic = "client.config.fault.panic"
	Fail  = "client.config.fault.fail"
	Sleep = "client.config.fault.sleep"
	// SleepMillis is how many milliseconds it sleeps.
	SleepMillis = "client.config.fault.sleep.ms"
	// DefaultSleepMillis is what that is unless it is set, and MaxSleepMillis the most that it can be.
	DefaultSleepMillis = 10_000
	MaxSleepMillis     = 3_600_000
)

// ErrAsked is what a push fails with that is to fail.
var ErrAsked = errors.New("the policy fault was asked to fail")

// Policy does what its properties say. Its methods are safe for concurrent use.
type Policy struct {
	log   *slog.Logger
	rules atomic.Pointer[rules]
	woken chan struct{} // closed by Close
	ended atomic.Bool
}

var _ configpush.Policy = (*Policy)(nil)

// New returns a policy that is to be configured, and says so in log then.
func New(log *slog.Logger) *Policy { return &Policy{log: log, woken: make(chan struct{})} }

// rules are what the properties say.
type rules struct {
	panics, fails, sleeps []rule
	sleep                 time.Duration
}

// rule meets pushes.
type rule struct {
	any, valued bool
	key, value  string
}

// CheckRules says what is wrong with the value of [Panic], [Fail] or [Sleep].
func CheckRules(list string) error {
	_, err := parseRules(list)
	return err
}

func parse(properties map[string]string) (*rules, error) {
	r := &rules{sleep: DefaultSleepMillis * time.Millisecond}
	var errs []error
	for _, list := range []struct {
		name string
		into *[]rule
	}{{Panic, &r.panics}, {Fail, &r.fails}, {Sleep, &r.sleeps}} {
		var err error
		if *list.into, err = parseRules(properties[list.name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", list.name, err))
		}
	}
	if text, given := properties[SleepMillis]; given {
		ms, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || ms < 0 || ms > MaxSleepMillis {
			errs = append(errs, fmt.Errorf("%s: %q is not a number from 0 to %d", SleepMillis, text, MaxSleepMillis))
		}
		r.sleep = time.Duration(ms) * time.Millisecond
	}
	return r, errors.Join(errs...)
}

func parseRules(list string) ([]rule, error) {
	var all []rule
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		r := rule{any: text == "*"}
		r.key, r.value, r.valued = strings.Cut(text, "=")
		if r.key == "" {
			return nil, fmt.Errorf("%q names no configuration (allowed: KEY, KEY=VALUE or *)", text)
		}
		all = append(all, r)
	}
	return all, nil
}

// meets tells whether one of the rules is about a push.
func meets(all []rule, push *configpush.Push) bool {
	for i := range all {
		r := &all[i]
		if r.any {
			return true
		}
		for j := range push.Entries {
			if e := &push.Entries[j]; e.Key == r.key && (!r.valued || e.Value == r.value) {
				return true
			}
		}
	}
	return false
}

// Configure reads the properties.
func (p *Policy) Configure(properties map[string]string) error {
	r, err := parse(properties)
	if err != nil {
		return err
	}
	p.rules.Store(r)
	p.log.Warn("the policy for client configurations is fault: it is there to fail, and keeps nothing")
	return nil
}

// Reconfigure reads the properties again, for the pushes from now on.
func (p *Policy) Reconfigure(properties map[string]string) error {
	r, err := parse(properties)
	if err != nil {
		return err
	}
	p.rules.Store(r)
	return nil
}

// Process sleeps, panics or fails, in this order, when it is told to, and else takes the push. It does not look at ctx: a
// policy that did would not be one to test with.
func (p *Policy) Process(_ context.Context, push *configpush.Push) error {
	r := p.rules.Load()
	if meets(r.sleeps, push) {
		timer := time.NewTimer(r.sleep)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.woken:
		}
	}
	if meets(r.panics, push) {
		_ = push.Entries[len(push.Entries)] //nolint:gocritic // a bug as they are
	}
	if meets(r.fails, push) {
		return ErrAsked
	}
	return nil
}

// Close wakes those that sleep.
func (p *Policy) Close() error {
	if p.ended.CompareAndSwap(false, true) {
		close(p.woken)
	}
	return nil
}
