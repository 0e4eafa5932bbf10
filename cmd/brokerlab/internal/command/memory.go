//go:build linux

package command

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How a process tells that a burst is over: nothing much was allocated for a while after much was.
const (
	memoryTick  = time.Second
	memoryQuiet = 1 << 20  // bytes allocated in a tick that is quiet
	memoryBurst = 16 << 20 // bytes allocated since memory was last given back
)

// returnMemory gives the memory that a burst of connections has used back to the system once the burst is over, until ctx
// ends. Handshakes of thousands of clients leave garbage that Go would keep for minutes when nothing more is allocated:
// operators would see it as the cost of idle connections. Starting is such a burst too: the kernel's types alone, which BPF
// programs are fitted to, are megabytes. It is for processes, not libraries: it collects for the whole.
func returnMemory(ctx context.Context) {
	tick := time.NewTicker(memoryTick)
	defer tick.Stop()
	last, returned := allocated(), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := allocated()
		if quiet := now-last < memoryQuiet; quiet && (returned == 0 || now-returned > memoryBurst) {
			// A second collection frees what the first only moved to the victims of sync.Pool.
			debug.FreeOSMemory()
			debug.FreeOSMemory()
			now = allocated()
			returned = now
		}
		last = now
	}
}

// allocated is how many bytes were ever allocated on the heap.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
