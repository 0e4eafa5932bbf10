// Package push is the client's side of KIP-1324 for franz-go: it tells the broker what a [kgo.Client] is configured with.
//
// A [Hook] belongs to one client. When the client is made, the hook reads its options, gives them Kafka's names and types,
// and takes out what may be a secret. The first connection that is ready, which is after SASL, is held back until the
// broker has said whether it knows PushConfig, and if so has answered one; so are others that become ready meanwhile. Then
// the client's first request goes out. That was all: a client pushes once in its life, to no second broker and after no
// failure.
//
// kgo tells nobody what a broker's ApiVersions said, so the hook asks again: one small request and the push are what it
// adds to a client's first call, and [Result] says how long they took. What becomes of the push changes nothing about the
// client's own requests, with one exception: a broker that is silent for longer than a SASL session lasts
// (connections.max.reauth.ms) can fail the call that waits, so the time for a push is to be clearly shorter than that. After a
// time-out or an answer that makes no sense the hook closes the connection, since it cannot know what will still come on it;
// kgo then makes another, and its caller notices the time alone. So it does, before it sends anything, with a connection that
// can have no deadline.
package push

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/configpush"
)

// The client's properties of KIP-1324.
const (
	EnableKey      = "enable.config.push"
	AllowedKeysKey = "config.push.allowed.keys"
)

// Config says what a client pushes. The zero Config is what the proposal has by default.
type Config struct {
	// Disable is enable.config.push=false: the client does not even ask whether the broker would take a push.
	Disable bool
	// AllowedKeys is config.push.allowed.keys: Kafka's names of what may be pushed, instead of the built-in lists. Nil: the
	// built-in lists. Empty: nothing. Names that franz-go has no option for are left out, and those that may be secrets too.
	AllowedKeys []string
	// Key is the number of PushConfig; 0: 95. It is for brokers whose push.config.api.key differs.
	Key int16
	// Timeout bounds all that the hook does on a connection; 0: the client's RequestTimeoutOverhead.
	Timeout time.Duration
	// OnResult is told what became of the push, once; nil: nobody is. It is called while the connection waits, so it must
	// not wait for the client.
	OnResult func(Result)
}

// ParseConfig reads a Config from properties by Kafka's names; others are ignored.
func ParseConfig(properties map[string]string) (Config, error) {
	var c Config
	if text, ok := properties[EnableKey]; ok {
		enable, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(text)))
		if err != nil {
			return Config{}, fmt.Errorf("%s: %q is neither true nor false", EnableKey, text)
		}
		c.Disable = !enable
	}
	if text, ok := properties[AllowedKeysKey]; ok {
		c.AllowedKeys = []string{}
		for key := range strings.SplitSeq(text, ",") {
			if key = strings.TrimSpace(key); key != "" {
				c.AllowedKeys = append(c.AllowedKeys, key)
			}
		}
	}
	return c, nil
}

// Outcome is what became of a client's push.
type Outcome string

const (
	// Accepted was taken by the broker.
	Accepted Outcome = "accepted"
	// Refused got an error code, see [Result.Code].
	Refused Outcome = "refused"
	// Failed got no answer, or one that makes no sense, see [Result.Err].
	Failed Outcome = "failed"
	// Unsupported was not sent: the broker does not list PushConfig.
	Unsupported Outcome = "unsupported"
	// TooLarge was not sent: it has more than [configpush.DefaultMaxBytes].
	TooLarge Outcome = "too large"
	// Nothing was not sent: nothing was left to be sent.
	Nothing Outcome = "nothing to send"
	// Disabled was not sent, because of [Config.Disable].
	Disabled Outcome = "disabled"
)

// Result is what became of a client's push.
type Result struct {
	Outcome Outcome
	Bytes   int // of keys and values, by [configpush.Size]; also where they were not sent
	// Entries are what was to be sent; nobody may change them.
	Entries []configpush.Entry
	// Withheld are the keys that were left out because they, or their values, may be secrets.
	Withheld []string
	// Took is the time that the client's first call waited for it: 0 when no connection did.
	Took time.Duration
	// Broker is whom the client asked; zero when it asked nobody.
	Broker  kgo.BrokerMetadata
	Code    int16  // Kafka's error code of a refused one
	Message string // the broker's, as it came; "" when it sent none
	Err     error  // of a failed one
}

// Hook pushes the configuration of one client, to which it is given by kgo.WithHooks. Safe for concurrent use.
type Hook struct {
	config Config
	turn   chan struct{} // who has put something into it may decide
	over   atomic.Bool   // decided

	mu     sync.Mutex // guards the rest
	client *kgo.Client
	result Result
}

var (
	_ kgo.HookNewClient     = (*Hook)(nil)
	_ kgo.HookBrokerConnect = (*Hook)(nil)
)

