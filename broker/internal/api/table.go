package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// table is the one registry of the APIs. A row's file NN_name.go says what it needs and how it
// differs from Kafka's; a test holds the two together.
func table(o Options) []row {
	rows := []row{
		forward(kmsg.Produce, 3, 13, produce()),
		forward(kmsg.Fetch, 4, 18, fetch()),
		forward(kmsg.ListOffsets, 1, 11, listOffsets()),
		passing(wait(kmsg.Metadata, 0, 13, []string{"Topics.Topic", "Topics.TopicID"}, describeMetadata)),
		forward(kmsg.OffsetCommit, 2, 10, offsetCommit()),
		forward(kmsg.OffsetFetch, 1, 10, offsetFetch()),
		forward(kmsg.FindCoordinator, 0, 6, findCoordinator()),
		forward(kmsg.JoinGroup, 0, 9, joinGroup()),
		forward(kmsg.Heartbeat, 0, 4, heartbeat()),
		forward(kmsg.LeaveGroup, 0, 5, leaveGroup()),
		forward(kmsg.SyncGroup, 0, 5, syncGroup()),
		forward(kmsg.DescribeGroups, 0, 6, describeGroups()),
		forward(kmsg.ListGroups, 0, 5, listGroups()),
		serve(kmsg.SASLHandshake, 0, 1, saslHandshake),
		wait(kmsg.ApiVersions, 0, 5, nil, apiVersions),
		forward(kmsg.CreateTopics, 2, 7, createTopics()),
		forward(kmsg.DeleteTopics, 1, 6, deleteTopics()),
		forward(kmsg.DeleteRecords, 0, 2, deleteRecords()),
		forward(kmsg.InitProducerID, 0, 5, initProducerID()),
		forward(kmsg.OffsetForLeaderEpoch, 2, 4, offsetForLeaderEpoch()),
		forward(kmsg.AddPartitionsToTxn, 0, 5, addPartitionsToTxn()),
		forward(kmsg.AddOffsetsToTxn, 0, 4, addOffsetsToTxn()),
		forward(kmsg.EndTxn, 0, 5, endTxn()),
		forward(kmsg.TxnOffsetCommit, 0, 6, txnOffsetCommit()),
		serve(kmsg.DescribeACLs, 1, 3, describeACLs),
		waiting(serve(kmsg.CreateACLs, 1, 3, createACLs)),
		waiting(serve(kmsg.DeleteACLs, 1, 3, deleteACLs)),
		passing(wait(kmsg.DescribeConfigs, 1, 4, nil, describeConfigs)),
		waiting(passing(wait(kmsg.AlterConfigs, 0, 2, nil, alterConfigs))),
		wait(kmsg.AlterReplicaLogDirs, 1, 2, []string{"Dirs.Topics.Topic"}, alterReplicaLogDirs),
		forward(kmsg.DescribeLogDirs, 1, 5, describeLogDirs()),
		serve(kmsg.SASLAuthenticate, 0, 2, saslAuthenticate),
		forward(kmsg.CreatePartitions, 0, 3, createPartitions()),
		forward(kmsg.DeleteGroups, 0, 2, deleteGroups()),
		forward(kmsg.ElectLeaders, 0, 2, electLeaders()),
		waiting(passing(wait(kmsg.IncrementalAlterConfigs, 0, 1, nil, incrementalAlterConfigs))),
		forward(kmsg.AlterPartitionAssignments, 0, 1, alterPartitionReassignments()),
		forward(kmsg.ListPartitionReassignments, 0, 0, listPartitionReassignments()),
		forward(kmsg.OffsetDelete, 0, 0, offsetDelete()),
		needing(serve(kmsg.DescribeClientQuotas, 0, 1, describeClientQuotas), cluster(acl.DescribeConfigs)),
		needing(waiting(serve(kmsg.AlterClientQuotas, 0, 1, alterClientQuotas)), cluster(acl.AlterConfigs)),
		needing(serve(kmsg.DescribeUserSCRAMCredentials, 0, 0, describeUserSCRAMCredentials), cluster(acl.Describe)),
		needing(waiting(serve(kmsg.AlterUserSCRAMCredentials, 0, 0, alterUserSCRAMCredentials)), cluster(acl.Alter)),
		needing(serve(kmsg.DescribeQuorum, 0, 2, describeQuorum), cluster(acl.Describe)),
		needing(waiting(serve(kmsg.UpdateFeatures, 0, 2, updateFeatures)), cluster(acl.Alter)),
		serve(kmsg.DescribeCluster, 0, 2, describeCluster),
		forward(kmsg.DescribeProducers, 0, 0, describeProducers()),
		needing(waiting(serve(kmsg.UnregisterBroker, 0, 0, unregisterBroker)), cluster(acl.Alter)),
		forward(kmsg.DescribeTransactions, 0, 0, describeTransactions()),
		forward(kmsg.ListTransactions, 0, 2, listTransactions()),
		forward(kmsg.ConsumerGroupHeartbeat, 0, 1, consumerGroupHeartbeat()),
		forward(kmsg.ConsumerGroupDescribe, 0, 1, consumerGroupDescribe()),
		forward(kmsg.ListConfigResources, 0, 1, listConfigResources()),
		forward(kmsg.DescribeTopicPartitions, 0, 0, describeTopicPartitions()),
		forward(kmsg.ShareGroupHeartbeat, 1, 1, shareGroupHeartbeat()),
		forward(kmsg.ShareGroupDescribe, 1, 1, shareGroupDescribe()),
		forward(kmsg.ShareFetch, 1, 2, shareFetch()),
		forward(kmsg.ShareAcknowledge, 1, 2, shareAcknowledge()),
		forward(kmsg.DescribeShareGroupOffsets, 0, 1, describeShareGroupOffsets()),
		forward(kmsg.AlterShareGroupOffsets, 0, 0, alterShareGroupOffsets()),
		forward(kmsg.DeleteShareGroupOffsets, 0, 0, deleteShareGroupOffsets()),
	}
	names := o.Keys.Names()
	for _, r := range []row{
		needing(serve(kmsg.Key(o.Keys.ListClientConnections), 0, 0, listClientConnections), cluster(acl.Describe)),
		wait(kmsg.Key(o.Keys.PushConfig), 0, 0, nil, pushConfig),
	} {
		r.name = names[r.key]
		r.hidden = r.key == o.Keys.PushConfig && o.ConfigPolicy == nil
		rows = append(rows, r)
	}
	if !o.OwnAPIs {
		return rows
	}
	for _, r := range []row{
		needing(serve(kmsg.Key(protocol.DefaultDescribeConnectionsKey), 0, 0, describeConnections), cluster(acl.Describe)),
		needing(serve(kmsg.Key(protocol.DefaultDescribeKernelKey), 0, 0, describeKernel), cluster(acl.Describe)),
		needing(serve(kmsg.Key(protocol.DefaultDescribeClosedKey), 0, 0, describeClosedConnections), cluster(acl.Describe)),
		needing(serve(kmsg.Key(protocol.DefaultDescribeLimitsKey), 0, 0, describeLimits), cluster(acl.Describe)),
		needing(serve(kmsg.Key(protocol.DefaultCloseConnectionsKey), 0, 0, closeConnections), cluster(acl.Alter)),
		needing(serve(kmsg.Key(protocol.DefaultDescribeTimelineKey), 0, 0, describeConnectionTimeline), cluster(acl.Describe)),
		needing(serve(kmsg.Key(protocol.DefaultDescribeClientConfigsKey), 0, 0, describeClientConfigs), cluster(acl.Describe)),
		needing(serve(kmsg.Key(protocol.DefaultDescribeMetadataKey), 0, 0, describeClusterMetadata), cluster(acl.Describe)),
	} {
		r.name = names[r.key]
		rows = append(rows, r)
	}
	return rows
}

// CheckKeys tells whether a key that is a matter of configuration is taken by another API.
func CheckKeys(keys protocol.Keys) error {
	names := map[int16]string{}
	for _, r := range table(Options{Keys: keys, OwnAPIs: true}) {
		if other, taken := names[r.key]; taken {
			return fmt.Errorf("API key %d is that of %s: list.client.connections.api.key and push.config.api.key must be others", r.key, other)
		}
		names[r.key] = r.name
	}
	return nil
}

// serveable keys the rows, leaving out what the data plane does not have.
func serveable(rows []row, has map[int16]engine.VersionRange) map[int16]*row {
	m := make(map[int16]*row, len(rows))
	for i := range rows {
		r := &rows[i]
		v, ok := has[r.key]
		if r.passing && ok {
			r.max = min(r.max, v.Max) // a lower one is asked for by the lowest that there is
		}
		if !r.ours {
			r.min, r.max = max(r.min, v.Min), min(r.max, v.Max)
			if !ok || r.min > r.max {
				continue
			}
		}
		m[r.key] = r
	}
	return m
}
