package arch

import (
	"slices"
	"strings"
	"testing"
)

// What each part may import of this module. A part is the longest prefix that matches a folder; "" allows nothing but
// itself. cmd and scenarios may import everything.
func parts() map[string][]string {
	return map[string][]string{
		"cmd":                   {"*"},
		"scenarios":             {"*"},
		"broker":                {"broker"},
		"bpf":                   {"bpf", "internal/kernel", "internal/testenv"},
		"netlab":                {"netlab", "internal/testenv"},
		"e2e":                   {"e2e"},
		"examples":              {"scenarios"}, // as a module of somebody else has it
		"internal/kernel":       {"bpf"},
		"internal/kernelsource": {"broker", "bpf", "netlab", "internal/kernel", "internal/testenv"},
		"internal/reconcile":    {"broker"},
		"internal/testenv":      {},
		"internal/reference":    {"broker/protocol"},
		"internal/arch":         {},
	}
}

// Packages that are arithmetic, or that programs of others build upon: they import the standard library and what is named here.
func pure() map[string][]string {
	return map[string][]string{
		"broker/acl":     {"github.com/gaissmai/bart"},
		"broker/quota":   {},
		"broker/feature": {},

		"broker/configpush":       {module + "/broker/protocol"},
		"broker/configpush/log":   {module + "/broker/configpush"},
		"broker/configpush/store": {module + "/broker/configpush", "modernc.org/sqlite", "modernc.org/sqlite/lib"},
		"broker/configpush/fault": {module + "/broker/configpush"},
	}
}

func TestPartsImportOnlyWhatTheyMayKnow(t *testing.T) {
	for _, f := range tree(t) {
		part, allowed := partOf(f.dir)
		if part == "" {
			if f.dir != "." {
				t.Errorf("%s/%s belongs to no part: name it in parts()", f.dir, f.name)
			}
			continue
		}
		if slices.Contains(allowed, "*") {
			continue
		}
		for _, dir := range f.imports() {
			ok := under(dir, part)
			for _, a := range allowed {
				ok = ok || under(dir, a)
			}
			// A test may use the helpers for tests, wherever it is.
			ok = ok || (f.test && dir == "internal/testenv")
			if !ok {
				t.Errorf("%s/%s imports %s, which %s must not know", f.dir, f.name, dir, part)
			}
		}
	}
}

func partOf(dir string) (part string, allowed []string) {
	for p, a := range parts() {
		if under(dir, p) && len(p) > len(part) {
			part, allowed = p, a
		}
	}
	return part, allowed
}

func TestPurePackagesImportOnlyTheStandardLibrary(t *testing.T) {
	for _, f := range tree(t) {
		allowed, isPure := pure()[f.dir]
		if !isPure || f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			path := importPath(spec)
			if strings.Contains(path, ".") && !slices.Contains(allowed, path) {
				t.Errorf("%s/%s imports %s, which %s must do without", f.dir, f.name, path, f.dir)
			}
		}
	}
}

// A database is big, and one thing that a broker keeps is in one.
func TestOnlyTheStoreOfPushesHasADatabase(t *testing.T) {
	for _, f := range tree(t) {
		for _, spec := range f.ast.Imports {
			path := importPath(spec)
			if f.dir != "broker/configpush/store" && (strings.HasPrefix(path, "modernc.org/") || path == "database/sql" && !f.test) {
				t.Errorf("%s/%s imports %s: only broker/configpush/store does", f.dir, f.name, path)
			}
		}
	}
}

func TestOnlyNetnsLocksThreads(t *testing.T) {
	for _, f := range tree(t) {
		if f.test || under(f.dir, "netlab/netns") {
			continue
		}
		if calls(f.ast, "runtime", "LockOSThread") {
			t.Errorf("%s/%s locks a thread: only netlab/netns does", f.dir, f.name)
		}
	}
}
