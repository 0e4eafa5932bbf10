package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
)

// Who looks after a cluster does so when its engine is gone, too.
func TestWithoutItsEngineAClusterTellsOfItsBrokers(t *testing.T) {
	t.Parallel()
	bootstrap, metadata, stop := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0", Metadata: engineHost + ":0"})
	var all [2]*broker.Broker
	for i := range all {
		all[i], _ = startStoppable(t, faceOf(t, i+1, bootstrap, metadata, "broker.session.timeout.ms=600000", "initial.broker.registration.timeout.ms=600000"))
	}
	r := dial(t, all[0].Addr("PLAINTEXT"))
	brokers := func() int {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.Topics = 12, []kmsg.MetadataRequestTopic{}
		return len(ask[*kmsg.MetadataResponse](r, req).Brokers)
	}
	until(t, "both brokers are known", func() bool { return brokers() == len(all) })
	stop()
	if n := brokers(); n != len(all) {
		t.Errorf("Metadata of no topics names %d brokers without an engine, want %d", n, len(all))
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(all[0].Addr("PLAINTEXT").String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if rows, err := admin.New(cl).ListClientConnections(t.Context(), admin.ListFilter{}); err != nil || len(rows) < 2 {
		t.Errorf("ListClientConnections = %d rows, %v, want at least those of both clients", len(rows), err)
	}
}
