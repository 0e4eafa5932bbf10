package listing

import (
	"math"
	"time"
)

// round leaves one digit after the point.
func round(v float64) float64 { return math.Round(v*10) / 10 }

// milliseconds is d with one digit after the point.
func milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }
