package listing_test

import (
	"testing"

	_ "github.com/brokerlab/brokerlab/scenarios/listing"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestListing(t *testing.T) { stage.RunSuite(t, "listing") }
