package engine

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/wire"
)

// maxRequest is the largest request that a [Host] reads: Kafka's default of socket.request.max.bytes.
const maxRequest = 100 << 20

// HostOptions say what a [Host] serves.
type HostOptions struct {
	// Options of the data plane; NodeID and Remote mean nothing here.
	Options
	// Nodes is how many nodes it has, with the ids 1, 2 …
	Nodes int
	// Listen is host:port, at which it is asked for its nodes. They have the ports after that; with port 0 any. Where
	// Alone is set the one node is at Listen itself, and says that it is no data plane for brokers but holds their metadata log.
	Listen string
	Alone  bool
	// Advertised is the host that clients are told; the one of Listen when empty.
	Advertised string
	// Refuse answers a whole request with an error, in the shape of its API; nil: its connection is closed instead.
	Refuse func(req kmsg.Request, code int16, message string) kmsg.Response
}

// Host is a data plane that serves several brokers over TCP: each of its nodes is what a broker of that node id is the
// face of. It is also the guard of the data plane, so that its state, and what it corrects, is in one place, whoever asks.
// Anybody who reaches its ports may do anything: it knows no principals.
type Host struct {
	engine    *Engine
	log       *slog.Logger
	refuse    func(kmsg.Request, int16, string) kmsg.Response
	listeners []net.Listener
	nodes     []int32 // whose each listener is
	alone     bool    // it holds a metadata log
	offers    kmsg.ApiVersionsResponse

	making sync.RWMutex // held while partitions are made and given to nodes: nobody is told of the leaders before

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
	gone   sync.WaitGroup
}

// Listen binds the ports, and opens the data plane: it recovers what Dir holds. Nobody is served before [Host.Serve].
func Listen(ctx context.Context, o HostOptions) (*Host, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{log: o.Log, refuse: o.Refuse, alone: o.Alone, conns: map[net.Conn]struct{}{}}
	err := h.bind(ctx, &o)
	if err == nil {
		o.NodeID = int32(o.Nodes)
		h.engine, err = Open(ctx, o.Options)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	offers := h.engine.Versions()
	for _, key := range slices.Sorted(maps.Keys(offers)) {
		v := offers[key]
		h.offers.ApiKeys = append(h.offers.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: v.Min, MaxVersion: v.Max})
	}
	return h, nil
}

// bind takes the ports.
func (h *Host) bind(ctx context.Context, o *HostOptions) error {
	host, text, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("address %q: %w", o.Listen, err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	const mostNodes = 1000
	switch {
	case err != nil:
		return fmt.Errorf("address %q: %w", o.Listen, err)
	case o.Nodes < 1 || o.Nodes > mostNodes || o.Alone && o.Nodes != 1:
		return fmt.Errorf("%d nodes are not between 1 and %d", o.Nodes, mostNodes)
	case port != 0 && int(port)+o.Nodes >= 1<<16:
		return fmt.Errorf("address %q: there are no %d ports after it", o.Listen, o.Nodes)
	}
	advertised := o.Advertised
	if advertised == "" {
		advertised = host
	}
	if ip, err := netip.ParseAddr(advertised); advertised == "" || err == nil && ip.IsUnspecified() {
		return fmt.Errorf("address %q: brokers cannot be told to connect to any address: name a host to advertise", o.Listen)
	}
	count := 1 + o.Nodes
	if o.Alone {
		count = 1
	}
	for i := range count {
		at := uint64(0)
		if port != 0 {
			at = port + uint64(i)
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.FormatUint(at, 10)))
		if err != nil {
			return err
		}
		h.listeners = append(h.listeners, l)
		h.nodes = append(h.nodes, int32(max(i, 1)))
		if i > 0 || o.Alone {
			bound, _ := l.Addr().(*net.TCPAddr)
			o.hosted = append(o.hosted, nodeAddr(net.JoinHostPort(advertised, strconv.Itoa(bound.Port))))
		}
	}
	return nil
}

// nodeAddr is the address of a node, as clients are told it.
type nodeAddr string

// Network is "tcp".
func (nodeAddr) Network() string  { return "tcp" }
func (a nodeAddr) String() string { return string(a) }

// host gives each node its leases.
func (e *Engine) host(plane *kfakePlane) {
	e.hosted = make(map[int32]*leases, len(plane.hosted))
	e.nodes = nil
	for i, l := range plane.hosted {
		id := int32(i + 1)
		e.nodes = append(e.nodes, id)
		e.hosted[id] = &leases{open: func(bool) (link, error) { return plane.openTo(l) }, linger: linger, maxIdle: maxIdleLinks}
	}
}

