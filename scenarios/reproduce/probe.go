package reproduce

import (
	"encoding/binary"
	"hash/crc32"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// A probe is a request that needs one right and nothing else.
type probe struct {
	name    string // as people know the request
	request kmsg.Request
	code    func(kmsg.Response) int16
}

// of makes a probe whose code is in an answer of type R.
func of[R kmsg.Response](name string, request kmsg.Request, code func(R) int16) *probe {
	return &probe{name, request, func(resp kmsg.Response) int16 {
		if answer, ok := resp.(R); ok {
			return code(answer)
		}
		return unknownServerError
	}}
}

// Codes of Kafka's that mean something here.
const (
	unknownServerError     = -1
	topicRefused           = 29
	groupRefused           = 30
	clusterRefused         = 31
	unsupportedVersion     = 35
	invalidRequest         = 42
	transactionalIDRefused = 53
)

// versions bounds the versions of requests to those that name topics, not ids, and that every Kafka from 2.8 on has.
func versions() *kversion.Versions {
	v := kversion.Stable()
	for key, most := range map[kmsg.Key]int16{
		kmsg.Produce: 9, kmsg.Fetch: 12, kmsg.Metadata: 9, kmsg.JoinGroup: 7, kmsg.FindCoordinator: 3, kmsg.InitProducerID: 4,
		kmsg.AddPartitionsToTxn: 5, kmsg.DescribeGroups: 5, kmsg.CreateTopics: 7, kmsg.DescribeCluster: 1,
	} {
		v.SetMaxKeyVersion(int16(key), most)
	}
	return v
}

// probeOf is the request that shows a decision in a lab, or nil where the operation is shown by no request of its own. It
// changes nothing but the lab's own resources, and of them as little as can be.
func probeOf(t acl.ResourceType, name string, op acl.Operation, node int32) *probe {
	switch t { //nolint:exhaustive // of the others there is no request
	case acl.Topic:
		return topicProbe(name, op)
	case acl.Group:
		return groupProbe(name, op)
	case acl.Cluster:
		return clusterProbe(op, node)
	case acl.TransactionalID:
		return transactionalProbe(name, op)
	}
	return nil
}

func topicProbe(name string, op acl.Operation) *probe {
	switch op { //nolint:exhaustive // the operations of a topic
	case acl.Read:
		req := kmsg.NewPtrFetchRequest()
		req.ReplicaID, req.MaxBytes, req.SessionEpoch = -1, 1, -1
		topic, partition := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		topic.Topic, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = name, 1, -1
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		return of("Fetch", req, func(r *kmsg.FetchResponse) int16 {
			if len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 {
				return r.Topics[0].Partitions[0].ErrorCode
			}
			return r.ErrorCode
		})
	case acl.Write:
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = 1, 10_000
		topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		topic.Topic, partition.Records = name, oneRecord()
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		return of("Produce", req, func(r *kmsg.ProduceResponse) int16 {
			if len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 {
				return r.Topics[0].Partitions[0].ErrorCode
			}
			return unknownServerError
		})
	case acl.Create:
		return createTopic(name)
	case acl.Delete:
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = 10_000
		topic, partition := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		topic.Topic = name // up to offset 0: none
		topic.Partitions = append(topic.Partitions, partition)
		req.Topics = append(req.Topics, topic)
		return of("DeleteRecords", req, func(r *kmsg.DeleteRecordsResponse) int16 {
			if len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 {
				return r.Topics[0].Partitions[0].ErrorCode
			}
			return unknownServerError
		})
	case acl.Alter:
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis, req.ValidateOnly = 10_000, true
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, 2
		req.Topics = append(req.Topics, topic)
		return of("CreatePartitions", req, func(r *kmsg.CreatePartitionsResponse) int16 {
			if len(r.Topics) == 1 {
				return r.Topics[0].ErrorCode
			}
			return unknownServerError
		})
	case acl.Describe:
		return of("Metadata", metadata(name), func(r *kmsg.MetadataResponse) int16 {
			if len(r.Topics) == 1 {
				return r.Topics[0].ErrorCode
			}
			return unknownServerError
		})
	case acl.DescribeConfigs:
		return describeConfigs(kmsg.ConfigResourceTypeTopic, name)
	case acl.AlterConfigs:
		return alterConfigs(kmsg.ConfigResourceTypeTopic, name, "retention.ms")
	}
	return nil
}

// createTopic asks for a topic that need not come to be: it needs CREATE on the topic, or on the cluster.
func createTopic(name string) *probe {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.ValidateOnly = 10_000, true
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	return of("CreateTopics", req, func(r *kmsg.CreateTopicsResponse) int16 {
		if len(r.Topics) == 1 {
			return r.Topics[0].ErrorCode
		}
		return unknownServerError
	})
}

// metadata asks about one topic, and what one may do to it.
func metadata(name string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &name
	req.Topics = append(req.Topics, topic)
	return req
}

func describeConfigs(kind kmsg.ConfigResourceType, name string) *probe {
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	req.Resources = append(req.Resources, resource)
	return of("DescribeConfigs", req, func(r *kmsg.DescribeConfigsResponse) int16 {
		if len(r.Resources) == 1 {
			return r.Resources[0].ErrorCode
		}
		return unknownServerError
	})
}

func alterConfigs(kind kmsg.ConfigResourceType, name, key string) *probe {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = true
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Op = key, kmsg.IncrementalAlterConfigOpDelete
	resource.Configs = append(resource.Configs, config)
	req.Resources = append(req.Resources, resource)
	return of("IncrementalAlterConfigs", req, func(r *kmsg.IncrementalAlterConfigsResponse) int16 {
		if len(r.Resources) == 1 {
			return r.Resources[0].ErrorCode
		}
		return unknownServerError
	})
}

func groupProbe(name string, op acl.Operation) *probe {
	switch op { //nolint:exhaustive // the operations of a group
	case acl.Read: // the first of two requests: it makes nobody a member
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = name, 10_000, 10_000, "consumer"
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name = "range"
		req.Protocols = append(req.Protocols, protocol)
		return of("JoinGroup", req, func(r *kmsg.JoinGroupResponse) int16 { return r.ErrorCode })
	case acl.Describe:
		return of("DescribeGroups", describeGroup(name), func(r *kmsg.DescribeGroupsResponse) int16 {
			if len(r.Groups) == 1 {
				return r.Groups[0].ErrorCode
			}
			return unknownServerError
		})
	case acl.Delete:
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{name}
		return of("DeleteGroups", req, func(r *kmsg.DeleteGroupsResponse) int16 {
			if len(r.Groups) == 1 {
				return r.Groups[0].ErrorCode
			}
			return unknownServerError
		})
	case acl.DescribeConfigs:
		return describeConfigs(groupConfigs, name)
	case acl.AlterConfigs:
		return alterConfigs(groupConfigs, name, "consumer.session.timeout.ms")
	}
	return nil
}

// groupConfigs is the type of a group in requests for configs.
const groupConfigs kmsg.ConfigResourceType = 32

func describeGroup(name string) *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{name}, true
	return req
}

