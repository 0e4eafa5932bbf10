package fleet

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
)

// A response header never makes a client read outside of it, and what is left is a part of what was there.
func FuzzSkipTagsStaysInsideTheFrame(f *testing.F) {
	f.Add([]byte{0, 1, 2})
	f.Add([]byte{1, 0, 2, 9, 9, 7})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, header []byte) {
		rest, err := skipTags(header)
		if err == nil && !bytes.HasSuffix(header, rest) {
			t.Errorf("skipTags(%x) = %x, want its end", header, rest)
		}
	})
}

func TestALengthThatNobodySentCostsNoMemory(t *testing.T) {
	claim := binary.BigEndian.AppendUint32(nil, maxAnswer)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readFrame(bytes.NewReader(claim)); err == nil {
		t.Error("readFrame of a length alone = nil, want an error")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > maxAnswer/8 {
		t.Errorf("readFrame of a length alone allocates %d bytes, want much less than %d", got, maxAnswer)
	}
	if _, err := readFrame(bytes.NewReader(binary.BigEndian.AppendUint32(nil, maxAnswer+1))); err == nil {
		t.Error("readFrame of too great a length = nil, want an error")
	}
	frame, err := readFrame(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, 3), 1, 2, 3)))
	if err != nil || !bytes.Equal(frame, []byte{1, 2, 3}) {
		t.Errorf("readFrame = %x, %v, want 010203", frame, err)
	}
}
