package configpush

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Log, Store and Fault are the names of the policies that come with the broker.
const (
	Log   = "log"
	Store = "store"
	Fault = "fault"
)

// Own are those names.
func Own() []string { return []string{Log, Store, Fault} }

// registered are policies of programs that have a broker in them. Like the drivers of database/sql they are there before
// the configuration that names them is read.
var registered = struct { //nolint:gochecknoglobals // see above
	sync.Mutex

	byName map[string]func() Policy
}{byName: map[string]func() Policy{}}

// Register adds a policy under a name for client.config.policy.class.name, before [broker.LoadConfig] reads that. Like
// [sql.Register] it panics when the name is taken, and when it or the function is missing.
func Register(name string, policy func() Policy) {
	registered.Lock()
	defer registered.Unlock()
	if _, taken := registered.byName[name]; taken || name == "" || slices.Contains(Own(), name) || policy == nil {
		panic(fmt.Sprintf("configpush: Register of %q: the name is taken, or it or the function is missing", name))
	}
	registered.byName[name] = policy
}

// Lookup finds what [Register] added under a name.
func Lookup(name string) (policy func() Policy, ok bool) {
	registered.Lock()
	defer registered.Unlock()
	policy, ok = registered.byName[name]
	return policy, ok
}

// Names are the names that client.config.policy.class.name can have, sorted.
func Names() []string {
	registered.Lock()
	defer registered.Unlock()
	return slices.Sorted(maps.Keys(withOwn(registered.byName)))
}

func withOwn(m map[string]func() Policy) map[string]func() Policy {
	all := maps.Clone(m)
	for _, name := range Own() {
		all[name] = nil
	}
	return all
}
