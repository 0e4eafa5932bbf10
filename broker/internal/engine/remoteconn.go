package engine

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/internal/wire"
)

const (
	// unackedMost is how long bytes may be on their way before the connection is taken to be cut.
	unackedMost = 10 * time.Second
	// maxAnswer is the largest answer that is read.
	maxAnswer = 128 << 20
	// believed is how much of a claimed length is allocated before its bytes are there.
	believed = 1 << 20
	// wakeEvery is how much of a large answer is waited for at least.
	wakeEvery = 256 << 10
	// readBuffer holds most answers whole.
	readBuffer = 4 << 10
	// ownClientID is what the broker calls itself where it asks for itself.
	ownClientID = "brokerlab"
)

// remoteConn is one connection to a data plane. It belongs to one goroutine at a time.
type remoteConn struct {
	conn net.Conn
	read *bufio.Reader
	corr int32
	// renewAt is when its SASL session is to be renewed; zero: never.
	renewAt time.Time
	host    string
	// lowWater is SO_RCVLOWAT where it was set; 0: it was not.
	lowWater int
	// metadata is the version of Metadata that the other end is asked in; 0 until it has told its versions.
	metadata int16
}

func newRemoteConn(conn net.Conn, address string) *remoteConn {
	return &remoteConn{conn: conn, read: bufio.NewReaderSize(conn, readBuffer), host: address}
}

// connect dials and authenticates.
func (p *remotePlane) connect(ctx context.Context, address string) (*remoteConn, error) {
	select {
	case p.dialling <- struct{}{}:
		defer func() { <-p.dialling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	dial := p.o.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := newRemoteConn(conn, address)
	noticeCuts(conn)
	deadline, _ := ctx.Deadline()
	if err = conn.SetDeadline(deadline); err == nil && p.o.SASL != nil {
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
		err = p.authenticate(ctx, c)
		stop()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// noticeCuts has the kernel end a connection whose link is cut, which nobody else would tell.
func noticeCuts(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	t, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: unackedMost / 2, Interval: unackedMost / 4, Count: 2})
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedMost.Milliseconds()))
		})
	}
}

// renew authenticates again when the session is about to end.
func (p *remotePlane) renew(ctx context.Context, c *remoteConn) error {
	if c.renewAt.IsZero() || time.Now().Before(c.renewAt) {
		return nil
	}
	return p.authenticate(ctx, c)
}

// authenticate runs one SASL exchange (KIP-152, KIP-368).
func (p *remotePlane) authenticate(ctx context.Context, c *remoteConn) error {
	mechanism := p.o.SASL
	begin := time.Now()
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Version, hello.Mechanism = 1, mechanism.Name()
	resp, err := c.ask(hello)
	if err != nil {
		return fmt.Errorf("begin SASL: %w", err)
	}
	if r, _ := resp.(*kmsg.SASLHandshakeResponse); r.ErrorCode != 0 {
		return fmt.Errorf("begin SASL %s: %w, it has %v", mechanism.Name(), kerr.ErrorForCode(r.ErrorCode), r.SupportedMechanisms)
	}
	host, _, _ := net.SplitHostPort(c.host)
	session, token, err := mechanism.Authenticate(ctx, host)
	if err != nil {
		return fmt.Errorf("SASL %s: %w", mechanism.Name(), err)
	}
	const mostSteps = 10
	for range mostSteps {
		step := kmsg.NewPtrSASLAuthenticateRequest()
		step.Version, step.SASLAuthBytes = 1, token
		resp, err := c.ask(step)
		if err != nil {
			return fmt.Errorf("SASL %s: %w", mechanism.Name(), err)
		}
		r, _ := resp.(*kmsg.SASLAuthenticateResponse)
		if r.ErrorCode != 0 {
			return fmt.Errorf("SASL %s: %w: %s", mechanism.Name(), kerr.ErrorForCode(r.ErrorCode), deref(r.ErrorMessage))
		}
		var done bool
		done, token, err = session.Challenge(r.SASLAuthBytes)
		if err != nil {
			return fmt.Errorf("SASL %s: %w", mechanism.Name(), err)
		}
		if done {
			c.renewAt = time.Time{}
			if r.SessionLifetimeMillis > 0 {
				const early = 5 // a fifth of it
				life := time.Duration(r.SessionLifetimeMillis) * time.Millisecond
				c.renewAt = begin.Add(life - life/early)
			}
			return nil
		}
	}
	return fmt.Errorf("SASL %s: no end after %d steps", mechanism.Name(), mostSteps)
}

