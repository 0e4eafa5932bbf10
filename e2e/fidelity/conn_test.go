package fidelity

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// how a client connects. The zero value goes as far as its listener's protocol asks: TLS, and SASL as root.
type how struct {
	from      string // its address, where the kernel is not to choose
	user      string // of SASL; "" is root
	password  string // "" is the user's name
	mechanism string // "" is PLAIN
	carol     bool   // shows carol's certificate over TLS
	noSASL    bool   // stops after TLS
	bare      bool   // stops after TCP
}

// conn is a connection that sends whatever it is told to. It is for one goroutine at a time.
type conn struct {
	net.Conn
	peer        *peer
	correlation int32
	once        sync.Once
}

// dial connects, and fails t where that does not work. The connection is closed with t.
func (p *peer) dial(t *testing.T, listener string, as how) *conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := p.connect(ctx, listener, as)
	if err != nil {
		t.Fatalf("%s: connect to %s: %v", p.name, listener, err)
	}
	t.Cleanup(c.close)
	return c
}

// connect is dial for who wants the error.
func (p *peer) connect(ctx context.Context, listener string, as how) (*conn, error) {
	dialer := net.Dialer{Timeout: patience}
	if as.from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(as.from)}
	}
	socket, err := dialer.DialContext(ctx, "tcp", p.address(listener))
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: socket, peer: p}
	protocol := p.protocol(listener)
	if as.bare {
		return c, nil
	}
	if strings.HasSuffix(protocol, "SSL") {
		host, _, _ := net.SplitHostPort(p.address(listener))
		config, err := p.tls(host, as.carol)
		if err != nil {
			c.close()
			return nil, err
		}
		client := tls.Client(socket, config)
		c.Conn = client
		if err := client.HandshakeContext(ctx); err != nil {
			c.close()
			return nil, err
		}
	}
	if strings.HasPrefix(protocol, "SASL") && !as.noSASL {
		if err := c.login(ctx, as); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// tls is the TLS of a client that trusts the authority, and shows carol's certificate where it is to.
func (p *peer) tls(host string, carol bool) (*tls.Config, error) {
	ca, err := os.ReadFile(p.pki.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: host}
	config.RootCAs.AppendCertsFromPEM(ca)
	if carol {
		pair, err := tls.LoadX509KeyPair(p.pki.Client, p.pki.ClientKey)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// login authenticates as a client would.
func (c *conn) login(ctx context.Context, as how) error {
	if as.user == "" {
		as.user = "root"
	}
	if as.password == "" {
		as.password = as.user
	}
	var mechanism sasl.Mechanism
	switch as.mechanism {
	case "", "PLAIN":
		mechanism = plain.Auth{User: as.user, Pass: as.password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: as.user, Pass: as.password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: as.user, Pass: as.password}.AsSha512Mechanism()
	default:
		return fmt.Errorf("mechanism %s is not there", as.mechanism)
	}
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, mechanism.Name()
	resp, end := c.exchange(handshake, patience)
	if end != "" {
		return errors.New("SaslHandshake: " + end)
	}
	if code := resp.(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		return fmt.Errorf("SaslHandshake: error %d", code)
	}
	session, token, err := mechanism.Authenticate(ctx, "")
	if err != nil {
		return err
	}
	for done := false; !done; {
		authenticate := kmsg.NewPtrSASLAuthenticateRequest()
		authenticate.Version, authenticate.SASLAuthBytes = 2, token
		resp, end := c.exchange(authenticate, patience)
		if end != "" {
			return errors.New("SaslAuthenticate: " + end)
		}
		answer := resp.(*kmsg.SASLAuthenticateResponse)
		if answer.ErrorCode != 0 {
			return fmt.Errorf("SaslAuthenticate: error %d: %s", answer.ErrorCode, text(answer.ErrorMessage))
		}
		if done, token, err = session.Challenge(answer.SASLAuthBytes); err != nil {
			return err
		}
	}
	return nil
}

// close hangs up; the peer may have done so before.
func (c *conn) close() { c.once.Do(func() { _ = c.Close() }) }

// bytes sends b as it is. It returns "" or how it failed.
func (c *conn) bytes(b []byte) string {
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.Write(b)
	return ending(err)
}

// frame sends body behind its size.
func (c *conn) frame(body []byte) string {
	return c.bytes(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
}

// send sends a request with its header, and returns "" or how that failed.
func (c *conn) send(req kmsg.Request) string {
	c.correlation++
	return c.bytes(kmsg.NewRequestFormatter(kmsg.FormatterClientID("fidelity")).AppendRequest(nil, req, c.correlation))
}

// read reads one frame without its size. The second result is "" or how the connection ended instead: [ending].
func (c *conn) read(within time.Duration) ([]byte, string) {
	_ = c.SetReadDeadline(time.Now().Add(within))
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, ending(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<28 {
		return nil, fmt.Sprintf("a frame of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, ending(err)
	}
	return b, ""
}

// receive reads the answer to a request that was sent last. The second result is "" or what came instead.
func (c *conn) receive(req kmsg.Request, within time.Duration) (kmsg.Response, string) {
	b, end := c.read(within)
	if end != "" {
		return nil, end
	}
	if len(b) < 4 || int32(binary.BigEndian.Uint32(b)) != c.correlation {
		return nil, fmt.Sprintf("an answer to another request: %x", b[:min(len(b), 16)])
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	b = b[4:]
	if resp.IsFlexible() && req.Key() != 18 {
		for len(b) > 0 && b[0] != 0 {
			return nil, "tags in a response's header"
		}
		b = b[min(1, len(b)):]
	}
	if err := resp.ReadFrom(b); err != nil {
		return nil, fmt.Sprintf("an answer that cannot be read: %v: %x", err, b[:min(len(b), 64)])
	}
	return resp, ""
}

// exchange sends a request and reads its answer. The second result is "" or what came instead.
func (c *conn) exchange(req kmsg.Request, within time.Duration) (kmsg.Response, string) {
	if end := c.send(req); end != "" {
		return nil, end
	}
	return c.receive(req, within)
}

// ask is exchange for an answer that has to come.
func (c *conn) ask(t *testing.T, req kmsg.Request) kmsg.Response {
	t.Helper()
	resp, end := c.exchange(req, patience)
	if end != "" {
		t.Fatalf("%s: %s v%d: %s", c.peer.name, kmsg.NameForKey(req.Key()), req.GetVersion(), end)
	}
	return resp
}

// ended says how the connection ends within a time in which nothing should come: "EOF", "reset", "timeout", an alert, or
// what came.
func (c *conn) ended(within time.Duration) string {
	_ = c.SetReadDeadline(time.Now().Add(within))
	var b [64]byte
	n, err := c.Read(b[:])
	if n > 0 {
		return fmt.Sprintf("%d bytes: %x", n, b[:n])
	}
	return ending(err)
}

// ending names how reading or writing ended: "" where it did not.
func ending(err error) string {
	if err == nil {
		return ""
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return "alert " + alert.Error()
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return "alert " + op.Err.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "timeout"
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "EOF"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	}
	return err.Error()
}

// request sends req as a user of PLAIN, over a connection to SASL_PLAINTEXT that is kept for the next request, and returns its
// answer. The error is what came instead; the connection is given up then.
func (p *peer) request(t *testing.T, user string, req kmsg.Request) (kmsg.Response, error) {
	t.Helper()
	p.mu.Lock()
	c := p.sessions[user]
	delete(p.sessions, user)
	p.mu.Unlock()
	if c == nil {
		var err error
		if c, err = p.connect(t.Context(), "SASL_PLAINTEXT", how{user: user}); err != nil {
			t.Fatalf("%s: connect as %s: %v", p.name, user, err)
		}
	}
	resp, end := c.exchange(req, patience)
	if end != "" {
		c.close()
		return nil, errors.New(end)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.sessions[user]; other != nil {
		other.close()
	}
	p.sessions[user] = c
	return resp, nil
}

// root is request for an answer that root has to get.
func (p *peer) root(t *testing.T, req kmsg.Request) kmsg.Response {
	t.Helper()
	resp, err := p.request(t, "root", req)
	if err != nil {
		t.Fatalf("%s: %s v%d: %v", p.name, kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// scram gives users a password of both SCRAM mechanisms: their names.
func (p *peer) scram(t *testing.T, users ...string) {
	t.Helper()
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for i, user := range users {
		one := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		one.Name, one.Iterations, one.Salt = user, 4096, []byte("salt of "+user)
		for one.Mechanism = 1; one.Mechanism <= 2; one.Mechanism++ {
			var err error
			if one.Mechanism == 1 {
				one.SaltedPassword, err = pbkdf2.Key(sha256.New, user, one.Salt, 4096, sha256.Size)
			} else {
				one.SaltedPassword, err = pbkdf2.Key(sha512.New, user, one.Salt, 4096, sha512.Size)
			}
			if err != nil {
				t.Fatal(err)
			}
			req.Upsertions = []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{one}
			resp := p.root(t, req).(*kmsg.AlterUserSCRAMCredentialsResponse)
			if code := resp.Results[0].ErrorCode; code != 0 {
				t.Fatalf("%s: make SCRAM user %s: error %d", p.name, users[i], code)
			}
		}
	}
	for _, user := range users { // Kafka's broker learns of them after its controller
		kit.Eventually(t, user+" can log in", func() bool {
			c, err := p.connect(t.Context(), "SASL_PLAINTEXT", how{user: user, mechanism: "SCRAM-SHA-512"})
			if err == nil {
				c.close()
			}
			return err == nil
		})
	}
}

// makeTopics makes topics of n partitions and waits until metadata has them. Their ids are known to [peer.view].
func (p *peer) makeTopics(t *testing.T, n int32, names ...string) {
	t.Helper()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 60_000
	for _, name := range names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, n, 1
		create.Topics = append(create.Topics, topic)
	}
	for _, topic := range p.root(t, create).(*kmsg.CreateTopicsResponse).Topics {
		if topic.ErrorCode != 0 && topic.ErrorCode != 36 {
			t.Fatalf("%s: create topic %s: error %d %s", p.name, topic.Topic, topic.ErrorCode, text(topic.ErrorMessage))
		}
	}
	ask := kmsg.NewPtrMetadataRequest()
	ask.Version = 12
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = new(name)
		ask.Topics = append(ask.Topics, topic)
	}
	kit.Eventually(t, "the topics are there", func() bool {
		for _, topic := range p.root(t, ask).(*kmsg.MetadataResponse).Topics {
			if topic.ErrorCode != 0 || len(topic.Partitions) != int(n) {
				return false
			}
			for _, partition := range topic.Partitions {
				if partition.ErrorCode != 0 {
					return false
				}
			}
			p.mu.Lock()
			p.topics[topic.TopicID] = *topic.Topic
			p.mu.Unlock()
		}
		return true
	})
}

// topicID is the id of a topic of makeTopics.
func (p *peer) topicID(name string) [16]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, known := range p.topics {
		if known == name {
			return id
		}
	}
	return [16]byte{}
}

// text is what a pointer to a string says, "null" where it is nil.
func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}
