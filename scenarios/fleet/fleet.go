package fleet

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Latency names what a histogram of [Fleet.Latencies] measures.
type Latency string

// The histograms, in microseconds.
const (
	ConnectLatency Latency = "connect"        // socket() to established
	TLSLatency     Latency = "tls handshake"  // established to handshake done
	SASLLatency    Latency = "sasl exchange"  // first token to authenticated
	ReauthLatency  Latency = "sasl reauth"    // a re-authentication, from its SaslHandshake on
	PushLatency    Latency = "config push"    // PushConfig and its answer
	FirstLatency   Latency = "first response" // socket() to the first answer
	ReadyLatency   Latency = "ready"          // socket() to as far as the behaviour goes
	RequestLatency Latency = "request"        // a Metadata or Produce of a held client
)

// Fleet is a number of clients. Its methods are safe for concurrent use; the zero Fleet is of no use, see [Open].
type Fleet struct {
	timeout time.Duration
	poll    *poller
	stop    context.CancelFunc
	life    context.Context //nolint:containedctx // the fleet's own: background work ends with Close
	done    sync.WaitGroup

	mu      sync.RWMutex // guards clients, closed
	clients []*client
	closed  bool

	latencies struct {
		sync.Mutex
		by map[Latency]*hdrhistogram.Histogram
	}
	agenda agenda
	up     atomic.Int64
	failed atomic.Int64
}

// group is a Group made ready.
type group struct {
	Group
	source Source
	config *tls.Config
	scram  *scram.Client
	flight []byte // a ClientHello
	format *kmsg.RequestFormatter
}

// Open checks that this side can hold plan's clients, opens them all and returns when each is up or failed. Its error
// says why the fleet could not start, or that ctx ended before all were opened; what a client met is in its [Record].
// The fleet is to be closed in either case unless it is nil.
func Open(ctx context.Context, plan Plan) (*Fleet, error) {
	f, err := New(plan.timeout())
	if err != nil {
		return nil, err
	}
	if err := f.Add(ctx, plan); err != nil {
		return f, err
	}
	return f, nil
}

// New returns a fleet without clients. timeout bounds each step of a client; 0: 30 s.
func New(timeout time.Duration) (*Fleet, error) {
	plan := Plan{Timeout: timeout}
	f := &Fleet{timeout: plan.timeout()}
	f.life, f.stop = context.WithCancel(context.Background())
	f.latencies.by = map[Latency]*hdrhistogram.Histogram{}
	f.agenda.kick = make(chan struct{}, 1)
	poll, err := newPoller(f.event)
	if err != nil {
		f.stop()
		return nil, err
	}
	f.poll = poll
	f.done.Go(f.runAgenda)
	return f, nil
}

// Add opens the clients of plan beside those that are there, as [Open] does.
func (f *Fleet) Add(ctx context.Context, plan Plan) error {
	if err := errors.Join(plan.Validate(), check(&plan)); err != nil {
		return err
	}
	groups, err := makeReady(&plan)
	if err != nil {
		return err
	}
	limit := rate.NewLimiter(rate.Inf, 1)
	if plan.Rate > 0 {
		limit = rate.NewLimiter(rate.Limit(plan.Rate), 1)
	}
	slots := make(chan struct{}, plan.parallel())
	var opening sync.WaitGroup
	defer opening.Wait()
	for _, next := range interleave(groups) {
		if err := limit.Wait(ctx); err != nil {
			return fmt.Errorf("open the fleet: %w", err)
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("open the fleet: %w", ctx.Err())
		}
		c, err := f.newClient(next.group, next.index)
		if err != nil {
			return err
		}
		opening.Go(func() {
			defer func() { <-slots }()
			f.launch(ctx, c)
		})
	}
	return nil
}

// launch opens c, which the caller owns, and puts its requests on the agenda.
func (f *Fleet) launch(ctx context.Context, c *client) {
	cancel := context.AfterFunc(ctx, c.sock.interrupt)
	c.open(ctx)
	if !cancel() && ctx.Err() != nil {
		c.sock.interrupted.Store(false) // it came too late: the client is up
	}
	up, renew := !c.over, c.renew
	c.release()
	if up && !renew.IsZero() {
		f.agenda.add(renew, func() { f.reauthenticate(c) })
	}
	if b := c.group.behaviour(); up && (b == Metadata || b == Produce) {
		// Spread the first requests over the interval by a stride that no group size shares.
		first := time.Duration(float64(c.group.Every) * fraction(c.index))
		f.agenda.add(time.Now().Add(first), func() { f.repeat(c, time.Now()) })
	}
}

