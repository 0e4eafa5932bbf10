package engine

import (
	"net/netip"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// plane is a data plane that links can be opened to: kfake in this process, or an engine by address.
type plane interface {
	// open makes a link, without waiting. controller asks for one whose requests reach the controller.
	open(controller bool) (link, error)
	// unsaved counts what could not be written to the disk, records aside: of those the plane tells itself.
	unsaved() uint64
	// close ends the plane; every open link answers what it has in flight with an error.
	close() error
}

// link carries requests to a data plane, one at a time, as a Kafka connection does.
// Its methods are called by its lessee alone, but close may be called at any time.
type link interface {
	// send hands req over and returns at once. answer is called exactly once, on a goroutine of the link that
	// must not be held up; the link takes the next request from within it already.
	send(from lessee, req kmsg.Request, answer func(kmsg.Response, error))
	// whenIdle runs f once the last answer's function has returned: at once, or on the link's goroutine. Until then
	// the link must not go to another lessee, who would wait for that function too.
	whenIdle(f func())
	// alive tells whether the link may be used again.
	alive() bool
	// dear tells whether a new one is cheaper than keeping it: it holds much memory, or its next lessee would wait.
	dear() bool
	// close ends the link and answers a request in flight with [ErrClosed]; a Produce may be let be answered first.
	close()
}

// lessee is who the data plane should see at the other end of a link.
type lessee struct {
	remote   netip.AddrPort
	clientID string
	passing  bool  // the records of a Fetch answer may be overwritten once its function has returned
	relay    Relay // takes the answer to this Fetch while it arrives; nil: nobody does
}
