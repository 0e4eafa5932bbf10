package cluster

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is asked of a broker beside the helpers of a stage, which fail a spec where there is no answer: a refusal is a code here, and no
// answer an error.

// clerkPrincipal is whom the rules are for.
const clerkPrincipal = "User:clerk"

// makeRule asks for a rule about a topic, for those who come from host.
func makeRule(ctx context.Context, at kmsg.Requestor, topic, host string) (code int16, err error) {
	req := kmsg.NewPtrCreateACLsRequest()
	one := kmsg.NewCreateACLsRequestCreation()
	one.ResourceType, one.ResourceName, one.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	one.Principal, one.Host, one.Operation, one.PermissionType = clerkPrincipal, host, kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, one)
	resp, err := req.RequestWith(ctx, at)
	if err != nil {
		return 0, err
	}
	return resp.Results[0].ErrorCode, nil
}

// deleteRule asks to take back all rules about a topic, of which there may be none.
func deleteRule(ctx context.Context, at kmsg.Requestor, topic string) (code int16, err error) {
	req := kmsg.NewPtrDeleteACLsRequest()
	one := kmsg.NewDeleteACLsRequestFilter()
	one.ResourceType, one.ResourceName, one.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	one.Operation, one.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req.Filters = append(req.Filters, one)
	resp, err := req.RequestWith(ctx, at)
	if err != nil {
		return 0, err
	}
	return resp.Results[0].ErrorCode, nil
}

// setUser asks for a user with a password, or to change it.
func setUser(ctx context.Context, at kmsg.Requestor, name string, salt []byte) (code int16, err error) {
	const sha256, size, iterations = 1, 32, 4096
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	one := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	one.Name, one.Mechanism, one.Iterations, one.Salt, one.SaltedPassword = name, sha256, iterations, salt, make([]byte, size)
	req.Upsertions = append(req.Upsertions, one)
	resp, err := req.RequestWith(ctx, at)
	if err != nil {
		return 0, err
	}
	return resp.Results[0].ErrorCode, nil
}

// setQuota asks for a rate at which a user may produce, in bytes a second.
func setQuota(ctx context.Context, at kmsg.Requestor, user string, rate float64) (code int16, err error) {
	req := kmsg.NewPtrAlterClientQuotasRequest()
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
	entity.Type, entity.Name = "user", &user
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value = "producer_byte_rate", rate
	entry.Entity, entry.Ops = append(entry.Entity, entity), append(entry.Ops, op)
	req.Entries = append(req.Entries, entry)
	resp, err := req.RequestWith(ctx, at)
	if err != nil {
		return 0, err
	}
	return resp.Entries[0].ErrorCode, nil
}

// refusal is a code that a broker answered, as an error: nil for 0.
func refusal(code int16) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("refused with %w", kerr.ErrorForCode(code))
}
