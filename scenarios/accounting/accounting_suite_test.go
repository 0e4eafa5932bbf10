package accounting_test

import (
	"testing"

	_ "github.com/brokerlab/brokerlab/scenarios/accounting"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestAccounting(t *testing.T) { stage.RunSuite(t, "accounting") }
