package kernelsource

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/brokerlab/brokerlab/broker"
)

// protocolVersion changes when one side could misread the other.
const protocolVersion = 1

// Frames are a length (four bytes, big endian) and a JSON document. Neither side trusts a length.
const (
	maxRequest  = 1 << 20   // watching every port there is fits
	maxResponse = 256 << 20 // a million sockets fit
)

// Operations.
const (
	opHello   = "hello" // the first request; carries the client's network namespace as a descriptor
	opWatch   = "watch"
	opReport  = "report"
	opSockets = "sockets"
)

type request struct {
	Version int      `json:"version"`
	Op      string   `json:"op"`
	Ports   []uint16 `json:"ports,omitempty"`
	Port    uint16   `json:"port,omitempty"`
}

type response struct {
	Version int                   `json:"version"`
	Error   string                `json:"error,omitempty"`
	Report  *broker.KernelReport  `json:"report,omitempty"`
	Sockets []broker.KernelSocket `json:"sockets,omitempty"`
}

var errTooLong = errors.New("frame too long")

func writeFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	_, err = w.Write(append(frame, b...))
	return err
}

func readFrame(r io.Reader, most uint32, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return fmt.Errorf("%w: %d bytes, at most %d", errTooLong, n, most)
	}
	// Read as it comes: a length alone takes no memory.
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(b) < int(n) {
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(b, v)
}
