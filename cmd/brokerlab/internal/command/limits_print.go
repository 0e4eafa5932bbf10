package command

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// jsonLimits is the document of limits show with --format json. Errors are those of brokers that did not answer.
type jsonLimits struct {
	Brokers []jsonBrokerLimits `json:"brokers"`
	Errors  []jsonError        `json:"errors"`
}

type jsonBrokerLimits struct {
	NodeID       int32              `json:"nodeId"`
	Time         *string            `json:"time"`
	Limits       []jsonLimit        `json:"limits"`
	Listeners    []jsonLimited      `json:"listeners"`
	AddressCount int32              `json:"addressCount"` // those that are listed and those that are not
	Addresses    []jsonLimitedPlace `json:"addresses"`
}

// jsonLimit is one limit. Value is null where there is none, and so is HeadRoom; below zero there are more than allowed.
type jsonLimit struct {
	Name         string   `json:"name"`
	Scope        string   `json:"scope"`        // broker, listener or address
	ListenerName *string  `json:"listenerName"` // of scope listener
	Unit         string   `json:"unit"`
	Value        *int64   `json:"value"`
	InUse        *float64 `json:"inUse"`
	HeadRoom     *float64 `json:"headRoom"`
	Source       string   `json:"source"`
	SetBy        *string  `json:"setBy"`
	CountedBy    string   `json:"countedBy"`
	Exactness    string   `json:"exactness"`
}

type jsonLimited struct {
	ListenerName     string           `json:"listenerName"`
	SecurityProtocol string           `json:"securityProtocol"`
	Port             int32            `json:"port"`
	TLS              bool             `json:"tls"`
	Protected        bool             `json:"protected"`
	Connections      int64            `json:"connections"`
	AcceptQueue      jsonAcceptQueue  `json:"acceptQueue"`
	Held             *jsonHeld        `json:"heldByAcceptor"`
	Throttled        int64            `json:"heldByRate"`
	Queued           int64            `json:"queued"`
	CountedBy        string           `json:"countedBy"` // of the numbers beside the accept queue's
	Exactness        string           `json:"exactness"`
	Blocked          jsonBlockedShare `json:"acceptorBlocked"`
	Next             jsonNext         `json:"next"`
}

type jsonAcceptQueue struct {
	Length    *int64  `json:"length"`
	Backlog   *int64  `json:"backlog"`
	Overflows *int64  `json:"overflows"`
	CountedBy string  `json:"countedBy"`
	Exactness string  `json:"exactness"`
	Why       *string `json:"why"`
}

type jsonHeld struct {
	Address  string  `json:"address"`
	Since    *string `json:"since"`
	WaitsFor *string `json:"waitsFor"`
	Scope    *string `json:"scope"`
	DelayMs  int64   `json:"delayMs"`
}

// jsonBlockedShare is shares of time, 0 to 1.
type jsonBlockedShare struct {
	Mean           *float64 `json:"mean"`
	OneMinute      *float64 `json:"oneMinute"`
	FiveMinutes    *float64 `json:"fiveMinutes"`
	FifteenMinutes *float64 `json:"fifteenMinutes"`
}

type jsonNext struct {
	Outcome string  `json:"outcome"`
	Limit   *string `json:"limit"`
	Scope   *string `json:"scope"`
	Millis  int64   `json:"millis"`
}

type jsonLimitedPlace struct {
	Address     string   `json:"address"`
	Connections int64    `json:"connections"`
	Max         *int64   `json:"max"`
	MaxSource   string   `json:"maxSource"`
	MaxSetBy    *string  `json:"maxSetBy"`
	PerSecond   *float64 `json:"perSecond"` // null without a rate: nobody counts then
	Rate        *int64   `json:"rate"`
	RateSource  string   `json:"rateSource"`
	RateOwn     bool     `json:"rateOwn"`
	CountedBy   string   `json:"countedBy"`
	Exactness   string   `json:"exactness"`
	Next        jsonNext `json:"next"`
}

