package fidelity

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// header is that of a request: of v2, with tags, where flexible.
func header(key, version int16, correlation int32, client *string, flexible bool) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	if client == nil {
		b = append(b, 0xff, 0xff)
	} else {
		b = binary.BigEndian.AppendUint16(b, uint16(len(*client)))
		b = append(b, *client...)
	}
	if flexible {
		b = append(b, 0)
	}
	return b
}

// bare is a request as bytes, header and body, with correlation id 7.
func bare(req kmsg.Request) []byte {
	name := "f"
	return req.AppendTo(header(req.Key(), req.GetVersion(), 7, &name, req.IsFlexible()))
}

// told is what came of bytes that were sent: the answer's beginning, or how the connection ended; and whether it is served still.
func (c *conn) told(wait time.Duration) any {
	b, end := c.read(wait)
	if end != "" {
		if end == "reset" {
			end = "EOF" // for what the peer had not read it depends on when it looked
		}
		return end
	}
	seen := map[string]any{}
	if len(b) > 40 {
		seen["answer"] = fmt.Sprintf("%x…", b[:6]) // what it says is others' to compare
	} else {
		seen["answer"] = fmt.Sprintf("%x of %d", b, len(b))
	}
	c.correlation = 100
	_ = c.SetDeadline(time.Now().Add(patience))
	served, _ := c.brief(apiVersions(3, "fidelity", "1")).(map[string]any)
	seen["goes on"] = served != nil
	return seen
}

