package limits

import (
	"fmt"
	"regexp"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
)

func text(n int) string { return strconv.Itoa(n) }

// milliseconds prints microseconds.
func milliseconds(micros int64) string { return fmt.Sprintf("%.1f", float64(micros)/1000) }

// logged is what the first group of a pattern matched in the broker's log, each time that it did.
func (g *ground) logged(pattern string) []string {
	GinkgoHelper()
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(g.LogText(), -1) {
		all = append(all, m[1])
	}
	return all
}
