// Package engine is the broker's data plane behind one narrow door: topics, records, groups and transactions.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrClosed answers every request made to a closed [Engine] or [Client].
var ErrClosed = errors.New("engine is closed")

// Options say how an [Engine] is opened.
type Options struct {
	// Dir holds topics and records; empty keeps everything in memory.
	Dir string
	// NodeID is node.id: the only node that the engine's answers name.
	NodeID int32
	// ClusterID is what Metadata and DescribeCluster answer.
	ClusterID string
	// SyncWrites makes each batch durable before it is acknowledged (log.flush.interval.messages=1).
	// Without it an acknowledged record survives the end of the process, not of the machine.
	SyncWrites bool
	// DefaultPartitions is num.partitions; 0 means 1.
	DefaultPartitions int
	// BrokerConfigs are Kafka broker properties that the data plane obeys (log.retention.ms, group.max.session.timeout.ms …).
	BrokerConfigs map[string]string
	// Log gets the engine's own lines; nil drops them.
	Log *slog.Logger
}

// VersionRange is the versions of one API that can be served, both ends included.
type VersionRange struct{ Min, Max int16 }

// Engine is an open data plane. Safe for concurrent use.
type Engine struct{}

// Client is the engine as one front-door connection sees it. It costs nothing but itself while no request is in flight.
type Client struct{}

// Open starts the data plane, recovering what Dir holds.
func Open(ctx context.Context, o Options) (*Engine, error) { return nil, ErrClosed }

// Close answers what is in flight with [ErrClosed], saves the state and ends every goroutine.
func (e *Engine) Close() error { return nil }

// Versions tells what [Client.Do] can serve; a key that is absent is refused.
func (e *Engine) Versions() map[int16]VersionRange { return nil }

// Client returns the engine for one front-door connection from remote.
func (e *Engine) Client(remote netip.AddrPort, clientID string) *Client { return &Client{} }

// Request makes one of the broker's own requests and waits for its answer.
func (e *Engine) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return nil, ErrClosed
}

// TopicName resolves a topic id.
func (e *Engine) TopicName(id [16]byte) (string, bool) { return "", false }

// TopicID resolves a topic name.
func (e *Engine) TopicID(name string) ([16]byte, bool) { return [16]byte{}, false }

// SetClientID changes the client id of the requests that follow.
func (c *Client) SetClientID(id string) {}

// Do hands req over and returns at once; done is called once, on another goroutine.
func (c *Client) Do(req kmsg.Request, done func(kmsg.Response, error)) {}

// Close says that the client is gone: what is in flight is cancelled.
func (c *Client) Close() {}
