package fleet

import (
	"strconv"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Number in a value of [Group.Push] stands for the client's number within its group.
const Number = "{i}"

// Config is one configuration that clients push. Nothing is checked or left out: a broker is to cope with anything.
type Config struct {
	Key     string `json:"key"`
	Value   string `json:"value"` // with [Number], each client has its own
	Type    int8   `json:"type,omitempty"`
	Default bool   `json:"default,omitempty"`
}

// PushRequest is the PushConfig of client number i.
func PushRequest(configs []Config, i int) *protocol.PushConfigRequest {
	req := protocol.NewPtrPushConfigRequest()
	number := strconv.Itoa(i)
	for _, c := range configs {
		req.Configs = append(req.Configs, protocol.PushConfigRequestConfig{
			Key: c.Key, Value: strings.ReplaceAll(c.Value, Number, number), Type: c.Type, IsDefault: c.Default,
		})
	}
	return req
}

// push tells the broker what the client is configured with, before it says anything else. A refusal is only noted.
func (c *client) push() error {
	c.enter(Pushing)
	begin := time.Now()
	resp, err := c.roundTrip(PushRequest(c.group.Push, c.index))
	if err != nil {
		return err
	}
	took := time.Since(begin)
	c.answered(func(r *Record) {
		r.Push = resp.(*protocol.PushConfigResponse).ErrorCode //nolint:forcetypeassert // roundTrip made it
		r.Pushed = time.Since(r.Started)
	})
	c.fleet.observe(PushLatency, took)
	return nil
}
