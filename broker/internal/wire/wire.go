// Package wire knows the frames of the Kafka protocol: how a request header is
// laid out and how a response is wrapped. It reads from a byte slice that
// somebody else has bounded (package network holds the size limit), and it
// never allocates what a peer claims: a length is believed only as far as the
// bytes behind it are there.
//
// It knows no API. Whether a (key, version) pair has a flexible header is told
// by the caller, who owns the table of APIs.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTruncated is wrapped by every error about a frame that ends too early.
var ErrTruncated = errors.New("truncated")

// Header is a Kafka request header: v1, or v2 where the version of the API is
// flexible.
type Header struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID is nil where the client sent null, which any negative length
	// means.
	ClientID *string
}

// ParseHeader splits a request frame, without its length prefix, into its
// header and the body behind it, which shares memory with frame. flexible tells
// whether a key and version has header v2. What it cannot tell (an unknown key)
// it should answer with false.
//
// When the frame ends inside the client id or the tags the error wraps
// [ErrTruncated] and the returned header still carries key, version and
// correlation id; only a frame shorter than those leaves it empty.
func ParseHeader(frame []byte, flexible func(key, version int16) bool) (Header, []byte, error) {
	const fixed = 2 + 2 + 4
	if len(frame) < fixed {
		return Header{}, nil, fmt.Errorf("request header of %d bytes: %w", len(frame), ErrTruncated)
	}
	h := Header{
		Key:           int16(binary.BigEndian.Uint16(frame)),
		Version:       int16(binary.BigEndian.Uint16(frame[2:])),
		CorrelationID: int32(binary.BigEndian.Uint32(frame[4:])),
	}
	id, rest, err := nullableString(frame[fixed:])
	if err != nil {
		return h, nil, fmt.Errorf("client id of request key %d: %w", h.Key, err)
	}
	h.ClientID = id
	if flexible(h.Key, h.Version) {
		if rest, err = skipTags(rest); err != nil {
			return h, nil, fmt.Errorf("header tags of request key %d: %w", h.Key, err)
		}
	}
	return h, rest, nil
}

// AppendResponse appends a whole response to dst: the int32 length of what
// follows it, the correlation id, for a flexible response the empty tag buffer
// of header v1 (never for ApiVersions, whose clients cannot know the version
// yet), and the body.
func AppendResponse(dst []byte, correlationID int32, flexible bool, body interface{ AppendTo([]byte) []byte }) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible {
		dst = append(dst, 0)
	}
	dst = body.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// nullableString reads an int16 length and that many bytes.
func nullableString(b []byte) (*string, []byte, error) {
	if len(b) < 2 {
		return nil, nil, ErrTruncated
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n < 0 {
		return nil, b, nil
	}
	if n > len(b) {
		return nil, nil, fmt.Errorf("%d bytes of %d: %w", len(b), n, ErrTruncated)
	}
	s := string(b[:n])
	return &s, b[n:], nil
}

// skipTags steps over a tag buffer: a count, then for each tag its number, its
// size and its bytes.
func skipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	for range count {
		if _, b, err = uvarint(b); err != nil {
			return nil, err
		}
		var size uint32
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(b)) {
			return nil, ErrTruncated
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned 32-bit varint of at most five bytes.
func uvarint(b []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, nil, ErrTruncated
	case n < 0 || n > 5 || v >= 1<<32:
		return 0, nil, errors.New("varint over 32 bits")
	}
	return uint32(v), b[n:], nil
}
