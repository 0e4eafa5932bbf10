package api

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// longestString is how many bytes a string may have, however its length is written: what the messages that Java generates read. A
// group or a rule with a longer name could not be told of any more in the versions that write lengths in 16 bits.
const longestString = math.MaxInt16

var (
	errLongString = errors.New("a string has more than 32767 bytes")
	errNullArray  = errors.New("an array is null that may not be")
)

// looksSmall is up to how many bytes a request is held to what Java's messages refuse and kmsg reads as empty.
const looksSmall = 8 << 10

// decode reads the call's request.
func (q *call) decode() (kmsg.Request, error) {
	req := q.row.decode()
	req.SetVersion(q.header.Version)
	err := req.ReadFrom(q.body)
	if err == nil && len(q.body) > longestString && hasLongString(reflect.ValueOf(req)) {
		err = errLongString
	}
	if err == nil && len(q.body) <= looksSmall && hasNullArray(req, q.body) {
		err = errNullArray
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s v%d: %w", q.row.name, q.header.Version, err)
	}
	return req, nil
}

// hasNullArray tells whether a request has a null in place of an array that may not be one, which kmsg reads as an empty array. That
// shows where the request, written anew, is first another: nothing else writes these bytes for those.
func hasNullArray(req kmsg.Request, body []byte) bool {
	anew := req.AppendTo(nil)
	at := 0
	for at < min(len(anew), len(body)) && anew[at] == body[at] {
		at++
	}
	if req.IsFlexible() {
		return at < min(len(anew), len(body)) && body[at] == 0 && anew[at] == 1
	}
	return bytes.HasPrefix(body[at:], []byte{0xff, 0xff, 0xff, 0xff}) && bytes.HasPrefix(anew[at:], make([]byte, 4))
}

func hasLongString(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return v.Len() > longestString
	case reflect.Pointer:
		return !v.IsNil() && hasLongString(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			if hasLongString(field) {
				return true
			}
		}
	case reflect.Slice:
		switch v.Type().Elem().Kind() {
		case reflect.String, reflect.Struct, reflect.Pointer:
			for i := range v.Len() {
				if hasLongString(v.Index(i)) {
					return true
				}
			}
		default: // numbers and bytes
		}
	default:
	}
	return false
}
