// Package api answers Kafka's requests.
//
// A frame arrives from the network, on a loop that must not wait. Its header is parsed and its
// version checked once, here; on SASL listeners the session says whether it may be served. Then one
// of num.io.threads workers decodes it and runs the row of the [table] that its key names: either a
// handler, a plain function from request to response, or the data plane, which answers later by a
// continuation that holds no worker. Answers that name the broker are completed with the address
// that belongs to the listener through which the request came.
//
// A file NN_name.go is one Kafka API: its contract is the comment it opens with, and its row is in
// table.go. What a client sends that Kafka would not answer closes the connection, with a reason.
package api
