package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzNoRequestEndsTheEngine sends requests of every served API and version, valid in form and random in content. The
// data plane runs in this process, so that a panic in it fails the test; afterwards it must still answer.
func FuzzNoRequestEndsTheEngine(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, uint8(60))
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		e := openEngine(t, Options{NodeID: int32(seed % 2)})
		g := newGenerator(e, seed)
		for range 3 {
			g.ids = append(g.ids, createTopic(t, e, fmt.Sprintf("t%d", len(g.ids)), 2))
		}
		g.ids = append(g.ids, [16]byte{}, [16]byte{1}, [16]byte{2})
		clients := make([]*Client, 3)
		for i := range clients {
			clients[i] = e.Client(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 1), "fuzz")
		}
		for range int(n) {
			c := &clients[g.IntN(len(clients))]
			req := g.request()
			answered := make(chan struct{})
			(*c).Do(req, func(resp kmsg.Response, err error) {
				defer close(answered)
				if err == nil && resp.Key() != req.Key() {
					t.Errorf("key %d was answered with key %d", req.Key(), resp.Key())
				}
				if err == nil && resp.GetVersion() != req.GetVersion() {
					t.Errorf("key %d version %d was answered in version %d", req.Key(), req.GetVersion(), resp.GetVersion())
				}
				if err == nil {
					resp.AppendTo(nil)
					g.harvest(reflect.ValueOf(resp).Elem())
				}
			})
			select {
			case <-answered:
			case <-time.After(5 * time.Millisecond): // a long poll: its client leaves
				(*c).Close()
				<-answered
				*c = e.Client(netip.AddrPort{}, "fuzz")
			}
		}
		for _, c := range clients {
			c.Close()
		}
		ask[*kmsg.MetadataResponse](t, e, kmsg.NewPtrMetadataRequest())
	})
}

// generator makes random messages of kmsg's types.
// What answers name is used again, so that members, producers and sessions live on.
type generator struct {
	*rand.Rand
	keys     []int16
	versions map[int16]VersionRange
	ids      [][16]byte
	texts    []string
	numbers  []int64
}

// harvest keeps names and numbers of an answer.
func (g *generator) harvest(v reflect.Value) {
	const most = 40
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				g.harvest(v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			g.harvest(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range min(v.Len(), 3) {
				g.harvest(v.Index(i))
			}
		}
	case reflect.String:
		if s := v.String(); len(s) > 20 && len(s) < 80 && !slices.Contains(g.texts, s) {
			g.texts = append(g.texts, s)
			g.texts = g.texts[max(0, len(g.texts)-most):]
		}
	case reflect.Int32, reflect.Int64:
		if n := v.Int(); n > 1 && !slices.Contains(g.numbers, n) {
			g.numbers = append(g.numbers, n)
			g.numbers = g.numbers[max(0, len(g.numbers)-most):]
		}
	default:
	}
}

func newGenerator(e *Engine, seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), versions: e.Versions()}
	for k := range g.versions {
		g.keys = append(g.keys, k)
	}
	slices.Sort(g.keys)
	return g
}

func (g *generator) request() kmsg.Request {
	key := g.keys[g.IntN(len(g.keys))]
	v := g.versions[key]
	req := kmsg.RequestForKey(key)
	req.SetVersion(v.Min + int16(g.IntN(int(v.Max-v.Min)+1)))
	g.fill(reflect.ValueOf(req).Elem())
	return req
}

func (g *generator) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok && g.IntN(2) == 0 && v.Type().Name() != "" {
			keep := v.FieldByName("Version")
			if !keep.IsValid() {
				d.Default()
			}
		}
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "Version", "UnknownTags":
			default:
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
		n := g.IntN(5) - 1
		if n < 0 {
			return
		}
		s := reflect.MakeSlice(v.Type(), n, n)
		for i := range n {
			g.fill(s.Index(i))
		}
		v.Set(s)
	case reflect.Array:
		v.Set(reflect.ValueOf(g.ids[g.IntN(len(g.ids))]))
	case reflect.String:
		v.SetString(g.text())
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(g.Float64())
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(g.int(v.Type().Bits()))
	default:
		panic("no way to fill a " + v.Kind().String())
	}
}

func (g *generator) int(bits int) int64 {
	switch g.IntN(9) {
	case 8:
		if len(g.numbers) > 0 {
			return g.numbers[g.IntN(len(g.numbers))] << (64 - bits) >> (64 - bits)
		}
		return 1
	case 0:
		return -1
	case 1, 2, 3:
		return 0
	case 4:
		return int64(g.IntN(6))
	case 5:
		return math.MaxInt64 >> (64 - bits)
	case 6:
		return math.MinInt64 >> (64 - bits)
	default:
		return int64(g.Uint64()) >> (64 - bits) >> g.IntN(bits)
	}
}

func (g *generator) text() string {
	if len(g.texts) > 0 && g.IntN(3) == 0 {
		return g.texts[g.IntN(len(g.texts))]
	}
	pool := []string{
		"", "t0", "t1", "t2", "t0", "t1", "new", "new2", "missing", "g", "g", "g", "h", "s", "s", "AAAAAAAAAAAAAAAAAAAAAQ",
		"consumer", "range", "share", "uniform", "earliest", "1", "-1", "999999999999999999", "cleanup.policy", "compact",
		"retention.ms", "segment.bytes", "share.auto.offset.reset", "log.cleaner.backoff.ms", "\x00", "ä", "tx",
	}
	return pool[g.IntN(len(pool))]
}

func (g *generator) bytes() []byte {
	switch g.IntN(5) {
	case 0:
		return nil
	case 1:
		b := make([]byte, g.IntN(80))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return b
	case 2:
		m := kmsg.NewConsumerMemberMetadata()
		m.Topics = []string{"t0", "t1"}
		return m.AppendTo(nil)
	case 3:
		return makeBatch(int32(1+g.IntN(3)), int64(g.IntN(3)), int16(g.IntN(2)), int32(g.IntN(3)))
	default:
		b := goodBatch(int32(1 + g.IntN(3)))
		if g.IntN(3) == 0 {
			b[g.IntN(len(b))] ^= byte(g.Uint32())
			return seal(b)
		}
		return b
	}
}
