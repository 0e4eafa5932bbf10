package cluster_test

import (
	"testing"

	_ "github.com/brokerlab/brokerlab/scenarios/cluster"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestCluster(t *testing.T) { stage.RunSuite(t, "cluster") }