// fraction spreads consecutive numbers evenly over [0, 1).
func fraction(i int) float64 {
	const golden = 0.6180339887498949
	x := float64(i) * golden
	return x - float64(int(x))
}

func (f *Fleet) repeat(c *client, due time.Time) {
	if !c.work(f.life) {
		return
	}
	next := due.Add(c.group.Every)
	if now := time.Now(); next.Before(now) {
		next = now
	}
	f.agenda.add(next, func() { f.repeat(c, next) })
}

type slot struct {
	group *group
	index int
}

// interleave mixes the groups, in proportion, so that no listener's clients come last.
func interleave(groups []*group) []slot {
	total := 0
	for _, g := range groups {
		total += g.Count
	}
	slots := make([]slot, 0, total)
	given := make([]int, len(groups))
	for k := 1; k <= total; k++ {
		best, behind := -1, 0.0
		for i, g := range groups {
			if d := float64(g.Count)*float64(k)/float64(total) - float64(given[i]); given[i] < g.Count && (best < 0 || d > behind) {
				best, behind = i, d
			}
		}
		slots = append(slots, slot{groups[best], given[best]})
		given[best]++
	}
	return slots
}

func makeReady(plan *Plan) ([]*group, error) {
	groups := make([]*group, 0, len(plan.Groups))
	for i := range plan.Groups {
		g := &group{Group: plan.Groups[i], source: plan.Groups[i].Source}
		if g.source == nil {
			g.source = Loopback(netip.Prefix{})
		}
		if g.Software == "" && g.SoftwareVersion == "" {
			g.Software, g.SoftwareVersion = DefaultSoftware, DefaultSoftwareVersion
		}
		var opts []kmsg.RequestFormatterOpt
		if g.ClientID != "" {
			opts = append(opts, kmsg.FormatterClientID(g.ClientID))
		}
		g.format = kmsg.NewRequestFormatter(opts...)
		var err error
		if g.config, err = tlsConfig(&g.Group); err != nil {
			return nil, fmt.Errorf("group %q: %w", g.Name, err)
		}
		if g.scram, err = scramClient(&g.Group); err != nil {
			return nil, err
		}
		if g.behaviour() == HalfHello {
			if g.flight, err = ClientHello(g.config); err != nil {
				return nil, fmt.Errorf("group %q: make a ClientHello: %w", g.Name, err)
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func tlsConfig(g *Group) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:       max(g.TLS.MinVersion, tls.VersionTLS12),
		MaxVersion:       g.TLS.MaxVersion,
		ServerName:       g.TLS.ServerName,
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	}
	if c.ServerName == "" {
		c.ServerName = g.Target.Addr().String()
	}
	switch {
	case g.TLS.Pin != "":
		block, _ := pem.Decode([]byte(g.TLS.Pin))
		if block == nil {
			return nil, errors.New("no certificate in the pinned PEM")
		}
		c.InsecureSkipVerify = true // of chain and name: the certificate itself is compared
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("the broker presents another certificate than before")
			}
			return nil
		}
	case g.TLS.CA == "":
		c.InsecureSkipVerify = true
	default:
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(g.TLS.CA)) {
			return nil, errors.New("no certificate in the trusted CA's PEM")
		}
	}
	if g.TLS.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(g.TLS.Certificate), []byte(g.TLS.Key))
		if err != nil {
			return nil, fmt.Errorf("load the client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// errClosed is returned for what comes after Close.
var errClosed = errors.New("the fleet is closed")

// newClient registers a client that the caller owns.
func (f *Fleet) newClient(g *group, index int) (*client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errClosed
	}
	c := &client{fleet: f, group: g, id: int32(len(f.clients)), index: index, sem: make(chan struct{}, 1), over: true}
	c.sock.ready = make(chan struct{}, 1)
	c.sem <- struct{}{}
	c.rec = Record{
		ID: int(c.id), Group: g.Name, Index: index, Principal: g.Principal, Listener: g.Listener,
		Protocol: g.Protocol, ClientID: g.ClientID,
		Remote: g.Target, Outcome: Opening, Phase: Connecting, Started: time.Now(),
	}
	f.clients = append(f.clients, c)
	return c, nil
}

// event runs on the epoll loop.
func (f *Fleet) event(id int32) {
	f.mu.RLock()
	c := f.clients[id]
	f.mu.RUnlock()
	c.poke()
}

func (f *Fleet) all() []*client {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.clients)
}

