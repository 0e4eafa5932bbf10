package engine

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestPartitionsAreGivenToTheNodesInTurn(t *testing.T) {
	h, ctx := hostEngine(t, 3), timeout(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(h.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	starts := map[int32]bool{}
	for n := range 30 {
		name := fmt.Sprint("t", n)
		create := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 4, 1
		create.Topics = append(create.Topics, topic)
		if _, err := create.RequestWith(ctx, cl); err != nil {
			t.Fatal(err)
		}
		more := kmsg.NewPtrCreatePartitionsRequest()
		grown := kmsg.NewCreatePartitionsRequestTopic()
		grown.Topic, grown.Count = name, 6
		more.Topics, more.TimeoutMillis = append(more.Topics, grown), 1000
		if _, err := more.RequestWith(ctx, cl); err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		metadata, err := req.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		leaders := make([]int32, 6)
		for _, p := range metadata.Topics[0].Partitions {
			leaders[p.Partition] = p.Leader
		}
		starts[leaders[0]] = true
		for i, leader := range leaders {
			if want := (leaders[0]-1+int32(i))%3 + 1; leader != want {
				t.Errorf("leaders of %s = %v, want them in turn", name, leaders)
				break
			}
		}
	}
	if len(starts) != 3 {
		t.Errorf("30 topics begin with the nodes %v, want each of the three", starts)
	}
}
