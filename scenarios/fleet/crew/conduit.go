package crew

import (
	"bytes"
	"errors"
	"sync"
)

// conduit is a pipe that does not hold up who writes into it: what was not read yet waits, within bounds. Safe for concurrent use.
type conduit struct {
	mu    sync.Mutex // guards all
	some  *sync.Cond
	bytes bytes.Buffer
	end   error // what a reader gets when all was read; nil while there may be more
}

// longest bounds what waits in a conduit: the records of some hundred thousand clients.
const longest = 256 << 20

var errTooMuch = errors.New("more than 256 MiB wait to be read")

func newConduit() *conduit {
	c := &conduit{}
	c.some = sync.NewCond(&c.mu)
	return c
}

func (c *conduit) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil && c.bytes.Len()+len(b) > longest {
		c.end = errTooMuch
		c.some.Broadcast()
	}
	if c.end != nil {
		return 0, c.end
	}
	defer c.some.Broadcast()
	return c.bytes.Write(b)
}

func (c *conduit) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes.Len() == 0 && c.end == nil {
		c.some.Wait()
	}
	if c.bytes.Len() == 0 {
		return 0, c.end
	}
	return c.bytes.Read(b)
}

// finish ends the conduit; the first error is the one that a reader gets.
func (c *conduit) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		c.end = err
		c.some.Broadcast()
	}
}
