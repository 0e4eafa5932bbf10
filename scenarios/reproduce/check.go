package reproduce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Outcome is what came of a cell.
type Outcome string

// The outcomes.
const (
	Kept     Outcome = "kept"     // seen as expected
	Mismatch Outcome = "mismatch" // seen otherwise, or the rule that was named does not decide
	Unproven Outcome = "unproven" // nothing that may be asked shows it
	Failed   Outcome = "failed"   // it could not be asked
)

// Result is one cell: one principal, address, resource and operation.
type Result struct {
	Principal string     `json:"principal"`
	From      netip.Addr `json:"from"`
	Listener  string     `json:"listener,omitempty"`
	Resource  string     `json:"resource"`
	Operation string     `json:"operation"`
	Expected  string     `json:"expected"`       // allow or deny
	Seen      string     `json:"seen,omitempty"` // allow or deny; "" when it was not seen
	Rule      string     `json:"rule"`           // what decides by the rules
	Outcome   Outcome    `json:"outcome"`
	Why       string     `json:"why,omitempty"`     // of every outcome but kept
	Request   string     `json:"request,omitempty"` // what was asked
	Line      int        `json:"line,omitempty"`    // in the lab file

	Started time.Time     `json:"-"`
	Took    time.Duration `json:"-"`
}

// String is the cell in one line.
func (r *Result) String() string {
	return fmt.Sprintf("%s %s on %s from %s", r.Principal, r.Operation, r.Resource, r.From)
}

// CheckLab asks every cell of the file in a lab that is up and was given its rules ([Seed]). progress, unless nil, is told how
// many cells are done, of how many.
func CheckLab(ctx context.Context, lab *netlab.Lab, file *topology.Lab, progress func(done, of int)) ([]Result, error) {
	book, err := Open(file)
	if err != nil {
		return nil, err
	}
	broker, err := lab.Node(book.Node.Name)
	if err != nil {
		return nil, err
	}
	return book.check(ctx, &labPlace{lab: lab, broker: broker, book: book, id: nodeID(book.Node)}, progress)
}

// Cluster is a cluster that is not a lab, and who asks it.
type Cluster struct {
	Servers   []string // host:port
	Config    *admin.ClientConfig
	Principal string // whom the cluster takes the client for
}

// CheckCluster asks those cells of the file that are about the client's own principal and an address like this machine's. It
// asks nothing that changes anything.
func CheckCluster(ctx context.Context, c Cluster, file *topology.Lab, progress func(done, of int)) ([]Result, error) {
	book, err := Open(file)
	if err != nil {
		return nil, err
	}
	p := &clusterPlace{seeds: c.Servers, principal: c.Principal, book: book}
	p.options = append(slices.Clone(c.Config.Options), kgo.SeedBrokers(c.Servers...))
	if _, err := p.address(ctx); err != nil {
		return nil, err
	}
	return book.check(ctx, p, progress)
}

// parallel is how many seats ask at the same time.
const parallel = 8

// check asks all cells, those of one principal and address one after another.
func (b *Book) check(ctx context.Context, p place, progress func(done, of int)) ([]Result, error) {
	answers, total := make([][]Result, len(b.Rows)), 0
	for i := range b.Rows {
		answers[i] = make([]Result, len(b.Rows[i].Cells))
		total += len(b.Rows[i].Cells)
	}
	if total == 0 {
		return nil, errors.New("the lab file expects nothing: it has no key expect")
	}
	var done atomic.Int64
	queue := make(chan []int)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for rows := range queue {
				s := sit(ctx, p, &b.Rows[rows[0]])
				for _, i := range rows {
					b.askRow(ctx, p, s, i, answers[i])
					if n := done.Add(int64(len(answers[i]))); progress != nil {
						progress(int(n), total)
					}
				}
				s.close()
			}
		})
	}
	for _, rows := range b.bySeat() {
		queue <- rows
	}
	close(queue)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return slices.Concat(answers...), nil
}

