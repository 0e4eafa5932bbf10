package api

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// alterClientQuotas sets and removes client quotas: what is right of a request is one change, what is wrong is told for
// each entity.
//
// Versions: 0-1.
// Needs: ALTER_CONFIGS on CLUSTER.
// Differs from Kafka: quotas of users and clients are kept and described, not enforced. An address is kept in one
// spelling, whichever it is given in, and a host name as the address that it has; so two spellings are one entity.
func alterClientQuotas(ctx context.Context, q *call, req *kmsg.AlterClientQuotasRequest) (*kmsg.AlterClientQuotasResponse, error) {
	const patience = 10 * time.Second
	a := quotaAlteration{outcomes: map[string]*quotaOutcome{}}
	lookups, cancel := context.WithTimeout(ctx, patience) // of all names together: what takes longer is no host
	for i := range req.Entries {
		a.add(lookups, &req.Entries[i])
	}
	cancel()
	if !req.ValidateOnly {
		if err := q.server.o.Metadata.Update(ctx, a.records); err != nil {
			return nil, err
		}
	}
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	for _, o := range a.order {
		r := kmsg.NewAlterClientQuotasResponseEntry()
		for _, part := range o.written {
			p := kmsg.NewAlterClientQuotasResponseEntryEntity()
			p.Type, p.Name = string(part.Type), part.Name
			r.Entity = append(r.Entity, p)
		}
		if o.refusal != "" {
			r.ErrorCode, r.ErrorMessage = kerr.InvalidRequest.Code, &o.refusal
		}
		resp.Entries = append(resp.Entries, r)
	}
	if !req.ValidateOnly {
		q.logQuotas(&a)
	}
	return resp, nil
}

// quotaAlteration is what the entries of a request come to, by entity.
type quotaAlteration struct {
	outcomes map[string]*quotaOutcome // by the entity's identity
	order    []*quotaOutcome
}

// quotaOutcome is what is to become of one entity.
type quotaOutcome struct {
	written quotaEntity     // as the request has it
	entity  metadata.Entity // as it is kept
	values  map[string]*float64
	refusal string // the answer, also when a former entry of the same entity stands
}

// add judges one entry. Of entries of the same entity the first stands, and their answer is that there are several; a key
// twice is answered likewise, and nothing of that entry stands (ClientQuotaControlManager.java).
func (a *quotaAlteration) add(ctx context.Context, entry *kmsg.AlterClientQuotasRequestEntry) {
	o := &quotaOutcome{written: writtenEntity(entry.Entity), values: map[string]*float64{}}
	var refusal string
	o.entity, refusal = o.written.kept(ctx)
	identity := o.entity.Identity()
	former, again := a.outcomes[identity]
	if !again {
		a.outcomes[identity], a.order = o, append(a.order, o)
	}
	values, keys, twice := quotaValues(entry.Ops)
	switch {
	case again:
		former.refusal = "Ignoring duplicate entity " + former.written.String()
	case twice:
		o.refusal = "Ignoring duplicate entity " + o.written.String()
	case refusal != "":
		o.refusal = refusal
	default:
		for _, key := range dynamicconfig.JavaOrder(keys, len(entry.Ops)) {
			if values[key] == nil {
				continue
			}
			if o.refusal = refuseQuota(quotaKeys(o.entity), key, *values[key]); o.refusal != "" {
				return
			}
		}
		o.values = values
	}
}

// quotaValues are the values to set by key, nil for those to remove; twice tells that a key is there again.
func quotaValues(ops []kmsg.AlterClientQuotasRequestEntryOp) (values map[string]*float64, keys []string, twice bool) {
	values = map[string]*float64{}
	for _, op := range ops {
		if _, there := values[op.Key]; there {
			return nil, nil, true
		}
		values[op.Key], keys = nil, append(keys, op.Key)
		if !op.Remove {
			values[op.Key] = new(op.Value)
		}
	}
	return values, keys, false
}

// records are what is to change in an image, in as many as Kafka takes at once.
func (a *quotaAlteration) records(image *metadata.Image) (records []metadata.Record, err error) {
	for _, o := range a.order {
		now := image.Quota(o.entity)
		for _, key := range slices.Sorted(maps.Keys(o.values)) {
			was, set := now[key]
			value := o.values[key]
			if value == nil && set || value != nil && (!set || was != *value) {
				records = append(records, metadata.SetQuota{Entity: o.entity, Name: key, Value: value})
			}
		}
	}
	const most = 10_000
	if len(records) > most {
		return nil, &engine.RefusedError{Key: kmsg.AlterClientQuotas.Int16(), Code: kerr.PolicyViolation.Code, Why: "Request parameters do not satisfy the configured policy."}
	}
	return records, nil
}

func (q *call) logQuotas(a *quotaAlteration) {
	for _, o := range a.order {
		if len(o.values) == 0 {
			continue
		}
		if _, ofAddress := o.values[metadata.ConnectionCreationRate]; !ofAddress {
			q.server.quotas.Do(func() {
				q.server.o.Log.Warn("client quotas are kept and described, but byte and request quotas are not enforced")
			})
		}
		q.server.o.Log.Info("altered client quota", slog.String("entity", o.entity.String()), slog.String("principal", principal(q.conn.Identity())))
	}
}

// quotaKeys are the quotas that an entity can have, with the types of their values.
func quotaKeys(entity metadata.Entity) map[string]string {
	if entity[0].Type == metadata.EntityIP {
		return map[string]string{metadata.ConnectionCreationRate: "INT"}
	}
	return map[string]string{
		"producer_byte_rate": "LONG", "consumer_byte_rate": "LONG", "request_percentage": "DOUBLE", "controller_mutation_rate": "DOUBLE",
	}
}

// refuseQuota says in Kafka's words what is wrong with a value. A whole number may be off by a millionth, but only
// upwards: so 1e-7 is one, and is obeyed as 0.
func refuseQuota(keys map[string]string, key string, value float64) string {
	const tolerance = 1e-6
	kind, known := keys[key]
	most := map[string]float64{"INT": math.MaxInt32, "LONG": math.MaxInt64}[kind]
	switch {
	case !known:
		return "Invalid configuration key " + key
	case math.IsNaN(value) || math.IsInf(value, 0):
		return "Quota " + key + " must be a finite number"
	case value <= 0:
		return "Quota " + key + " must be greater than 0"
	case kind == "DOUBLE":
		return ""
	case value > most:
		return "Proposed value for " + key + " is too large for " + map[string]string{"INT": "an INT.", "LONG": "a LONG."}[kind]
	case math.Mod(value, 1) > tolerance:
		return key + " cannot be a fractional value."
	}
	return ""
}
