package accounting_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	_ "github.com/brokerlab/brokerlab/scenarios/accounting"
)

func TestAccounting(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "accounting")
}