func jsonOfLimits(a *protocol.DescribeLimitsResponse) jsonBrokerLimits {
	doc := jsonBrokerLimits{
		NodeID: a.NodeID, Time: timestamp(a.Time), AddressCount: a.AddressCount, Limits: make([]jsonLimit, len(a.Limits)),
		Listeners: make([]jsonLimited, len(a.Listeners)), Addresses: make([]jsonLimitedPlace, len(a.Addresses)),
	}
	for i := range a.Limits {
		l := &a.Limits[i]
		doc.Limits[i] = jsonLimit{
			Name: l.Name, Scope: l.Scope, ListenerName: orNull(l.ListenerName), Unit: l.Unit, Value: limitValue(l.Value), InUse: number(l.InUse),
			Source: l.Source, SetBy: orNull(l.SetBy), CountedBy: l.CountedBy, Exactness: l.Exactness,
		}
		if l.Value != protocol.NoLimit {
			doc.Limits[i].HeadRoom = number(float64(l.Value) - l.InUse)
		}
	}
	for i := range a.Listeners {
		l := &a.Listeners[i]
		doc.Listeners[i] = jsonLimited{
			ListenerName: l.ListenerName, SecurityProtocol: l.SecurityProtocol, Port: l.Port, TLS: l.TLS, Protected: l.Protected,
			Connections: l.Connections, AcceptQueue: jsonOfQueue(&l.AcceptQueue), Throttled: l.Throttled, Queued: l.Queued,
			CountedBy: protocol.CountedByBroker, Exactness: protocol.ExactnessExact, Next: jsonOfNext(&l.Next),
			Blocked: jsonBlockedShare{number(l.Blocked), number(l.BlockedOneMinute), number(l.BlockedFiveMinutes), number(l.BlockedFifteenMinutes)},
		}
		if h := l.Held; h != nil {
			doc.Listeners[i].Held = &jsonHeld{h.Address, timestamp(h.Since), orNull(h.WaitsFor), orNull(h.Scope), h.DelayMillis}
		}
	}
	for i := range a.Addresses {
		p := &a.Addresses[i]
		doc.Addresses[i] = jsonLimitedPlace{
			Address: p.Address, Connections: p.Connections, Max: limitValue(p.Max), MaxSource: p.MaxSource, MaxSetBy: orNull(p.MaxSetBy),
			Rate: limitValue(p.Rate), RateSource: p.RateSource, RateOwn: p.RateOwn,
			CountedBy: protocol.CountedByBroker, Exactness: protocol.ExactnessExact, Next: jsonOfNext(&p.Next),
		}
		if p.Rate != protocol.NoLimit {
			doc.Addresses[i].PerSecond = number(p.InUseRate)
		}
	}
	return doc
}

func jsonOfQueue(q *protocol.DescribeLimitsResponseQueue) jsonAcceptQueue {
	doc := jsonAcceptQueue{CountedBy: q.CountedBy, Exactness: q.Exactness, Why: orNull(q.Why)}
	if q.Exactness != protocol.ExactnessUnknown {
		doc.Length, doc.Backlog = &q.Length, &q.Backlog
	}
	if q.Overflows >= 0 {
		doc.Overflows = &q.Overflows
	}
	return doc
}

func jsonOfNext(n *protocol.DescribeLimitsResponseNext) jsonNext {
	return jsonNext{n.Outcome, orNull(n.Limit), orNull(n.Scope), n.Millis}
}

// limitValue is nil where there is no limit.
func limitValue(n int64) *int64 {
	if n == protocol.NoLimit {
		return nil
	}
	return &n
}

