package admin

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ClientConfig is a Kafka client.properties file as a kgo client understands it.
type ClientConfig struct {
	Options        []kgo.Opt     // security, client id and time-outs; no seed brokers and no [Versions]
	Bootstrap      []string      // bootstrap.servers, when the file has it
	RequestTimeout time.Duration // request.timeout.ms; 30 s when the file does not have it
	Warnings       []string      // keys that mean nothing here, one text each
}

// LoadClientConfig reads a client.properties file. A file that is wrong is one error that joins all its problems, each
// with the line it is on.
func LoadClientConfig(path string) (*ClientConfig, error) { return nil, errors.ErrUnsupported }

// ClientOptions is [LoadClientConfig] for callers that need the options only.
func ClientOptions(path string) ([]kgo.Opt, error) {
	c, err := LoadClientConfig(path)
	if err != nil {
		return nil, err
	}
	return c.Options, nil
}
