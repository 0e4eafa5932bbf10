package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func never(int16, int16) bool  { return false }
func always(int16, int16) bool { return true }

// header builds a request header by hand.
func header(key, version int16, correlation int32, clientID []byte, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	return append(append(b, clientID...), rest...)
}

func TestParseHeaderReadsBothVersions(t *testing.T) {
	frame := header(18, 3, -7, []byte("\x00\x05alice"), 0, 'b', 'o', 'd', 'y')
	h, body, err := ParseHeader(frame, always)
	if err != nil || h.Key != 18 || h.Version != 3 || h.CorrelationID != -7 || h.ClientID == nil || *h.ClientID != "alice" || string(body) != "body" {
		t.Errorf("ParseHeader(v2) = %+v, %q, %v", h, body, err)
	}
	_, body, err = ParseHeader(frame, never)
	if err != nil || string(body) != "\x00body" {
		t.Errorf("ParseHeader(v1) leaves %q, %v, want the body from its first byte", body, err)
	}
	tags := append([]byte{2, 0, 3, 'a', 'b', 'c', 0x81, 0x01, 0}, "body"...)
	_, body, err = ParseHeader(header(3, 12, 1, []byte{0, 0}, tags...), always)
	if err != nil || string(body) != "body" {
		t.Errorf("ParseHeader with two tags leaves %q, %v, want the body", body, err)
	}
}

func TestAnyNegativeClientIDLengthIsNull(t *testing.T) {
	for _, length := range []string{"\xff\xff", "\x80\x00"} {
		h, body, err := ParseHeader(header(3, 1, 1, []byte(length), 'x'), never)
		if err != nil || h.ClientID != nil || string(body) != "x" {
			t.Errorf("length %x: %+v, %q, %v, want null", length, h, body, err)
		}
	}
}

func TestTruncatedHeadersAreErrorsThatStillNameTheRequest(t *testing.T) {
	whole := header(18, 3, 42, []byte("\x00\x05alice"), 1, 0, 3, 'a', 'b', 'c')
	for n := range whole {
		h, _, err := ParseHeader(whole[:n], always)
		if !errors.Is(err, ErrTruncated) {
			t.Errorf("first %d bytes: %v, want ErrTruncated", n, err)
		}
		if n >= 8 && (h.Key != 18 || h.Version != 3 || h.CorrelationID != 42) {
			t.Errorf("first %d bytes: header %+v, want key, version and correlation id", n, h)
		}
	}
}

func TestHostileTagsAreRefusedWithoutWork(t *testing.T) {
	for name, tags := range map[string]string{
		"four billion tags":  "\xff\xff\xff\xff\x0f",
		"tag of 4 GB":        "\x01\x00\xff\xff\xff\xff\x0f",
		"varint of 10 bytes": "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"varint over uint32": "\xff\xff\xff\xff\x1f",
	} {
		if _, _, err := ParseHeader(header(3, 12, 1, []byte{0, 0}, []byte(tags)...), always); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type body string

func (b body) AppendTo(dst []byte) []byte { return append(dst, b...) }

func TestAppendResponseCountsWhatFollowsThePrefix(t *testing.T) {
	f := func(dst string, flexible bool, want string) {
		t.Helper()
		if got := AppendResponse([]byte(dst), 258, flexible, body("xy")); string(got) != want {
			t.Errorf("AppendResponse(%q, 258, %t) = %q, want %q", dst, flexible, got, want)
		}
	}
	f("", false, "\x00\x00\x00\x06\x00\x00\x01\x02xy")
	f("", true, "\x00\x00\x00\x07\x00\x00\x01\x02\x00xy")
	f("before", true, "before\x00\x00\x00\x07\x00\x00\x01\x02\x00xy")
}

// FuzzParseHeader: it never panics, the body is a tail of the frame, and a
// header that was read can be written again.
func FuzzParseHeader(f *testing.F) {
	f.Add(header(18, 3, 1, []byte("\x00\x05alice"), 0), true)
	f.Add(header(3, 1, 1, []byte("\xff\xff")), false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, frame []byte, flexible bool) {
		h, rest, err := ParseHeader(frame, func(int16, int16) bool { return flexible })
		if err != nil {
			if rest != nil {
				t.Errorf("error %v with a body", err)
			}
			return
		}
		if !bytes.HasSuffix(frame, rest) {
			t.Errorf("body is no tail of the frame")
		}
		if h.ClientID != nil && len(*h.ClientID) > len(frame) {
			t.Errorf("client id of %d bytes from a frame of %d", len(*h.ClientID), len(frame))
		}
	})
}
