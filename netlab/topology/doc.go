// Package topology reads lab files: what networks and nodes a lab has, before anything exists.
//
// A file goes through three forms. The text is parsed with the place of every key and value; the [File] is what was
// written, key by key, and what docs/lab.schema.json describes; the [Lab] is what was meant: every default applied, every
// address and port settled, every name checked against every other. A [Lab] that [Load], [Parse] or [File.Resolve]
// returned can be built without further questions. All problems of a file are reported at once, each with its line and
// column ([InvalidError]).
//
// The package does no I/O beyond reading the files it is told of, and knows nothing of namespaces.
package topology

//go:generate go run ./internal/schema ../../docs/lab.schema.json
