package protocol

import (
	"encoding/binary"
	"errors"
)

// Cursor is what a broker puts into NextCursor, opaque to clients: how far a walk over its connection table has come.
// A connection keeps its slot for life and a walk only goes up, so no connection can appear twice; a slot that is
// reused during the walk holds another connection.
type Cursor struct {
	Incarnation int64  // of the broker: its slots mean nothing to the one that runs after a restart
	Slot        uint64 // the next slot to look at
}

// ErrCursor is returned for bytes that no broker has made into a cursor.
var ErrCursor = errors.New("not a cursor: expected the NextCursor of an earlier page")

const cursorSize = 1 + 8 + 8 // a version byte, then both fields

// AppendTo appends the cursor to dst.
func (c Cursor) AppendTo(dst []byte) []byte {
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Incarnation))
	return binary.BigEndian.AppendUint64(dst, c.Slot)
}

// ParseCursor reads what [Cursor.AppendTo] wrote, or returns [ErrCursor].
func ParseCursor(b []byte) (Cursor, error) {
	if len(b) != cursorSize || b[0] != 0 {
		return Cursor{}, ErrCursor
	}
	return Cursor{
		Incarnation: int64(binary.BigEndian.Uint64(b[1:])),
		Slot:        binary.BigEndian.Uint64(b[9:]),
	}, nil
}
