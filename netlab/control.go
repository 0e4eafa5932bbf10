package netlab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
)

// What is said over the owner's socket: one request a connection, then any number of replies, the last with Done.
type request struct {
	Op   string `json:"op"`
	Node string `json:"node,omitempty"`
	// Kafka, for opRestart of a node of kind kafka: the release that is to run from now on.
	Kafka *kafkahome.Home `json:"kafka,omitempty"`
}

// Operations of the owner.
const (
	opStatus  = "status"  // replies once
	opUp      = "up"      // starts nodes that do not run; replies with progress until all are ready
	opStart   = "start"   // a node; replies when it is ready
	opStop    = "stop"    // a node, gracefully
	opKill    = "kill"    // a node
	opRestart = "restart" // a node, gracefully; replies when it is ready
)

type reply struct {
	Progress string  `json:"progress,omitempty"`
	Status   *Status `json:"status,omitempty"`
	Error    string  `json:"error,omitempty"`
	Done     bool    `json:"done,omitempty"`
}

// errNoOwner is the answer of nobody: the owner is not there, or ended in the middle.
var errNoOwner = errors.New("the lab's owner does not answer")

// call asks the owner and passes its progress on.
func (h home) call(ctx context.Context, r request, progress func(string)) (*Status, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", h.path("owner.sock"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoOwner, err)
	}
	defer c.Close() //nolint:errcheck // everything was read, or nothing will be
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoOwner, err)
	}
	replies := json.NewDecoder(bufio.NewReader(c))
	for {
		var one reply
		if err := replies.Decode(&one); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%w: %w", errNoOwner, err)
		}
		switch {
		case one.Error != "":
			return one.Status, errors.New(one.Error)
		case one.Done:
			return one.Status, nil
		case one.Progress != "" && progress != nil:
			progress(one.Progress)
		}
	}
}
