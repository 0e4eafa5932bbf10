package fleet_test

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const errAddrNotAvail = unix.EADDRNOTAVAIL

// stackOf fills b with the stacks of all goroutines.
func stackOf(b []byte) int { return runtime.Stack(b, true) }
