package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/network"
)

const (
	// bulkyAnswer is the size from which an answer leaves buffers behind that are dearer than a new link:
	// the far end keeps its largest write buffer for the life of a connection.
	bulkyAnswer = 64 << 10
	// keptFrame is the largest request buffer that goes back to the pool.
	keptFrame = 64 << 10
)

// errLinkLost answers a request whose link was closed by the data plane, which does so with requests it can't handle.
var errLinkLost = errors.New("the data plane closed the link")

// memLink is a connection inside this process. One side is the [net.Conn] that kfake serves: it reads a whole request
// that send left for it and writes a whole answer with one call of Write, which decodes it and runs the callback.
// So a link has no goroutine but those of kfake.
type memLink struct {
	frames *sync.Pool

	mu       sync.Mutex
	wake     sync.Cond // on mu: unread or closed changed
	frame    *[]byte   // the request being read, from frames
	unread   []byte    // what of it is still to be read
	remote   netip.AddrPort
	resp     kmsg.Response
	answer   func(kmsg.Response, error) // set while a request is in flight
	corr     int32
	large    bool
	closed   bool
	leaving  bool   // closes once the Produce in flight is answered
	calling  bool   // answer runs
	idle     func() // to be run after it
	onClosed func()
}

var (
	_ link     = (*memLink)(nil)
	_ net.Conn = (*memLink)(nil)
)

func newMemLink(frames *sync.Pool, onClosed func()) *memLink {
	l := &memLink{frames: frames, onClosed: onClosed}
	l.wake.L = &l.mu
	return l
}

func (l *memLink) send(from lessee, req kmsg.Request, answer func(kmsg.Response, error)) {
	frame, _ := l.frames.Get().(*[]byte)
	l.mu.Lock()
	if l.closed || l.leaving || l.answer != nil {
		err := ErrClosed
		if !l.closed && !l.leaving {
			err = errBusy
		}
		l.mu.Unlock()
		l.frames.Put(frame)
		go answer(nil, err)
		return
	}
	l.corr++
	*frame = appendRequest((*frame)[:0], l.corr, from.clientID, req)
	l.frame, l.unread = frame, *frame
	l.remote = from.remote
	l.resp = req.ResponseKind()
	l.answer = answer
	l.wake.Signal()
	l.mu.Unlock()
}

// appendRequest appends a request with its length prefix and header.
func appendRequest(dst []byte, corr int32, clientID string, req kmsg.Request) []byte {
	begin := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(req.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(corr))
	clientID = clientID[:min(len(clientID), 1<<15-1)]
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if req.IsFlexible() {
		dst = append(dst, 0)
	}
	dst = req.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[begin:], uint32(len(dst)-begin-4))
	return dst
}

// putCorrelation changes the correlation id of a request that appendRequest has made.
func putCorrelation(frame []byte, corr int32) {
	const at = 4 + 2 + 2
	binary.BigEndian.PutUint32(frame[at:], uint32(corr))
}

func (l *memLink) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && !l.leaving
}

func (l *memLink) dear() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.large
}

// close lets a Produce be answered first: kfake may have written it already, and only the answer tells where. That is
// soon, as kfake makes no Produce wait.
func (l *memLink) close() {
	l.mu.Lock()
	_, writing := l.resp.(*kmsg.ProduceResponse)
	l.leaving = l.leaving || writing
	l.mu.Unlock()
	if !writing {
		l.shut(ErrClosed)
	}
}

// shut closes the link once; err answers a request in flight, on a goroutine of its own.
func (l *memLink) shut(err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	answer := l.answer
	l.answer, l.resp, l.frame, l.unread = nil, nil, nil, nil
	l.wake.Broadcast()
	l.mu.Unlock()
	if answer != nil {
		go answer(nil, err)
	}
	l.onClosed()
}

// Read gives kfake the bytes of the next request.
func (l *memLink) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.unread) == 0 && !l.closed {
		l.wake.Wait()
	}
	if l.closed {
		return 0, io.EOF
	}
	n := copy(p, l.unread)
	l.unread = l.unread[n:]
	if len(l.unread) == 0 {
		if cap(*l.frame) <= keptFrame {
			l.frames.Put(l.frame)
		}
		l.frame, l.unread = nil, nil
	}
	return n, nil
}

