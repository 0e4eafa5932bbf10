package metadata

import (
	"fmt"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Record is one fact that a change adds to the image or takes from it. The types of this file are all there are. A new
// one is a type here, a row in codec.go's table, a case in apply.go and a field of [Image].
type Record interface {
	// validate tells what is wrong with the record itself, whatever the image.
	validate() error
}

// SetScram adds a SCRAM credential or replaces it.
type SetScram struct {
	User string
	ScramCredential
}

// RemoveScram takes away a SCRAM credential, which must exist.
type RemoveScram struct {
	User      string
	Mechanism string // SCRAM-SHA-256 or SCRAM-SHA-512
}

// SetConfig sets a dynamic config or, with a nil Value, takes it away.
type SetConfig struct {
	Resource Resource
	Name     string
	Value    *string
}

// SetQuota sets a client quota or, with a nil Value, takes it away.
type SetQuota struct {
	Entity Entity
	Name   string // producer_byte_rate, connection_creation_rate …
	Value  *float64
}

// SetFeature finalizes a feature at a level; level 0 takes it away.
type SetFeature struct {
	Name  string // metadata.version, group.version …
	Level int16
}

// AddACL adds a rule; one that is there already stays as it is.
type AddACL struct {
	acl.Binding
	// Ungated tells that the rule was made as brokers before 4.4-IV1 did, which did not look at hosts: what has a slash is
	// kept at any level of metadata.version, whether it is a range or not.
	Ungated bool
}

// RemoveACL takes a rule away, which must exist.
type RemoveACL struct {
	acl.Binding
}

// RegisterBroker makes a broker one of the cluster's, in place of what it was before. It is refused when the broker cannot
// work at the level of metadata.version that is finalized, and while another incarnation of it is there and not fenced.
// Epoch and Fenced are what the log makes of it, whatever the record says.
type RegisterBroker struct {
	Broker
}

// FenceBroker says that a broker is out of touch: clients are not sent to it any more. It is refused unless the broker is
// registered with this epoch and not fenced.
type FenceBroker struct {
	ID    int32
	Epoch int64
}

// UnregisterBroker forgets a broker, which must be registered. One that lives registers again.
type UnregisterBroker struct {
	ID int32
}

// setCluster names the cluster that the log belongs to. It opens every log, and comes once: of several brokers that begin
// a log at the same time, one does.
type setCluster struct {
	ID string
}

// ResourceType is the kind of thing that has dynamic configs, by Kafka's numbers.
type ResourceType int8

// The resources whose configs are metadata of the cluster. Topic configs belong to the data plane.
const (
	ResourceBroker        ResourceType = 4
	ResourceClientMetrics ResourceType = 16
	ResourceGroup         ResourceType = 32
)

// Resource is what a dynamic config belongs to. A broker is named by its node id; the empty name is every broker's
// default.
type Resource struct {
	Type ResourceType
	Name string
}

func (r Resource) String() string {
	switch r.Type {
	case ResourceBroker:
		if r.Name == "" {
			return "default broker"
		}
		return "broker " + r.Name
	case ResourceClientMetrics:
		return "client metrics " + r.Name
	case ResourceGroup:
		return "group " + r.Name
	}
	return fmt.Sprintf("resource type %d %s", r.Type, r.Name)
}
