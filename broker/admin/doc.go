// Package admin asks brokers for what franz-go's kadm has no calls for: who is connected, what the kernel counted, which limits
// hold and who waits, what happened to a connection; and has them close connections.
//
// A call goes to every broker that the cluster's metadata names, at the same time. One that cannot be reached or that
// refuses does not fail the others: the result holds what came back, each row with the node it is from, and an error
// for each broker that did not answer. kgo sends only requests that its version table knows, so the client needs the
// option [Versions].
package admin
