// Package advice finds known trouble in the configurations that clients have pushed: settings that lose records, that
// Java's client refuses, or that surprise in operation. Each finding has its reason and Kafka's default.
//
// It judges what was pushed and nothing else: a key that is absent has no findings.
package advice

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
)

// Finding is one known trouble of one configuration.
type Finding struct {
	Key     string
	Value   string // as it was pushed
	Reason  string // what comes of it
	Default string // Kafka 4.4's
}

// Options are what cannot be read from a configuration.
type Options struct {
	// Processing is how long an application works on one record; 0: not known.
	Processing time.Duration
}

// Check returns what is wrong with a configuration, in the order of the rules.
func Check(entries []configpush.Entry, o Options) []Finding {
	c := &check{values: make(map[string]configpush.Entry, len(entries)), options: o}
	for _, e := range entries {
		if !e.Redacted {
			c.values[e.Key] = e
		}
	}
	c.durability()
	c.order()
	c.patience()
	c.polling()
	c.connections()
	return c.findings
}

// check is one configuration that is looked at.
type check struct {
	values   map[string]configpush.Entry
	options  Options
	findings []Finding
}

func (c *check) find(key, byDefault, reason string, args ...any) {
	c.findings = append(c.findings, Finding{Key: key, Value: c.values[key].Value, Default: byDefault, Reason: fmt.Sprintf(reason, args...)})
}

// is tells whether a key was pushed with that value.
func (c *check) is(key, value string) bool {
	e, ok := c.values[key]
	return ok && e.Value == value
}

// number is a value that was pushed and is one.
func (c *check) number(key string) (n int64, ok bool) {
	e, there := c.values[key]
	if !there {
		return 0, false
	}
	n, err := strconv.ParseInt(e.Value, 10, 64)
	return n, err == nil
}

// exceeds tells whether both keys were pushed and the first is greater.
func (c *check) exceeds(key, bound string) bool {
	n, ok := c.number(key)
	m, and := c.number(bound)
	return ok && and && n > m
}

// durability is about records that are acknowledged and lost.
func (c *check) durability() {
	switch {
	case c.is("acks", "0"):
		c.find("acks", "all", "nobody confirms a record: what a broker refuses or loses, the application never hears of")
	case c.is("acks", "1") && c.is("enable.idempotence", "false"):
		c.find("acks", "all", "with idempotence off: a record that only the leader has is lost with it, and a retry may write one twice")
	case c.is("acks", "1"):
		c.find("acks", "all", "a record that only the leader has is lost with it, although it was confirmed; idempotence needs all")
	}
	if c.is("enable.idempotence", "false") {
		c.find("enable.idempotence", "true", "a retry after a lost answer writes the record twice")
	}
	if c.is("retries", "0") {
		c.find("retries", "2147483647", "every change of a leader fails requests that a retry would have saved; bound them by delivery.timeout.ms instead")
	}
	if c.is("check.crcs", "false") {
		c.find("check.crcs", "true", "records that were damaged on their way or on disk reach the application")
	}
	if n, ok := c.number("transaction.timeout.ms"); ok && n > 900_000 {
		c.find("transaction.timeout.ms", "60000", "more than the brokers' transaction.max.timeout.ms unless that was raised from 900000: the producer does not start")
	}
}

// order is about records in another order than they were sent in.
func (c *check) order() {
	const key = "max.in.flight.requests.per.connection"
	n, ok := c.number(key)
	const most = 5
	switch {
	case ok && n > 1 && c.is("enable.idempotence", "false"):
		c.find(key, "5", "with idempotence off a retry may overtake what was sent after it")
	case ok && n > most && !c.is("enable.idempotence", "false"):
		c.find(key, "5", "idempotence allows no more than 5: Java's producer goes without it, or refuses to start")
	}
}

// patience is about times that contradict each other.
func (c *check) patience() {
	delivery, ok := c.number("delivery.timeout.ms")
	request, and := c.number("request.timeout.ms")
	linger, _ := c.number("linger.ms")
	if ok && and && delivery < request+linger {
		c.find("delivery.timeout.ms", "120000", "less than linger.ms and request.timeout.ms together (%d): Java's producer refuses to start", request+linger)
	}
	if wait, has := c.number("fetch.max.wait.ms"); has && and && wait >= request {
		c.find("fetch.max.wait.ms", "500", "a fetch of a quiet topic waits as long as a request may take (%d ms), and is taken for lost", request)
	}
	if c.exceeds("retry.backoff.ms", "retry.backoff.max.ms") {
		c.find("retry.backoff.ms", "100", "more than retry.backoff.max.ms, %s: there is no growing pause between retries", c.values["retry.backoff.max.ms"].Value)
	}
	if c.exceeds("batch.size", "buffer.memory") {
		c.find("batch.size", "16384", "a batch does not fit into buffer.memory, %s", c.values["buffer.memory"].Value)
	}
}

// polling is about consumers that are thrown out of their group.
func (c *check) polling() {
	const interval = "max.poll.interval.ms"
	heartbeat, ok := c.number("heartbeat.interval.ms")
	session, and := c.number("session.timeout.ms")
	const beats = 3
	if ok && and && heartbeat*beats > session {
		c.find("heartbeat.interval.ms", "3000", "a session of %d ms holds fewer than three heartbeats: one that is late ends it", session)
	}
	limit, ok := c.number(interval)
	records, and := c.number("max.poll.records")
	if !ok || !and || records <= 0 || limit <= 0 {
		return
	}
	each := time.Duration(min(limit, math.MaxInt32)) * time.Millisecond / time.Duration(records)
	const hasty = 20 * time.Millisecond
	switch {
	case c.options.Processing > each:
		c.find(interval, "300000", "%d records of %v each take longer: the consumer is thrown out of its group, and another one gets the same records", records, c.options.Processing)
	case c.options.Processing == 0 && each < hasty:
		c.find(interval, "300000", "leaves %v for each of max.poll.records, %d: a slower application is thrown out of its group", each, records)
	}
}

// connections is about clients that are a burden on brokers, or cannot be told apart.
func (c *check) connections() {
	const brokersIdle, oftenMillis = 600_000, 10_000
	if n, ok := c.number("connections.max.idle.ms"); ok && (n < 0 || n > brokersIdle) {
		c.find("connections.max.idle.ms", "540000 (300000 of an admin client)", "brokers close an idle connection after 600000 ms unless told otherwise: the client finds it closed when it needs it")
	}
	if n, ok := c.number("metadata.max.age.ms"); ok && n < oftenMillis {
		c.find("metadata.max.age.ms", "300000", "every client asks for all of its metadata every %d ms", n)
	}
	if c.is("reconnect.backoff.ms", "0") {
		c.find("reconnect.backoff.ms", "50", "a client that is refused, or whose broker is down, connects again without a pause")
	}
	if c.exceeds("reconnect.backoff.ms", "reconnect.backoff.max.ms") {
		c.find("reconnect.backoff.ms", "50", "more than reconnect.backoff.max.ms, %s: there is no growing pause between attempts", c.values["reconnect.backoff.max.ms"].Value)
	}
	if c.is("client.id", "") {
		c.find("client.id", `""`, "nothing tells this client from another one of the same user and address; quotas and logs have no name for it")
	}
}
