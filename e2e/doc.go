// Package e2e tests brokerlab from outside: the built binary, real clients, and nothing of ours imported. Set
// BROKERLAB_BINARY to test a binary that is built already; otherwise it is built once a run.
package e2e