// number is f as JSON can have it: what is none becomes null.
func number(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func (o *limitsOptions) printLimits(env Env, answers []*protocol.DescribeLimitsResponse, err error) error {
	if o.format == formatJSON {
		return printJSON(env.Stdout, jsonOfAnswers(answers, err))
	}
	var text strings.Builder
	if failed := writeLimits(&text, answers, false); failed != nil {
		return failed
	}
	if _, failed := io.WriteString(env.Stdout, text.String()); failed != nil {
		return failed
	}
	return noteUncounted(env, answers)
}

func jsonOfAnswers(answers []*protocol.DescribeLimitsResponse, err error) jsonLimits {
	doc := jsonLimits{Brokers: make([]jsonBrokerLimits, len(answers)), Errors: jsonErrors(err)}
	for i, a := range answers {
		doc.Brokers[i] = jsonOfLimits(a)
	}
	return doc
}

// noteUncounted says on standard error why an accept queue is not counted.
func noteUncounted(env Env, answers []*protocol.DescribeLimitsResponse) error {
	for _, a := range answers {
		for i := range a.Listeners {
			q := &a.Listeners[i].AcceptQueue
			if q.Why == "" {
				continue
			}
			if _, err := fmt.Fprintf(env.Stderr, "brokerlab: broker %d: the accept queue of %s is %s: %s\n",
				a.NodeID, shown(a.Listeners[i].ListenerName), shown(q.Exactness), shown(q.Why)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeLimits writes the tables of each broker. Those without rows are left out; terse also leaves out limits that are off.
func writeLimits(text *strings.Builder, answers []*protocol.DescribeLimitsResponse, terse bool) error {
	for i, a := range answers {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintf(text, "broker %d, %s: counted by the broker, exact; accept queues by the kernel\n", a.NodeID, since(a.Time))
		for _, table := range []struct {
			rows     [][]string
			flexible []int
		}{
			{limitRows(a, terse), []int{1, 5}}, {listenerRows(a), []int{0}}, {heldRows(a), []int{0, 1}}, {nextRows(a), []int{0, 1}}, {addressRows(a), []int{0, 5}},
		} {
			if len(table.rows) == 1 {
				continue
			}
			text.WriteByte('\n')
			if err := printTable(text, table.rows, table.flexible...); err != nil {
				return err
			}
		}
		if n := len(a.Addresses); n < int(a.AddressCount) {
			fmt.Fprintf(text, "… %d of %d addresses are shown (--addresses)\n", n, a.AddressCount)
		}
	}
	return nil
}

func limitRows(a *protocol.DescribeLimitsResponse, terse bool) [][]string {
	rows := [][]string{{"LIMIT", "OF", "VALUE", "IN USE", "LEFT", "SET BY"}}
	for i := range a.Limits {
		l := &a.Limits[i]
		if terse && l.Value == protocol.NoLimit {
			continue
		}
		of := l.ListenerName
		switch l.Scope {
		case protocol.ScopeAddress:
			of = "each address"
		case protocol.ScopeBroker:
			of = "broker"
		}
		source := shown(l.Source)
		if l.ListenerName != "" && l.SetBy == l.Name {
			source += " (broker's)"
		}
		rows = append(rows, []string{shown(l.Name), shown(of), quantity(l, float64(l.Value)), quantity(l, l.InUse), left(l), source})
	}
	return rows
}

// quantity is an amount in the unit of a limit.
func quantity(l *protocol.DescribeLimitsResponseLimit, n float64) string {
	switch {
	case n == protocol.NoLimit:
		return "unlimited"
	case l.Unit != "connections/s":
		return strconv.FormatFloat(n, 'f', -1, 64)
	case n == math.Trunc(n):
		return strconv.FormatFloat(n, 'f', -1, 64) + "/s"
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + "/s"
}

func left(l *protocol.DescribeLimitsResponseLimit) string {
	if l.Value == protocol.NoLimit {
		return unknown
	}
	return quantity(l, float64(l.Value)-l.InUse)
}

func listenerRows(a *protocol.DescribeLimitsResponse) [][]string {
	rows := [][]string{{"LISTENER", "PROTOCOL", "OPEN", "ACCEPT QUEUE", "OVERFLOWS", "HELD", "HELD BY RATE", "QUEUED", "BLOCKED"}}
	for i := range a.Listeners {
		l := &a.Listeners[i]
		held := "0"
		if l.Held != nil {
			held = "1"
		}
		rows = append(rows, []string{
			shown(l.ListenerName), shown(l.SecurityProtocol), strconv.FormatInt(l.Connections, 10), queueLength(&l.AcceptQueue), overflows(&l.AcceptQueue),
			held, strconv.FormatInt(l.Throttled, 10), strconv.FormatInt(l.Queued, 10), percent(l.BlockedOneMinute),
		})
	}
	return rows
}

func queueLength(q *protocol.DescribeLimitsResponseQueue) string {
	switch q.Exactness {
	case protocol.ExactnessUnknown:
		return unknown
	case protocol.ExactnessLower:
		return fmt.Sprintf("≥%d of %d", q.Length, q.Backlog)
	}
	return fmt.Sprintf("%d of %d", q.Length, q.Backlog)
}

func overflows(q *protocol.DescribeLimitsResponseQueue) string {
	if q.Overflows < 0 {
		return unknown
	}
	return strconv.FormatInt(q.Overflows, 10)
}

func percent(share float64) string {
	const hundred = 100
	if math.IsNaN(share) {
		return unknown
	}
	return strconv.FormatFloat(share*hundred, 'f', 1, 64) + "%"
}

func heldRows(a *protocol.DescribeLimitsResponse) [][]string {
	rows := [][]string{{"LISTENER", "HELD ADDRESS", "FOR", "WAITS FOR"}}
	for i := range a.Listeners {
		l := &a.Listeners[i]
		h := l.Held
		if h == nil {
			continue
		}
		waits := limitPhrase(h.WaitsFor, h.Scope)
		if h.DelayMillis > 0 {
			waits += ", " + age(time.Duration(h.DelayMillis)*time.Millisecond) + " in all"
		}
		rows = append(rows, []string{shown(l.ListenerName), shown(h.Address), age(time.Duration(a.Time-h.Since) * time.Millisecond), waits})
	}
	return rows
}

// limitPhrase names a limit and whose it is.
func limitPhrase(name, scope string) string {
	if name == "" {
		return unknown
	}
	if scope == "" {
		return shown(name)
	}
	return shown(name) + " of the " + shown(scope)
}

func nextRows(a *protocol.DescribeLimitsResponse) [][]string {
	rows := [][]string{{"LISTENER", "NEXT CONNECTION"}}
	for i := range a.Listeners {
		rows = append(rows, []string{shown(a.Listeners[i].ListenerName), nextPhrase(&a.Listeners[i].Next)})
	}
	return rows
}

// nextPhrase says what happens to a connection, for how long and because of which limit.
func nextPhrase(n *protocol.DescribeLimitsResponseNext) string {
	text := shown(n.Outcome)
	if n.Millis > 0 {
		text += ", " + age(time.Duration(n.Millis)*time.Millisecond) + " or more"
	}
	if n.Limit != "" {
		text += ": " + limitPhrase(n.Limit, n.Scope)
	}
	return text
}

// nextOf is nextPhrase where it is clear that a limit is the address's own.
func nextOf(n *protocol.DescribeLimitsResponseNext) string {
	short := *n
	short.Scope = ""
	return nextPhrase(&short)
}

func addressRows(a *protocol.DescribeLimitsResponse) [][]string {
	rows := [][]string{{"ADDRESS", "OPEN", "MAX", "RATE", "MAX RATE", "NEXT CONNECTION"}}
	perSecond := &protocol.DescribeLimitsResponseLimit{Unit: "connections/s"}
	for i := range a.Addresses {
		p := &a.Addresses[i]
		highest, rate, fastest := quantity(new(protocol.DescribeLimitsResponseLimit), float64(p.Max)), unknown, quantity(perSecond, float64(p.Rate))
		if p.MaxSetBy != "" && p.MaxSetBy != "max.connections.per.ip" {
			highest += " (own)"
		}
		if p.RateOwn {
			fastest += " (own)"
		}
		if p.Rate != protocol.NoLimit {
			rate = quantity(perSecond, p.InUseRate)
		}
		rows = append(rows, []string{shown(p.Address), strconv.FormatInt(p.Connections, 10), highest, rate, fastest, nextOf(&p.Next)})
	}
	return rows
}
