module example.com/suites

go 1.26.8

require (
	github.com/brokerlab/brokerlab v0.0.0
	github.com/onsi/ginkgo/v2 v2.34.0
	github.com/onsi/gomega v1.44.0
)

// In a checkout of brokerlab: the checkout itself. Outside of it: take this line away, or point it at yours.
replace github.com/brokerlab/brokerlab => ../..

tool github.com/brokerlab/brokerlab/cmd/brokerlab