// Records returns what each client saw so far, in the order in which they were begun.
func (f *Fleet) Records() []Record {
	clients := f.all()
	records := make([]Record, len(clients))
	for i, c := range clients {
		records[i] = c.record()
	}
	return records
}

// Up returns the records of clients that are up.
func (f *Fleet) Up() []Record {
	return slices.DeleteFunc(f.Records(), func(r Record) bool { return r.Outcome != Up })
}

// UpCount is how many clients are up, without a look at each.
func (f *Fleet) UpCount() int { return int(f.up.Load()) }

// Progress is how far a fleet is, without a look at each client.
type Progress struct {
	Begun  int `json:"begun"`
	Up     int `json:"up"`     // now
	Failed int `json:"failed"` // ended neither by the fleet nor because it was stopped
}

// Progress tells how far the fleet is.
func (f *Fleet) Progress() Progress {
	f.mu.RLock()
	begun := len(f.clients)
	f.mu.RUnlock()
	return Progress{Begun: begun, Up: f.UpCount(), Failed: int(f.failed.Load())}
}

// Stats is a fleet in numbers.
type Stats struct {
	Begun     int             `json:"begun"`     // clients
	Connected int             `json:"connected"` // of them, those whose TCP connection was established
	Up        int             `json:"up"`        // now
	Requests  int64           `json:"requests"`
	Failures  int64           `json:"failures"`
	Reauths   int64           `json:"reauthentications,omitempty"`
	Outcomes  map[Outcome]int `json:"outcomes"`
}

// Stats counts the records.
func (f *Fleet) Stats() Stats { return Count(f.Records()) }

// Count counts records.
func Count(records []Record) Stats {
	s := Stats{Begun: len(records), Outcomes: map[Outcome]int{}}
	for i := range records {
		r := &records[i]
		if r.Connect > 0 {
			s.Connected++
		}
		if r.Outcome == Up {
			s.Up++
		}
		s.Requests += r.Requests
		s.Failures += r.Failures
		s.Reauths += r.Reauths
		s.Outcomes[r.Outcome]++
	}
	return s
}

// FirstError is the error of the first client that is neither up nor closed by the fleet, or nil.
func (f *Fleet) FirstError() error {
	records := f.Records()
	for i := range records {
		r := &records[i]
		if err := r.Err(); err != nil {
			return fmt.Errorf("client %d of group %q from %v: %w", r.Index, r.Group, r.Local, err)
		}
	}
	return nil
}

// Latencies returns copies of the histograms, in microseconds.
func (f *Fleet) Latencies() map[Latency]*hdrhistogram.Histogram {
	f.latencies.Lock()
	defer f.latencies.Unlock()
	out := map[Latency]*hdrhistogram.Histogram{}
	for name, h := range f.latencies.by {
		out[name] = hdrhistogram.Import(h.Export())
	}
	return out
}

// TakeLatencies is [Fleet.Latencies], and the fleet begins anew.
func (f *Fleet) TakeLatencies() map[Latency]*hdrhistogram.Histogram {
	f.latencies.Lock()
	defer f.latencies.Unlock()
	taken := f.latencies.by
	f.latencies.by = map[Latency]*hdrhistogram.Histogram{}
	return taken
}

func (f *Fleet) observe(name Latency, d time.Duration) {
	f.latencies.Lock()
	defer f.latencies.Unlock()
	h := f.latencies.by[name]
	if h == nil {
		h = NewHistogram()
		f.latencies.by[name] = h
	}
	_ = h.RecordValue(min(d.Microseconds(), h.HighestTrackableValue())) // it is in range
}

