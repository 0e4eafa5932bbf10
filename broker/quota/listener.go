package quota

import "time"

// listener is what is counted and measured of one listener. Its slots point to
// it for as long as they live, also when it was removed or added anew.
type listener struct {
	quota   *Connections
	name    string
	tls     bool
	removed bool
	limits  ListenerConfig
	count   int

	created                rate
	throttle, throttleByIP average // delays of the rates of broker and listener; of addresses
	blocked                meter
}

// AddListener registers a listener; tls: it speaks TLS, with or without SASL.
// A name that is there already becomes a new listener, as if the old one had
// been removed before.
func (q *Connections) AddListener(name string, tls bool) {
	q.lock()
	defer q.unlock()
	q.remove(name)
	l := &listener{quota: q, name: name, tls: tls, limits: q.config.listener(name)}
	l.blocked.start = time.Now()
	q.listeners[name] = l
	q.grant()
}

// RemoveListener ends a listener: who waits on it gets [ErrNoListener]. Its
// connections count for the broker, for TLS and for their addresses until their
// slots are released.
func (q *Connections) RemoveListener(name string) {
	q.lock()
	defer q.unlock()
	q.remove(name)
	q.grant()
}

func (q *Connections) remove(name string) {
	l, ok := q.listeners[name]
	if !ok {
		return
	}
	l.removed = true
	delete(q.listeners, name)
	q.abandon(l)
}

// protected says whether the listener is exempt from the broker's own limits:
// Kafka protects brokers from clients, so there must be a listener for those.
func (q *Connections) protected(l *listener) bool {
	return l.name == q.config.InterBroker && len(q.listeners) > 1
}

// full is the limit that leaves no slot on the listener, [None] when there is
// one.
func (q *Connections) full(l *listener) Limit {
	switch {
	case l.count >= l.limits.MaxConnections:
		return ListenerMaxConnections
	case q.protected(l):
		return None
	case q.total >= q.config.MaxConnections:
		return MaxConnections
	case l.tls && q.ssl >= q.config.MaxSSLConnections:
		return MaxSSLConnections
	default:
		return None
	}
}

// Blocked adds time for which the acceptor was blocked by something that is no
// limit: all of its loops had full queues.
func (q *Connections) Blocked(name string, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.listeners[name]; l != nil {
		l.blocked.mark(d, time.Now())
	}
}
