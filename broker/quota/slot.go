package quota

// Slot is the place of one connection. It belongs to whoever owns the
// connection, and is not to be copied once it is in use. The zero value is no
// place.
type Slot struct {
	listener *listener
	ip       *ipEntry
	tls      bool // the class it was admitted with
	claimed  bool // is about to be evicted
}

// TLS says whether a TLS listener admitted the connection.
func (s *Slot) TLS() bool { return s.tls }

// Release gives the place back, after the socket is closed. It does nothing
// the second time and on the zero value.
func (s *Slot) Release() {
	if s.listener == nil {
		return
	}
	q := s.listener.quota
	q.lock()
	defer q.unlock()
	q.uncount(s)
	*s = Slot{tls: s.tls}
	q.grant()
}

// count makes a connection one of those that are open.
func (q *Connections) count(l *listener, e *ipEntry) Slot {
	e.count++
	if e.count == 1 {
		q.ips.connected++
	}
	q.total++
	l.count++
	if l.tls {
		q.ssl++
	}
	return Slot{listener: l, ip: e, tls: l.tls}
}

func (q *Connections) uncount(s *Slot) {
	s.ip.count--
	if s.ip.count == 0 {
		q.ips.connected--
		q.ips.drop(s.ip)
	}
	q.total--
	s.listener.count--
	if s.tls {
		q.ssl--
	}
	if s.claimed {
		q.unclaim(s)
	}
}