func clusterProbe(op acl.Operation, node int32) *probe {
	broker := strconv.Itoa(int(node))
	switch op { //nolint:exhaustive // the operations of the cluster
	case acl.Create:
		return createTopic(probeTopic)
	case acl.Alter: // a rule that cannot be created
		req := kmsg.NewPtrCreateACLsRequest()
		rule := kmsg.NewCreateACLsRequestCreation()
		rule.ResourceType, rule.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral
		rule.Principal, rule.Host, rule.Operation, rule.PermissionType = "User:nobody", "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, rule)
		return of("CreateAcls", req, func(r *kmsg.CreateACLsResponse) int16 {
			if len(r.Results) == 1 {
				return r.Results[0].ErrorCode
			}
			return unknownServerError
		})
	case acl.Describe:
		req := kmsg.NewPtrDescribeACLsRequest()
		name := probeTopic
		req.ResourceType, req.ResourcePatternType, req.ResourceName = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral, &name
		req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		return of("DescribeAcls", req, func(r *kmsg.DescribeACLsResponse) int16 { return r.ErrorCode })
	case acl.ClusterAction: // as another broker fetches, from a topic that nobody has
		one := topicProbe(probeTopic, acl.Read)
		if req, ok := one.request.(*kmsg.FetchRequest); ok {
			req.ReplicaID = node + 1
		}
		return one
	case acl.DescribeConfigs:
		return describeConfigs(kmsg.ConfigResourceTypeBroker, broker)
	case acl.AlterConfigs:
		return alterConfigs(kmsg.ConfigResourceTypeBroker, broker, "log.cleaner.threads")
	case acl.IdempotentWrite:
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		return of("InitProducerId", req, func(r *kmsg.InitProducerIDResponse) int16 { return r.ErrorCode })
	}
	return nil
}

// probeTopic is a topic that nobody has.
const probeTopic = "brokerlab-check-of-the-cluster"

func transactionalProbe(name string, op acl.Operation) *probe {
	switch op { //nolint:exhaustive // the operations of a transactional id
	case acl.Write:
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch, req.TransactionalID, req.TransactionTimeoutMillis = -1, -1, &name, 10_000
		return of("InitProducerId", req, func(r *kmsg.InitProducerIDResponse) int16 { return r.ErrorCode })
	case acl.Describe:
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = []string{name}
		return of("DescribeTransactions", req, func(r *kmsg.DescribeTransactionsResponse) int16 {
			if len(r.TransactionStates) == 1 {
				return r.TransactionStates[0].ErrorCode
			}
			return unknownServerError
		})
	}
	return nil
}

// harmless tells whether the probe of an operation changes nothing at all, whoever's cluster it is.
func harmless(t acl.ResourceType, op acl.Operation) bool {
	switch t { //nolint:exhaustive // of the others there is no request
	case acl.Topic, acl.Group, acl.Cluster:
		return op == acl.Describe || op == acl.DescribeConfigs
	case acl.TransactionalID:
		return op == acl.Describe
	}
	return false
}

// oneRecord is a batch of one small record.
func oneRecord() []byte {
	r := kmsg.NewRecord()
	r.Value = []byte("brokerlab check")
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	batch := kmsg.NewRecordBatch()
	batch.PartitionLeaderEpoch, batch.Magic = -1, 2
	batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = -1, -1, -1
	batch.NumRecords, batch.Records = 1, r.AppendTo(nil)
	raw := batch.AppendTo(nil)
	const lengthAt, crcAt = 8, 17
	binary.BigEndian.PutUint32(raw[lengthAt:], uint32(len(raw)-lengthAt-4))
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[crcAt+4:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
