package protocol

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// codec walks the fields of one message in wire order and either writes or reads them, so that both directions share
// one list of fields. All messages here are flexible: lengths are compact, and each struct ends in tagged fields.
type codec struct {
	reading bool
	dst     []byte
	src     kbin.Reader
}

func appendTo(dst []byte, fields func(*codec)) []byte {
	c := codec{dst: dst}
	fields(&c)
	return c.dst
}

func readFrom(src []byte, fields func(*codec)) error {
	c := codec{reading: true, src: kbin.Reader{Src: src}}
	fields(&c)
	return c.src.Complete()
}

// fail makes the read an error: every later field reads as its zero value and Complete reports it.
func (c *codec) fail() {
	c.src.Span(-1)
}

func (c *codec) bool(v *bool) {
	if c.reading {
		*v = c.src.Bool()
	} else {
		c.dst = kbin.AppendBool(c.dst, *v)
	}
}

func (c *codec) int8(v *int8) {
	if c.reading {
		*v = c.src.Int8()
	} else {
		c.dst = kbin.AppendInt8(c.dst, *v)
	}
}

func (c *codec) int16(v *int16) {
	if c.reading {
		*v = c.src.Int16()
	} else {
		c.dst = kbin.AppendInt16(c.dst, *v)
	}
}

func (c *codec) int32(v *int32) {
	if c.reading {
		*v = c.src.Int32()
	} else {
		c.dst = kbin.AppendInt32(c.dst, *v)
	}
}

func (c *codec) int64(v *int64) {
	if c.reading {
		*v = c.src.Int64()
	} else {
		c.dst = kbin.AppendInt64(c.dst, *v)
	}
}

// uint64 travels as the int64 of the same bits: Kafka's protocol has no unsigned type of that width.
func (c *codec) uint64(v *uint64) {
	n := int64(*v)
	c.int64(&n)
	*v = uint64(n)
}

func (c *codec) float64(v *float64) {
	if c.reading {
		*v = c.src.Float64()
	} else {
		c.dst = kbin.AppendFloat64(c.dst, *v)
	}
}

func (c *codec) string(v *string) {
	if c.reading {
		*v = c.src.CompactString()
	} else {
		c.dst = kbin.AppendCompactString(c.dst, *v)
	}
}

func (c *codec) nullableString(v **string) {
	if c.reading {
		*v = c.src.CompactNullableString()
	} else {
		c.dst = kbin.AppendCompactNullableString(c.dst, *v)
	}
}

func (c *codec) nullableBytes(v *[]byte) {
	if c.reading {
		*v = bytes.Clone(c.src.CompactNullableBytes())
	} else {
		c.dst = kbin.AppendCompactNullableBytes(c.dst, *v)
	}
}

// stringField is the element of an array of strings.
func stringField(v *string, c *codec) { c.string(v) }

// maxTags bounds the tagged fields of one struct: two bytes of a request must not cost a hundred of memory. Kafka's own
// messages have a handful.
const maxTags = 256

// tags ends a struct. Values are copied: a message never points into the bytes it was read from.
func (c *codec) tags(v *kmsg.Tags) {
	if !c.reading {
		c.dst = kbin.AppendUvarint(c.dst, uint32(v.Len()))
		c.dst = v.AppendEach(c.dst)
		return
	}
	*v = kmsg.Tags{}
	n := c.src.Uvarint()
	if n > maxTags {
		c.fail()
		return
	}
	for ; n > 0 && c.src.Ok(); n-- {
		key, size := c.src.Uvarint(), c.src.Uvarint()
		value := c.src.Span(int(size))
		if c.src.Ok() {
			v.Set(key, bytes.Clone(value))
		}
	}
}

// array walks *v. No element is shorter than atLeast bytes on the wire, which bounds what a claimed count can allocate;
// null reads as an empty array.
func array[T any](c *codec, v *[]T, atLeast int, fields func(*T, *codec)) {
	if !c.reading {
		c.dst = kbin.AppendCompactArrayLen(c.dst, len(*v))
		for i := range *v {
			fields(&(*v)[i], c)
		}
		return
	}
	*v = nil
	n := int64(c.src.Uvarint()) - 1
	if n*int64(atLeast) > int64(len(c.src.Src)) {
		c.fail()
		return
	}
	if n <= 0 {
		return
	}
	s := make([]T, n)
	for i := range s {
		fields(&s[i], c)
		if !c.src.Ok() {
			return
		}
	}
	*v = s
}

// nullable walks a struct that may be absent: one byte, -1 or 1, stands before it.
func nullable[T any](c *codec, v **T, fields func(*T, *codec)) {
	const absent, present = -1, 1
	if !c.reading {
		if *v == nil {
			c.dst = kbin.AppendInt8(c.dst, absent)
			return
		}
		c.dst = kbin.AppendInt8(c.dst, present)
		fields(*v, c)
		return
	}
	*v = nil
	switch c.src.Int8() {
	case absent:
	case present:
		s := new(T)
		fields(s, c)
		if c.src.Ok() {
			*v = s
		}
	default:
		c.fail()
	}
}
