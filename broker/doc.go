// Package broker is a Kafka broker made to be looked at: it speaks Kafka's protocol on
// Kafka's listeners, and knows who is connected to it, from where and how.
package broker
