package engine

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestATopicThatTheDiskDidNotTakeIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openEngine(t, Options{NodeID: 1, Dir: dir})
	inTheWay := filepath.Join(dir, "topics.json.tmp")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "lost", 1, 1
	req.Topics = append(req.Topics, topic)
	c := e.Client(netip.AddrPort{}, "c")
	defer c.Close()
	failed := make(chan error, 1)
	c.Do(req, func(_ kmsg.Response, err error) { failed <- err })
	var refused *RefusedError
	if err := <-failed; !errors.As(err, &refused) || refused.Code != kerr.KafkaStorageError.Code {
		t.Errorf("creating a topic that cannot be written = %v, want error %d", err, kerr.KafkaStorageError.Code)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	createTopic(t, e, "kept", 1)
}
