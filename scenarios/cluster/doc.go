// Package cluster is the suite that breaks parts of a cluster while clients use it: brokers that are the faces of an engine
// somewhere else, ours or Apache Kafka.
//
// Each file with a spec is one promise. In all of them clients of several libraries produce, idempotently and waiting for every
// acknowledgement, and consume, and somebody creates rules and users, throughout; at the end every acknowledged record is there, once, every
// rule and user is at every broker, all brokers have the same metadata by hash, no connection or slot is counted that is not there, and
// the kernel agrees. Clients of franz-go are in the process of the specs; those of Java and librdkafka are programs (in the folder of that
// name) in the clients' network, where they are on the machine; a spec that says so is skipped where they are not.
//
// Importing the package registers its specs; `brokerlab run cluster` and `go test` run them, the latter without those that start Apache
// Kafka (see [stage.Long]).
package cluster
