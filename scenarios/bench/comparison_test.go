package bench

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// comparisonEnv, when set to "ADDRESS STORE COMPARISON", makes the test binary a comparison server.
const comparisonEnv = "BROKERLAB_BENCH_COMPARISON"

// What a comparison server is to be compared for.
const (
	liveMemory = "live-memory" // gives memory back as often as it can: live memory, not garbage
	processor  = "processor"   // does nothing but serve
)

func TestMain(m *testing.M) {
	if plan := os.Getenv(comparisonEnv); plan != "" {
		words := strings.Fields(plan)
		fmt.Fprintln(os.Stderr, serveGoroutines(words[0], words[1], words[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveGoroutines is what most Go servers are: crypto/tls and a goroutine a connection, which reads a frame into a buffer
// of the frame's own and answers. It knows just enough of Kafka for the fleet's clients.
func serveGoroutines(address, store, comparison string) error {
	pair, err := tls.LoadX509KeyPair(store, store)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	if comparison == liveMemory {
		go func() {
			for range time.Tick(2 * time.Second) {
				debug.FreeOSMemory()
			}
		}()
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(tls.Server(c, config))
	}
}

func answer(c net.Conn) {
	defer c.Close()
	var size [4]byte
	for {
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(size[:])
		if n < 8 || n > 1<<20 {
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		if _, err := c.Write(response(frame)); err != nil {
			return
		}
	}
}

// response answers ApiVersions v3 and Metadata with the least that is well-formed.
func response(frame []byte) []byte {
	key, version := int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))
	out := append(make([]byte, 4, 256), frame[4:8]...)
	if key == int16(kmsg.ApiVersions) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.SetVersion(version)
		for _, k := range []kmsg.Key{kmsg.ApiVersions, kmsg.Metadata} {
			one := kmsg.NewApiVersionsResponseApiKey()
			one.ApiKey, one.MaxVersion = int16(k), 9
			resp.ApiKeys = append(resp.ApiKeys, one)
		}
		out = resp.AppendTo(out)
	} else {
		resp := kmsg.NewPtrMetadataResponse()
		resp.SetVersion(version)
		if resp.IsFlexible() {
			out = append(out, 0)
		}
		out = resp.AppendTo(out)
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
