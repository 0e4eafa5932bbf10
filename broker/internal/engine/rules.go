package engine

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rules lists every API that the data plane serves for clients, with what the guard does about it. An API that is
// absent never reaches the data plane: those about security, quotas, features and the connection itself are the front
// door's, telemetry is served by no broker without a receiver for it, DescribeQuorum and replication have no engine.
//
// What differs from Kafka and is not corrected here:
//   - Leader epochs count the engine's starts too.
//   - A kill between the markers of one transaction commits it in part; compaction is not safe from a kill either.
//   - After a kill, records that DeleteRecords removed from a segment that goes on are there again.
//   - Producer ids are never forgotten once a batch was written with them.
//   - A producer's epoch holds for all partitions: a new batch of the epoch before is refused. One that is written is known, see [windows].
func rules() map[int16]rule {
	return map[int16]rule{
		int16(kmsg.Produce):     {counted: true, admit: on(admitProduce)},
		int16(kmsg.Fetch):       {counted: true, admit: on(admitFetch)},
		int16(kmsg.ListOffsets): {},
		int16(kmsg.Metadata):    {admit: on(admitMetadata)},

		int16(kmsg.OffsetCommit):    {kept: true, admit: on(admitOffsetCommit)},
		int16(kmsg.OffsetFetch):     {admit: on(admitOffsetFetch)},
		int16(kmsg.FindCoordinator): {admit: on(admitFindCoordinator)},
		int16(kmsg.JoinGroup):       {admit: on(admitJoinGroup)},
		int16(kmsg.Heartbeat):       {admit: on(admitHeartbeat)},
		int16(kmsg.LeaveGroup):      {admit: on(admitLeaveGroup)},
		int16(kmsg.SyncGroup):       {admit: on(admitSyncGroup)},
		int16(kmsg.DescribeGroups):  {admit: on(admitDescribeGroups)},
		int16(kmsg.ListGroups):      {admit: on(admitListGroups)},
		int16(kmsg.DeleteGroups):    {kept: true},
		int16(kmsg.OffsetDelete):    {kept: true, admit: on(admitOffsetDelete)},

		int16(kmsg.CreateTopics):         {kept: true, admit: on(admitCreateTopics)},
		int16(kmsg.DeleteTopics):         {kept: true, admit: on(admitDeleteTopics)},
		int16(kmsg.DeleteRecords):        {kept: true},
		int16(kmsg.CreatePartitions):     {kept: true, admit: on(admitCreatePartitions)},
		int16(kmsg.OffsetForLeaderEpoch): {admit: on(admitOffsetForLeaderEpoch)},

		int16(kmsg.InitProducerID):       {kept: true, admit: on(admitInitProducerID)},
		int16(kmsg.AddPartitionsToTxn):   {kept: true, max: 3, admit: on(admitAddPartitionsToTxn)}, // later versions are for brokers
		int16(kmsg.AddOffsetsToTxn):      {kept: true, admit: on(admitAddOffsetsToTxn)},
		int16(kmsg.EndTxn):               {kept: true, admit: on(admitEndTxn)},
		int16(kmsg.TxnOffsetCommit):      {kept: true, admit: on(admitTxnOffsetCommit)},
		int16(kmsg.DescribeProducers):    {},
		int16(kmsg.DescribeTransactions): {admit: on(admitDescribeTransactions)},
		int16(kmsg.ListTransactions):     {},

		int16(kmsg.DescribeConfigs):            {admit: on(admitDescribeConfigs)},
		int16(kmsg.AlterConfigs):               {kept: true, admit: on(admitAlterConfigs)},
		int16(kmsg.IncrementalAlterConfigs):    {kept: true, admit: on(admitIncrementalAlterConfigs)},
		int16(kmsg.ListConfigResources):        {admit: on(admitListConfigResources)},
		int16(kmsg.DescribeLogDirs):            {admit: on(admitDescribeLogDirs)},
		int16(kmsg.ElectLeaders):               {admit: on(admitElectLeaders)},
		int16(kmsg.AlterPartitionAssignments):  {admit: on(admitAlterPartitionAssignments)},
		int16(kmsg.ListPartitionReassignments): {},
		int16(kmsg.DescribeCluster):            {admit: on(admitDescribeCluster)},
		int16(kmsg.DescribeTopicPartitions):    {admit: on(admitDescribeTopicPartitions)},

		int16(kmsg.ConsumerGroupHeartbeat):    {admit: on(admitConsumerGroupHeartbeat)},
		int16(kmsg.ConsumerGroupDescribe):     {admit: on(admitConsumerGroupDescribe)},
		int16(kmsg.ShareGroupHeartbeat):       {},
		int16(kmsg.ShareGroupDescribe):        {admit: on(admitShareGroupDescribe)},
		int16(kmsg.ShareFetch):                {admit: on(admitShareFetch)},
		int16(kmsg.ShareAcknowledge):          {admit: on(admitShareAcknowledge)},
		int16(kmsg.DescribeShareGroupOffsets): {admit: on(admitDescribeShareGroupOffsets)},
		int16(kmsg.AlterShareGroupOffsets):    {admit: on(admitAlterShareGroupOffsets)},
		int16(kmsg.DeleteShareGroupOffsets):   {},
	}
}

// offer is what of the data plane's versions clients may use.
func (e *Engine) offer(has *kmsg.ApiVersionsResponse) map[int16]VersionRange {
	out := make(map[int16]VersionRange, len(e.rules))
	for _, k := range has.ApiKeys {
		r, ok := e.rules[k.ApiKey]
		known := kmsg.RequestForKey(k.ApiKey)
		if !ok || known == nil {
			continue
		}
		v := VersionRange{Min: k.MinVersion, Max: min(k.MaxVersion, known.MaxVersion())}
		if r.max != 0 {
			v.Max = min(v.Max, r.max)
		}
		out[k.ApiKey] = v
	}
	return out
}
