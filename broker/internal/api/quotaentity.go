package api

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/inetaddress"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// quotaEntity is an entity as a request has it, in the order in which Kafka goes through its parts. Of two parts of one
// type only the last is there.
type quotaEntity metadata.Entity

func writtenEntity(parts []kmsg.AlterClientQuotasRequestEntryEntity) quotaEntity {
	byType := map[string]*string{}
	var types []string
	for _, p := range parts {
		if _, again := byType[p.Type]; !again {
			types = append(types, p.Type)
		}
		byType[p.Type] = p.Name
	}
	var e quotaEntity
	for _, kind := range dynamicconfig.JavaOrder(types, len(parts)) {
		e = append(e, metadata.EntityPart{Type: metadata.EntityType(kind), Name: byType[kind]})
	}
	return e
}

// String is ClientQuotaEntity.toString.
func (e quotaEntity) String() string {
	parts := make([]string, 0, len(e))
	for _, p := range e {
		name := "null"
		if p.Name != nil {
			name = *p.Name
		}
		parts = append(parts, string(p.Type)+"="+name)
	}
	return "ClientQuotaEntity(entries={" + strings.Join(parts, ", ") + "})"
}

// kept is the entity as it is stored: with an address in one spelling. refusal says in Kafka's words why there is no such
// entity; what is kept then only tells it from others.
func (e quotaEntity) kept(ctx context.Context) (entity metadata.Entity, refusal string) {
	entity = slices.Clone(metadata.Entity(e))
	if len(e) == 0 {
		return entity, "Invalid empty client quota entity"
	}
	for _, p := range e {
		switch {
		case p.Type != metadata.EntityUser && p.Type != metadata.EntityClientID && p.Type != metadata.EntityIP:
			return entity, "Unhandled client quota entity type: " + string(p.Type)
		case p.Name != nil && *p.Name == "":
			return entity, "Empty " + string(p.Type) + " not supported"
		}
	}
	at := slices.IndexFunc(e, func(p metadata.EntityPart) bool { return p.Type == metadata.EntityIP })
	switch {
	case at < 0:
		return entity, ""
	case len(e) > 1:
		return entity, "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId" //nolint:misspell // Kafka's text
	case e[at].Name == nil:
		return entity, ""
	}
	addr, err := inetaddress.Resolve(ctx, *e[at].Name)
	if err != nil {
		return entity, *e[at].Name + " is not a valid IP or resolvable host."
	}
	entity[at].Name = new(addr.String())
	return entity, ""
}
