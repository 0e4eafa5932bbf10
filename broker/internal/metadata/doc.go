// Package metadata is a cluster's own state: SCRAM users, dynamic configs, client quotas and feature levels. It is a log
// of changes that every broker applies alike, and the image that the log has led to so far.
//
// The life of a change: whoever received a request decides on its own settings whether to admit it, and hands the
// records to [Store.Append]. They become one entry of the log: a Kafka record in a topic of one partition, written with
// fsync, several waiting changes in one batch. The store reads its log in order and applies each entry to the image:
// all of its records, or none when a rule refuses one ([RejectedError]). What that verdict may depend on is the record,
// the image before it, and rules that belong to a metadata.version: never a broker's own configuration, nor the clock.
// Only then does Append return, so that whoever was told "done" finds the change in [Store.Image].
//
// An entry carries the node that wrote it, the incarnation of that node and a sequence number: what is appended twice
// because an answer was lost is applied once. A record of an unknown type or version stops the store for good, with an
// error that says so: it is never skipped, since the brokers that know it would have another image.
//
// By default the log lives in a Kafka of its own inside the process, which no client can reach.
package metadata