// bySeat gives the rows of each principal, address and listener, in the order of the file.
func (b *Book) bySeat() [][]int {
	type key struct {
		principal, listener string
		from                netip.Addr
	}
	number := map[key]int{}
	var all [][]int
	for i := range b.Rows {
		r := &b.Rows[i]
		k := key{r.Principal, r.Listener, r.From}
		n, ok := number[k]
		if !ok {
			n = len(all)
			number[k], all = n, append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// sit takes a seat, or one at which nothing can be asked.
func sit(ctx context.Context, p place, r *Row) *seat {
	s, why, err := p.take(ctx, r)
	switch {
	case err != nil:
		return &seat{err: err}
	case why != "":
		return &seat{err: unprovenError(why)}
	}
	return s
}

// unprovenError says why a cell cannot be proven.
type unprovenError string

func (e unprovenError) Error() string { return string(e) }

func (b *Book) askRow(ctx context.Context, p place, s *seat, i int, results []Result) {
	row := &b.Rows[i]
	for k, cell := range row.Cells {
		allowed, e := b.explain(row.Principal, row.From, row.Type, row.Name, cell.Operation)
		r := Result{
			Principal: row.Principal, From: row.From, Listener: row.Listener, Resource: resourceText(row.Type, row.Name), Operation: cell.Operation.String(),
			Expected: verdict(cell.Allow), Rule: b.ruleText(e), Line: b.Lines[i], Started: time.Now(),
		}
		seen, err := b.ask(ctx, p, s, row, cell.Operation, &r.Request)
		r.Took = time.Since(r.Started)
		var unproven unprovenError
		switch {
		case errors.As(err, &unproven):
			r.Outcome, r.Why = Unproven, string(unproven)
		case err != nil:
			r.Outcome, r.Why = Failed, err.Error()
		default:
			r.Seen = verdict(seen)
			r.Outcome, r.Why = b.judge(cell, seen, allowed, e)
		}
		results[k] = r
	}
}

// judge compares what was seen with what is expected, and says whose fault a difference is.
func (b *Book) judge(cell Expected, seen, byRules bool, e *acl.Explanation) (Outcome, string) {
	switch {
	case seen != cell.Allow && seen == byRules:
		return Mismatch, "the rules say " + verdict(seen) + ", too: the expectation is wrong"
	case seen != cell.Allow:
		return Mismatch, "the rules say " + verdict(byRules) + ": the broker decides otherwise"
	case cell.Rule > 0 && !b.decides(cell.Rule, e):
		return Mismatch, fmt.Sprintf("rule %d does not decide", cell.Rule)
	}
	return Kept, ""
}

func verdict(allow bool) string {
	if allow {
		return "allow"
	}
	return "deny"
}

// ask finds out whether the broker allows an operation: by a request that needs it alone, or by the field in which the broker
// says what is authorized. how is what was asked.
func (b *Book) ask(ctx context.Context, p place, s *seat, row *Row, op acl.Operation, how *string) (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	why := b.obscured(row, op)
	one := probeOf(row.Type, row.Name, op, p.node())
	if !p.changes() && (!harmless(row.Type, op) || row.Type == acl.Cluster && op == acl.DescribeConfigs) {
		one, why = nil, "a request for it could change the cluster"
	}
	if one == nil || why != "" {
		bits, told, err := s.authorized(ctx, row.Type, row.Name)
		switch {
		case err != nil:
			return false, err
		case !told:
			return false, unprovenError(cmp.Or(why, "no request shows it") + ", and without DESCRIBE the broker does not say what is authorized")
		}
		*how = "authorized operations"
		return bits&(1<<op) != 0, nil
	}
	*how = one.name
	resp, err := s.ask(ctx, one.request)
	if err != nil {
		return false, fmt.Errorf("%s: %w", one.name, err)
	}
	switch code := one.code(resp); code {
	case topicRefused, groupRefused, clusterRefused, transactionalIDRefused:
		return false, nil
	case unknownServerError, unsupportedVersion:
		return false, fmt.Errorf("%s: the broker answers code %d", one.name, code)
	}
	return true, nil
}

// obscured says why the request for an operation would show something else: another right of the same principal is enough.
func (b *Book) obscured(row *Row, op acl.Operation) string {
	may := func(t acl.ResourceType, name string, op acl.Operation) bool {
		allowed, _ := b.explain(row.Principal, row.From, t, name, op)
		return allowed
	}
	switch {
	case row.Type == acl.Topic && op == acl.Create && may(acl.Cluster, acl.ClusterName, acl.Create):
		return "CREATE on the cluster is enough for every topic"
	case row.Type == acl.Cluster && op == acl.Create && may(acl.Topic, probeTopic, acl.Create):
		return "CREATE on all topics is enough"
	case row.Type == acl.Cluster && op == acl.IdempotentWrite && b.authorizer != nil && b.authorizer.AuthorizeByType(row.Principal, row.From, acl.Write, acl.Topic):
		return "WRITE on a topic is enough"
	}
	return ""
}
