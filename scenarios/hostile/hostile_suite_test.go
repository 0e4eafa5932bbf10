package hostile_test

import (
	"testing"

	_ "github.com/brokerlab/brokerlab/scenarios/hostile"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestHostile(t *testing.T) { stage.RunSuite(t, "hostile") }
