package api

import (
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// longestString is how many bytes a string may have, however its length is written: what the messages that Java generates read. A
// group or a rule with a longer name could not be told of any more in the versions that write lengths in 16 bits.
const longestString = math.MaxInt16

var errLongString = errors.New("a string has more than 32767 bytes")

// decode reads the call's request.
func (q *call) decode() (kmsg.Request, error) {
	req := q.row.decode()
	req.SetVersion(q.header.Version)
	err := req.ReadFrom(q.body)
	if err == nil && len(q.body) > longestString && hasLongString(reflect.ValueOf(req)) {
		err = errLongString
	}
	if err != nil {
		return nil, fmt.Errorf("decode %s v%d: %w", q.row.name, q.header.Version, err)
	}
	return req, nil
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
