package push_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/configpush/push"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// framed is an answer with the correlation id of another one and this after it.
func framed(answer, body []byte) []byte {
	frame := append(make([]byte, 4, 8+len(body)), answer[4:8]...)
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// listing is an answer to ApiVersions that lists PushConfig with these versions, a pair each.
func listing(versions ...int16) func(io.Writer, []byte) bool {
	return changed(func(answer []byte) []byte {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.Version = 3
		for i := 0; i < len(versions); i += 2 {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MinVersion, k.MaxVersion = keyPush, versions[i], versions[i+1]
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		return framed(answer, resp.AppendTo(nil))
	})
}

// replying is an answer to the push.
func replying(change func(*protocol.PushConfigResponse)) func(io.Writer, []byte) bool {
	return changed(func(answer []byte) []byte {
		resp := protocol.NewPtrPushConfigResponse()
		change(resp)
		return framed(answer, resp.AppendTo([]byte{0})) // a header without tags
	})
}

func body(b ...byte) func(io.Writer, []byte) bool {
	return changed(func(answer []byte) []byte { return framed(answer, b) })
}

// Whatever a broker answers to the question that the hook asks, and to the push, the client produces and consumes afterwards.
func TestNoAnswerOfABrokerBreaksAClient(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	long := strings.Repeat("й\x1b[2J", 100_000)
	for _, c := range []struct {
		name               string
		onVersions, onPush func(io.Writer, []byte) bool
		want               push.Outcome
		pushes             int
	}{
		{"versions, closed", func(io.Writer, []byte) bool { return false }, nil, push.Failed, 0},
		{"versions, never", func(io.Writer, []byte) bool { return true }, nil, push.Failed, 0},
		{"versions, half", changed(func(b []byte) []byte { return b[:len(b)/2] }), nil, push.Failed, 0},
		{"versions, empty", body(), nil, push.Failed, 0},
		{"versions, garbage", body([]byte(strings.Repeat("\xde\xad\xbe\xef", 100))...), nil, push.Failed, 0},
		{"versions, endless array", body(0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), nil, push.Failed, 0},
		{"versions of another's", changed(func(b []byte) []byte { b[7] ^= 1; return b }), nil, push.Failed, 0},
		{"versions, negative size", changed(func(b []byte) []byte { b[0] = 0xff; return b }), nil, push.Failed, 0},
		{"versions, too small for an id", changed(func([]byte) []byte { return []byte{0, 0, 0, 3, 1, 2, 3, 4, 5} }), nil, push.Failed, 0},
		{"versions, not known any more", body(0, 35, 0, 0, 0, 0), nil, push.Unsupported, 0},
		{"versions, none", listing(), nil, push.Unsupported, 0},
		{"versions, only later ones", listing(1, 5), nil, push.Unsupported, 0},
		{"versions, upside down", listing(3, 0), nil, push.Unsupported, 0},
		{"versions, below zero", listing(-5, -1), nil, push.Unsupported, 0},
		{"versions, more than there are", listing(math.MinInt16, math.MaxInt16), nil, push.Accepted, 1},
		{"versions, twice", listing(0, 0, 0, 3), nil, push.Accepted, 1},
		{"push, throttled for ever", nil, replying(func(r *protocol.PushConfigResponse) { r.ThrottleMillis = math.MaxInt32 }), push.Accepted, 1},
		{"push, throttled for less than no time", nil, replying(func(r *protocol.PushConfigResponse) { r.ThrottleMillis = math.MinInt32 }), push.Accepted, 1},
		{"push, refused at length", nil, replying(func(r *protocol.PushConfigResponse) { r.ErrorCode, r.ErrorMessage = 137, &long }), push.Refused, 1},
		{"push, refused with a code below all", nil, replying(func(r *protocol.PushConfigResponse) { r.ErrorCode = math.MinInt16 }), push.Refused, 1},
		{"push, accepted with a message", nil, replying(func(r *protocol.PushConfigResponse) { r.ErrorMessage = &long }), push.Accepted, 1},
		{"push, garbage", nil, body([]byte(strings.Repeat("\xff", 64))...), push.Failed, 1},
		{"push, endless tags", nil, body(0xff, 0xff, 0xff, 0xff, 0x0f), push.Failed, 1},
		{"push, empty", nil, body(), push.Failed, 1},
		{"push, byte by byte", nil, func(client io.Writer, answer []byte) bool {
			for i := range answer {
				if _, err := client.Write(answer[i : i+1]); err != nil {
					return false
				}
			}
			return true
		}, push.Accepted, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &setup{proxy: startProxy(t, open.String()), log: &lines{}}
			s.onVersions, s.onPush = c.onVersions, c.onPush
			told := make(chan push.Result, 10)
			s.hook = push.New(push.Config{Timeout: time.Second, OnResult: func(r push.Result) { told <- r }})
			s.start(t)
			s.works(t)
			r := s.became(t, c.want)
			if got := s.count(keyPush); got != c.pushes || len(told) != 1 {
				t.Errorf("%d pushes and %d results, want %d and one", got, len(told), c.pushes)
			}
			if (r.Err != nil) != (c.want == push.Failed) {
				t.Errorf("Result() of what %s = error %v", c.want, r.Err)
			}
			for _, line := range s.log.all {
				if strings.ContainsAny(line, "\x1b\x00") {
					t.Errorf("log = %.200q, want nothing that a terminal obeys", line)
				}
			}
		})
	}
}

// tunnel is a connection that can have no deadlines, as one through SSH.
type tunnel struct{ net.Conn }

func (tunnel) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (tunnel) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (tunnel) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// A broker that says nothing would hold a client's first call for ever.
func TestNothingIsAskedWhereTheWaitHasNoBound(t *testing.T) {
	open, _ := startBroker(t, policyKeeps)
	s := &setup{proxy: startProxy(t, open.String()), log: &lines{}}
	silent := func(io.Writer, []byte) bool { return true }
	s.onVersions, s.onPush = silent, silent
	s.hook = push.New(push.Config{})
	s.start(t, kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := s.dial(ctx, network, addr)
		return tunnel{conn}, err
	}))
	s.works(t)
	if r := s.became(t, push.Failed); !errors.Is(r.Err, os.ErrNoDeadline) {
		t.Errorf("Result() = %v, want %v", r.Err, os.ErrNoDeadline)
	}
	if got := s.count(keyPush); got != 0 {
		t.Errorf("%d pushes, want none", got)
	}
}
