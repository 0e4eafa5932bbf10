//go:build race

package network

// raceDetector tells that the test binary was built with it.
const raceDetector = true
