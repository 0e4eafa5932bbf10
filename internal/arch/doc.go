// Package arch keeps the shape of the tree: its tests parse the sources and fail when a package imports what it must not
// know, lacks the comment that says what it is, or registers one fact in two places. The rules are those of ARCHITECTURE.md.
//
// The files are parsed in the test itself: a test that asked `go list` would be cached wrongly, since the test cache does
// not see what a child process reads.
package arch
