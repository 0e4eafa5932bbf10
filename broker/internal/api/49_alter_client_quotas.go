package api

import (
	"context"
	"errors"
	"log/slog"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// alterClientQuotas sets and removes client quotas, each entry by itself.
//
// Versions: 0-1.
// Needs: ALTER_CONFIGS on CLUSTER.
// Differs from Kafka: quotas are kept and described, not enforced. That of an address
// (connection_creation_rate) is refused, because it would change who gets in.
func alterClientQuotas(ctx context.Context, q *call, req *kmsg.AlterClientQuotasRequest) (*kmsg.AlterClientQuotasResponse, error) {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	for _, entry := range req.Entries {
		r := kmsg.NewAlterClientQuotasResponseEntry()
		entity := metadata.Entity{}
		for _, part := range entry.Entity {
			p := kmsg.NewAlterClientQuotasResponseEntryEntity()
			p.Type, p.Name = part.Type, part.Name
			r.Entity = append(r.Entity, p)
			entity = append(entity, metadata.EntityPart{Type: metadata.EntityType(part.Type), Name: part.Name})
		}
		records, why := quotaRecords(entity, entry.Ops)
		var err error
		if why == "" && !req.ValidateOnly && len(records) > 0 {
			err = q.server.o.Metadata.Append(ctx, records...)
		}
		if rejected, ok := errors.AsType[*metadata.RejectedError](err); ok {
			why, err = rejected.Detail, nil
		}
		switch {
		case err != nil:
			return nil, err
		case why != "":
			r.ErrorCode, r.ErrorMessage = kerr.InvalidRequest.Code, &why
		case !req.ValidateOnly:
			q.server.quotas.Do(func() {
				q.server.o.Log.Warn("client quotas are kept and described, but byte and request quotas are not enforced")
			})
			q.server.o.Log.Info("altered client quota", slog.String("entity", entity.String()), slog.String("principal", principal(q.conn.Identity())))
		}
		resp.Entries = append(resp.Entries, r)
	}
	return resp, nil
}

// quotaRecords makes the records of one entry, or says in Kafka's words what is wrong with it.
func quotaRecords(entity metadata.Entity, ops []kmsg.AlterClientQuotasRequestEntryOp) (records []metadata.Record, why string) {
	if why := refuseEntity(entity); why != "" {
		return nil, why
	}
	for _, op := range ops {
		set := metadata.SetQuota{Entity: entity, Name: op.Key}
		switch op.Key {
		case "producer_byte_rate", "consumer_byte_rate":
			if !op.Remove && op.Value != math.Trunc(op.Value) {
				return nil, "Configuration " + op.Key + " must be a Long."
			}
		case "request_percentage", "controller_mutation_rate":
		default:
			return nil, "Invalid configuration key " + op.Key
		}
		if !op.Remove {
			if op.Value <= 0 || math.IsNaN(op.Value) || math.IsInf(op.Value, 0) {
				return nil, "Quota " + op.Key + " must be greater than 0"
			}
			value := op.Value
			set.Value = &value
		}
		records = append(records, set)
	}
	return records, ""
}

func refuseEntity(entity metadata.Entity) string {
	if len(entity) == 0 {
		return "Invalid empty client quota entity"
	}
	seen := map[metadata.EntityType]bool{}
	for _, p := range entity {
		switch {
		case seen[p.Type]:
			return "Duplicate client quota entity entry for " + string(p.Type)
		case p.Type == metadata.EntityIP:
			return "Connection rates of addresses are not enforced by this broker yet"
		case p.Type != metadata.EntityUser && p.Type != metadata.EntityClientID:
			return "Unhandled client quota entity type: " + string(p.Type)
		case p.Name != nil && *p.Name == "":
			return "Empty " + string(p.Type) + " not supported"
		}
		seen[p.Type] = true
	}
	return ""
}
