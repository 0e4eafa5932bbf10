package topology

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of what a lab file may say about rules.
const (
	maxTopicName  = 249 // Kafka's own
	maxPartitions = 1000
	maxTextField  = 4096 // bytes of a principal, host or resource name
)

// clusterName is the only name that Kafka's resource of type CLUSTER has.
const clusterName = "kafka-cluster"

// operationsOf are the operations that mean something for each type of resource, as Kafka's AclEntry has them.
func operationsOf() map[string][]string {
	return map[string][]string{
		"TOPIC":            {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
		"GROUP":            {"READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
		"CLUSTER":          {"CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"},
		"TRANSACTIONAL_ID": {"WRITE", "DESCRIBE", "TWO_PHASE_COMMIT"},
		"DELEGATION_TOKEN": {"DESCRIBE"},
		"USER":             {"CREATE_TOKENS", "DESCRIBE_TOKENS"},
	}
}

func resourceTypes() []string { return slices.Sorted(maps.Keys(operationsOf())) }

// allOperations are those of any type, and ALL, which only rules have.
func allOperations() []string {
	all := []string{"ALL"}
	for _, operations := range operationsOf() {
		all = append(all, operations...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// word finds which of the known words is meant, whatever its case and what joins its parts.
func word(text string, known []string) (string, bool) {
	plain := strings.NewReplacer("_", "", "-", "")
	for _, k := range known {
		if strings.EqualFold(plain.Replace(text), plain.Replace(k)) {
			return k, true
		}
	}
	return "", false
}

func (r *resolver) topics(f *File) []Topic {
	var all []Topic
	for _, name := range natural(f.Topics) {
		path, t := "topics."+name, f.Topics[name]
		if !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name) || name == "." || name == ".." || len(name) > maxTopicName {
			r.at(path, "topic %.300q: want at most %d letters, digits and . _ -", name, maxTopicName)
		}
		if t.Partitions < 0 || t.Partitions > maxPartitions {
			r.at(path+".partitions", "partitions is %d: want 1 to %d", t.Partitions, maxPartitions)
		}
		all = append(all, Topic{name, max(t.Partitions, 1)})
	}
	return all
}

func (r *resolver) acls(f *File) []ACL {
	var all []ACL
	for i := range f.ACLs {
		path, a := fmt.Sprintf("acls[%d]", i), &f.ACLs[i]
		rule := ACL{Principal: a.Principal, Host: a.Host, Permission: "ALLOW", Pattern: "LITERAL"}
		r.principal(path, a.Principal)
		if a.Host == "" {
			rule.Host = "*"
		}
		r.short(path+".host", "host", a.Host)
		rule.Resource = r.resource(path, a.Resource)
		rule.Operation = r.oneOf(path, "operation", a.Operation, allOperations())
		if a.Permission != "" {
			rule.Permission = r.oneOf(path, "permission", a.Permission, []string{"ALLOW", "DENY"})
		}
		if a.Pattern != "" {
			rule.Pattern = r.oneOf(path, "pattern", a.Pattern, []string{"LITERAL", "PREFIXED"})
		}
		all = append(all, rule)
	}
	return all
}

// aclFile is the path of the file that acl-file names, which has to be there.
func (r *resolver) aclFile(f *File) string {
	name := f.ACLFile
	if name == "" {
		return ""
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.folder, name)
	}
	if info, err := os.Stat(name); err != nil {
		r.at("acl-file", "read rules: %v", err)
	} else if !info.Mode().IsRegular() {
		r.at("acl-file", "%s is not a file", name)
	}
	return name
}

func (r *resolver) expect(f *File, lab *Lab) []Expectation {
	var all []Expectation
	for i := range f.Expect {
		path, e := fmt.Sprintf("expect[%d]", i), &f.Expect[i]
		r.principal(path, e.Principal)
		one := Expectation{Principal: e.Principal, Resource: r.resource(path, e.Resource), Line: r.places[path].line}
		one.From = r.from(path, e.From, lab)
		one.Listener = r.listener(path, e.Listener, lab)
		one.Operations = r.expectedOperations(path, f, e, one.Resource.Type)
		all = append(all, one)
	}
	return all
}

// from reads an address that a client of the lab can have.
func (r *resolver) from(path, text string, lab *Lab) netip.Addr {
	if text == "" {
		r.at(path, "from is missing: the address of one who asks")
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		r.at(path+".from", "%q is no IPv4 or IPv6 address", text)
		return netip.Addr{}
	}
	for i := range lab.Subnets {
		if slices.ContainsFunc(lab.Subnets[i].Prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return a
		}
	}
	r.at(path+".from", "%s is in no subnet of the lab", text)
	return a
}

// listener checks that a broker has a listener of this name.
func (r *resolver) listener(path, name string, lab *Lab) string {
	if name == "" {
		return ""
	}
	var known []string
	for i := range lab.Nodes {
		for _, l := range lab.Nodes[i].Listeners {
			if strings.EqualFold(l.Name, name) {
				return l.Name
			}
			known = append(known, l.Name)
		}
	}
	r.at(path+".listener", "no broker has a listener %q%s", name, nearest(name, known))
	return name
}

func (r *resolver) expectedOperations(path string, f *File, e *FileExpectation, resourceType string) []ExpectedOperation {
	if len(e.Operations) == 0 {
		r.at(path, "operations is missing: what is expected of which operation")
	}
	known, typed := operationsOf()[resourceType]
	if !typed {
		known = allOperations()
	}
	var all []ExpectedOperation
	for _, name := range slices.Sorted(maps.Keys(e.Operations)) {
		at, text := path+".operations."+name, string(e.Operations[name])
		operation, ok := word(name, known)
		if !ok {
			r.at(at, "%s has no operation %q%s", resourceType, name, nearest(strings.ToUpper(name), known))
			continue
		}
		verdict, number, numbered := strings.Cut(strings.TrimSpace(text), " ")
		one := ExpectedOperation{Operation: operation, Allow: strings.EqualFold(verdict, "allow")}
		if !one.Allow && !strings.EqualFold(verdict, "deny") {
			r.at(at, "%.100q: want allow or deny, and perhaps the number of the rule that decides, such as allow 2", text)
			continue
		}
		if numbered {
			n, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil || n < 1 {
				r.at(at, "%.100q: %q is not the number of a rule", text, number)
				continue
			}
			if n > len(f.ACLs) && f.ACLFile == "" {
				r.at(at, "%.100q: the last rule is %d", text, len(f.ACLs))
				continue
			}
			one.Rule = n
		}
		all = append(all, one)
	}
	return all
}

// principal checks that text is TYPE:NAME.
func (r *resolver) principal(path, text string) {
	switch kind, _, ok := strings.Cut(text, ":"); {
	case text == "":
		r.at(path, "principal is missing: want TYPE:NAME, such as User:alice")
	case !ok || kind == "":
		r.at(path+".principal", "principal %.100q: want TYPE:NAME, such as User:alice", text)
	}
	r.short(path+".principal", "principal", text)
}

func (r *resolver) short(path, what, text string) {
	if len(text) > maxTextField {
		r.at(path, "%s has %d bytes: at most %d are possible", what, len(text), maxTextField)
	}
}

// oneOf reads a word that the file must give.
func (r *resolver) oneOf(path, key, text string, known []string) string {
	if text == "" {
		r.at(path, "%s is missing: want one of %s", key, strings.Join(known, ", "))
		return ""
	}
	w, ok := word(text, known)
	if !ok {
		r.at(path+"."+key, "unknown %s %.100q%s", key, text, nearest(strings.ToUpper(text), known))
	}
	return w
}

// resource reads TYPE:NAME, or Cluster alone.
func (r *resolver) resource(path, text string) Resource {
	if text == "" {
		r.at(path, "resource is missing: want TYPE:NAME, such as Topic:orders")
		return Resource{}
	}
	path += ".resource"
	kind, name, named := strings.Cut(text, ":")
	t, ok := word(kind, resourceTypes())
	switch {
	case !ok:
		r.at(path, "unknown resource type %.100q%s", kind, nearest(strings.ToUpper(kind), resourceTypes()))
	case t == "CLUSTER" && !named:
		name = clusterName
	case t == "CLUSTER" && name != clusterName && name != "*":
		r.at(path, "the only name of the cluster is %s: write Cluster alone", clusterName)
	case name == "":
		r.at(path, "resource %q has no name: want TYPE:NAME, such as Topic:orders", text)
	}
	r.short(path, "resource", text)
	return Resource{t, name}
}
