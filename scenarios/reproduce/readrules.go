package reproduce

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// ReadRules reads what kafka-acls.sh --list prints.
func ReadRules(path string) ([]acl.Binding, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var rules []acl.Binding
	var at acl.Pattern
	for line := range strings.Lines(string(text)) {
		if m := regexp.MustCompile(`ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)`).FindStringSubmatch(line); m != nil {
			at.Type, _ = acl.ParseResourceType(m[1])
			at.Name = m[2]
			at.Kind, _ = acl.ParsePatternType(m[3])
		} else if m := regexp.MustCompile(`\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)`).FindStringSubmatch(line); m != nil {
			b := acl.Binding{Pattern: at, Principal: m[1], Host: m[2]}
			b.Operation, _ = acl.ParseOperation(m[3])
			b.Permission, _ = acl.ParsePermission(m[4])
			rules = append(rules, b)
		}
	}
	return rules, nil
}
