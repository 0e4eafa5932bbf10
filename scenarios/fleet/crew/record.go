package crew

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kind is what a record is for.
type kind string

const (
	offered kind = "offer" // coordinator: who has this partition may have its share; the value says who offers
	taken   kind = "take"  // worker: I have it; the value says who I am
	data    kind = "data"  // the next piece of what goes to the worker, or comes from it
	ended   kind = "end"   // nothing follows; of a worker the value says why, and is empty where all went well
)

// record is one of the topic's, or of the reports'. All but the value are headers.
type record struct {
	kind  kind
	run   string // member id of the coordinator
	share int32  // the partition of the share
	of    int32  // how many shares there are
	from  string // member id of who has written it
	to    string // member id of whom it is for; "" for whoever has the partition
	seq   int64  // of a piece, from 0 on
	value []byte
}

// most is how long a record's value may be, and how long a piece of a line is at most: below message.max.bytes of any cluster.
const (
	most  = 1 << 20
	piece = 512 << 10
)

func (r *record) write(topic string, partition int32) *kgo.Record {
	h := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	return &kgo.Record{
		Topic: topic, Partition: partition,
		Key: fmt.Appendf(nil, "%s/%d", r.run, r.share), Value: r.value,
		Headers: []kgo.RecordHeader{
			h("kind", string(r.kind)), h("run", r.run), h("share", strconv.Itoa(int(r.share))), h("of", strconv.Itoa(int(r.of))),
			h("from", r.from), h("to", r.to), h("seq", strconv.FormatInt(r.seq, 10)),
		},
	}
}

// read takes a record apart. It believes nothing: an error says what a record that is none of ours has.
func read(k *kgo.Record) (*record, error) {
	r := &record{value: k.Value, share: -1}
	var errs []error
	for _, h := range k.Headers {
		text := string(h.Value)
		switch h.Key {
		case "kind":
			r.kind = kind(text)
		case "run":
			r.run = text
		case "from":
			r.from = text
		case "to":
			r.to = text
		case "share":
			r.share = number[int32](text, &errs)
		case "of":
			r.of = number[int32](text, &errs)
		case "seq":
			r.seq = number[int64](text, &errs)
		}
	}
	switch r.kind {
	case offered, taken, data, ended:
	default:
		errs = append(errs, fmt.Errorf("kind %.20q", r.kind))
	}
	if r.run == "" || r.from == "" || r.share < 0 || len(r.value) > most {
		errs = append(errs, errors.New("no run, no sender, no share, or too long a value"))
	}
	return r, errors.Join(errs...)
}

func number[N int32 | int64](text string, errs *[]error) N {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || int64(N(n)) != n {
		*errs = append(*errs, fmt.Errorf("number %.20q", text))
	}
	return N(n)
}

// strangers counts records that are none of ours, and says so at the first and then ever more rarely.
type strangers struct {
	count int
	say   func(string)
}

func (s *strangers) met(k *kgo.Record, err error) {
	s.count++
	if s.count&(s.count-1) == 0 { // a power of two
		s.say(fmt.Sprintf("topic %s, partition %d, offset %d: a record that is none of ours (%s); %d so far, all left alone",
			k.Topic, k.Partition, k.Offset, strings.ReplaceAll(err.Error(), "\n", "; "), s.count))
	}
}
