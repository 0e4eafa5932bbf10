package aclfile

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// kafkaACL is the attributes of a kafka_acl resource of the provider Mongey/kafka.
type kafkaACL struct {
	Host       string `json:"acl_host"`
	Operation  string `json:"acl_operation"`
	Permission string `json:"acl_permission_type"`
	Principal  string `json:"acl_principal"`
	ID         string `json:"id"`
	Name       string `json:"resource_name"`
	Pattern    string `json:"resource_pattern_type_filter"`
	Type       string `json:"resource_type"`
}

// terraform reads the kafka_acl resources of a state; others are left out.
func (p *reading) terraform(text []byte) {
	at := &lines{text: text}
	note := func(err *syntaxError) {
		if err != nil {
			p.problem(at.of(err.at), "%v", err)
		}
	}
	version, seen := "", false
	note(members(text, 0, func(key string, part []byte, start int) {
		switch key {
		case "version":
			version = string(part)
		case "resources":
			seen = true
			note(elements(part, start, func(resource []byte, start int) { p.tfResource(at, resource, start) }))
		}
	}))
	switch {
	case len(p.problems) > 0:
	case version != "4":
		p.problem(1, "is no Terraform state of version 4: version is %q", shorten(version))
	case !seen:
		p.problem(1, "is no Terraform state: it has no resources")
	}
}

func (p *reading) tfResource(at *lines, resource []byte, start int) {
	var kind struct {
		Type string `json:"type"`
		Mode string `json:"mode"`
	}
	if err := json.Unmarshal(resource, &kind); err != nil {
		p.problem(at.of(start), "%v", err)
		return
	}
	if kind.Type != "kafka_acl" || kind.Mode == "data" {
		return
	}
	note := func(err *syntaxError) {
		if err != nil {
			p.problem(at.of(err.at), "%v", err)
		}
	}
	note(members(resource, start, func(key string, part []byte, start int) {
		if key != "instances" {
			return
		}
		note(elements(part, start, func(instance []byte, start int) {
			note(members(instance, start, func(key string, part []byte, start int) {
				if key == "attributes" {
					p.tfInstance(at.of(start), part)
				}
			}))
		}))
	}))
}

func (p *reading) tfInstance(line int, attributes []byte) {
	var a kafkaACL
	if err := json.Unmarshal(attributes, &a); err != nil {
		p.problem(line, "%v", err)
		return
	}
	r := row{a.Type, a.Name, a.Pattern, a.Principal, a.Host, a.Operation, a.Permission}
	if r.principal == "" && r.name == "" { // imported and not yet refreshed
		var ok bool
		if r, ok = parseID(a.ID); !ok {
			p.problem(line, "has no attributes, and its id %q is not one rule's", shorten(a.ID))
			return
		}
	}
	if r.patternType == "" {
		r.patternType = "Literal" // the provider's default
	}
	p.add(line, r)
}

// parseID reads principal|host|operation|permission|type|name|pattern. A principal and a name may have pipes too, so it is
// the place of three words that tells; where two places would do, it is nothing.
func parseID(id string) (row, bool) {
	words := strings.Split(id, "|")
	var found []row
	for i := 1; i+5 < len(words); i++ {
		r := row{
			principal: strings.Join(words[:i], "|"), host: words[i], operation: words[i+1], permission: words[i+2],
			resourceType: words[i+3], name: strings.Join(words[i+4:len(words)-1], "|"), patternType: words[len(words)-1],
		}
		if _, problems := r.binding(); problems == nil {
			found = append(found, r)
		}
		if len(found) > 1 || i > 1000 {
			return row{}, false
		}
	}
	if len(found) == 0 {
		return row{}, false
	}
	return found[0], true
}

func tfType(t acl.ResourceType) string {
	if t == acl.TransactionalID {
		return "TransactionalID"
	}
	return camel(t.String())
}

// unkeptByTerraform knows the words of the provider.
func unkeptByTerraform(b acl.Binding) string {
	switch {
	case !slices.Contains([]acl.ResourceType{acl.Topic, acl.Group, acl.Cluster, acl.TransactionalID}, b.Type):
		return "the provider has no resource type " + b.Type.String()
	case b.Operation > acl.IdempotentWrite:
		return "the provider has no operation " + b.Operation.String()
	}
	return ""
}

func writeTerraform(w io.Writer, rules []acl.Binding) error {
	type instance struct {
		SchemaVersion int      `json:"schema_version"`
		Attributes    kafkaACL `json:"attributes"`
	}
	type resource struct {
		Mode      string     `json:"mode"`
		Type      string     `json:"type"`
		Name      string     `json:"name"`
		Provider  string     `json:"provider"`
		Instances []instance `json:"instances"`
	}
	all := make([]resource, 0, len(rules))
	for i, b := range rules {
		a := kafkaACL{
			Host: b.Host, Operation: camel(b.Operation.String()), Permission: camel(b.Permission.String()), Principal: b.Principal,
			Name: b.Name, Pattern: camel(b.Kind.String()), Type: tfType(b.Type),
		}
		a.ID = strings.Join([]string{a.Principal, a.Host, a.Operation, a.Permission, a.Type, a.Name, a.Pattern}, "|")
		all = append(all, resource{"managed", "kafka_acl", "rule_" + strconv.Itoa(i+1), `provider["registry.terraform.io/mongey/kafka"]`, []instance{{1, a}}})
	}
	return encode(w, map[string]any{"version": 4, "terraform_version": "1.5.0", "serial": 1, "lineage": "", "outputs": map[string]any{}, "resources": all}, "  ")
}
