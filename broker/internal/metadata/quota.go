package metadata

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EntityType is one of the parts that a quota's entity is made of.
type EntityType string

// The parts Kafka knows. User and client id may stand together; ip stands alone.
const (
	EntityUser     EntityType = "user"
	EntityClientID EntityType = "client-id"
	EntityIP       EntityType = "ip"
)

// ConnectionCreationRate is the one quota of addresses: connections a second.
const ConnectionCreationRate = "connection_creation_rate"

// EntityPart is a user, a client id or an address; a nil Name is the default of its type.
type EntityPart struct {
	Type EntityType
	Name *string
}

// Entity is whom a client quota is for: up to one part of each type. The order of the parts means nothing.
type Entity []EntityPart

// Identity tells entities apart: parts in order of their types, with lengths instead of separators.
func (e Entity) Identity() string {
	var b strings.Builder
	for _, p := range e.sorted() {
		b.WriteString(string(p.Type))
		if p.Name == nil {
			b.WriteString("\x00-")
			continue
		}
		b.WriteString("\x00+")
		b.WriteString(*p.Name)
		b.WriteString("\x00")
	}
	return b.String()
}

// sorted is the entity with its parts in order of their types.
func (e Entity) sorted() Entity {
	return slices.SortedFunc(slices.Values(e), func(a, b EntityPart) int { return strings.Compare(string(a.Type), string(b.Type)) })
}

// String is the entity as Kafka's tools print it: user 'alice', client-id default.
func (e Entity) String() string {
	parts := make([]string, 0, len(e))
	for _, p := range e {
		if p.Name == nil {
			parts = append(parts, "default "+string(p.Type))
		} else {
			parts = append(parts, string(p.Type)+" '"+*p.Name+"'")
		}
	}
	return strings.Join(parts, ", ")
}

// Quota is an entity with all of its values by name.
type Quota struct {
	Entity Entity
	Values map[string]float64
}

func (e Entity) validate() error {
	if len(e) == 0 {
		return errors.New("quota entity must not be empty")
	}
	seen := make(map[EntityType]bool, len(e))
	for _, p := range e {
		switch p.Type {
		case EntityUser, EntityClientID, EntityIP:
		default:
			return fmt.Errorf("unknown quota entity type %q", p.Type)
		}
		if seen[p.Type] {
			return fmt.Errorf("quota entity has two parts of type %s", p.Type)
		}
		seen[p.Type] = true
		if p.Name != nil && *p.Name == "" {
			return fmt.Errorf("quota entity has an empty %s", p.Type)
		}
	}
	if seen[EntityIP] && len(e) > 1 {
		return errors.New("an ip cannot be combined with another quota entity")
	}
	return nil
}
