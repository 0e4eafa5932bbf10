package broker

import (
	_ "embed" // the manual
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"reflect"
	"strings"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

//go:embed config_properties.go
var manual string

// ConfigReference prints the manual of every property that the broker obeys,
// as Markdown, from the code that reads them.
func ConfigReference(w io.Writer) error {
	file, err := parser.ParseFile(token.NewFileSet(), "config_properties.go", manual, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse the manual: %w", err)
	}
	var b strings.Builder
	b.WriteString("# Broker configuration\n\nPrinted from the code by `make docs`.\n\nNames and forms are those of Kafka's `server.properties`. " +
		"`-o key=value` overrides the file.\n")
	for _, part := range []struct {
		title string
		of    reflect.Type
	}{
		{"## The broker", reflect.TypeFor[properties]()},
		{"## Listeners\n\nEach can be given for all listeners, or for one: `listener.name.<name in lower case>.<property>`.", reflect.TypeFor[listenerProperties]()},
	} {
		b.WriteString("\n" + part.title + "\n")
		comments := fieldComments(file, part.of.Name())
		for _, p := range propertiesOf(part.of) {
			writeProperty(&b, p, comments[part.of.Field(p.index).Name])
		}
	}
	writeDataPlane(&b)
	b.WriteString(elsewhere)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the configuration reference: %w", err)
	}
	return nil
}

// elsewhere ends the manual with the keys that are not in it.
const elsewhere = `
## Other properties of Kafka

- Without a use here (quotas of replication, log cleaning, the controller quorum ...): accepted, and named in one line
  of the log.
- That would change who gets in: the start is refused. These are ` + "`principal.builder.class`" + `
  (unless Kafka's own), ` + "`delegation.token.secret.key`,\n  `sasl.server.callback.handler.class`, `ssl.engine.factory.class`, `ssl.trustmanager.algorithm`" + ` (unless PKIX or SunX509), ` + "`security.providers`" + `, values taken from
  ` + "`config.providers`" + `, and the mechanisms GSSAPI and OAUTHBEARER on a SASL listener.
- Unknown: a warning that suggests the nearest name, or an error with ` + "`--strict`" + `.
`

// writeDataPlane lists what the broker hands to its data plane without reading it.
func writeDataPlane(b *strings.Builder) {
	b.WriteString("\n## Topics and groups\n\nDefaults of topics, and bounds of groups and transactions; they mean what they mean in Kafka.\n\n")
	for _, name := range engine.Obeys() {
		if _, ours := obeyed(name); ours {
			continue
		}
		c, _ := kafkaconfig.Lookup(name)
		fmt.Fprintf(b, "- `%s`: %s", name, strings.TrimSuffix(c.Doc, "."))
		if c.Default != nil && *c.Default != "" {
			fmt.Fprintf(b, " (default `%s`)", *c.Default)
		}
		b.WriteByte('\n')
	}
}

func writeProperty(b *strings.Builder, p property, comment string) {
	// A comment begins with the field's name, which a reader of the manual does not know.
	_, comment, _ = strings.Cut(strings.Join(strings.Fields(comment), " "), " ")
	comment = strings.TrimPrefix(strings.TrimPrefix(comment, "is "), "are ")
	fmt.Fprintf(b, "\n### %s\n\n%s%s\n", p.name, strings.ToUpper(comment[:1]), comment[1:])
	c, kafkas := kafkaconfig.Lookup(p.name)
	value := "none"
	if p.defaultValue != "" {
		value = "`" + p.defaultValue + "`"
	}
	fmt.Fprintf(b, "\n- Default: %s\n", value)
	if kafkas && c.Valid != "" {
		fmt.Fprintf(b, "- Valid: `%s`\n", c.Valid)
	}
	if !kafkas && p.name != "super.users" && p.name != "allow.everyone.if.no.acl.found" {
		b.WriteString("- Not a property of Kafka\n")
	}
}

// fieldComments are the comments of a struct's fields.
func fieldComments(file *ast.File, name string) map[string]string {
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, f := range fields.Fields.List {
			for _, id := range f.Names {
				comments[id.Name] = f.Doc.Text()
			}
		}
		return false
	})
	return comments
}
