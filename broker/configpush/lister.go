package configpush

import (
	"context"
	"net/netip"
	"time"
)

// Lister is a policy that can be asked what it holds.
type Lister interface {
	Policy
	// List returns the clients that pass f, in order of ID, at most f.Most of them. An error is the policy's own.
	List(ctx context.Context, f Filter) ([]Client, error)
}

// Filter lets clients pass; a nil part, and an address without prefix, lets all. Texts are compared exactly, as they are
// after [Printable].
type Filter struct {
	After     int64 // only clients of a greater ID: 0 for the first page, then the last ID of the page before
	Most      int   // 0: no bound
	Principal *string
	ClientID  *string
	Listener  *string
	Software  *string // the name, of any version
	Address   netip.Prefix
	Ambiguous bool // only clients of more than one configuration
	Entries   bool // with what is in their configurations
}

// Client is what is held under one [Identity]. Its texts are [Printable].
type Client struct {
	ID int64 // of this store; never given to another client
	Identity
	Protocol string
	// Open is how many connections it has now; -1 where nobody tells.
	Open int
	// Configurations are what was pushed under the identity, the latest first. More than one: clients that cannot be told
	// apart have pushed different ones, and which connection belongs to which is not known.
	Configurations []Configuration
	// More is how many other configurations there were, beyond those that are kept of one identity.
	More int
}

// Ambiguous tells whether several clients that cannot be told apart have pushed different configurations.
func (c *Client) Ambiguous() bool { return len(c.Configurations) > 1 }

// Configuration is a pushed one. Its texts are [Printable].
type Configuration struct {
	Entries      []Entry // in the order of the push; nil where [Filter] does not ask for them
	Bytes        int     // the size of the push, by [Size]
	First, Last  time.Time
	Pushes       int64  // how often it came, the same each time
	ConnectionID string // over which it came last
	Open         bool   // that connection is still open
}
