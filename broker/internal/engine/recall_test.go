package engine

import (
	"context"
	"errors"
	"net"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// halting is a connection that takes half of what is written once it is told to.
type halting struct {
	net.Conn
	halt *atomic.Bool
}

func (h *halting) Write(b []byte) (int, error) {
	if !h.halt.Load() {
		return h.Conn.Write(b)
	}
	n, _ := h.Conn.Write(b[:len(b)/2])
	return n, net.ErrClosed
}

// Who sends a batch again has to know whether it may be there already.
func TestWhatWasNotSentWholeIsNotUnanswered(t *testing.T) {
	h := hostEngine(t, 1)
	var halt, unreachable atomic.Bool
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if unreachable.Load() {
			return nil, errors.New("no route")
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &halting{conn, &halt}, nil
	}})
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 1
	for what, broken := range map[string]*atomic.Bool{"half written": &halt, "without a connection": &unreachable} {
		broken.Store(true)
		face.leases.mu.Lock()
		for _, l := range face.leases.idle { // so that it has to connect
			go l.link.close()
		}
		face.leases.idle = nil
		face.leases.mu.Unlock()
		if _, err := face.Request(timeout(t), req); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnanswered) {
			t.Errorf("a request %s = %v, want ErrUnavailable and not ErrUnanswered", what, err)
		}
		broken.Store(false)
		eventually(t, "the engine is there again", func() bool {
			_, err := face.Request(timeout(t), req)
			return err == nil
		})
	}
}

func TestWhatIsKnownOfTopicsIsToldWhileTheirEngineIsAway(t *testing.T) {
	h := hostEngine(t, 2)
	other := openFace(t, 2, Remote{Seeds: []string{h.Addr()}})
	id, secret := createTopic(t, other, "t", 6), createTopic(t, other, "__secret", 1)
	face := openFace(t, 1, Remote{Seeds: []string{h.Addr()}, Hidden: func(topic string) bool { return topic == "__secret" }})

	told := ask[*kmsg.MetadataResponse](t, face, metadataRequest()).Topics
	recalled := func(topics ...kmsg.MetadataRequestTopic) []kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, topics
		resp, err := face.Recall(req)
		if err != nil {
			t.Fatalf("Recall(%+v) = %v", topics, err)
		}
		return resp.Topics
	}
	named, byID := func(name string) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{Topic: &name} },
		func(id [16]byte) kmsg.MetadataRequestTopic { return kmsg.MetadataRequestTopic{TopicID: id} }
	for what, got := range map[string][]kmsg.MetadataResponseTopic{"all": recalled(), "by name": recalled(named("t")), "by id": recalled(byID(id))} {
		if !reflect.DeepEqual(got, told) {
			t.Errorf("%s: %+v, want what was told before: %+v", what, got, told)
		}
	}
	for what, c := range map[string]struct {
		asked kmsg.MetadataRequestTopic
		code  int16
	}{
		"a name that is not known": {named("u"), kerr.LeaderNotAvailable.Code},
		"an id that is not known":  {byID([16]byte{1}), kerr.LeaderNotAvailable.Code},
		"a hidden name":            {named("__secret"), kerr.UnknownTopicOrPartition.Code},
		"a hidden id":              {byID(secret), kerr.UnknownTopicID.Code},
	} {
		if got := recalled(c.asked); len(got) != 1 || got[0].ErrorCode != c.code || len(got[0].Partitions) != 0 {
			t.Errorf("%s: %+v, want error %d", what, got, c.code)
		}
	}
	// What is told is a copy.
	recalled(named("t"))[0].Partitions[0].Leader = 77
	if got := recalled(named("t"))[0].Partitions[0].Leader; got == 77 {
		t.Error("an answer changed what is known")
	}
}
