// Package kafkaconfig is the table of all broker configs of Apache Kafka 4.4.0:
// what exists, of which type, with which default, and how it may be altered
// while a broker runs; and of proposals that brokerlab knows. The rows were printed by Kafka's own classes
// (testdata/Dump.java); whether brokerlab has a use for one is not said here.
package kafkaconfig

import (
	_ "embed" // the table
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Type is the type of a config's value, by Kafka's name.
type Type string

// The types of Kafka's ConfigDef that brokers use.
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
	Name string `json:"name"`
	Type Type   `json:"type"`
	// Default is the default in the form of a properties file; nil is null, or
	// no default at all when Required.
	Default  *string `json:"default"`
	Required bool    `json:"required"`
	// Importance is HIGH, MEDIUM or LOW.
	Importance string `json:"importance"`
	// Valid is Kafka's description of valid values, "" when any of the type is.
	Valid string `json:"valid"`
	// Min and Max bound a number.
	Min *float64 `json:"min"`
	Max *float64 `json:"max"`
	// Choices are the only valid values; with AnyCase in any case.
	Choices []string `json:"choices"`
	AnyCase bool     `json:"anyCase"`
	// Unique refuses a list with an empty or a repeated entry.
	Unique   bool `json:"unique"`
	NonEmpty bool `json:"nonEmpty"`
	// Doc is the first sentence of Kafka's documentation.
	Doc  string `json:"doc"`
	Mode Mode   `json:"mode"`
	// Security marks the configs (key and trust stores) that can be altered
	// only with a listener prefix.
	Security bool `json:"security"`
	// Internal marks configs that Kafka does not document.
	Internal bool `json:"internal"`
	// OnlyDynamic marks configs that exist only as dynamic ones.
	OnlyDynamic bool `json:"onlyDynamic"`
}

// Sensitive tells whether the value must never be shown.
func (c Config) Sensitive() bool { return c.Type == Password }

// PerListener tells whether Kafka reads the config with a listener.name.<name>.
// prefix too.
func (c Config) PerListener() bool {
	switch c.Name {
	case "connections.max.reauth.ms", "max.connection.creation.rate", "max.connections", "num.network.threads",
		"principal.builder.class":
		return true
	}
	return strings.HasPrefix(c.Name, "ssl.") || strings.HasPrefix(c.Name, "sasl.")
}

// PerMechanism tells whether the config may have a SASL mechanism between the
// listener prefix and its name.
func (c Config) PerMechanism() bool {
	switch c.Name {
	case "connections.max.reauth.ms", "sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class",
		"sasl.server.callback.handler.class":
		return true
	}
	return false
}

// proposed are the configs of KIP-1015 and KIP-1324, the rows that Kafka 4.4.0 does not have.
func proposed() []Config {
	return []Config{{
		Name: "max.ssl.connections", Type: Int, Default: new("2147483647"), Importance: "MEDIUM", Valid: "[0,...]", Min: new(0.0), Mode: ClusterWide,
		Doc: "The maximum number of connections over TLS that the broker has at any time (KIP-1015)",
	}, {
		Name: "client.config.policy.class.name", Type: Class, Importance: "MEDIUM", Mode: ReadOnly,
		Doc: "The policy that is given the configurations which clients push (KIP-1324)",
	}, {
		Name: "client.config.max.bytes", Type: Int, Default: new("10240"), Importance: "MEDIUM", Valid: "[1,...]", Min: new(1.0), Mode: ClusterWide,
		Doc: "The most bytes of keys and values that a client may push of its configuration (KIP-1324)",
	}}
}

//go:embed broker-4.4.0.json
var source []byte

//nolint:gochecknoglobals // an immutable table, read once
var table = sync.OnceValue(func() map[string]Config {
	var rows []Config
	if err := json.Unmarshal(source, &rows); err != nil {
		panic(fmt.Sprintf("embedded table of Kafka's configs: %v", err)) // a test reads it
	}
	m := make(map[string]Config, len(rows))
	for i := range rows {
		m[rows[i].Name] = rows[i]
	}
	for _, c := range proposed() {
		m[c.Name] = c
	}
	return m
})

// Lookup finds a config by its name without prefixes.
func Lookup(name string) (Config, bool) {
	c, ok := table()[name]
	return c, ok
}

// All lists the table in order of name.
func All() iter.Seq[Config] {
	return func(yield func(Config) bool) {
		for _, name := range slices.Sorted(maps.Keys(table())) {
			if !yield(table()[name]) {
				return
			}
		}
	}
}

// Resolved is a key of a properties file taken apart.
type Resolved struct {
	Config
	Listener  string // lower case, "" without a prefix
	Mechanism string // lower case, "" without one
}

// Resolve takes the prefixes off a key and finds its config: ok is false for
// a name that Kafka does not know, or that it does not read with that prefix.
func Resolve(key string) (r Resolved, ok bool) {
	listener, rest, prefixed := SplitListener(key)
	if !prefixed {
		c, known := Lookup(key)
		return Resolved{Config: c}, known
	}
	if c, known := Lookup(rest); known {
		return Resolved{Config: c, Listener: listener}, c.PerListener()
	}
	mechanism, rest, _ := strings.Cut(rest, ".")
	c, known := Lookup(rest)
	return Resolved{Config: c, Listener: listener, Mechanism: mechanism}, known && c.PerMechanism()
}

