package fidelity

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel end a process when this one is killed, which then cleans up nothing.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
