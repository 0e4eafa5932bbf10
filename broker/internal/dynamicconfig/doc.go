// Package dynamicconfig holds Kafka's rules about broker configs that are
// altered while a broker runs: which may be, on which level, with which values,
// and what a change of several must keep. A refusal has Kafka 4.4's words, down
// to its slips.
//
// A change is judged in Kafka's order: names and types of what one resource is
// to hold ([CheckNames]), then the whole configuration that comes of it
// ([Change.Check]). What only the parts of a broker can know (whether a key
// store opens, whether a port is free) is theirs to say. Nothing here is stored
// or put to work.
package dynamicconfig
