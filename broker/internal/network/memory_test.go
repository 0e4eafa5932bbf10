package network

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The memory of an idle connection is measured in processes of their own: a
// server that holds the connections and nothing else, and a client that makes
// each of them send one request of 16 KB and then keeps silent. The test binary
// plays both, by this variable.
const roleVariable = "BROKERLAB_MEMORY_ROLE"

const memoryRequest = 16 << 10

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		m.Run()
	case "client":
		err = memoryClient(os.Args[1], os.Args[2], os.Args[3])
	default:
		err = memoryServer(role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// memoryServers are the servers that are compared.
var memoryServers = []string{"plaintext", "tls", "half-hello", "goroutines"}

// halfHello starts a ClientHello of 512 bytes.
const halfHello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on, for fewer bytes than were announced"

// memoryServer serves, prints its address, and answers each line on its
// standard input with its resident set; all as JSON.
func memoryServer(kind string) error {
	out := json.NewEncoder(os.Stdout)
	addr, err := startMemoryServer(kind)
	if err != nil {
		return err
	}
	if err := out.Encode(addr); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "settled" {
			for range 4 {
				runtime.GC()
			}
			debug.FreeOSMemory()
		}
		used, usedErr := ownUsage()
		if usedErr != nil {
			return usedErr
		}
		if err := out.Encode(used); err != nil {
			return err
		}
	}
	return nil
}

func startMemoryServer(kind string) (addr string, err error) {
	keys, err := makePKI()
	if err != nil {
		return "", err
	}
	config := keys.serverConfig()
	if kind == "goroutines" {
		ln, listenErr := tls.Listen("tcp", "127.0.0.1:0", config)
		if listenErr != nil {
			return "", listenErr
		}
		go goroutinePerConnection(ln)
		return ln.Addr().String(), nil
	}
	l := Listener{Name: "BENCH", Host: "127.0.0.1", Backlog: 1000}
	if kind == "tls" || kind == "half-hello" {
		l.Protocol, l.TLS = SSL, func() *tls.Config { return config }
	}
	s := New(Options{Handler: &echo{}})
	bound, err := s.Listen(l)
	if err != nil {
		return "", err
	}
	s.Start()
	return bound.String(), nil
}

// goroutinePerConnection is the server that one would write first.
func goroutinePerConnection(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			var size [4]byte
			for {
				if _, err := io.ReadFull(conn, size[:]); err != nil {
					return
				}
				body := make([]byte, binary.BigEndian.Uint32(size[:]))
				if _, err := io.ReadFull(conn, body); err != nil {
					return
				}
				if _, err := conn.Write(framed(body)); err != nil {
					return
				}
			}
		}()
	}
}

// memoryClient opens connections, sends a request over each, says so, and holds
// them until its standard input ends.
func memoryClient(kind, addr, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	const workers = 16
	errs := make([]error, workers)
	held := make([][]net.Conn, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range n / workers {
				conn, dialErr := memoryRoundTrip(kind, addr)
				if dialErr != nil {
					errs[w] = dialErr
					return
				}
				held[w] = append(held[w], conn)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode("ready"); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(held)
	return nil
}

func memoryRoundTrip(kind, addr string) (net.Conn, error) {
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	conn := raw
	switch kind {
	case "half-hello":
		_, err = io.WriteString(raw, halfHello)
		return raw, err
	case "plaintext":
	default:
		conn = tls.Client(raw, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}})
	}
	if _, err = conn.Write(framed(make([]byte, memoryRequest))); err != nil {
		return nil, err
	}
	_, err = io.ReadFull(conn, make([]byte, 4+memoryRequest))
	return raw, err
}

// usage is what a process has used: bytes of resident set, and nanoseconds of
// processor time.
type usage struct{ RSS, CPU int64 }

func ownUsage() (usage, error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return usage{}, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	if err != nil {
		return usage{}, err
	}
	var spent unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &spent); err != nil {
		return usage{}, err
	}
	return usage{RSS: pages * int64(os.Getpagesize()), CPU: spent.Utime.Nano() + spent.Stime.Nano()}, nil
}

// role starts this binary in a role. It ends when its input is closed.
func role(ctx context.Context, tb testing.TB, name string, args ...string) (in io.Writer, out *json.Decoder) {
	tb.Helper()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return stdin, json.NewDecoder(stdout)
}

// costs are those of one connection: bytes right after the last one has
// connected, bytes when the collector has settled, and microseconds of the
// server's processor until then.
type costs struct{ storm, settled, micros int64 }

// costsPerConnection measures a server with n idle connections.
func costsPerConnection(tb testing.TB, kind string, n int) costs {
	tb.Helper()
	receive := func(from *json.Decoder, v any) {
		tb.Helper()
		if err := from.Decode(v); err != nil {
			tb.Fatalf("%s ended: %v", kind, err)
		}
	}
	in, out := role(tb.Context(), tb, kind)
	var addr string
	receive(out, &addr)
	measure := func(how string) usage {
		tb.Helper()
		if _, err := fmt.Fprintln(in, how); err != nil {
			tb.Fatal(err)
		}
		var used usage
		receive(out, &used)
		return used
	}
	connect := func(n int) {
		tb.Helper()
		_, out := role(tb.Context(), tb, "client", kind, addr, strconv.Itoa(n))
		var ready string
		receive(out, &ready)
	}
	connect(160) // so that what is paid once is paid
	before := measure("settled")
	connect(n)
	after := measure("at once")
	per := int64(n)
	return costs{
		storm:   (after.RSS - before.RSS) / per,
		micros:  (after.CPU - before.CPU) / per / 1000,
		settled: (measure("settled").RSS - before.RSS) / per,
	}
}

func BenchmarkIdleConnectionMemory(b *testing.B) {
	const connections = 8000
	for _, kind := range memoryServers {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				cost := costsPerConnection(b, kind, connections)
				b.ReportMetric(float64(cost.storm), "storm-B/conn")
				b.ReportMetric(float64(cost.settled), "settled-B/conn")
				b.ReportMetric(float64(cost.micros), "cpu-us/conn")
			}
		})
	}
}

func TestIdleConnectionsCostLittleMemory(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's own memory would be measured")
	}
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const connections = 2000
	settled := map[string]int64{}
	for _, kind := range memoryServers {
		settled[kind] = costsPerConnection(t, kind, connections).settled
	}
	t.Logf("bytes of resident set per idle connection: %v", settled)
	if got := settled["plaintext"]; got > 1500 {
		t.Errorf("idle plaintext connection = %d bytes, want at most 1500", got)
	}
	if got := settled["tls"]; got > 5500 {
		t.Errorf("idle TLS 1.3 connection = %d bytes, want at most 5500", got)
	}
	if got := settled["half-hello"]; got > 2000 {
		t.Errorf("half a ClientHello = %d bytes, want at most 2000", got)
	}
	if got, other := settled["tls"], settled["goroutines"]; got*4 > other {
		t.Errorf("idle TLS 1.3 connection = %d bytes, want at most a quarter of the %d with a goroutine each", got, other)
	}
}
