package configpush_test

import (
	"testing"

	_ "github.com/brokerlab/brokerlab/scenarios/configpush"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestConfigPush(t *testing.T) { stage.RunSuite(t, "configpush") }
