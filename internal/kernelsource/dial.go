package kernelsource

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker"
)

// callTimeout bounds a call without a deadline of its own.
const callTimeout = 30 * time.Second

// Client asks the owner of a lab for counts of one network namespace. Safe for concurrent use; calls run one after another.
// When the owner went away and came back, the next call connects again and watches the same ports.
type Client struct {
	socket string

	mu     sync.Mutex
	netns  *os.File
	conn   *net.UnixConn // nil: to be made
	ports  []uint16
	closed bool
}

// Dial connects to the owner that serves at the Unix socket, for the network namespace that file is open on (it may be closed
// afterwards), or for that of this process if file is nil.
func Dial(socket string, file *os.File) (*Client, error) {
	own, err := duplicate(file)
	if err != nil {
		return nil, fmt.Errorf("kernel counts: open the network namespace: %w", err)
	}
	c := &Client{socket: socket, netns: own}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := c.connect(ctx); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return c, nil
}

func duplicate(file *os.File) (*os.File, error) {
	if file == nil {
		return os.Open("/proc/self/ns/net")
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// connect says hello and watches again what was watched before.
func (c *Client) connect(ctx context.Context) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return fmt.Errorf("kernel counts of the lab: %w", err)
	}
	c.conn, _ = conn.(*net.UnixConn)
	c.limit(ctx)
	if err = c.hello(); err != nil {
		return c.broken(err)
	}
	if len(c.ports) == 0 {
		return nil
	}
	_, err = c.exchange(&request{Op: opWatch, Ports: c.ports})
	return err
}

func (c *Client) hello() error {
	var frame frameBuffer
	if err := writeFrame(&frame, request{Version: protocolVersion, Op: opHello}); err != nil {
		return err
	}
	if _, _, err := c.conn.WriteMsgUnix(frame, unix.UnixRights(int(c.netns.Fd())), nil); err != nil {
		return err
	}
	return c.read(&response{})
}

// frameBuffer collects what is written to it.
type frameBuffer []byte

func (b *frameBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

func (c *Client) limit(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(callTimeout)
	}
	_ = c.conn.SetDeadline(deadline)
}

// broken gives up the connection; the next call makes a new one.
func (c *Client) broken(err error) error {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	return fmt.Errorf("kernel counts of the lab: %w", err)
}

// refused is an error that the owner answered with: the connection is sound.
type refused string

func (e refused) Error() string { return string(e) }

func (c *Client) read(r *response) error {
	if err := readFrame(c.conn, maxResponse, r); err != nil {
		return err
	}
	if r.Version != protocolVersion {
		return fmt.Errorf("version %d of the protocol, want %d: broker and lab owner are different releases", r.Version, protocolVersion)
	}
	if r.Error != "" {
		return refused(r.Error)
	}
	return nil
}

func (c *Client) exchange(q *request) (*response, error) {
	q.Version = protocolVersion
	if err := writeFrame(c.conn, q); err != nil {
		return nil, c.broken(err)
	}
	r := &response{}
	if err := c.read(r); err != nil {
		if _, sound := errors.AsType[refused](err); sound {
			return nil, fmt.Errorf("kernel counts of the lab: %w", err)
		}
		return nil, c.broken(err)
	}
	return r, nil
}

// call makes one request, over a new connection if the last one broke.
func (c *Client) call(ctx context.Context, q *request) (*response, error) {
	if c.closed {
		return nil, errClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fresh := c.conn == nil
	if fresh {
		if err := c.connect(ctx); err != nil {
			return nil, err
		}
	}
	c.limit(ctx)
	r, err := c.exchange(q)
	if err == nil || fresh || c.conn != nil || ctx.Err() != nil {
		return r, err
	}
	// The connection was from before the owner was started again: once more over a new one.
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c.exchange(q)
}

// Watch counts ports from now on, and the connections that they have.
func (c *Client) Watch(ports []uint16) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if _, err := c.call(ctx, &request{Op: opWatch, Ports: ports}); err != nil {
		return err
	}
	for _, p := range ports {
		if !slices.Contains(c.ports, p) {
			c.ports = append(c.ports, p)
		}
	}
	return nil
}

// Report returns the counts of the watched ports.
func (c *Client) Report(ctx context.Context) (broker.KernelReport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.call(ctx, &request{Op: opReport})
	if err != nil {
		return broker.KernelReport{}, err
	}
	if r.Report == nil {
		return broker.KernelReport{}, c.broken(errors.New("answer without a report"))
	}
	return *r.Report, nil
}

// Sockets lists the connections of one watched port.
func (c *Client) Sockets(ctx context.Context, port uint16) ([]broker.KernelSocket, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.call(ctx, &request{Op: opSockets, Port: port})
	if err != nil {
		return nil, err
	}
	return r.Sockets, nil
}

// Close ends the connection; the owner forgets the ports when their last connection has ended. It may be called twice.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	err := c.netns.Close()
	if c.conn != nil {
		err = errors.Join(err, c.conn.Close())
		c.conn = nil
	}
	return err
}
