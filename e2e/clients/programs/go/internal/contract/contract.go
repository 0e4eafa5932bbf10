// Package contract is what every program in Go shares: it reads the request, runs what it asks for within its time, and prints
// lines of JSON. README.md in the folder of programs has the words.
package contract

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Aborted begins the value of a record whose transaction is aborted.
const Aborted = "aborted-"

// Request is what a program is asked for.
type Request struct {
	Op        string `json:"op"`
	Bootstrap string `json:"bootstrap"`
	Protocol  string `json:"protocol"`
	CA        string `json:"ca"`
	Cert      string `json:"cert"`
	Key       string `json:"key"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Topic     string `json:"topic"`
	Group     string `json:"group"`
	TxID      string `json:"txid"`
	Count     int    `json:"count"`
	TimeoutMS int    `json:"timeout_ms"`
	ClientID  string `json:"client_id"`
	PauseMS   *int   `json:"pause_ms"`
	Size      int    `json:"size"`
}

// Seeds are the addresses of Bootstrap.
func (r Request) Seeds() []string { return strings.Split(r.Bootstrap, ",") }

// Value is what record i of an operation carries.
func (r Request) Value(i int) string {
	v := r.ClientID + "-" + strconv.Itoa(i)
	return v + strings.Repeat(" ", max(0, r.Size-len(v)))
}

// Encrypted says whether the protocol is one over TLS.
func (r Request) Encrypted() bool { return strings.HasSuffix(r.Protocol, "SSL") }

// Authenticated says whether the protocol is one with SASL.
func (r Request) Authenticated() bool { return strings.HasPrefix(r.Protocol, "SASL") }

// Pause is how long to wait between two rounds of a loop.
func (r Request) Pause() time.Duration {
	if r.PauseMS == nil {
		return 100 * time.Millisecond
	}
	return time.Duration(*r.PauseMS) * time.Millisecond
}

// TLS makes a configuration of the PEM files, nil where the protocol is not encrypted.
func (r Request) TLS() (*tls.Config, error) {
	if !r.Encrypted() {
		return nil, nil
	}
	pem, err := os.ReadFile(r.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(pem)
	if r.Cert != "" {
		pair, err := tls.LoadX509KeyPair(r.Cert, r.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Fields are what a line of output says.
type Fields = map[string]any

// UnsupportedError says why a client has no such operation.
type UnsupportedError struct{ Why string }

func (e UnsupportedError) Error() string { return e.Why }

// Op does one operation, and returns what its line of success says beside "ok".
type Op func(context.Context, Request) (Fields, error)

// Session is a producer and a consumer that a loop sends records through.
type Session interface {
	// Round sends value and returns when it was read again, or why not.
	Round(ctx context.Context, value string) error
	// Close ends the session. It is called once.
	Close()
}

// Client is what a program can do. An operation that is nil is one that the client does not have.
type Client struct {
	Name     string
	Version  string // of the library
	Metadata Op
	Admin    Op
	Produce  Op
	Transact Op
	Consume  Op
	// Open makes the session of a loop.
	Open func(context.Context, Request) (Session, error)
	// Describe puts an error into words: its class, and whether the library takes it for one to retry. Nil is "error".
	Describe func(error) (class string, retriable *bool)
}

// Dependency returns the version that this program was built with of a module.
func Dependency(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}

// Close closes what has nothing more to say.
func Close(c io.Closer) { _ = c.Close() }

// Main does what standard input asks for.
func Main(c Client) {
	out := &printer{to: os.Stdout, client: c}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	if err != nil && line == "" {
		out.fail(fmt.Errorf("read the request: %w", err))
		return
	}
	var r Request
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		out.fail(fmt.Errorf("read the request: %w", err))
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutMS)*time.Millisecond)
	defer cancel()
	out.run(ctx, r, in)
	out.print(Fields{"done": true, "ms": time.Since(began).Milliseconds()})
}

type printer struct {
	mu     sync.Mutex
	to     io.Writer
	client Client
}

func (p *printer) run(ctx context.Context, r Request, in io.Reader) {
	c := p.client
	ops := map[string]Op{"metadata": c.Metadata, "admin": c.Admin, "produce": c.Produce, "transact": c.Transact, "consume": c.Consume}
	switch op, known := ops[r.Op]; {
	case r.Op == "version":
		p.print(Fields{"name": c.Name, "version": c.Version})
	case r.Op == "loop" && c.Open != nil:
		p.loop(ctx, r, in)
	case op != nil:
		fields, err := within(ctx, r, op)
		if err != nil {
			p.fail(err)
			return
		}
		line := Fields{"ok": true}
		maps.Copy(line, fields)
		p.print(line)
	case known || r.Op == "loop":
		p.print(Fields{"unsupported": "the client has no such call"})
	default:
		p.fail(fmt.Errorf("there is no op %q", r.Op))
	}
}

// within runs op and leaves it behind where it does not heed its context.
func within(ctx context.Context, r Request, op Op) (Fields, error) {
	type end struct {
		fields Fields
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		fields, err := op(ctx, r)
		ended <- end{fields, err}
	}()
	select {
	case e := <-ended:
		return e.fields, e.err
	case <-ctx.Done():
	}
	select {
	case e := <-ended: // it says more than that its time is over
		return e.fields, e.err
	case <-time.After(time.Second):
		return nil, fmt.Errorf("%s: %w", r.Op, ctx.Err())
	}
}

// roundTime bounds one round of a loop.
const roundTime = 10 * time.Second

// loop sends records round after round. After an error the session goes on, unless it could not be opened.
func (p *printer) loop(ctx context.Context, r Request, in io.Reader) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	var s Session
	defer func() {
		if s != nil {
			s.Close()
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		round, done := context.WithTimeout(ctx, roundTime)
		err := func() (err error) {
			if s == nil {
				if s, err = p.client.Open(round, r); err != nil {
					s = nil
					return err
				}
			}
			return s.Round(round, fmt.Sprintf("%d-%d", os.Getpid(), n))
		}()
		done()
		switch {
		case err == nil:
			p.print(Fields{"ok": true, "n": n})
		case ctx.Err() != nil:
			return
		default:
			p.fail(err)
			if reopen, ok := s.(interface{ Dead() bool }); ok && reopen.Dead() {
				s.Close()
				s = nil
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(r.Pause()):
		}
	}
}

func (p *printer) fail(err error) {
	if u, ok := errors.AsType[UnsupportedError](err); ok {
		p.print(Fields{"unsupported": u.Why})
		return
	}
	line := Fields{"error": "error", "text": err.Error()}
	if errors.Is(err, context.DeadlineExceeded) {
		line["error"] = "timeout"
	}
	if p.client.Describe != nil {
		class, retriable := p.client.Describe(err)
		if class != "" {
			line["error"] = class
		}
		if retriable != nil {
			line["retriable"] = *retriable
		}
	}
	p.print(line)
}

func (p *printer) print(line Fields) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := json.Marshal(line)
	if err != nil {
		b = []byte(`{"error":"error","text":"a line that is no JSON"}`)
	}
	fmt.Fprintf(p.to, "%s\n", b)
}