// coordinator opens links to the node that coordinates a group or a transactional id.
func (e *Engine) coordinator(id string) func() (link, error) {
	if len(e.hosted) == 0 {
		return func() (link, error) { return e.plane.open(false) }
	}
	plane, _ := e.plane.(*kfakePlane)
	of := e.hosted[plane.cluster.CoordinatorFor(id)]
	return func() (link, error) { return of.open(false) }
}

// Addr is where the nodes are asked for.
func (h *Host) Addr() string { return h.listeners[0].Addr().String() }

// Serve serves whoever connects, until [Host.Close].
func (h *Host) Serve() error {
	var accepting sync.WaitGroup
	errs := make([]error, len(h.listeners))
	for i, l := range h.listeners {
		accepting.Go(func() { errs[i] = h.accept(l, h.nodes[i]) })
	}
	accepting.Wait()
	return errors.Join(errs...)
}

func (h *Host) accept(l net.Listener, node int32) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		h.mu.Lock()
		if h.closed {
			h.mu.Unlock()
			return conn.Close()
		}
		h.conns[conn] = struct{}{}
		h.gone.Add(1)
		h.mu.Unlock()
		go func() {
			defer h.gone.Done()
			h.serve(conn, node)
			_ = conn.Close()
			h.mu.Lock()
			delete(h.conns, conn)
			h.mu.Unlock()
		}()
	}
}

// Close ends every connection and saves the data plane's state.
func (h *Host) Close() error {
	var errs []error
	h.mu.Lock()
	again := h.closed
	h.closed = true
	for conn := range h.conns {
		_ = conn.Close()
	}
	h.mu.Unlock()
	if again {
		return nil
	}
	for _, l := range h.listeners {
		errs = append(errs, l.Close())
	}
	h.gone.Wait()
	if h.engine != nil {
		errs = append(errs, h.engine.Close())
	}
	return errors.Join(errs...)
}

// serve answers one connection's requests one after another. Its reader is one ahead, so that it notices when the other
// end is gone while a request waits.
func (h *Host) serve(conn net.Conn, node int32) {
	noticeCuts(conn)
	remote, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	client := &Client{engine: h.engine, node: node, leases: h.engine.hosted[node], from: lessee{remote: remote}}
	frames, gone, quit := make(chan []byte), make(chan struct{}), make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(gone)
		readFrames(conn, frames, quit)
	})
	defer func() {
		_ = conn.Close()
		close(quit)
		client.Close()
		reading.Wait()
	}()
	var out []byte
	for {
		select {
		case frame := <-frames:
			answer, err := h.answer(client, frame, out[:0], gone)
			if err != nil {
				h.log.Debug("closing a connection", slog.String("remote", conn.RemoteAddr().String()), slog.Any("error", err))
				return
			}
			if len(answer) == 0 { // acks=0
				continue
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
			if out = answer; cap(out) > bulkyAnswer {
				out = nil
			}
		case <-gone:
			return
		}
	}
}

// readFrames reads requests until there are no more, or quit is closed.
func readFrames(conn net.Conn, frames chan<- []byte, quit <-chan struct{}) {
	read := bufio.NewReaderSize(conn, readBuffer)
	for {
		frame, err := readFrame(read)
		if err != nil {
			return
		}
		select {
		case frames <- frame:
		case <-quit:
			return
		}
	}
}

// readFrame reads one request without its length prefix.
func readFrame(read *bufio.Reader) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(read, prefix[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(prefix[:])))
	if size < 0 || size > maxRequest {
		return nil, fmt.Errorf("a request of %d bytes", size)
	}
	frame := make([]byte, min(size, believed))
	at := 0
	for {
		n, err := io.ReadFull(read, frame[at:])
		if err != nil {
			return nil, err
		}
		if at += n; int64(at) == size {
			return frame, nil
		}
		grown := make([]byte, min(size, 2*int64(at)))
		copy(grown, frame)
		frame = grown
	}
}

