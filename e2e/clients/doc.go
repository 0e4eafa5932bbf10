// Package clients runs real clients of many languages against the built broker, and prints docs/clients.md from what they did.
//
// Each client is a small program below programs, in its own language and module. It reads one JSON object, a line, from its
// standard input, does what that says, and prints JSON lines (programs/README.md has the words). The list of them is in
// list_test.go: name, how it is built, how it is run. What cannot be built here, because a registry is not reached or a tool
// is not installed, is skipped with the reason.
//
// A client gets brokers of its own, so that what it costs can be counted: one that works, for each protocol and family, and
// then one for each trouble: refused by ACLs, closed at accept, waiting for a slot, evicted, asked to authenticate again,
// restarted. What is seen goes to build/clients/results.json. With -matrix every protocol and family is tried, else one of
// each kind; with -update the page and testdata/results.json are written anew from the run.
package clients