// SplitListener takes the prefix off listener.name.<listener>.<rest>. ok is
// false, and rest the whole key, for a key without one.
func SplitListener(key string) (listener, rest string, ok bool) {
	after, ok := strings.CutPrefix(key, "listener.name.")
	if !ok {
		return "", key, false
	}
	listener, rest, ok = strings.Cut(after, ".")
	if !ok || listener == "" || rest == "" {
		return "", key, false
	}
	return listener, rest, true
}

// SplitList reads the value of a LIST: entries without the blanks around their
// commas; an empty value has none.
func SplitList(value string) []string {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	parts := strings.Split(value, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// InvalidError is a value that Kafka refuses; its text is Kafka's.
type InvalidError struct {
	Name, Value, Why string
	whole            string // the lists' texts have another form
}

func (e *InvalidError) Error() string {
	if e.whole != "" {
		return e.whole
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Name, e.Why)
}

// Check validates a value as Kafka's ConfigDef does. The error is an
// [*InvalidError]. Classes are not looked for.
func (c Config) Check(value string) error {
	invalid := func(why string) error { return &InvalidError{Name: c.Name, Value: value, Why: why} }
	trimmed := strings.TrimSpace(value)
	switch c.Type {
	case Boolean:
		if !strings.EqualFold(trimmed, "true") && !strings.EqualFold(trimmed, "false") {
			return invalid("Expected value to be either true or false")
		}
	case Int, Short, Long, Double:
		return c.checkNumber(value)
	case List:
		return c.checkList(value)
	case String, Class, Password:
		if c.NonEmpty && trimmed == "" {
			return invalid("String must be non-empty")
		}
		return c.checkChoice(trimmed)
	}
	return nil
}

// Canonical prints a valid value as Kafka prints what it has read of it.
func (c Config) Canonical(value string) string {
	trimmed := strings.TrimSpace(value)
	switch c.Type {
	case Boolean:
		return strings.ToLower(trimmed)
	case Int, Short, Long:
		if n, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	case List:
		return strings.Join(SplitList(value), ",")
	case String, Class:
		return trimmed
	case Double:
		if f, err := strconv.ParseFloat(trimmed, 64); err == nil {
			return javaDouble(f)
		}
	case Password:
	}
	return value
}

func (c Config) checkNumber(value string) error {
	var n float64
	var err error
	read := strings.TrimSpace(value)
	if c.Type == Double {
		n, err = strconv.ParseFloat(read, 64)
		read = javaDouble(n)
	} else {
		bits := map[Type]int{Short: 16, Int: 32, Long: 64}[c.Type]
		var whole int64
		whole, err = strconv.ParseInt(read, 10, bits)
		n, read = float64(whole), strconv.FormatInt(whole, 10)
	}
	if err != nil {
		return &InvalidError{Name: c.Name, Value: value, Why: "Not a number of type " + string(c.Type)}
	}
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	invalid := func(why string) error { return &InvalidError{Name: c.Name, Value: read, Why: why} }
	switch {
	case c.Name == "compression.gzip.level" && n != -1 && (n < 1 || n > 9):
		return invalid("Value must be between 1 and 9 or equal to -1")
	case c.Min != nil && n < *c.Min:
		return invalid("Value must be at least " + number(*c.Min))
	case c.Max != nil && n > *c.Max:
		return invalid("Value must be no more than " + number(*c.Max))
	}
	return nil
}

// javaDouble prints a number as Java's Double.toString does: 1.0, 2.147483648E9.
func javaDouble(f float64) string {
	const low, high = 1e-3, 1e7 // between them there is no exponent
	if m := math.Abs(f); f == 0 || m >= low && m < high {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, ok := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
	if !ok { // an infinity, or no number
		return mantissa
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

func (c Config) checkList(value string) error {
	entries := SplitList(value)
	whole := func(format string) error {
		return &InvalidError{Name: c.Name, Value: value, whole: fmt.Sprintf(format, c.Name)}
	}
	if c.NonEmpty && len(entries) == 0 {
		valid := "any non-empty value"
		if len(c.Choices) > 0 {
			valid = "[" + strings.Join(c.Choices, ", ") + "]"
		}
		return whole("Configuration '%s' must not be empty. Valid values include: " + valid)
	}
	if !c.Unique {
		return nil
	}
	if len(entries) != len(slices.Compact(slices.Sorted(slices.Values(entries)))) {
		return whole("Configuration '%s' values must not be duplicated.")
	}
	for _, e := range entries {
		if e == "" {
			return whole("Configuration '%s' values must not be empty.")
		}
		if err := c.checkChoice(e); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkChoice(value string) error {
	if len(c.Choices) == 0 || slices.Contains(c.Choices, value) {
		return nil
	}
	why := "String must be one of: "
	if c.AnyCase {
		if slices.ContainsFunc(c.Choices, func(s string) bool { return strings.EqualFold(s, value) }) {
			return nil
		}
		why = "String must be one of (case insensitive): "
	}
	return &InvalidError{Name: c.Name, Value: value, Why: why + strings.Join(c.Choices, ", ")}
}
