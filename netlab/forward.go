package netlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/brokerlab/brokerlab/netlab/netns"
)

// forward carries connections from a port of the machine's 127.0.0.1 to a node. The node sees the router's address.
type forward struct {
	listener net.Listener
	router   *netns.Handle
	to       netip.AddrPort
	log      *slog.Logger
}

// expose takes the port. Connections wait in the kernel until [forward.serve].
func expose(ctx context.Context, port uint16) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("expose port %d: %w (choose another port under expose:, or see who has it by ss -ltnp)", port, err)
	}
	return l, nil
}

// serve carries connections until ctx ends, and returns when the last has ended.
func (f *forward) serve(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	stop := context.AfterFunc(ctx, func() { _ = f.listener.Close() })
	defer stop()
	for {
		client, err := f.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors: wait for some to come back
			f.log.Warn("accept on exposed port", slog.Any("error", err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		all.Go(func() { f.carry(ctx, client) })
	}
}

func (f *forward) carry(ctx context.Context, client net.Conn) {
	defer client.Close() //nolint:errcheck // carried as far as it went
	node, err := dial(ctx, f.router, netip.Addr{}, f.to)
	if err != nil {
		f.log.Debug("exposed port", slog.Any("error", err))
		if c, ok := client.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // the client learns that nobody is there
		}
		return
	}
	defer node.Close() //nolint:errcheck // carried as far as it went
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), node.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { pour(node, client) })
	both.Go(func() { pour(client, node) })
	both.Wait()
}

// pour copies until the end of from, and passes the end on: as a FIN, or as a reset where from was reset.
func pour(to, from net.Conn) {
	_, err := io.Copy(to, from)
	out, ok := to.(*net.TCPConn)
	if !ok {
		return
	}
	if err != nil {
		_ = out.SetLinger(0)
		_, _ = out.Close(), from.Close()
		return
	}
	_ = out.CloseWrite()
}
