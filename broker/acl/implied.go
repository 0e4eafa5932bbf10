package acl

// mask is a set of operations: bit n is the operation of code n.
type mask uint16

func maskOf(ops ...Operation) (m mask) {
	for _, o := range ops {
		m |= 1 << o
	}
	return m
}

// allowedBy is which operations in an ALLOW rule allow o (StandardAuthorizerData.findResult).
func allowedBy(o Operation) mask {
	switch o {
	case Describe:
		return maskOf(All, Describe, Read, Write, Delete, Alter)
	case DescribeConfigs:
		return maskOf(All, DescribeConfigs, AlterConfigs)
	default:
		return maskOf(All, o)
	}
}

// deniedBy is which operations in a DENY rule deny o: nothing is implied there.
func deniedBy(o Operation) mask { return maskOf(All, o) }

// ImpliedBy lists the operations that, in an ALLOW rule, allow o: itself, ALL and what implies it.
func ImpliedBy(o Operation) []Operation {
	var ops []Operation
	for by := All; by <= TwoPhaseCommit; by++ {
		if allowedBy(o)&maskOf(by) != 0 {
			ops = append(ops, by)
		}
	}
	return ops
}

// Operations lists what can be done to a resource of a type, in order of code (AclEntry.supportedOperations). Rules for
// others can be made but mean nothing; kafka-acls.sh refuses them.
func Operations(t ResourceType) []Operation {
	switch t {
	case Topic:
		return []Operation{Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs}
	case Group:
		return []Operation{Read, Delete, Describe, DescribeConfigs, AlterConfigs}
	case Cluster:
		return []Operation{Create, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite}
	case TransactionalID:
		return []Operation{Write, Describe, TwoPhaseCommit}
	case DelegationToken:
		return []Operation{Describe}
	case User:
		return []Operation{CreateTokens, DescribeTokens}
	case UnknownResource, AnyResource:
	}
	return nil
}
