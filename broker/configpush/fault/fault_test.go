package fault_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/configpush/fault"
)

func configured(t *testing.T, properties map[string]string) *fault.Policy {
	t.Helper()
	p := fault.New(slog.New(slog.DiscardHandler))
	if err := p.Configure(properties); err != nil {
		t.Fatal(err)
	}
	return p
}

func push(configs ...string) *configpush.Push {
	p := &configpush.Push{}
	for i := 0; i < len(configs); i += 2 {
		p.Entries = append(p.Entries, configpush.Entry{Key: configs[i], Value: configs[i+1]})
	}
	return p
}

// became is what a push comes to: taken, failed or panic.
func became(p *fault.Policy, it *configpush.Push) (what string) {
	defer func() {
		if v := recover(); v != nil {
			what = "panic"
			if _, ok := v.(runtime.Error); !ok {
				what = "panic of its own making"
			}
		}
	}()
	switch err := p.Process(context.Background(), it); {
	case err == nil:
		return "taken"
	case errors.Is(err, fault.ErrAsked):
		return "failed"
	default:
		return err.Error()
	}
}

func TestAPushPicksItsOwnFate(t *testing.T) {
	p := configured(t, map[string]string{fault.Panic: "client.id=unlucky, boom", fault.Fail: " x=1 ,,x=2, client.id=unlucky, empty="})
	for _, c := range []struct {
		push *configpush.Push
		want string
	}{
		{push(), "taken"},
		{push("acks", "all"), "taken"},
		{push("client.id", "lucky"), "taken"},
		{push("client.id", "unlucky"), "panic"}, // before it fails
		{push("acks", "1", "boom", ""), "panic"},
		{push("x", "1"), "failed"},
		{push("x", "2"), "failed"},
		{push("x", "3"), "taken"},
		{push("X", "1"), "taken"},
		{push("empty", ""), "failed"},
		{push("empty", "no"), "taken"},
	} {
		if got := became(p, c.push); got != c.want {
			t.Errorf("%v is %s, want %s", c.push.Entries, got, c.want)
		}
	}
	if err := p.Reconfigure(map[string]string{fault.Fail: "*"}); err != nil {
		t.Fatal(err)
	}
	if got := became(p, push()); got != "failed" {
		t.Errorf("a push is %s when all are to fail, want failed", got)
	}
	if err := p.Reconfigure(map[string]string{fault.Fail: "=x"}); err == nil {
		t.Error("Reconfigure() with a rule of no key = nil")
	}
	if got := became(p, push()); got != "failed" {
		t.Errorf("a push is %s after properties that are wrong, want failed as before", got)
	}
}

func TestASleepEndsWithItsTimeOrTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, map[string]string{fault.Sleep: "nap", fault.SleepMillis: "700", fault.Fail: "nap=bad"})
		begun := time.Now()
		if got := became(p, push("nap", "good")); got != "taken" || time.Since(begun) != 700*time.Millisecond {
			t.Errorf("a push that is slept on is %s after %v, want taken after 700ms", got, time.Since(begun))
		}
		if got := became(p, push("nap", "bad")); got != "failed" {
			t.Errorf("a push that is slept on and then fails is %s", got)
		}
		ended := make(chan time.Duration)
		begun = time.Now()
		go func() {
			became(p, push("nap", ""))
			ended <- time.Since(begun)
		}()
		<-time.After(300 * time.Millisecond)
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Fatal(err)
		}
		if took := <-ended; took != 300*time.Millisecond {
			t.Errorf("a sleep ends %v after it began, want when the policy is closed, 300ms", took)
		}
	})
}

func TestPropertiesThatAreWrongAreAllNamed(t *testing.T) {
	for text, wants := range map[string][]string{
		"10001": nil, "0": nil, "3600001": {fault.SleepMillis, "3600001", "3600000"}, "-1": {fault.SleepMillis}, "1s": {fault.SleepMillis, `"1s"`}, "": {fault.SleepMillis},
	} {
		err := fault.New(slog.New(slog.DiscardHandler)).Configure(map[string]string{fault.SleepMillis: text})
		if (err != nil) != (wants != nil) {
			t.Errorf("Configure(%s=%q) = %v", fault.SleepMillis, text, err)
		}
		for _, want := range wants {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("Configure(%s=%q) = %v, want %q in it", fault.SleepMillis, text, err, want)
			}
		}
	}
	err := fault.New(slog.New(slog.DiscardHandler)).Configure(map[string]string{fault.Panic: "=x", fault.Fail: "a,=,b", fault.SleepMillis: "x"})
	for _, want := range []string{fault.Panic, fault.Fail, fault.SleepMillis} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Configure() = %v, want %s in it", err, want)
		}
	}
}

func TestItSaysThatItIsThere(t *testing.T) {
	var text bytes.Buffer
	p := fault.New(slog.New(slog.NewTextHandler(&text, nil)))
	if err := errors.Join(p.Configure(nil), p.Close()); err != nil || !strings.Contains(text.String(), "level=WARN") {
		t.Errorf("the log has %q, %v, want a warning", text.String(), err)
	}
}