// Write takes a whole answer from kfake, which reuses p afterwards.
func (l *memLink) Write(p []byte) (int, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return 0, net.ErrClosed
	}
	answer, resp, corr := l.answer, l.resp, l.corr
	l.answer, l.resp = nil, nil
	l.large = l.large || len(p) >= bulkyAnswer
	l.calling = true
	leaving := l.leaving // only then it is about this answer
	l.mu.Unlock()
	if answer == nil {
		return 0, net.ErrClosed
	}
	if err := readResponse(p, corr, resp); err != nil {
		answer(nil, err)
		return 0, net.ErrClosed
	}
	answer(resp, nil)
	l.mu.Lock()
	idle := l.idle
	l.calling, l.idle = false, nil
	l.mu.Unlock()
	if idle != nil {
		idle()
	}
	if leaving {
		l.shut(ErrClosed)
	}
	return len(p), nil
}

func (l *memLink) whenIdle(f func()) {
	l.mu.Lock()
	if l.calling {
		l.idle = f
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

// readResponse decodes a response that starts with its length prefix. What resp keeps is a copy.
func readResponse(p []byte, corr int32, resp kmsg.Response) error {
	const prefix = 4
	if len(p) < prefix {
		return fmt.Errorf("answer to key %d is cut off", resp.Key())
	}
	return decodeResponse(append([]byte(nil), p[prefix:]...), corr, resp)
}

// decodeResponse decodes a response without its length prefix. resp keeps parts of p.
func decodeResponse(p []byte, corr int32, resp kmsg.Response) error {
	const header = 4
	if len(p) < header || int32(binary.BigEndian.Uint32(p)) != corr {
		return fmt.Errorf("answer to key %d does not belong to its request", resp.Key())
	}
	body := p[header:]
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 {
			return fmt.Errorf("answer to key %d is cut off", resp.Key())
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("decode answer to key %d version %d: %w", resp.Key(), resp.GetVersion(), err)
	}
	return nil
}

// Close is kfake's: it gave up the connection.
func (l *memLink) Close() error {
	l.shut(errLinkLost)
	return nil
}

// RemoteAddr is the lessee's address, whose text kfake keeps as the client host of a group member.
func (l *memLink) RemoteAddr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return clientHost(l.remote.Addr())
}

// clientHost is an address whose text is the one that Kafka describes group members with: Java's, after a slash.
type clientHost netip.Addr

// Network is "tcp".
func (clientHost) Network() string { return "tcp" }

func (h clientHost) String() string {
	addr := netip.Addr(h).Unmap()
	if !addr.IsValid() { // the broker itself
		return "/127.0.0.1"
	}
	return "/" + network.JavaAddr(addr)
}

// LocalAddr is of no use to anybody.
func (*memLink) LocalAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline does nothing: kfake sets none.
func (*memLink) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*memLink) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (*memLink) SetWriteDeadline(time.Time) error { return nil }

// memListener gives kfake the far ends of links.
type memListener struct {
	addr  net.Addr
	conns chan net.Conn
	// deaf listeners ignore Close until hangUp: the controller stays reachable after its node was removed.
	deaf bool

	once sync.Once
	done chan struct{}
}

func newMemListener(addr net.Addr, deaf bool) *memListener {
	return &memListener{
		addr:  addr,
		conns: make(chan net.Conn, 64),
		deaf:  deaf,
		done:  make(chan struct{}),
	}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	if !l.deaf {
		l.hangUp()
	}
	return nil
}

func (l *memListener) hangUp() { l.once.Do(func() { close(l.done) }) }

func (l *memListener) Addr() net.Addr { return l.addr }

// dial hands c to the accepting side.
func (l *memListener) dial(c net.Conn) error {
	select {
	case l.conns <- c:
		return nil
	case <-l.done:
		return ErrClosed
	}
}