// frames are requests right and wrong, each alone in its frame.
func frames() map[string][]byte {
	client := "f"
	versions := apiVersions(3, "fidelity", "1")
	metadata := metadataRequest(9)
	all := map[string][]byte{
		"empty": {}, "one byte": {0}, "a key": {0, 18}, "key and version": {0, 18, 0, 0}, "no client id": {0, 18, 0, 0, 0, 0, 0, 7},
		"null client id": header(18, 0, 7, nil, false), "client id cut off": {0, 18, 0, 0, 0, 0, 0, 7, 0, 5, 'a'},
		"negative client id": {0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xfe}, "client id not UTF-8": header(18, 0, 7, new("\xff\xfe"), false),
		"long client id": header(18, 0, 7, new(strings.Repeat("c", 32767)), false), "negative correlation": header(18, 0, -1, &client, false),
		"an unknown key": header(999, 0, 7, &client, false), "a negative key": header(-1, 0, 7, &client, false), "key 4": header(4, 0, 7, &client, false),
		"key 56": header(56, 2, 7, &client, true), "key 58": header(58, 0, 7, &client, true), "key 52": header(52, 0, 7, &client, false), "key 71": append(header(71, 0, 7, &client, true), make([]byte, 17)...),
		"metadata v99": header(3, 99, 7, &client, true), "metadata v-1": header(3, -1, 7, &client, false), "produce v0": header(0, 0, 7, &client, false),
		"versions v0 with more behind": append(header(18, 0, 7, &client, false), 1, 2, 3),
		"versions v3 with more behind": append(bare(versions), 1, 2, 3),
		"versions v3 without a body":   header(18, 3, 7, &client, true),
		"versions v3 without tags":     header(18, 3, 7, &client, false),
		"metadata with more behind":    append(bare(metadata), 0, 1, 2),
		"metadata without a body":      header(3, 9, 7, &client, true),
		"metadata v0 without a body":   header(3, 0, 7, &client, false),
		"a tag in the header":          append(append(header(3, 9, 7, &client, false), 1, 5, 3, 1, 2, 3), metadata.AppendTo(nil)...),
		"two tags in the header":       append(append(header(3, 9, 7, &client, false), 2, 5, 0, 6, 0), metadata.AppendTo(nil)...),
		"a tag twice in the header":    append(append(header(3, 9, 7, &client, false), 2, 5, 0, 5, 0), metadata.AppendTo(nil)...),
		"tags out of order":            append(append(header(3, 9, 7, &client, false), 2, 6, 0, 5, 0), metadata.AppendTo(nil)...),
		"a tag that is cut off":        append(header(3, 9, 7, &client, false), 1, 5, 100, 1),
		"many tags promised":           append(header(3, 9, 7, &client, false), 0xff, 0xff, 0xff, 0xff, 0x07),
		"a varint without an end":      append(header(3, 9, 7, &client, false), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"tags in the body":             append(bare(metadata)[:len(bare(metadata))-1], 1, 9, 2, 1, 2),
		"tags in the body cut off":     append(bare(metadata)[:len(bare(metadata))-1], 1, 9, 20, 1, 2),
		"metadata of null topics":      bare(at(kmsg.NewPtrMetadataRequest(), 9)),
		"topics without number":        append(header(3, 9, 7, &client, true), 0xff, 0xff, 0xff, 0xff, 0x0f),
		"many topics v1":               append(header(3, 1, 7, &client, false), 0x7f, 0xff, 0xff, 0xff),
		"many topics and nothing":      append(header(3, 4, 7, &client, false), 0x00, 0x00, 0xff, 0xff),
		"minus two topics":             append(header(3, 4, 7, &client, false), 0xff, 0xff, 0xff, 0xfe, 1),
		"null topics v0":               append(header(3, 0, 7, &client, false), 0xff, 0xff, 0xff, 0xff),
		"a null topic's name":          append(header(3, 4, 7, &client, false), 0, 0, 0, 1, 0xff, 0xff, 1),
		"a null topic's name v9":       append(header(3, 9, 7, &client, true), 2, 0, 0, 1, 0, 0, 0),
		"a topic's name cut off":       append(header(3, 4, 7, &client, false), 0, 0, 0, 1, 0, 9, 'a'),
		"a topic's name not UTF-8":     append(header(3, 4, 7, &client, false), 0, 0, 0, 1, 0, 2, 0xff, 0xfe, 0),
		"a bool of 2":                  append(header(3, 4, 7, &client, false), 0, 0, 0, 0, 2),
		"groups null":                  append(header(15, 0, 7, &client, false), 0xff, 0xff, 0xff, 0xff),
		"groups many":                  append(header(15, 0, 7, &client, false), 0x10, 0, 0, 0),
		"a null group":                 append(header(15, 0, 7, &client, false), 0, 0, 0, 1, 0xff, 0xff),
		"a find coordinator of null":   append(header(10, 0, 7, &client, false), 0xff, 0xff),
		"a produce of no topics":       append(header(0, 3, 7, &client, false), 0xff, 0xff, 0, 1, 0, 0, 0, 100, 0, 0, 0, 0),
		"a produce of null topics":     append(header(0, 3, 7, &client, false), 0xff, 0xff, 0, 1, 0, 0, 0, 100, 0xff, 0xff, 0xff, 0xff),
		"a produce with acks of 5":     append(header(0, 3, 7, &client, false), 0xff, 0xff, 0, 5, 0, 0, 0, 100, 0, 0, 0, 0),
		"a fetch of null topics":       append(header(1, 4, 7, &client, false), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff),
		"an ACL filter of zeros":       append(header(29, 1, 7, &client, false), 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0, 0),
		"create topics of null":        append(header(19, 2, 7, &client, false), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0),
		"a response's shape":           {0, 0, 0, 7, 0, 0, 0, 0, 0, 0},
		"text":                         []byte("GET / HTTP/1.1\r\n\r\n"),
	}
	// Each prefix of a request is one that is cut off.
	whole := bare(at(updateFeatures(1, true, feature("metadata.version", 33, upgrade)), 1))
	for n := range len(whole) - 1 {
		if n%3 == 0 {
			all[fmt.Sprintf("UpdateFeatures of %d bytes", n)] = slices.Clone(whole[:n])
		}
	}
	return all
}

func TestMalformedRequestsEndAlike(t *testing.T) {
	b := shared(t)
	names := ordered(frames())
	for _, where := range []struct {
		area, listener string
		as             how
		every          int // of how many names one is tried: what differs is how a connection ends
	}{
		{"PLAINTEXT", "PLAINTEXT", how{}, 1},
		{"SSL", "SSL", how{}, 5},
		{"SASL_PLAINTEXT", "SASL_PLAINTEXT", how{noSASL: true}, 2},
		{"SASL_PLAINTEXT authenticated", "SASL_PLAINTEXT", how{}, 2},
	} {
		for i, name := range names {
			if i%where.every != 0 {
				continue
			}
			b.compare(t, "frames/"+where.area+"/"+name, func(t *testing.T, p *peer) any {
				c := p.dial(t, where.listener, where.as)
				if end := c.frame(frames()[name]); end != "" {
					return end
				}
				return c.told(patience)
			})
		}
	}
}

// A frame's length, and what comes in place of one.
func TestLengthsOfFramesAreJudgedAlike(t *testing.T) { //nolint:tparallel // its steps follow each other
	t.Parallel()
	b := pair(t, "socket.request.max.bytes=2000")
	whole := bare(apiVersions(3, "fidelity", "1"))
	sized := func(n int32, body []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, uint32(n)), body...)
	}
	padded := func(n int) []byte { return append(slices.Clone(whole), make([]byte, n-len(whole))...) }
	hello := helloOfTLS(t)
	for _, listener := range eachProtocol() {
		for name, raw := range map[string][]byte{
			"zero": sized(0, nil), "minus one": sized(-1, nil), "the least": sized(-1<<31, nil), "the most": sized(1<<31-1, nil),
			"too long": sized(2001, nil), "too long and there": sized(2001, make([]byte, 2001)), "as long as may be": sized(2000, padded(2000)),
			"one less": sized(1999, padded(1999)), "with a second behind": append(sized(int32(len(whole)), whole), sized(-5, nil)...),
			"with half a second behind": append(sized(int32(len(whole)), whole), 0, 0),
			"HTTP":                      []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "a newline": []byte("\r\n\r\n"), "SSH": []byte("SSH-2.0-OpenSSH_9.6\r\n"),
			"TLS": hello, "TLS cut off": hello[:5], "TLS 1.0 only": append([]byte{22, 3, 0}, hello[3:]...), "zeros": make([]byte, 64), "ones": bytes.Repeat([]byte{0xff}, 64),
		} {
			b.compare(t, "frames/lengths/"+listener+"/"+name, func(t *testing.T, p *peer) any {
				c := p.dial(t, listener, how{noSASL: true, bare: strings.HasPrefix(name, "TLS") && !strings.HasSuffix(listener, "SSL")})
				if end := c.bytes(raw); end != "" {
					return end
				}
				wait := patience
				if name == "too long" && strings.HasPrefix(listener, "SASL") { // there a frame may be longer, and is waited for
					wait = 2 * time.Second
				}
				return c.told(wait)
			})
		}
	}
	// Not Kafka's to a TLS port.
	for _, listener := range []string{"SSL", "SASL_SSL"} {
		for name, raw := range map[string][]byte{
			"a request": sized(int32(len(whole)), whole), "HTTP": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "five bytes": {1, 2, 3, 4, 5}, "zeros": make([]byte, 100),
			"a record too long": {22, 3, 1, 0xff, 0xff, 1}, "an alert": {21, 3, 3, 0, 2, 2, 0}, "data at first": {23, 3, 3, 0, 1, 0},
		} {
			b.compare(t, "frames/plain to TLS/"+listener+"/"+name, func(t *testing.T, p *peer) any {
				c := p.dial(t, listener, how{bare: true})
				if end := c.bytes(raw); end != "" {
					return end
				}
				first := c.ended(patience)
				if strings.Contains(first, "bytes") {
					return []any{first, strings.ReplaceAll(c.ended(patience), "reset", "EOF")}
				}
				return strings.ReplaceAll(first, "reset", "EOF")
			})
		}
	}
	// What is not whole yet is waited for, and is no end of the stream.
	for name, raw := range map[string][]byte{"nothing": nil, "half a length": {0, 0}, "a length": sized(40, nil), "half a request": sized(int32(len(whole)), whole[:9])} {
		b.compare(t, "frames/unfinished/"+name, func(t *testing.T, p *peer) any {
			c := p.dial(t, "PLAINTEXT", how{})
			if end := c.bytes(raw); end != "" {
				return end
			}
			return c.ended(1500 * time.Millisecond)
		})
	}
	// How a connection is closed when all that was sent has been read: with a FIN.
	for name, raw := range map[string][]byte{"zero": sized(0, nil), "unknown key": sized(10, header(999, 0, 7, nil, false)), "cut off": sized(4, []byte{0, 3, 0, 9})} {
		b.compare(t, "frames/fin/"+name, func(t *testing.T, p *peer) any {
			c := p.dial(t, "PLAINTEXT", how{})
			if end := c.bytes(raw); end != "" {
				return end
			}
			return c.ended(patience)
		})
	}
	// One after the other, all at once, in the order of their requests.
	b.compare(t, "frames/pipelined", func(t *testing.T, p *peer) any {
		c := p.dial(t, "PLAINTEXT", how{})
		var all []byte
		for i := range 20 {
			req := []kmsg.Request{apiVersions(0, "", ""), metadataRequest(4), at(kmsg.NewPtrDescribeClusterRequest(), 0)}[i%3]
			all = append(all, kmsg.NewRequestFormatter(kmsg.FormatterClientID("f")).AppendRequest(nil, req, int32(i))...)
		}
		if end := c.bytes(all); end != "" {
			return end
		}
		var seen []any
		for range 20 {
			b, end := c.read(patience)
			if end != "" || len(b) < 4 {
				return append(seen, end)
			}
			seen = append(seen, binary.BigEndian.Uint32(b))
		}
		return seen
	})
}

// helloOfTLS is the first message of a handshake, as it is on the wire.
func helloOfTLS(t *testing.T) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
	}()
	b := make([]byte, 4096)
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}