// ask makes one of the broker's own requests. Who calls it has set a deadline.
func (c *remoteConn) ask(req kmsg.Request) (kmsg.Response, error) {
	c.corr++
	if _, err := c.conn.Write(appendRequest(nil, c.corr, ownClientID, req)); err != nil {
		return nil, err
	}
	body, err := c.receive()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	const codeAt, codeEnd = 4, 6
	if req.Key() == kmsg.ApiVersions.Int16() && len(body) >= codeEnd &&
		int16(binary.BigEndian.Uint16(body[codeAt:])) == kerr.UnsupportedVersion.Code {
		resp.SetVersion(0) // in which that is answered
	}
	if err := decodeResponse(body, c.corr, resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// The first two bytes by which TLS refuses what is not TLS (RFC 8446, 5.1 and 6).
const (
	tlsAlert = 21
	tlsMajor = 3
)

// arriving is an answer of which the first have bytes are there.
type arriving struct {
	conn *remoteConn
	// frame is as long as the answer, its length prefix first, or as what is believed of it.
	frame      []byte
	have, size int
}

// next begins to read an answer, into memory of from where that is given. Of a length that is claimed only so much is believed as was
// asked for.
func (c *remoteConn) next(from *wire.Buffers, asked int) (*arriving, error) {
	var prefix [sizePrefix]byte
	if _, err := io.ReadFull(c.read, prefix[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(prefix[:])))
	if size < 4 || size > maxAnswer {
		if prefix[0] == tlsAlert && prefix[1] == tlsMajor {
			return nil, errors.New("it wants TLS: see engine.security.protocol")
		}
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	a := &arriving{conn: c, size: sizePrefix + int(size)}
	first := min(a.size, asked+believed)
	if from != nil {
		a.frame = from.Get(first)[:first]
	} else {
		a.frame = make([]byte, first)
	}
	a.has(copy(a.frame, prefix[:]))
	return a, nil
}

// more reads up to most bytes of the answer.
func (a *arriving) more(most int) error {
	if a.have == len(a.frame) {
		grown := make([]byte, min(a.size, 2*a.have))
		copy(grown, a.frame)
		a.frame = grown
	}
	c := a.conn
	if c.read.Buffered() == 0 {
		c.wakeAt(min(a.piece(), a.size-a.have))
	}
	n, err := c.read.Read(a.frame[a.have:min(len(a.frame), a.have+most)])
	a.has(n)
	if n > 0 {
		return nil
	}
	return err
}

// piece is how much to wait for at once: much, since waking somebody up is dear, but of the end so little that nobody waits long for it.
func (a *arriving) piece() int { return max((a.size-a.have)/2, wakeEvery) }

// has says that n more bytes are there.
func (a *arriving) has(n int) {
	if a.have += n; a.have == a.size {
		a.conn.wakeAt(1)
	}
}

// all reads the rest of the answer and returns it without its prefix.
func (a *arriving) all() ([]byte, error) {
	for a.have < a.size {
		if err := a.more(a.size); err != nil {
			return nil, err
		}
	}
	return a.frame[sizePrefix:], nil
}

// receive reads one answer without its length prefix.
func (c *remoteConn) receive() ([]byte, error) {
	a, err := c.next(nil, 0)
	if err != nil {
		return nil, err
	}
	return a.all()
}

// wakeAt has the kernel call a socket readable once it has n bytes, or its end. There is no other way to it with TLS between, and for
// few bytes it is not worth a call.
func (c *remoteConn) wakeAt(n int) {
	if n == c.lowWater || n < wakeEvery && c.lowWater == 0 {
		return
	}
	t, plain := c.conn.(*net.TCPConn)
	if !plain {
		return
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) == nil {
			c.lowWater = n
		}
	})
	if n == 1 {
		c.lowWater = 0
	}
}
