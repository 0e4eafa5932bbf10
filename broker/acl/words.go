package acl

import (
	"fmt"
	"strings"
)

// Operation is what a rule is about, by Kafka's code (AclOperation.java).
type Operation int8

// The operations.
const (
	UnknownOperation Operation = iota
	AnyOperation               // in filters only
	All
	Read
	Write
	Create
	Delete
	Alter
	Describe
	ClusterAction
	DescribeConfigs
	AlterConfigs
	IdempotentWrite
	CreateTokens
	DescribeTokens
	TwoPhaseCommit
)

// ResourceType is the kind of thing a rule protects, by Kafka's code (ResourceType.java).
type ResourceType int8

// The resource types.
const (
	UnknownResource ResourceType = iota
	AnyResource                  // in filters only
	Topic
	Group
	Cluster
	TransactionalID
	DelegationToken
	User
)

// ClusterName is the only name that a resource of type Cluster has.
const ClusterName = "kafka-cluster"

// PatternType is how a rule's name stands for resources, by Kafka's code (PatternType.java).
type PatternType int8

// The pattern types.
const (
	UnknownPattern PatternType = iota
	AnyPattern                 // in filters only
	Match                      // in filters only: all that would apply to the name
	Literal                    // the name itself, or all of the type when it is "*"
	Prefixed                   // every name that begins with it
)

// Permission is whether a rule allows or denies, by Kafka's code (AclPermissionType.java).
type Permission int8

// The permissions.
const (
	UnknownPermission Permission = iota
	AnyPermission                // in filters only
	Deny
	Allow
)

// words of an enumeration, by code.
type words []string

func (w words) name(code int8) string {
	if code < 0 || int(code) >= len(w) {
		return w[0]
	}
	return w[code]
}

func (w words) parse(what, text string) (int8, error) {
	for i, name := range w {
		if i > 0 && sameWord(name, text) {
			return int8(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q: one of %s", what, text, strings.Join(w[1:], ", "))
}

// sameWord compares regardless of case and of what joins words: TRANSACTIONAL_ID, TransactionalId, transactional-id.
func sameWord(a, b string) bool {
	plain := strings.NewReplacer("_", "", "-", "")
	return strings.EqualFold(plain.Replace(a), plain.Replace(b))
}

func operations() words {
	return words{
		"UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
		"ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
	}
}

func resourceTypes() words {
	return words{"UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"}
}

func patternTypes() words { return words{"UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"} }

func permissions() words { return words{"UNKNOWN", "ANY", "DENY", "ALLOW"} }

// String is Kafka's name, such as DESCRIBE_CONFIGS; UNKNOWN for a code that is not assigned.
func (o Operation) String() string { return operations().name(int8(o)) }

// String is Kafka's name, such as TRANSACTIONAL_ID; UNKNOWN for a code that is not assigned.
func (t ResourceType) String() string { return resourceTypes().name(int8(t)) }

// String is Kafka's name, such as PREFIXED; UNKNOWN for a code that is not assigned.
func (t PatternType) String() string { return patternTypes().name(int8(t)) }

// String is Kafka's name, such as ALLOW; UNKNOWN for a code that is not assigned.
func (p Permission) String() string { return permissions().name(int8(p)) }

// ParseOperation reads an operation as people write it: READ, Read, DescribeConfigs, describe-configs.
func ParseOperation(text string) (Operation, error) {
	code, err := operations().parse("operation", text)
	return Operation(code), err
}

// ParseResourceType reads a resource type as people write it: TOPIC, Topic, TransactionalId, transactional-id.
func ParseResourceType(text string) (ResourceType, error) {
	code, err := resourceTypes().parse("resource type", text)
	return ResourceType(code), err
}

// ParsePatternType reads a pattern type as people write it.
func ParsePatternType(text string) (PatternType, error) {
	code, err := patternTypes().parse("pattern type", text)
	return PatternType(code), err
}

// ParsePermission reads a permission as people write it.
func ParsePermission(text string) (Permission, error) {
	code, err := permissions().parse("permission", text)
	return Permission(code), err
}
