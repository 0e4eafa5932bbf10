package metadata

import (
	"errors"
	"fmt"
	"math"
)

// SCRAM mechanisms and the bounds of their iterations, as Kafka has them.
const (
	ScramSHA256        = "SCRAM-SHA-256"
	ScramSHA512        = "SCRAM-SHA-512"
	MinScramIterations = 4096
	MaxScramIterations = 16384
)

// metadataVersionScram is 3.5-IV2: the first level that has SCRAM.
const metadataVersionScram = 11

func (r SetScram) validate() error {
	switch {
	case r.User == "":
		return errors.New("username must not be empty")
	case scramIndex(r.Mechanism) < 0:
		return fmt.Errorf("unknown SCRAM mechanism %q", r.Mechanism)
	case r.Iterations < MinScramIterations:
		return errors.New("too few iterations")
	case r.Iterations > MaxScramIterations:
		return errors.New("too many iterations")
	case len(r.StoredKey) == 0 || len(r.ServerKey) == 0: // Kafka takes a salt of no bytes
		return errors.New("a key is empty")
	}
	return nil
}

func (r RemoveScram) validate() error {
	if scramIndex(r.Mechanism) < 0 {
		return fmt.Errorf("unknown SCRAM mechanism %q", r.Mechanism)
	}
	return nil
}

func scramIndex(mechanism string) int {
	switch mechanism {
	case ScramSHA256:
		return 0
	case ScramSHA512:
		return 1
	}
	return -1
}

func (r SetConfig) validate() error {
	switch r.Resource.Type {
	case ResourceBroker, ResourceClientMetrics, ResourceGroup:
	default:
		return fmt.Errorf("%v cannot have dynamic configs here", r.Resource)
	}
	if r.Name == "" {
		return errors.New("config name must not be empty")
	}
	return nil
}

func (r SetFeature) validate() error {
	if r.Name == "" {
		return errors.New("feature name must not be empty")
	}
	if r.Level < 0 {
		return fmt.Errorf("feature level %d is negative", r.Level)
	}
	return nil
}

func (r SetQuota) validate() error {
	if r.Name == "" {
		return errors.New("quota name must not be empty")
	}
	if r.Value != nil && (!(*r.Value > 0) || math.IsInf(*r.Value, 0)) {
		return fmt.Errorf("quota %s must be greater than 0", r.Name)
	}
	return r.Entity.validate()
}

func (r setCluster) validate() error {
	if r.ID == "" {
		return errors.New("cluster id must not be empty")
	}
	return nil
}

// What a rule must be depends on the image, see checkACL; here is what no level allows.
func (r AddACL) validate() error {
	if r.Host == "" || r.Name == "" {
		return errors.New("a rule needs a host and a resource name")
	}
	return nil
}

func (RemoveACL) validate() error { return nil }

func (r RegisterBroker) validate() error {
	switch {
	case r.ID < 0:
		return fmt.Errorf("broker id %d is negative", r.ID)
	case r.Incarnation == "":
		return errors.New("a registration needs an incarnation")
	case r.MinLevel > r.MaxLevel:
		return fmt.Errorf("broker %d works with no level: %d is over %d", r.ID, r.MinLevel, r.MaxLevel)
	}
	return nil
}

func (FenceBroker) validate() error      { return nil }
func (UnregisterBroker) validate() error { return nil }
func (snapshotTaken) validate() error    { return nil }
