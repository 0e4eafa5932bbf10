package netns

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on an OS thread that nobody else uses, before or after: the thread ends with f, so f may leave it in
// any namespace. The process's first thread is never used, because /proc/self speaks of it and Go cannot end it.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, except below: the thread ends with this goroutine
		if unix.Gettid() != unix.Getpid() {
			result <- f()
			return
		}
		defer runtime.UnlockOSThread()
		result <- onThread(f) // while this one keeps the first thread busy
	}()
	return <-result
}
