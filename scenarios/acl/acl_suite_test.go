package acl_test

import (
	"testing"

	_ "github.com/brokerlab/brokerlab/scenarios/acl"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestACL(t *testing.T) { stage.RunSuite(t, "acl") }
