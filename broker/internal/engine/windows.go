package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxWindows bounds what is remembered of producers, to some 15 MB.
const maxWindows = 1 << 16

// windows remembers which batches each idempotent producer has sent last to each partition, so that one that is sent
// again is known.
//
// kfake knows it too, but holds a producer's epoch for all partitions, Kafka for each: a client raises its epoch after
// an error and begins it in one partition, while in another a batch that was written and not answered is sent again
// under the epoch before. kfake says that the epoch is over, and the client writes the batch anew. It is let to decide
// all the same, so that leaders, sizes and gaps are looked at first; only that answer is corrected.
//
// Transactions have no part in this: there such an answer is the fence. The zero value is empty; safe for concurrent use.
type windows struct {
	mu  sync.Mutex
	all map[windowKey]*seqWindow
}

// windowKey names one by the topic's id: a topic that is made again has none.
type windowKey struct {
	pid   int64
	topic [16]byte
	part  int32
}

// settle learns from the answers to a request's batches, and corrects those to batches that are there already. The
// request's topics have both name and id, the answer's the name.
func (w *windows) settle(req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) {
	if !idempotent(req) || len(req.Topics) != len(resp.Topics) {
		return // who names a topic twice is not helped
	}
	var byName map[string]int // which answer is a topic's, where there are several: they come in any order
	if len(req.Topics) > 1 {
		byName = make(map[string]int, len(resp.Topics))
		for i := range resp.Topics {
			byName[resp.Topics[i].Topic] = i
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range req.Topics {
		t := &req.Topics[i]
		if r := &resp.Topics[byName[t.Topic]]; r.Topic == t.Topic && t.TopicID != [16]byte{} {
			w.settleTopic(t, r.Partitions)
		}
	}
}

// idempotent tells whether any batch has a producer id.
func idempotent(req *kmsg.ProduceRequest) bool {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if producerOf(req.Topics[i].Partitions[j].Records) >= 0 {
				return true
			}
		}
	}
	return false
}

func producerOf(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch[batchPIDAt:])) }

// settleTopic wants w.mu.
func (w *windows) settleTopic(t *kmsg.ProduceRequestTopic, answers []kmsg.ProduceResponseTopicPartition) {
	if len(answers) != len(t.Partitions) {
		return // nor is who names a partition twice
	}
	for i := range answers {
		a, p := &answers[i], &t.Partitions[i]
		told := a.ErrorCode == 0 || a.ErrorCode == kerr.InvalidProducerEpoch.Code
		if pid := producerOf(p.Records); pid >= 0 && told && a.Partition == p.Partition {
			w.settleBatch(windowKey{pid, t.TopicID, p.Partition}, p.Records, a)
		}
	}
}

// settleBatch wants w.mu.
func (w *windows) settleBatch(key windowKey, batch []byte, a *kmsg.ProduceResponseTopicPartition) {
	epoch := int16(binary.BigEndian.Uint16(batch[batchEpochAt:]))
	first := int32(binary.BigEndian.Uint32(batch[batchSequenceAt:]))
	count := int32(binary.BigEndian.Uint32(batch[batchCountAt:]))
	transactional := binary.BigEndian.Uint16(batch[batchAttributesAt:])&attrTransaction != 0
	written := a.ErrorCode == 0
	known := w.all[key]
	switch {
	case transactional:
		if written {
			delete(w.all, key) // out of date, if there is one: recovery makes them of transactions too
		}
	case known == nil:
		if written {
			known = &seqWindow{}
			known.push(epoch, first, count, a.BaseOffset)
			w.put(key, known)
		}
	case epoch < known.Epoch: // an answer that another has overtaken, or a producer that is fenced here too
	case written:
		if _, again := known.find(epoch, first, count); !again {
			known.push(epoch, first, count, a.BaseOffset)
		}
	default:
		if offset, again := known.find(epoch, first, count); again {
			*a = kmsg.NewProduceResponseTopicPartition() // as kfake's own answer to what it knows
			a.Partition, a.BaseOffset = key.part, offset
		}
	}
}

// put adds a window; some other one goes where there are too many. It wants w.mu.
func (w *windows) put(key windowKey, window *seqWindow) {
	if w.all == nil {
		w.all = map[windowKey]*seqWindow{}
	}
	if len(w.all) >= maxWindows {
		for other := range w.all {
			delete(w.all, other)
			break
		}
	}
	w.all[key] = window
}

// load takes in what was kept of the topics that there are. It keeps the windows themselves.
func (w *windows) load(kept []*seqWindow, id func(topic string) ([16]byte, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, window := range kept {
		topic, there := id(window.Topic)
		if !there || !window.Seen || window.Count > windowSlots || window.At >= windowSlots {
			continue
		}
		window.Topic = "" // the key has its id
		w.put(windowKey{window.PID, topic, window.Part}, window)
	}
}

// readWindows reads what kfake kept at a clean stop.
func readWindows(path string) ([]*seqWindow, error) {
	file := filepath.Join(path, windowsFile)
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the producers: %w", err)
	}
	var kept keptWindows
	if err := json.Unmarshal(raw, &kept); err != nil {
		return nil, fmt.Errorf("read the producers from %s: %w", file, err)
	}
	return kept.Windows, nil
}
