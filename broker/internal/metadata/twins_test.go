package metadata

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A process that was started by mistake with the node id of a broker that lives is not let in, and does nothing in its name: the
// log would take that broker's own changes for those of the past.
func TestAProcessThatIsNotLetInDoesNothingInTheNameOfTheOther(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	o := at(c, 1)
	first := open(t, o)
	join(t, first, calm)
	dead := open(t, at(c, 3))
	join(t, dead, calm)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	o.every = snapshotEvery{entries: 1, bytes: 1 << 30} // time for one at once
	twin := open(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 3*brisk.Session)
	defer cancel()
	if err := twin.Join(ctx, brokerOf(1), brisk); !errors.Is(err, ErrDuplicateBroker) {
		t.Errorf("Join() of the twin = %v, want %v", err, ErrDuplicateBroker)
	}
	if err := first.Append(within(t), alice()); err != nil {
		t.Errorf("Append() at the broker that lives = %v", err)
	}
}

func TestHeartbeatsGoOnWhenTheirTopicIsDeleted(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	join(t, a, brisk)
	join(t, b, brisk)
	gone := kmsg.NewPtrDeleteTopicsRequest()
	gone.TopicNames = []string{sharedTopic + "_heartbeats"}
	gone.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &gone.TopicNames[0]}}
	resp, err := gone.RequestWith(within(t), a.log.kafka.client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("DeleteTopics = %+v, %v", resp, err)
	}
	deleted := time.Now()
	eventually(t, "both live on, in a topic that is there", func() bool {
		_, err := a.log.kafka.describe(within(t), sharedTopic+"_heartbeats")
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			t.Fatal(err)
		}
		return err == nil && time.Since(deleted) > 2*brisk.Session && !a.Fenced() && !b.Fenced()
	})
}
