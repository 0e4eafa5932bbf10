package quota

// Exceeded says whether a connection of the listener ought to be closed: there
// are more than max.connections and it is not protected, or it speaks TLS as
// well and there are more than max.ssl.connections. The limit of a listener
// itself closes nothing. It costs one atomic load when no limit is exceeded.
//
// A loop for which it is true takes its least recently used connection and asks
// that one's slot: see [Slot.Evict].
func (q *Connections) Exceeded(name string) bool {
	if q.excess.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.listeners[name]
	return l != nil && q.exceeded(l, l.tls) != None
}

// Evict claims the connection for eviction: true means that it is to be closed
// now, for the limit that is returned. The claim ends when the slot is
// released. As long as it lasts the connection no longer counts as too much, so
// that several loops together evict no more than what exceeds a limit.
func (s *Slot) Evict() (Limit, bool) {
	if s.listener == nil || s.claimed {
		return None, false
	}
	q := s.listener.quota
	q.mu.Lock()
	defer q.unlock()
	limit := q.exceeded(s.listener, s.tls)
	if limit == None {
		return None, false
	}
	s.claimed = true
	q.claims++
	if s.tls {
		q.sslClaims++
	}
	return limit, true
}

func (q *Connections) unclaim(s *Slot) {
	q.claims--
	if s.tls {
		q.sslClaims--
	}
}

// exceeded is the limit for which a connection of that listener and class ought
// to go, beyond those that are claimed.
func (q *Connections) exceeded(l *listener, tls bool) Limit {
	switch {
	case q.protected(l):
		return None
	case q.total-q.claims > q.config.MaxConnections:
		return MaxConnections
	case tls && q.ssl-q.sslClaims > q.config.MaxSSLConnections:
		return MaxSSLConnections
	default:
		return None
	}
}

// evictable is by how many connections the limits are exceeded, beyond those
// that are claimed.
func (q *Connections) evictable() int64 {
	total := q.total - q.claims - q.config.MaxConnections
	ssl := q.ssl - q.sslClaims - q.config.MaxSSLConnections
	return int64(max(total, ssl, 0))
}
