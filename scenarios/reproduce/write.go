package reproduce

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// YAML is the lab file.
func (s *Setup) YAML() []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# yaml-language-server: $schema=https://github.com/brokerlab/brokerlab/docs/lab.schema.json")
	line("# Made by brokerlab lab init: a lab in which the rules of a cluster decide as they do there.")
	line("#")
	line("#   brokerlab check FILE      asks every cell below, over real connections")
	line("#   brokerlab lab up FILE     leaves the lab running")
	if len(s.Notes) > 0 {
		line("#")
		line("# What this lab does not have:")
		for _, note := range s.Notes {
			line("# - %s", comment(note))
		}
	}
	line("name: %s\n\nnodes:\n  %s:\n    kind: broker", s.Name, s.Node)
	if len(s.Addresses) > 0 {
		all := make([]string, len(s.Addresses))
		for i, a := range s.Addresses {
			all[i] = quote(a.String())
		}
		line("    addresses: [%s]", strings.Join(all, ", "))
	}
	line("    listeners:")
	for _, l := range s.Listeners {
		if strings.HasPrefix(l, adminListener+"://") {
			line("      - %s # the lab's own, for %s", quote(l), adminUser)
			continue
		}
		line("      - %s", quote(l))
	}
	line("    config:")
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		line("      %s: %s", quote(key), quote(s.Config[key]))
	}
	if len(s.Subnets) > 0 {
		line("\nsubnets:")
		for _, n := range s.Subnets {
			line("  %s: {cidr: %s}", n.Name, quote(n.Prefixes[0].String()))
		}
	}
	line("\nusers:")
	for _, u := range s.Users {
		if u.DN == "" {
			line("  %s: {}", quote(u.Name))
			continue
		}
		line("  %s: {dn: %s}", quote(u.Name), quote(u.DN))
	}
	if len(s.Topics) > 0 {
		line("\ntopics:")
		for _, t := range s.Topics {
			line("  %s: {partitions: %d}", quote(t.Name), t.Partitions)
		}
	}
	s.writeRules(line)
	s.writeExpect(line)
	return b.Bytes()
}

func (s *Setup) writeRules(line func(string, ...any)) {
	if s.RulesFile != "" {
		line("\nacl-file: %s", quote(s.RulesFile))
		return
	}
	line("\n# The rules, by their numbers.\nacls:")
	for i, r := range s.Rules {
		parts := []string{"principal: " + quote(r.Principal), "host: " + quote(r.Host), "operation: " + r.Operation.String()}
		if r.Permission == acl.Deny {
			parts = append(parts, "permission: DENY")
		}
		parts = append(parts, "resource: "+quote(resourceText(r.Type, r.Name)))
		if r.Kind == acl.Prefixed {
			parts = append(parts, "pattern: PREFIXED")
		}
		line("  - {%s} # %d", strings.Join(parts, ", "), i+1)
	}
}

func (s *Setup) writeExpect(line func(string, ...any)) {
	if len(s.Expect) == 0 {
		return
	}
	line("\n# Who may do what from where, and the number of the rule that decides; without a number no rule does.\nexpect:")
	for i := range s.Expect {
		r := &s.Expect[i]
		cells := make([]string, len(r.Cells))
		for k, c := range r.Cells {
			cells[k] = c.Operation.String() + ": deny"
			if c.Allow {
				cells[k] = c.Operation.String() + ": allow"
			}
			if c.Rule > 0 {
				cells[k] += fmt.Sprintf(" %d", c.Rule)
			}
		}
		line("  - {principal: %s, from: %s, resource: %s, listener: %s, operations: {%s}}", quote(r.Principal), quote(r.From.String()),
			quote(resourceText(r.Type, r.Name)), quote(r.Listener), strings.Join(cells, ", "))
	}
}

// resourceText is a resource as lab files write it.
func resourceText(t acl.ResourceType, name string) string {
	words := map[acl.ResourceType]string{acl.Topic: "Topic", acl.Group: "Group", acl.TransactionalID: "TransactionalId", acl.DelegationToken: "DelegationToken", acl.User: "User"}
	if t == acl.Cluster {
		return "Cluster"
	}
	return words[t] + ":" + name
}

// quote writes a text as YAML reads it back, whatever is in it.
func quote(text string) string {
	plain := regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$|^\d+\.\d+\.\d+\.\d+(/\d+)?$`)
	special := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
	if plain.MatchString(text) && !slices.Contains(special, strings.ToLower(text)) {
		return text
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x100 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000 && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// comment makes one line of a text from anywhere.
func comment(text string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, text)
}
