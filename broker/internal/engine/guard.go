package engine

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxNewPartitions is how many partitions one request may make, as in Kafka (ReplicationControlManager).
	maxNewPartitions = 10_000
	// maxElements bounds the list elements of one request, which the data plane walks while everybody waits.
	maxElements = 100_000
)

// Error codes that the guard answers or looks for.
const (
	codeShareSessionNotFound = 122
)

// passage is what the guard made of a request.
type passage struct {
	req        kmsg.Request  // what goes to the data plane
	answer     kmsg.Response // or the whole answer: nothing goes there
	controller bool          // only the controller takes it
	about      string        // the transactional id that req is a question about, whose coordinator may be another node
	// then makes the next passage of what the data plane answered, when req was only a question about the request.
	then func(kmsg.Response) (passage, error)
	// correct completes the data plane's answer; nil when that is right as it is.
	correct func(kmsg.Response) (kmsg.Response, error)
	relay   Relay // see [Client.Relay]
}

func (p *passage) finish(resp kmsg.Response) (kmsg.Response, error) {
	if p.correct == nil {
		return resp, nil
	}
	return p.correct(resp)
}

// rule is what the guard does with one API.
type rule struct {
	// max is the highest version offered; the data plane's own when 0.
	max int16
	// kept answers tell of something that is on the disk; one that may not be is refused.
	kept bool
	// counted rules bound the elements themselves.
	counted bool
	// admit checks and changes a request; nil passes it on as it is.
	admit func(*Engine, kmsg.Request) (passage, error)
}

// on makes a rule's admit for one type of request.
func on[R kmsg.Request](admit func(*Engine, R) (passage, error)) func(*Engine, kmsg.Request) (passage, error) {
	return func(e *Engine, req kmsg.Request) (passage, error) {
		r, ok := req.(R)
		if !ok {
			return passage{}, refuse(req, kerr.InvalidRequest, "not the message that belongs to this key")
		}
		return admit(e, r)
	}
}

// admit is the guard: what it lets pass can't harm the data plane.
func (e *Engine) admit(req kmsg.Request) (passage, error) {
	key, version := req.Key(), req.GetVersion()
	offered, ok := (*e.versions.Load())[key]
	if !ok || version < offered.Min || version > offered.Max {
		return passage{}, refuse(req, kerr.UnsupportedVersion, "not served in this version")
	}
	r := e.rules[key]
	if !r.counted && elements(reflect.ValueOf(req)) > maxElements {
		return passage{}, refuse(req, kerr.InvalidRequest, "too many elements")
	}
	if e.remote != nil && e.topics.masking() && e.namesMasked(req) {
		return passage{}, refuse(req, kerr.UnknownTopicID, "no such topic id")
	}
	if r.admit == nil {
		return passage{req: req}, nil
	}
	return r.admit(e, req)
}

func refuse(req kmsg.Request, code *kerr.Error, why string) error {
	return &RefusedError{Key: req.Key(), Code: code.Code, Why: why}
}

// elements counts the list elements of a message at all depths. It stops counting somewhere above maxElements.
func elements(v reflect.Value) int {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			return elements(v.Elem())
		}
	case reflect.Struct:
		n := 0
		for _, field := range v.Fields() {
			n += elements(field)
		}
		return n
	case reflect.Slice:
		n := v.Len()
		switch v.Type().Elem().Kind() {
		case reflect.Uint8: // bytes
			return 0
		case reflect.Struct:
			for i := 0; i < v.Len() && n <= maxElements; i++ {
				n += elements(v.Index(i))
			}
		default:
		}
		return n
	default:
	}
	return 0
}

// distinct returns s without the elements whose key came before, s itself when there are none. A request that names
// one thing a million times would be answered a million times.
func distinct[T any, K comparable](s []T, key func(*T) K) []T {
	if len(s) < 2 {
		return s
	}
	seen := make(map[K]struct{}, len(s))
	for i := range s {
		seen[key(&s[i])] = struct{}{}
	}
	if len(seen) == len(s) {
		return s
	}
	clear(seen)
	out := make([]T, 0, len(s))
	for i := range s {
		k := key(&s[i])
		if _, ok := seen[k]; !ok {
			seen[k] = struct{}{}
			out = append(out, s[i])
		}
	}
	return out
}

func same[T any](v *T) T { return *v }
