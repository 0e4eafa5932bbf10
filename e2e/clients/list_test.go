package clients

// client is one real client: how it is made here, and what to know of it beside what the run finds out.
type client struct {
	// Name is the key of the client in results; also the name of its subtest.
	name string
	// Language is what people who use it write in.
	language string
	// Build makes the program and returns its command line. What cannot be had here is an unavailableError.
	build func(*workshop) ([]string, error)
	// Patience is how many times longer than others it may take for an operation, 0 is once: a client that starts many
	// processes for one.
	patience int
	// Alone is why a run that is not the whole matrix leaves the client out, unless it is named; "" for those that it tries.
	alone string
	// Serves is whether its program goes on with another request after one.
	serves bool
}

// leftOut is why this run does not try a client; "" where it does.
func (c client) leftOut() string {
	if *matrix || *only != "" {
		return ""
	}
	return c.alone
}

// list has every client there is. To add one, write its program (programs/README.md) and a line here.
func list() []client {
	return []client{
		{name: "kafka-clients", language: "Java", build: javaProgram, serves: true},
		{name: "kafka-tools", language: "command line", build: kafkaTools, patience: 4},
		{name: "kcat", language: "command line", build: kcat},
		{name: "franz-go", language: "Go", build: goProgram("franz")},
		{name: "sarama", language: "Go", build: goProgram("sarama")},
		{name: "kafka-go", language: "Go", build: goProgram("segmentio")},
		{name: "confluent-kafka", language: "Python", build: pythonProgram("confluent")},
		{name: "aiokafka", language: "Python", build: pythonProgram("aiokafka")},
		{
			name: "kafka-python", language: "Python", build: pythonProgram("kafkapython"),
			alone: "on a busy machine it may join a group before it knows the topic, and then waits for minutes: make clients tries it",
		},
		{name: "kafkajs", language: "JavaScript", build: nodeProgram("kafkajs")},
	}
}
