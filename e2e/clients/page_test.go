package clients

import (
	"fmt"
	"strings"
)

// page prints docs/clients.md.
func (r *results) page() string {
	var b strings.Builder
	b.WriteString("# Real clients\n\n")
	for _, c := range r.Clients {
		fmt.Fprintf(&b, "- %s %s\n", c.Library, c.Version)
	}
	return b.String()
}
