package metadata

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/brokerlab/brokerlab/broker/acl"
)

type writer struct{ b []byte }

func (w *writer) uvarint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) varint(v int64)   { w.b = binary.AppendVarint(w.b, v) }

func (w *writer) string(s string) {
	w.uvarint(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) bytes(s []byte) {
	w.uvarint(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) present(yes bool) bool {
	if yes {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
	return yes
}

func (w *writer) nullableString(s *string) {
	if w.present(s != nil) {
		w.string(*s)
	}
}

func (w *writer) nullableFloat(f *float64) {
	if w.present(f != nil) {
		w.b = binary.BigEndian.AppendUint64(w.b, math.Float64bits(*f))
	}
}

// reader reads fields until one is wrong; from then on it is bad and all fields are zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.b, r.bad = nil, true }

func (r *reader) span(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) byte() byte {
	if s := r.span(1); s != nil {
		return s[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int32() int32 {
	v := r.varint()
	if int64(int32(v)) != v {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) int16() int16 {
	v := r.varint()
	if int64(int16(v)) != v {
		r.fail()
		return 0
	}
	return int16(v)
}

func (r *reader) string() string { return string(r.span(r.uvarint())) }

// credential keeps its salt and keys in one piece of memory: there can be millions.
func (r *reader) credential() ScramCredential {
	c := ScramCredential{Mechanism: r.mechanism()}
	salt, stored, server := r.span(r.uvarint()), r.span(r.uvarint()), r.span(r.uvarint())
	all := slices.Concat(salt, stored, server)
	n, m := len(salt), len(salt)+len(stored)
	c.Salt, c.StoredKey, c.ServerKey = all[:n:n], all[n:m:m], all[m:]
	c.Iterations = r.int32()
	return c
}

// mechanism is a string that is nearly always one of two, which need no memory of their own.
func (r *reader) mechanism() string {
	switch s := r.span(r.uvarint()); string(s) {
	case ScramSHA256:
		return ScramSHA256
	case ScramSHA512:
		return ScramSHA512
	default:
		return string(s)
	}
}

func (r *reader) present() bool {
	switch r.byte() {
	case 0:
		return false
	case 1:
		return true
	}
	r.fail()
	return false
}

func (r *reader) nullableString() *string {
	if !r.present() {
		return nil
	}
	s := r.string()
	return &s
}

func (r *reader) nullableFloat() *float64 {
	if !r.present() {
		return nil
	}
	b := r.span(8)
	if b == nil {
		return nil
	}
	f := math.Float64frombits(binary.BigEndian.Uint64(b))
	return &f
}

func (r *reader) entity() Entity {
	const leastPart = 2
	n := r.uvarint()
	if n > uint64(len(r.b)/leastPart) {
		r.fail()
		return nil
	}
	e := make(Entity, 0, n)
	for range n {
		e = append(e, EntityPart{Type: EntityType(r.string()), Name: r.nullableString()})
	}
	return e
}

func (w *writer) binding(b acl.Binding) {
	w.b = append(w.b, byte(b.Type), byte(b.Kind), byte(b.Operation), byte(b.Permission))
	w.string(b.Name)
	w.string(b.Principal)
	w.string(b.Host)
}

func (r *reader) binding() acl.Binding {
	b := acl.Binding{Pattern: acl.Pattern{Type: acl.ResourceType(r.byte()), Kind: acl.PatternType(r.byte())}}
	b.Operation, b.Permission = acl.Operation(r.byte()), acl.Permission(r.byte())
	b.Name, b.Principal, b.Host = r.string(), r.string(), r.string()
	return b
}

func (w *writer) broker(b Broker) {
	w.varint(int64(b.ID))
	w.varint(b.Epoch)
	w.string(b.Incarnation)
	w.string(b.Rack)
	w.uvarint(uint64(len(b.Listeners)))
	for _, l := range b.Listeners {
		w.string(l.Name)
		w.string(l.Protocol)
		w.string(l.Host)
		w.varint(int64(l.Port))
	}
	w.varint(int64(b.MinLevel))
	w.varint(int64(b.MaxLevel))
	w.present(b.Fenced)
}

func (r *reader) broker() Broker {
	const leastListener = 4
	b := Broker{ID: r.int32(), Epoch: r.varint(), Incarnation: r.string(), Rack: r.string()}
	n := r.uvarint()
	if n > uint64(len(r.b)/leastListener) {
		r.fail()
		return Broker{}
	}
	for range n {
		b.Listeners = append(b.Listeners, BrokerListener{Name: r.string(), Protocol: r.string(), Host: r.string(), Port: r.int32()})
	}
	b.MinLevel, b.MaxLevel, b.Fenced = r.int16(), r.int16(), r.present()
	return b
}
