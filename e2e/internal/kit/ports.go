package kit

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The range that ports are taken from. The kernel takes the ports of clients above it, and the guides have theirs below, so that
// a broker finds its port free when it starts again, and so does a guide that a test runs beside.
const (
	firstPort = 30_000
	portCount = 2700
	blockSize = 100
)

// Packages run side by side, and a port that is free now need not be when a broker starts: each process claims blocks of the range.
var ports struct { //nolint:gochecknoglobals // ports are the machine's, and so are a process's
	sync.Mutex
	claims []*os.File // of the blocks that are ours; a lock on each, which ends with the process
	mine   []int
	next   int
}

// FreePort returns a port that nobody listens on, at no address of this machine, and that no other process of these tests is given.
// It gives the same one again only after all others that the process could have.
func FreePort() int {
	ports.Lock()
	defer ports.Unlock()
	var listen net.ListenConfig
	for range 2 * portCount {
		if ports.next == len(ports.mine) && !claimBlock() {
			ports.next = 0
		}
		port := ports.mine[ports.next]
		ports.next++
		l, err := listen.Listen(context.Background(), "tcp", ":"+strconv.Itoa(port))
		if err == nil && l.Close() == nil {
			return port
		}
	}
	panic(fmt.Sprintf("there is no free port from %d to %d", firstPort, firstPort+portCount))
}

// claimBlock adds a block that no process has to those of this one, and says whether there was one.
func claimBlock() bool {
	folder := filepath.Join(os.TempDir(), "brokerlab-test-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		panic(fmt.Sprintf("claim ports: %v", err))
	}
	for first := firstPort; first < firstPort+portCount; first += blockSize {
		f, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(first)), os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			panic(fmt.Sprintf("claim ports: %v", err))
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = f.Close()
			continue
		}
		ports.claims = append(ports.claims, f)
		for port := range blockSize {
			ports.mine = append(ports.mine, first+port)
		}
		return true
	}
	if len(ports.mine) == 0 {
		panic(fmt.Sprintf("other processes hold all ports from %d to %d", firstPort, firstPort+portCount))
	}
	return false
}