// NewHistogram is a histogram of microseconds up to five minutes, with three significant digits.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (5 * time.Minute).Microseconds(), 3)
}

// Call sends one request over client id's connection and returns its answer, while that client is up. For specs that
// ask what a single connection may do.
func (f *Fleet) Call(ctx context.Context, id int, req kmsg.Request) (kmsg.Response, error) {
	f.mu.RLock()
	var c *client
	if id >= 0 && id < len(f.clients) {
		c = f.clients[id]
	}
	f.mu.RUnlock()
	if c == nil {
		return nil, fmt.Errorf("there is no client %d", id)
	}
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.release()
	if c.over {
		r := c.record()
		return nil, fmt.Errorf("client %d is not connected: %w", id, &ClientError{r.Outcome, r.Phase, r.Error})
	}
	c.step()
	resp, err := c.roundTrip(req)
	c.sock.wake() // an end may have come with the answer
	if err != nil && !errors.Is(err, errAbandoned) {
		c.fail(err)
		return nil, &ClientError{classify(err, Held), Held, err.Error()}
	}
	return resp, err
}

// CloseWhere closes the clients that are up and whose records match (nil: all of them) in the way how, and returns how many
// they were. An error means that some of them ended by a FIN instead.
func (f *Fleet) CloseWhere(match func(Record) bool, how How) (int, error) {
	n := 0
	var errs []error
	for _, c := range f.all() {
		if r := c.record(); r.Outcome != Up || match != nil && !match(r) {
			continue
		}
		ok, err := c.close(how)
		if ok {
			n++
		}
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// close interrupts what the client does and ends it. ok tells whether it was still up.
func (c *client) close(how How) (ok bool, err error) {
	c.sock.interrupt()
	c.sem <- struct{}{}
	defer c.release()
	if c.over {
		return false, nil
	}
	return true, c.end(how)
}

// Close ends all clients that are left with a reset, stops everything that the fleet runs and returns when it is gone.
// Records and histograms stay readable.
func (f *Fleet) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	f.stop()
	var errs []error
	for _, c := range f.all() {
		_, err := c.close(RST)
		errs = append(errs, err)
	}
	f.done.Wait()
	return errors.Join(append(errs, f.poll.stop())...)
}

func closeFD(fd int) {
	_ = unix.Close(fd) // nothing is left to be done about it
}

// agenda is what a fleet will do, by time.
type agenda struct {
	mu   sync.Mutex
	todo tasks
	kick chan struct{}
}

type task struct {
	due time.Time
	run func()
}

// tasks is a heap.
type tasks []task //nolint:recvcheck // heap's interface

func (t tasks) Len() int           { return len(t) }
func (t tasks) Less(i, j int) bool { return t[i].due.Before(t[j].due) }
func (t tasks) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// Push is heap's.
func (t *tasks) Push(x any) { *t = append(*t, x.(task)) } //nolint:forcetypeassert // heap's interface

// Pop is heap's.
func (t *tasks) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = task{}
	*t = old[:len(old)-1]
	return last
}

func (a *agenda) add(due time.Time, run func()) {
	a.mu.Lock()
	heap.Push(&a.todo, task{due, run})
	first := a.todo[0].due.Equal(due)
	a.mu.Unlock()
	if first {
		select {
		case a.kick <- struct{}{}:
		default:
		}
	}
}

// next pops a task that is due, or tells how long to wait.
func (a *agenda) next(now time.Time) (run func(), wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.todo) == 0 {
		return nil, time.Hour
	}
	if d := a.todo[0].due.Sub(now); d > 0 {
		return nil, d
	}
	return heap.Pop(&a.todo).(task).run, 0 //nolint:forcetypeassert // heap's interface
}

// runAgenda runs tasks on goroutines of their own, a bounded number at a time: beyond it the fleet falls behind its
// schedule rather than pile up goroutines.
func (f *Fleet) runAgenda() {
	const atOnce = 256
	slots := make(chan struct{}, atOnce)
	for {
		run, wait := f.agenda.next(time.Now())
		if run == nil {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-f.agenda.kick:
				timer.Stop()
			case <-f.life.Done():
				timer.Stop()
				return
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-f.life.Done():
			return
		}
		f.done.Go(func() {
			defer func() { <-slots }()
			run()
		})
	}
}
