// Package fidelity runs each of its cases against brokerlab and against Apache Kafka, both started here from the same
// server.properties, and compares what a client of each is answered, field by field.
//
// A case is a function of one peer that returns what it saw. What differs and may is in differences.txt, each with its reason;
// any other difference fails, and so does a listed one that is not there any more. Where there is no Kafka (`make kafka` gets
// it) or no Java, the cases are skipped and say so. Nothing of ours is imported.
package fidelity
