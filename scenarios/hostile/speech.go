package hostile

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// frame puts a length before a request.
func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// header is a request's header of version 1, with the client id "x".
func header(key, version int16) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, 0, 0, 0, 7, 0, 1, 'x')
}

// says sends bytes as they are, once.
func says(b []byte) func(*assailant) error {
	return func(a *assailant) error {
		_, err := a.Write(b)
		return err
	}
}

// request is a whole frame of a kmsg request.
func request(req kmsg.Request) []byte {
	b := header(req.Key(), req.GetVersion())
	if req.IsFlexible() {
		b = append(b, 0)
	}
	return frame(req.AppendTo(b))
}

// answer reads one frame, whatever it says.
func (a *assailant) answer() error {
	var length [4]byte
	if _, err := io.ReadFull(a, length[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, a, int64(binary.BigEndian.Uint32(length[:])))
	return err
}

// ask sends a request and reads its answer.
func (a *assailant) ask(req kmsg.Request) error {
	if _, err := a.Write(request(req)); err != nil {
		return err
	}
	return a.answer()
}

// overTLS shakes hands first, so that what follows is said inside TLS.
func overTLS(then func(*assailant) error) func(*assailant) error {
	return func(a *assailant) error {
		t := tls.Client(a, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // an attacker does not care whom it talks to
		if err := t.HandshakeContext(a.ctx); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		return then(&assailant{Conn: t, ctx: a.ctx}) // what goes through it is counted outside
	}
}

// loggedIn authenticates as bob first.
func loggedIn(password string, then func(*assailant) error) func(*assailant) error {
	return func(a *assailant) error {
		shake := kmsg.NewPtrSASLHandshakeRequest()
		shake.Version, shake.Mechanism = 1, "PLAIN"
		if err := a.ask(shake); err != nil {
			return fmt.Errorf("SASL: %w", err)
		}
		token := kmsg.NewPtrSASLAuthenticateRequest()
		token.Version, token.SASLAuthBytes = 1, []byte("\x00bob\x00"+password)
		if err := a.ask(token); err != nil {
			return fmt.Errorf("SASL: %w", err)
		}
		return then(a)
	}
}

// password is bob's.
func (f *field) password() string {
	return f.Group(hostileNet, "SASL_PLAINTEXT", "bob", 1).Password
}

// many is the size of an attack.
func many(n int) int { return stage.Scale(n) }
