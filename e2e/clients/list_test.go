package clients

// client is one real client: how it is made here, and what to know of it beside what the run finds out.
type client struct {
	// Name is the key of the client in results; also the name of its subtest.
	name string
	// Language is what people who use it write in.
	language string
	// Build makes the program and returns its command line. What cannot be had here is an unavailableError.
	build func(*workshop) ([]string, error)
}

// list has every client there is. To add one, write its program (programs/README.md) and a line here.
func list() []client {
	return []client{
		{name: "franz-go", language: "Go", build: goProgram("franz")},
	}
}
