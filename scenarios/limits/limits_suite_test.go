package limits_test

import (
	"testing"

	_ "github.com/brokerlab/brokerlab/scenarios/limits"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestLimits(t *testing.T) { stage.RunSuite(t, "limits") }
