// Package kafkahome finds, fetches and runs released versions of Apache Kafka.
//
// A home is a folder with libs/*.jar, as a release of Kafka has it: whoever has one names it ([At]). Otherwise versions are
// kept side by side in one folder ([Dir]), one home each: [Find] looks there, [Fetch] puts one there with Maven, which must
// be on the machine, as must Java. Nothing here starts a broker; [Home.Java] is the command line by which others do.
package kafkahome
