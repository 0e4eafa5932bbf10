package broker_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

// Changes of the metadata wait for a log that does not answer; who only uses the broker must not wait with them.
func TestChangesThatWaitForTheMetadataLogKeepNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	bootstrap, _, _ := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0"})
	metadata, _, stopLog := engineAt(t, broker.EngineConfig{Listen: engineHost + ":0"})
	b, _ := startStoppable(t, faceOf(t, 1, bootstrap, metadata, "num.io.threads=2",
		"authorizer.class.name="+broker.StandardAuthorizer, "super.users=User:ANONYMOUS"))
	r := dial(t, b.Addr("INTERNAL"))
	changes := []kmsg.Request{
		&kmsg.CreateACLsRequest{Version: 3, Creations: []kmsg.CreateACLsRequestCreation{{
			ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: "t", ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
			Principal: "User:x", Host: "*", Operation: kmsg.ACLOperationRead, PermissionType: kmsg.ACLPermissionTypeAllow,
		}}},
		&kmsg.DeleteACLsRequest{Version: 3, Filters: []kmsg.DeleteACLsRequestFilter{{
			ResourceType: kmsg.ACLResourceTypeAny, ResourcePatternType: kmsg.ACLResourcePatternTypeAny, Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny,
		}}},
		&kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeBroker, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "max.connections", Value: new("100")}},
		}}},
		&kmsg.AlterClientQuotasRequest{Version: 1, Entries: []kmsg.AlterClientQuotasRequestEntry{{
			Entity: []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "ip"}}, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "connection_creation_rate", Value: 5}},
		}}},
		&kmsg.UpdateFeaturesRequest{Version: 1, FeatureUpdates: []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "group.version", MaxVersionLevel: 0, UpgradeType: 2}}},
		&kmsg.UnregisterBrokerRequest{BrokerID: 7},
	}
	var waiting []*raw
	for range changes {
		one := dial(t, b.Addr("INTERNAL"))
		ask[*kmsg.ApiVersionsResponse](one, versionsRequest(3)) // it is served, whatever becomes of the listener
		waiting = append(waiting, one)
	}
	stopLog()
	for i, req := range changes {
		waiting[i].request(req)
	}
	for range 20 { // more than there are workers
		if resp := topicsOf(r); len(resp.Brokers) != 1 {
			t.Fatalf("Metadata = %+v", resp)
		}
	}
}