// New returns a hook for one client. A second client needs another one.
func New(c Config) *Hook { return &Hook{config: c, turn: make(chan struct{}, 1)} }

// Result tells what became of the push, and whether that is known yet.
func (h *Hook) Result() (Result, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.result, h.over.Load()
}

// OnNewClient reads the client's options; kgo calls it.
func (h *Hook) OnNewClient(cl *kgo.Client) {
	h.mu.Lock()
	again := h.client != nil
	if !again {
		h.client = cl
	}
	h.mu.Unlock()
	if again {
		warn(cl, "a push.Hook serves one client: this one's configuration is not pushed")
		return
	}
	if h.config.Disable {
		h.decide(&Result{Outcome: Disabled})
		return
	}
	entries, withheld := collect(cl, &h.config)
	r := Result{Entries: entries, Withheld: withheld, Bytes: configpush.Size(entries)}
	if len(withheld) > 0 {
		warn(cl, "configurations that may be secrets are not pushed", "keys", withheld)
	}
	switch {
	case len(entries) == 0:
		r.Outcome = Nothing
	case r.Bytes > configpush.DefaultMaxBytes:
		r.Outcome = TooLarge
		warn(cl, "the configuration is too large to be pushed", "bytes", r.Bytes, "max", configpush.DefaultMaxBytes)
	default:
		h.mu.Lock()
		h.result = r
		h.mu.Unlock()
		return
	}
	h.decide(&r)
}

// OnBrokerConnect pushes over the first connection that is ready; kgo calls it, and uses the connection afterwards.
func (h *Hook) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	if err != nil || conn == nil || h.over.Load() {
		return
	}
	h.mu.Lock()
	cl, r := h.client, h.result
	h.mu.Unlock()
	if cl == nil || busy(cl, meta) {
		return
	}
	select {
	case h.turn <- struct{}{}:
	case <-cl.Context().Done():
		return
	}
	defer func() { <-h.turn }()
	if h.over.Load() {
		return
	}
	r.Broker = meta
	begun := time.Now()
	if sent := h.push(cl, conn, &r); !sent && errors.Is(r.Err, net.ErrClosed) {
		return // kgo had closed it: the next connection will do
	}
	r.Took = time.Since(begun)
	if r.Outcome == Failed {
		_ = conn.Close() // kgo makes another
	}
	report(cl, &r)
	h.decide(&r)
}

// busy tells whether kgo may be reading from the connection already: it does where a producer wants no acknowledgements.
// Such connections are never to a seed, and the first one is.
func busy(cl *kgo.Client, meta kgo.BrokerMetadata) bool {
	return cl.OptValue(kgo.RequiredAcks) == kgo.NoAck() && meta.NodeID >= 0
}

func (h *Hook) decide(r *Result) {
	h.mu.Lock()
	h.result = *r
	h.over.Store(true)
	h.mu.Unlock()
	if h.config.OnResult != nil {
		h.config.OnResult(*r)
	}
}

func report(cl *kgo.Client, r *Result) {
	broker := kgo.NodeName(r.Broker.NodeID)
	switch r.Outcome {
	case Accepted:
		say(cl, kgo.LogLevelInfo, "the client's configuration was pushed", "broker", broker, "bytes", r.Bytes, "took", r.Took)
	case Refused:
		warn(cl, "the broker refused the client's configuration", "broker", broker, "code", r.Code,
			"message", configpush.Printable(r.Message), "bytes", r.Bytes, "took", r.Took)
	case Failed:
		warn(cl, "the client's configuration could not be pushed", "broker", broker, "err", r.Err, "took", r.Took)
	default:
		say(cl, kgo.LogLevelDebug, "the client's configuration is not pushed", "why", string(r.Outcome), "broker", broker, "took", r.Took)
	}
}

func warn(cl *kgo.Client, text string, values ...any) { say(cl, kgo.LogLevelWarn, text, values...) }

func say(cl *kgo.Client, level kgo.LogLevel, text string, values ...any) {
	if logger, ok := cl.OptValue(kgo.WithLogger).(kgo.Logger); ok && logger.Level() >= level {
		logger.Log(level, text, values...)
	}
}

// bounded ends what is done on conn after the timeout, and with the client. The undo leaves conn as kgo left it. The error
// is that of a connection that is closed, or that cannot have a deadline, as one of [kgo.Dialer]'s through SSH: what is
// asked on that may wait for ever.
func bounded(ctx context.Context, conn net.Conn, timeout time.Duration) (undo func(), err error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, fmt.Errorf("bound the time that it takes: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	return func() {
		if stop() {
			_ = conn.SetDeadline(time.Time{})
		}
		if ctx.Err() != nil {
			_ = conn.SetDeadline(time.Now())
		}
	}, nil
}
