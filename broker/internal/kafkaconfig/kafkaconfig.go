// Package kafkaconfig is the table of all broker configs of Apache Kafka 4.4.0.
package kafkaconfig

// Type is the type of a config's value, by Kafka's name.
type Type string

// The types of Kafka's ConfigDef.
const (
	Boolean  Type = "BOOLEAN"
	String   Type = "STRING"
	Int      Type = "INT"
	Short    Type = "SHORT"
	Long     Type = "LONG"
	Double   Type = "DOUBLE"
	List     Type = "LIST"
	Class    Type = "CLASS"
	Password Type = "PASSWORD"
)

// Mode tells how a config can be altered while a broker runs.
type Mode string

// The update modes, by the names of Kafka's documentation.
const (
	ReadOnly    Mode = "read-only"
	PerBroker   Mode = "per-broker"
	ClusterWide Mode = "cluster-wide"
)

// Config is one row of the table.
type Config struct {
	Name       string
	Type       Type
	Default    *string // nil: null, or none (then Required)
	Required   bool    // there is no default
	Importance string  // HIGH, MEDIUM, LOW
	Valid      string  // Kafka's text of what values are valid, "" any
	Doc        string
	Mode       Mode
	Listener   bool // can be set with a listener.name.<name>. prefix
	Internal   bool
}

// Sensitive tells whether the value must not be shown.
func (c Config) Sensitive() bool { return c.Type == Password }

// Lookup finds a config by its name without prefix.
func Lookup(name string) (Config, bool) { return Config{}, false }

// All lists the table in order of name. It is the caller's.
func All() []Config { return nil }

// SplitListener takes the prefix off listener.name.<listener>.<name>.
func SplitListener(name string) (listener, rest string, ok bool) { return "", name, false }

// Check validates one value: nil, or an error in Kafka's words.
func Check(name, value string) error { return nil }
