package kernelsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/netns"
)

// Time limits of the owner's end, so that a client that stops in the middle holds nothing.
const (
	helloTimeout = 10 * time.Second
	writeTimeout = 30 * time.Second
	maxClients   = 4096
)

// Serve counts for the brokers that connect to lis ([Dial]), each in its own network namespace, until ctx is done or lis is
// closed; then everything it began is ended. Only root and the user of this process may connect.
//
// The programs are loaded before the first client is accepted: a broker that has connected, and watches its ports before it
// listens, is counted from its first connection on. Without privileges socket tables are polled, and reports say so.
func Serve(ctx context.Context, lis *net.UnixListener, o Options) error {
	h, err := newHub(o)
	if err != nil {
		return err
	}
	s := &server{hub: h, log: o.log(), places: make(chan struct{}, maxClients)}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = lis.Close() })
	err = s.accept(ctx, lis)
	if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
		err = nil
	}
	cancel()
	stop()
	s.clients.Wait()
	return errors.Join(err, h.close())
}

type server struct {
	hub     *hub
	log     *slog.Logger
	clients sync.WaitGroup
	places  chan struct{}
}

func (s *server) accept(ctx context.Context, lis *net.UnixListener) error {
	for {
		conn, err := lis.AcceptUnix()
		if err != nil {
			return err
		}
		select {
		case s.places <- struct{}{}:
		default:
			s.log.Warn("too many clients of kernel counts", slog.Int("at_most", maxClients))
			_ = conn.Close()
			continue
		}
		s.clients.Go(func() {
			defer func() { <-s.places }()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			if err := s.serve(ctx, conn); err != nil && ctx.Err() == nil {
				s.log.Warn("client of kernel counts", slog.Any("error", err))
			}
			_ = conn.Close()
		})
	}
}

// serve answers one client until it leaves.
func (s *server) serve(ctx context.Context, conn *net.UnixConn) error {
	if err := allowed(conn); err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(helloTimeout))
	file, err := readHello(conn)
	if err != nil {
		return errors.Join(err, writeFrame(conn, response{Version: protocolVersion, Error: err.Error()}))
	}
	ns, err := netns.Open("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
	err = errors.Join(err, file.Close())
	if err != nil {
		return errors.Join(err, writeFrame(conn, response{Version: protocolVersion, Error: err.Error()}))
	}
	defer ns.Close() //nolint:errcheck // only entered
	v, err := s.hub.view(ns.Do)
	if err != nil {
		return errors.Join(err, writeFrame(conn, response{Version: protocolVersion, Error: err.Error()}))
	}
	defer v.Close() //nolint:errcheck // a netlink socket
	if err := writeFrame(conn, response{Version: protocolVersion}); err != nil {
		return err
	}
	for {
		_ = conn.SetDeadline(time.Time{})
		var q request
		if err := readFrame(conn, maxRequest, &q); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
				return nil
			}
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(writeTimeout))
		if err := writeFrame(conn, answer(ctx, v, &q)); err != nil {
			return err
		}
	}
}

func answer(ctx context.Context, v *view, q *request) response {
	r := response{Version: protocolVersion}
	var err error
	switch q.Op {
	case opWatch:
		err = v.Watch(q.Ports)
	case opReport:
		report, reportErr := v.Report(ctx)
		r.Report, err = &report, reportErr
	case opSockets:
		r.Sockets, err = v.Sockets(ctx, q.Port)
	default:
		err = fmt.Errorf("unknown operation %q", q.Op)
	}
	if err != nil {
		r.Report, r.Error = nil, err.Error()
	}
	return r
}

// allowed lets root and the own user in: whoever may name a namespace has this process enter it.
func allowed(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var optErr error
	err = errors.Join(raw.Control(func(fd uintptr) {
		peer, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}), optErr)
	if err != nil {
		return err
	}
	if !slices.Contains([]int{0, os.Geteuid()}, int(peer.Uid)) {
		return fmt.Errorf("user %d may not ask for kernel counts", peer.Uid)
	}
	return nil
}

// readHello reads the first request and the descriptor that came with it.
func readHello(conn *net.UnixConn) (*os.File, error) {
	// The descriptor comes with the frame's first byte.
	first, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := conn.ReadMsgUnix(first, oob)
	if err != nil {
		return nil, err
	}
	files, err := received(oob[:oobn])
	if err != nil {
		return nil, err
	}
	if n != 1 || flags&unix.MSG_CTRUNC != 0 || len(files) != 1 {
		closeAll(files)
		return nil, fmt.Errorf("hello with %d descriptors, want one: a network namespace", len(files))
	}
	var q request
	if err = readFrame(io.MultiReader(bytes.NewReader(first), conn), maxRequest, &q); err == nil {
		switch {
		case q.Version != protocolVersion:
			err = fmt.Errorf("version %d of the protocol, want %d: broker and lab owner are different releases", q.Version, protocolVersion)
		case q.Op != opHello:
			err = fmt.Errorf("first request is %q, want %q", q.Op, opHello)
		default:
			err = isNetns(files[0])
		}
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files[0], nil
}

func received(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// isNetns refuses whatever else a client could send.
func isNetns(f *os.File) error {
	kind, err := unix.IoctlRetInt(int(f.Fd()), unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		return errors.New("the descriptor is no network namespace")
	}
	return nil
}
