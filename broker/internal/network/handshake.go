package network

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"unique"

	"golang.org/x/sys/unix"
)

var errNoTLSConfig = errors.New("listener has no TLS configuration")

// heldBytes is the ciphertext that has arrived.
func (s *session) heldBytes() []byte {
	if s.held == nil {
		return nil
	}
	return s.held.b
}

// startHandshake passes the connection to a goroutine of its own, now or when
// a token is free. c.run stays busy until it is back.
func (l *loop) startHandshake(c *Conn) {
	var config *tls.Config
	if l.listener.TLS != nil {
		config = l.listener.TLS()
	}
	if config == nil {
		l.close(c, ReasonTLSFailed, errNoTLSConfig)
		return
	}
	s := c.session
	s.handshake = &handshake{wake: make(chan struct{}, 1)}
	s.tls = tls.Server(s, config)
	c.phase = phaseHandshake
	l.server.running.Add(1)
	l.server.turnstile.start(func() {
		defer l.server.running.Done()
		err := s.shake()
		l.post(task{conn: c, kind: taskHandshaken, err: err})
	})
}

// shake runs the handshake, with a token when it begins.
func (s *session) shake() error {
	s.handshake.tokened = true
	err := net.ErrClosed
	s.conn.mu.Lock()
	closed := s.conn.closed
	s.conn.mu.Unlock()
	if !closed {
		err = s.tls.Handshake() //nolint:noctx // a context would cost a goroutine; the loop ends a handshake by closing its socket
	}
	if s.handshake.tokened {
		s.conn.loop.server.turnstile.release()
	}
	return err
}

// handshaken takes the connection back from its handshake.
func (l *loop) handshaken(c *Conn, err error) {
	s := c.session
	s.handshake = nil
	if err != nil {
		reason := handshakeReason(err)
		if reason == ReasonTLSFailed {
			l.listener.handshakeFailures.Add(1)
		}
		l.close(c, reason, err)
		return
	}
	l.listener.handshakes.Add(1)
	c.stamps.mark(&c.stamps.handshaken, l.server.clock.now())
	l.listener.handshaking.Add(-1)
	c.phase, c.drained = phaseOpen, false
	state := s.tls.ConnectionState()
	c.tlsInfo.Store(l.server.describe(&state))
	l.open(c, &state)
	l.server.fields.forgetHandshake(s.tls)
	if err := l.server.fields.dropBuffers(s.tls); err != nil {
		l.close(c, ReasonTLSFailed, err)
		return
	}
	l.serve(c)
}

// handshakeReason tells a client that left from one that failed.
func handshakeReason(err error) Reason {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ReasonClientClosed
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE), errors.Is(err, unix.ETIMEDOUT):
		return ReasonClientReset
	default:
		return ReasonTLSFailed
	}
}

// describe keeps of a handshake what is worth its memory.
func (s *Server) describe(state *tls.ConnectionState) *TLSInfo {
	info := &TLSInfo{
		Version:     state.Version,
		CipherSuite: state.CipherSuite,
		ServerName:  unique.Make(state.ServerName).Value(),
		Resumed:     state.DidResume,
	}
	if len(state.PeerCertificates) > 0 {
		cert := state.PeerCertificates[0]
		info.Subject = unique.Make(s.options.Subject(cert)).Value()
		info.Serial = cert.SerialNumber.String()
		info.NotAfter = cert.NotAfter
	}
	return info
}
