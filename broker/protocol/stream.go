package protocol

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kbin"
)

// AppendRows appends the response's body to dst with count rows in the place of Connections, so that a listing of many
// connections need not exist twice. A row may be the same memory as the one before.
func (v *ListClientConnectionsResponse) AppendRows(dst []byte, count int, rows iter.Seq[*ListClientConnectionsResponseConnection]) []byte {
	c := codec{dst: dst}
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.dst = kbin.AppendCompactArrayLen(c.dst, count)
	for row := range rows {
		row.fields(&c)
	}
	c.tags(&v.UnknownTags)
	return c.dst
}
