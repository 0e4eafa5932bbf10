package push_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// Keys of requests that tests look for.
const (
	keyProduce      = 0
	keyHandshake    = 17
	keyVersions     = 18
	keyAuthenticate = 36
	keyPush         = 95
)

// seen is something that passed the proxy.
type seen struct {
	connection int
	answer     bool
	key        int16
}

// proxy passes frames between clients and a broker, and writes down which.
type proxy struct {
	listener net.Listener
	broker   string
	// onPush, unless nil, is called in place of passing on the answer to a PushConfig. False closes the connection.
	onPush func(client io.Writer, answer []byte) bool
	// onVersions is the same for the answer to the hook's own ApiVersions.
	onVersions func(client io.Writer, answer []byte) bool

	running sync.WaitGroup

	mu    sync.Mutex
	log   []seen
	bytes bytes.Buffer // all that clients sent
	conns []net.Conn
}

func startProxy(t *testing.T, broker string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, broker: broker}
	p.running.Go(func() {
		for n := 0; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(n, client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

// dial is for kgo.Dialer: whatever a client wants to reach, it gets the proxy.
func (p *proxy) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, p.listener.Addr().String())
}

func (p *proxy) note(s seen) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, s)
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
}

func (p *proxy) serve(n int, client net.Conn) {
	p.keep(client)
	defer func() { _ = client.Close() }()
	broker, err := net.Dial("tcp", p.broker)
	if err != nil {
		return
	}
	p.keep(broker)
	defer func() { _ = broker.Close() }()
	var mu sync.Mutex
	asked := map[int32]int16{}
	p.running.Go(func() {
		defer func() { _ = client.Close() }()
		defer func() { _ = broker.Close() }()
		for {
			frame, err := readFrame(broker)
			if err != nil {
				return
			}
			mu.Lock()
			key := asked[int32(binary.BigEndian.Uint32(frame[4:]))]
			mu.Unlock()
			instead := p.instead(key, int32(binary.BigEndian.Uint32(frame[4:])))
			if instead != nil {
				if !instead(client, frame) {
					return
				}
				continue
			}
			p.note(seen{n, true, key})
			if _, err := client.Write(frame); err != nil {
				return
			}
		}
	})
	for {
		frame, err := readFrame(client)
		if err != nil {
			return
		}
		key := int16(binary.BigEndian.Uint16(frame[4:]))
		mu.Lock()
		asked[int32(binary.BigEndian.Uint32(frame[8:]))] = key
		mu.Unlock()
		p.mu.Lock()
		p.log = append(p.log, seen{n, false, key})
		p.bytes.Write(frame)
		p.mu.Unlock()
		if _, err := broker.Write(frame); err != nil {
			return
		}
	}
}

// hooks is where the correlation ids of a hook begin; kgo's own begin at 0.
const hooks = 1 << 30

// instead is what is done with an answer, nil for one that is passed on.
func (p *proxy) instead(key int16, correlation int32) func(client io.Writer, answer []byte) bool {
	switch {
	case key == keyPush:
		return p.onPush
	case key == keyVersions && correlation >= hooks:
		return p.onVersions
	}
	return nil
}

func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, 4, 512)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

// requests are the keys of a connection's requests, the first most of them.
func (p *proxy) requests(connection, most int) []int16 {
	var keys []int16
	for _, s := range p.events() {
		if s.connection == connection && !s.answer && len(keys) < most {
			keys = append(keys, s.key)
		}
	}
	return keys
}

func (p *proxy) events() []seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// count is how many requests of a key came over all connections.
func (p *proxy) count(key int16) int {
	n := 0
	for _, s := range p.events() {
		if !s.answer && s.key == key {
			n++
		}
	}
	return n
}

// sent is all that clients sent.
func (p *proxy) sent() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.bytes.Bytes())
}
