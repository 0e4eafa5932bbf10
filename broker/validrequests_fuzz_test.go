package broker_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// FuzzValidRequests sends requests of every key and version that the broker says it serves, valid in form and random in
// content, over real connections to a broker of their own, so that a seed always gives the same. Each is answered or
// its connection closed, what the broker holds stays within a bound, and it goes on serving others.
func FuzzValidRequests(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint8(60))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		b := serveAlone(t)
		other := dial(t, b.Addr("PLAINTEXT"))
		served := ask[*kmsg.ApiVersionsResponse](other, versionsRequest(3)).ApiKeys
		before := heap()
		g := &filler{Rand: rand.New(rand.NewPCG(seed, 0))}
		r := dial(t, b.Addr("PLAINTEXT"))
		for range n {
			row := served[g.IntN(len(served))]
			req := requestFor(row.ApiKey)
			if req == nil {
				t.Fatalf("key %d is served, but the test has no request for it", row.ApiKey)
			}
			req.SetVersion(row.MinVersion + int16(g.IntN(int(row.MaxVersion-row.MinVersion)+1)))
			g.fill(reflect.ValueOf(req).Elem())
			if shut, ok := req.(*protocol.CloseConnectionsRequest); ok {
				shut.ValidateOnly = true // what it is for would be no fault: to close the others
			}
			r.frame(req.Key(), req.GetVersion(), req.IsFlexible(), req.AppendTo(nil))
			// A long poll is cut off by hanging up.
			if err := r.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.answer(false); err != nil {
				r.close()
				r = dial(t, b.Addr("PLAINTEXT"))
			}
			// What requests of some hundred bytes may make a broker hold: far more than it needs, far less than they can claim.
			const most = 512 << 20
			if after := heap(); after > before+most {
				t.Fatalf("after %s v%d the heap = %d MiB, before %d MiB", kmsg.NameForKey(req.Key()), req.GetVersion(), after>>20, before>>20)
			}
		}
		r.close()
		if resp := ask[*kmsg.ApiVersionsResponse](other, versionsRequest(3)); resp.ErrorCode != 0 {
			t.Errorf("afterwards ApiVersions = error %d", resp.ErrorCode)
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Version = 12
		if resp := ask[*kmsg.MetadataResponse](other, metadata); len(resp.Brokers) != 1 {
			t.Errorf("afterwards Metadata names %d brokers, want 1", len(resp.Brokers))
		}
	})
}

// FuzzSoftwareNames sends any name and version of client software. What KIP-511 allows is kept, everything else refused
// with INVALID_REQUEST on a connection that goes on.
func FuzzSoftwareNames(f *testing.F) {
	b := serveAlone(f)
	for _, s := range []string{"apache-kafka-java", "", "-", "a.", "ä", "\x1b[2J", "<script>", "a\x00b", "v1.2-rc"} {
		f.Add(s, "1.0")
		f.Add("librdkafka", s)
	}
	allowed := regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`) // KIP-511's, which Go's $ takes as \z
	f.Fuzz(func(t *testing.T, name, version string) {
		if len(name)+len(version) > 1<<16 {
			return
		}
		r := dial(t, b.Addr("PLAINTEXT"))
		defer r.close()
		req := versionsRequest(3)
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, version
		want := int16(0)
		if !allowed.MatchString(name) || !allowed.MatchString(version) {
			want = 42 // INVALID_REQUEST
		}
		if got := ask[*kmsg.ApiVersionsResponse](r, req).ErrorCode; got != want {
			t.Errorf("ApiVersions of %q %q = error %d, want %d", name, version, got, want)
		}
		list := ask[*protocol.ListClientConnectionsResponse](r, protocol.NewPtrListClientConnectionsRequest())
		for i := range list.Connections {
			for _, s := range []string{list.Connections[i].SoftwareName, list.Connections[i].SoftwareVersion} {
				if s != "" && !allowed.MatchString(s) {
					t.Errorf("the list has software %q", s)
				}
			}
		}
	})
}

// serveAlone starts a broker in memory that ends with tb.
func serveAlone(tb testing.TB) *broker.Broker {
	tb.Helper()
	b, err := broker.New(plainConfig())
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	go func() { served <- b.Serve(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			tb.Errorf("Serve() = %v", err)
		}
	})
	<-b.Ready()
	return b
}

// requestFor is an empty request of a served key, Kafka's or ours.
func requestFor(key int16) kmsg.Request {
	for _, ours := range []kmsg.Request{
		protocol.NewPtrListClientConnectionsRequest(), protocol.NewPtrDescribeConnectionsRequest(), protocol.NewPtrDescribeKernelRequest(),
		protocol.NewPtrDescribeClosedConnectionsRequest(), protocol.NewPtrDescribeLimitsRequest(), protocol.NewPtrCloseConnectionsRequest(),
		protocol.NewPtrDescribeConnectionTimelineRequest(), protocol.NewPtrDescribeClientConfigsRequest(), protocol.NewPtrDescribeMetadataRequest(),
	} {
		if ours.Key() == key {
			return ours
		}
	}
	return kmsg.RequestForKey(key)
}

// heap is what live and not yet collected objects take, in bytes.
func heap() uint64 {
	s := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(s)
	return s[0].Value.Uint64()
}

// filler gives every field of a message a random value of its type.
type filler struct {
	*rand.Rand
	more []string // texts beside the usual ones
}

func (g *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name != "Version" && name != "UnknownTags" && v.Type().Field(i).IsExported() {
				g.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if g.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(g.bytes())
			return
		}
		if n := g.IntN(5) - 1; n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				g.fill(v.Index(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(g.IntN(256)))
		}
	case reflect.String:
		v.SetString(g.text())
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, math.Inf(1), math.NaN(), g.Float64()}[g.IntN(6)])
	default:
		if !v.CanInt() {
			panic("no way to fill a " + v.Kind().String())
		}
		bits := v.Type().Bits()
		v.SetInt([]int64{
			0, 0, 1, -1, int64(g.IntN(10)), math.MaxInt64 >> (64 - bits), math.MinInt64 >> (64 - bits), int64(g.Uint64()) >> (64 - bits) >> g.IntN(bits),
		}[g.IntN(8)])
	}
}

func (g *filler) text() string {
	texts := []string{
		"", "t", "t", "u", "User:alice", "User:*", "*", "1", "-1", "PLAIN", "SCRAM-SHA-256", "consumer", "range", "retention.ms", "listeners", "max.connections",
		"num.network.threads", "PLAINTEXT://127.0.0.1:0", "10.0.0.0/8", "::1", "\x00", "ä", "99999999999999999999", "metadata.version", "ip", "client-id", "user",
	}
	texts = append(texts, g.more...)
	i := g.IntN(len(texts) + 1)
	if i == len(texts) {
		return fmt.Sprintf("n%d", g.IntN(1000))
	}
	return texts[i]
}

func (g *filler) bytes() []byte {
	b := make([]byte, g.IntN(120))
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}
