// Package bench measures what connections cost a broker, from outside: a broker process, a fleet of real clients, and what
// the kernel says of the process's memory. A figure that is a ratio has both sides measured in one run.
//
// Its benchmarks run by `make bench`, with -benchtime 1x: one iteration is one whole run. The figures that were kept are in
// docs/benchmarks.md.
package bench
