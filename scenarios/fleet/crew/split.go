package crew

import (
	"slices"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// Split cuts a plan into n: of each group every share has as many clients as the others, or one more. The rate is shared, too; how
// many clients may be opening at a time counts for each share.
func Split(plan fleet.Plan, n int) []fleet.Plan {
	all := make([]fleet.Plan, n)
	more := 0 // whose turn it is to have one more, so that the first shares do not get all of them
	for i := range all {
		all[i] = plan
		all[i].Groups = slices.Clone(plan.Groups)
		all[i].Rate = plan.Rate / float64(n)
	}
	for g := range plan.Groups {
		count := plan.Groups[g].Count
		for i := range all {
			all[i].Groups[g].Count = count / n
		}
		for range count % n {
			all[more%n].Groups[g].Count++
			more++
		}
	}
	return all
}
