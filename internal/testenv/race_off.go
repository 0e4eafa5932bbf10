//go:build !race

package testenv

// Race tells that a test was built with the race detector, under which arithmetic takes ten times as long.
const Race = false
