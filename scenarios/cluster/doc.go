// Package cluster is the suite that breaks parts of a cluster while clients use it: brokers that are the faces of an engine
// somewhere else, ours or Apache Kafka.
//
// Each file is one promise. In all of them producers wait for every acknowledgement and a group consumes, throughout; at the end
// every acknowledged record is there, every rule and user is at every broker, no connection is counted that is not there, and the
// kernel agrees. Importing the package registers its specs; `brokerlab run cluster` and `go test` run them, the latter without those
// that start Apache Kafka (see [stage.Long]).
package cluster
