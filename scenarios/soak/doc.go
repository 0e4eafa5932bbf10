// Package soak repeats for minutes what elsewhere is tested a few times: brokers killed while they are written to, labs
// killed while they are built, connections by the million, with limits and without. Its files have the build tag soak; `make soak` runs them.
package soak
