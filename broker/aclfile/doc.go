// Package aclfile reads and writes the files in which people keep ACLs, and so converts between them.
//
// A file is read whole or not at all: all that is wrong with it is said at once, each problem with its line. Hosts are kept
// as they are written, also those that can never match: to find them is not this package's task. What a format cannot express is
// refused when it is written, with the row named: nothing is lost, and a host never turns into "*". Files are bounded, so
// that a hostile one costs an error.
//
// The format jsonl is brokerlab's own: one object a line, with Kafka's names for fields and values, as `brokerlab acls --list
// --format json` prints them in an array, which is read as well:
//
//	{"resourceType":"TOPIC","name":"orders","patternType":"LITERAL","principal":"User:alice","host":"10.0.0.0/8","operation":"READ","permissionType":"ALLOW"}
package aclfile
