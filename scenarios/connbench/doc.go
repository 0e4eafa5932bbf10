// Package connbench measures what connections cost a Kafka broker of any make, and where they end.
//
// The life of a run: a probe connection verifies the broker's certificate, which every client is then held to; a warm-up comes and goes; then
// connections are added step by step from fleet processes that hold less than 20,000 sockets each. After each step come the figures: how long
// clients took, what it cost broker and clients in processor time and memory, right after the storm and once it has settled. [Run] ends
// at the last step, at the first client that fails, or where the latency passes a bound, and says why in a [Verdict].
//
// Under Kafka's rules nothing fails at most limits: a connection waits. So a client that gets no first response in time is what shows
// that one was reached; which one is read from the target's configs, and is only named as certain where the numbers fit. What cannot
// be known (the memory of a process on another machine, the kernel's without root) is said to be unknown, never shown as 0.
//
// [MeasureSize] asks the same of three kinds of TLS connections, idle, in their handshake and active, and proposes a limit.
package connbench
