package stage

import (
	"os"
	"strconv"
)

// ScaleVariable is the environment variable that multiplies how many clients specs use. The runner sets it.
const ScaleVariable = "BROKERLAB_SCALE"

// Scale is n times the run's scale, and at least one.
func Scale(n int) int {
	factor, err := strconv.ParseFloat(os.Getenv(ScaleVariable), 64)
	if err != nil || factor <= 0 {
		return n
	}
	return max(1, int(float64(n)*factor))
}