// answer has a request answered and appends the answer to out; nothing when its client wants none.
func (h *Host) answer(client *Client, frame, out []byte, gone <-chan struct{}) ([]byte, error) {
	header, body, err := wire.ParseHeader(frame, flexible)
	if err != nil {
		return nil, err
	}
	req := kmsg.RequestForKey(header.Key)
	if req == nil {
		return nil, fmt.Errorf("unknown key %d", header.Key)
	}
	req.SetVersion(header.Version)
	if header.Key == kmsg.ApiVersions.Int16() {
		return wire.AppendResponse(out, header.CorrelationID, false, h.apiVersions(header.Version)), nil
	}
	if offered, ok := (*h.engine.versions.Load())[header.Key]; !ok || header.Version < offered.Min || header.Version > offered.Max {
		return nil, fmt.Errorf("key %d version %d is not served", header.Key, header.Version)
	}
	if err := req.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode key %d version %d: %w", header.Key, header.Version, err)
	}
	client.SetClientID(deref(header.ClientID))
	type outcome struct {
		resp kmsg.Response
		err  error
	}
	got := make(chan outcome, 1)
	switch req.(type) {
	case *kmsg.CreateTopicsRequest, *kmsg.CreatePartitionsRequest:
		h.making.Lock()
		defer h.making.Unlock()
	case *kmsg.MetadataRequest, *kmsg.DescribeTopicPartitionsRequest:
		h.making.RLock()
		defer h.making.RUnlock()
	}
	client.Do(req, func(resp kmsg.Response, err error) { got <- outcome{resp, err} })
	select {
	case o := <-got:
		var refused *RefusedError
		if errors.As(o.err, &refused) && h.refuse != nil {
			o.resp, o.err = h.refuse(req, refused.Code, refused.Why), nil
		}
		if o.err != nil {
			return nil, o.err
		}
		if produce, ok := req.(*kmsg.ProduceRequest); ok && produce.Acks == 0 {
			return nil, nil
		}
		h.engine.placeNew(o.resp)
		h.own(client.node, o.resp)
		o.resp.SetVersion(header.Version)
		return wire.AppendResponse(out, header.CorrelationID, o.resp.IsFlexible(), o.resp), nil
	case <-gone:
		return nil, io.EOF
	}
}

// own leaves out of an answer what other nodes answer for: kfake's nodes list transactions and directories of all.
func (h *Host) own(node int32, resp kmsg.Response) {
	plane, _ := h.engine.plane.(*kfakePlane)
	switch r := resp.(type) {
	case *kmsg.ListTransactionsResponse:
		r.TransactionStates = slices.DeleteFunc(r.TransactionStates, func(s kmsg.ListTransactionsResponseTransactionState) bool {
			return plane.cluster.CoordinatorFor(s.TransactionalID) != node
		})
	case *kmsg.DescribeLogDirsResponse:
		for i := range r.Dirs {
			for j := range r.Dirs[i].Topics {
				t := &r.Dirs[i].Topics[j]
				t.Partitions = slices.DeleteFunc(t.Partitions, func(p kmsg.DescribeLogDirsResponseDirTopicPartition) bool {
					return plane.cluster.LeaderFor(t.Topic, p.Partition) != node
				})
			}
			r.Dirs[i].Topics = slices.DeleteFunc(r.Dirs[i].Topics, func(t kmsg.DescribeLogDirsResponseDirTopic) bool { return len(t.Partitions) == 0 })
		}
	}
}

// apiVersions says what is served, and whose this is.
func (h *Host) apiVersions(version int16) *kmsg.ApiVersionsResponse {
	const highest, namesFeatures = 4, 3
	resp := h.offers
	resp.Version = version
	own := []kmsg.ApiVersionsResponseApiKey{{ApiKey: kmsg.ApiVersions.Int16(), MaxVersion: highest}}
	if version > highest { // the client is told how to ask again (KIP-511)
		resp.Version, resp.ErrorCode, resp.ApiKeys = 0, kerr.UnsupportedVersion.Code, own
		return &resp
	}
	resp.ApiKeys = append(own, resp.ApiKeys...)
	if version >= namesFeatures {
		resp.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: Sign, MinVersion: 1, MaxVersion: 1}}
		if h.alone {
			resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: logSign, MinVersion: 1, MaxVersion: 1})
		}
	}
	resp.FinalizedFeaturesEpoch = -1
	return &resp
}

// flexible tells whether a request has header v2.
func flexible(key, version int16) bool {
	req := kmsg.RequestForKey(key)
	if req == nil {
		return false
	}
	req.SetVersion(version)
	return req.IsFlexible()
}
