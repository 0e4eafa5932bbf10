package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// Files of a data directory. The others are kfake's: meta.json, topics.json, partitions/<topic>-<n>/<offset>.dat …
const (
	lockFile      = "engine.lock"
	cleanFile     = "engine.clean" // there after a clean stop and while nothing has been changed since
	metaFile      = "meta.json"
	windowsFile   = "seq_windows.json"
	configsFile   = "broker_configs.json"
	pidsFile      = "pids.log"
	segmentSuffix = ".dat"
	windowSlots   = 5 // batches of a producer that are known to have been appended, as in Kafka
)

// dataDir is the directory of an engine that keeps its records: locked while the engine is open, and marked when it
// was stopped cleanly. A nil dataDir is that of an engine in memory.
type dataDir struct {
	path    string
	lock    *os.File
	orphans []orphan
	windows []*seqWindow // what the producers sent last, until it is loaded
}

// orphan is a transaction that was open in one partition when the broker ended without a clean stop.
type orphan struct {
	pid   int64
	topic string
	part  int32
}

// openDataDir locks a directory and makes it ready for kfake.
//
// kfake saves what idempotent producers sent last at a clean stop only. After any other end the file is missing or,
// worse, older than the log, and a producer that goes on is refused; so it is made again from the batches' headers.
func openDataDir(path, clusterID string, log *slog.Logger) (_ *dataDir, err error) {
	if err = os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	d := &dataDir{path: path, lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.release())
		}
	}()
	if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock data directory %s, is another broker using it? %w", path, err)
	}
	used, err := checkCluster(path, clusterID)
	if err != nil || !used {
		return d, err
	}
	// kfake would go on with properties that were taken out of the broker's configuration.
	if err = os.Remove(filepath.Join(path, configsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("forget the configuration before: %w", err)
	}
	err = os.Remove(filepath.Join(path, cleanFile))
	switch {
	case err == nil:
		if d.windows, err = readWindows(path); err != nil {
			return nil, err
		}
		return d, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("unmark data directory: %w", err)
	}
	var found producers
	if err = found.read(path); err == nil {
		err = found.write(path)
	}
	if err != nil {
		return nil, fmt.Errorf("recover the producers of %s: %w", path, err)
	}
	d.orphans, d.windows = found.open, found.windows
	log.Info("the broker was not stopped cleanly, its producers were recovered from the log",
		slog.String("dir", path), slog.Int("producers", len(found.windows)), slog.Int("open_transactions", len(found.open)))
	return d, nil
}

// checkCluster tells whether there is data, and that it is this cluster's.
func checkCluster(path, clusterID string) (used bool, err error) {
	raw, err := os.ReadFile(filepath.Join(path, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read cluster id: %w", err)
	}
	var meta struct {
		ClusterID string `json:"cluster_id"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return false, fmt.Errorf("read cluster id from %s: %w", filepath.Join(path, metaFile), err)
	}
	if meta.ClusterID != clusterID {
		return false, fmt.Errorf("data directory %s belongs to cluster %q, this broker to %q", path, meta.ClusterID, clusterID)
	}
	return true, nil
}

// markClean says that everything was saved.
func (d *dataDir) markClean() error {
	if d == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(d.path, cleanFile), nil, 0o600); err != nil {
		return fmt.Errorf("mark data directory: %w", err)
	}
	return nil
}

// release unlocks the directory.
func (d *dataDir) release() error {
	if d == nil {
		return nil
	}
	// Unlocked by name: a child of this process may hold a copy of the file between fork and exec.
	return errors.Join(unix.Flock(int(d.lock.Fd()), unix.LOCK_UN), d.lock.Close())
}

// partitionsByFiles is how many partitions leave most of the files that this process may open to others.
func partitionsByFiles() int {
	const share = 8
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return maxNewPartitions
	}
	return int(min(limit.Cur, 1<<30) / share)
}

// disk tells the directory and the size of its disk, -1 when that is not known.
func (d *dataDir) disk() (path string, total, usable int64) {
	if d == nil {
		return "memory", -1, -1
	}
	var s unix.Statfs_t
	if err := unix.Statfs(d.path, &s); err != nil {
		return d.path, -1, -1
	}
	return d.path, int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize
}

// keptWindows is kfake's file of them.
type keptWindows struct {
	Version int          `json:"version"`
	Windows []*seqWindow `json:"windows"`
}

// seqWindow is what one producer sent last to one partition, in kfake's own file format.
type seqWindow struct {
	PID     int64              `json:"pid"`
	Topic   string             `json:"topic"`
	Part    int32              `json:"partition"`
	Entries [windowSlots]seqIn `json:"entries"`
	Count   uint8              `json:"count"`
	At      uint8              `json:"at"`
	Epoch   int16              `json:"epoch"`
	Seen    bool               `json:"seen"`
	NextSeq int32              `json:"next_seq"`
}

// seqIn is one batch: its first sequence, the one after its last, and its offset.
type seqIn struct {
	FirstSeq int32 `json:"first_seq"`
	NextSeq  int32 `json:"next_seq"`
	Offset   int64 `json:"offset"`
}

// push does what kfake did when it appended the batch.
func (w *seqWindow) push(epoch int16, first, count int32, offset int64) {
	in := seqIn{FirstSeq: first, NextSeq: sequenceAfter(first, count), Offset: offset}
	if !w.Seen || epoch != w.Epoch {
		w.Seen, w.Epoch = true, epoch
		w.Entries = [windowSlots]seqIn{}
		w.At, w.Count = 0, 0
	}
	w.NextSeq = in.NextSeq
	w.Entries[w.At] = in
	w.At = (w.At + 1) % windowSlots
	w.Count = min(w.Count+1, windowSlots)
}

// find looks for a batch and tells its offset.
func (w *seqWindow) find(epoch int16, first, count int32) (offset int64, found bool) {
	if epoch != w.Epoch {
		return 0, false
	}
	next := sequenceAfter(first, count)
	for i := range w.Entries[:w.Count] {
		if in := &w.Entries[i]; in.FirstSeq == first && in.NextSeq == next {
			return in.Offset, true
		}
	}
	return 0, false
}

// sequenceAfter is the sequence of the batch after one, as kfake wraps it.
func sequenceAfter(first, count int32) int32 {
	const wrap = 1<<31 - 1
	return int32((int64(first) + int64(count)) % wrap)
}

// producers is what the batches' headers tell of who wrote them.
type producers struct {
	windows []*seqWindow
	open    []orphan
}

// read reads the headers of all batches of a data directory.
func (p *producers) read(path string) error {
	dirs, err := os.ReadDir(filepath.Join(path, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range dirs {
		topic, part, ok := parsePartition(dir.Name())
		if !ok {
			continue
		}
		if err := p.readPartition(filepath.Join(path, "partitions", dir.Name()), topic, part); err != nil {
			return fmt.Errorf("partition %s-%d: %w", topic, part, err)
		}
	}
	return nil
}

// write leaves the windows where kfake looks for them.
func (p *producers) write(path string) error {
	if err := p.introduce(filepath.Join(path, pidsFile)); err != nil {
		return err
	}
	raw, err := json.Marshal(keptWindows{1, p.windows})
	if err != nil {
		return err
	}
	file := filepath.Join(path, windowsFile)
	if err := os.WriteFile(file+".tmp", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}

// pidEntry is what of an entry of kfake's log of producer ids is needed here.
type pidEntry struct {
	Type  string `json:"type"`
	PID   int64  `json:"pid"`
	Epoch int16  `json:"epoch"`
}

// introduce adds the producers that have windows but are not in kfake's log of producer ids, which would skip their
// windows. A torn entry at its end is cut off: what kfake appends behind one is lost.
func (p *producers) introduce(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := map[int64]bool{}
	whole := 0
	for {
		data, next, ok := readLogEntry(raw, whole)
		if !ok {
			break
		}
		var entry pidEntry
		if json.Unmarshal(data, &entry) == nil {
			known[entry.PID] = true
		}
		whole = next
	}
	raw = raw[:whole]
	for _, w := range p.windows {
		if known[w.PID] {
			continue
		}
		known[w.PID] = true
		data, err := json.Marshal(pidEntry{"init", w.PID, w.Epoch})
		if err != nil {
			return err
		}
		raw = appendLogEntry(raw, data)
	}
	if err := os.WriteFile(file+".tmp", raw, 0o600); err != nil { //nolint:gosec // a fixed name in the directory that the operator chose
		return err
	}
	return os.Rename(file+".tmp", file)
}

// An entry of kfake's logs is its length, a checksum and a version, all little-endian, before its data. The length
// counts the version too, the checksum covers version and data.
const (
	entryCRCAt     = 4
	entryVersionAt = 8
	entryDataAt    = 10
	entryVersion   = 1
)

// readLogEntry returns the data of the entry at an offset and where the next one starts.
func readLogEntry(raw []byte, at int) (data []byte, next int, ok bool) {
	if len(raw)-at < entryDataAt {
		return nil, at, false
	}
	b := raw[at:]
	size := int64(binary.LittleEndian.Uint32(b)) + entryVersionAt
	if size < entryDataAt || size > int64(len(b)) {
		return nil, at, false
	}
	if crc32.Checksum(b[entryVersionAt:size], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(b[entryCRCAt:]) {
		return nil, at, false
	}
	return b[entryDataAt:size], at + int(size), true
}

func appendLogEntry(dst, data []byte) []byte {
	body := binary.LittleEndian.AppendUint16(nil, entryVersion)
	body = append(body, data...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	return append(dst, body...)
}

// parsePartition takes the name of a partition's directory apart.
func parsePartition(name string) (topic string, part int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil {
		return "", 0, false
	}
	topic, err = url.PathUnescape(name[:i])
	return topic, int32(n), err == nil
}

func (p *producers) readPartition(dir, topic string, part int32) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var bases []int64
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), segmentSuffix); ok {
			if base, err := strconv.ParseInt(name, 10, 64); err == nil {
				bases = append(bases, base)
			}
		}
	}
	slices.Sort(bases)
	one := partitionProducers{topic: topic, part: part, windows: map[int64]*seqWindow{}, open: map[int64]bool{}}
	for _, base := range bases {
		if err := one.readSegment(filepath.Join(dir, strconv.FormatInt(base, 10)+segmentSuffix)); err != nil {
			return err
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(one.windows)) {
		p.windows = append(p.windows, one.windows[pid])
	}
	for _, pid := range slices.Sorted(maps.Keys(one.open)) {
		p.open = append(p.open, orphan{pid, topic, part})
	}
	return nil
}

// partitionProducers is [producers] for one partition, by producer id.
type partitionProducers struct {
	topic   string
	part    int32
	windows map[int64]*seqWindow
	open    map[int64]bool
}

// readSegment reads the batch headers of one segment up to the first that is not whole, where kfake cuts it too, and completes its
// index.
func (p *partitionProducers) readSegment(file string) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	index, err := indexOf(file)
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = index.complete()
		}
	}()
	var header [batchHeader]byte
	for at := int64(0); at+batchHeader <= info.Size(); {
		if _, err = f.ReadAt(header[:], at); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		size := int64(int32(binary.BigEndian.Uint32(header[batchLengthAt:]))) + batchLengthField
		if size < batchHeader || size > info.Size()-at {
			return nil
		}
		at += size
		p.note(header[:])
		index.note(header[:])
	}
	return nil
}

// note follows one batch.
func (p *partitionProducers) note(b []byte) {
	pid := int64(binary.BigEndian.Uint64(b[batchPIDAt:]))
	attributes := binary.BigEndian.Uint16(b[batchAttributesAt:])
	switch {
	case pid < 0:
		return
	case attributes&attrControl != 0: // ends its producer's transaction
		delete(p.open, pid)
		return
	case attributes&attrTransaction != 0:
		p.open[pid] = true
	}
	w := p.windows[pid]
	if w == nil {
		w = &seqWindow{PID: pid, Topic: p.topic, Part: p.part}
		p.windows[pid] = w
	}
	w.push(int16(binary.BigEndian.Uint16(b[batchEpochAt:])),
		int32(binary.BigEndian.Uint32(b[batchSequenceAt:])),
		int32(binary.BigEndian.Uint32(b[batchCountAt:])),
		int64(binary.BigEndian.Uint64(b)))
}

// abortOrphans ends the transactions that were open when the broker was killed, with a marker in the log and a new
// epoch that fences their producers. kfake takes them for aborted in memory only: after the next kill it would read
// them as part of whatever their producer commits next.
func (e *Engine) abortOrphans(ctx context.Context, orphans []orphan, log *slog.Logger) error {
	if len(orphans) == 0 {
		return nil
	}
	known := kmsg.NewPtrListTransactionsRequest()
	known.Version = 0
	resp, err := e.ask(ctx, known)
	if err != nil {
		return err
	}
	names := map[int64]string{}
	list, _ := resp.(*kmsg.ListTransactionsResponse)
	for _, t := range list.TransactionStates {
		names[t.ProducerID] = t.TransactionalID
	}
	begun := map[int64]*kmsg.EndTxnRequest{}
	for _, o := range orphans {
		name, ok := names[o.pid]
		if !ok {
			log.Warn("an open transaction has no producer any more", slog.String("topic", o.topic),
				slog.Int("partition", int(o.part)), slog.Int64("producer_id", o.pid))
			continue
		}
		end := begun[o.pid]
		if end == nil {
			if end, err = e.fence(ctx, name); err != nil {
				return err
			}
			begun[o.pid] = end
		}
		add := kmsg.NewPtrAddPartitionsToTxnRequest()
		add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch = 3, name, end.ProducerID, end.ProducerEpoch
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = o.topic, []int32{o.part}
		add.Topics = append(add.Topics, topic)
		if _, err := askOver(ctx, e.coordinator(name), add); err != nil { // a topic that is gone needs no marker
			return err
		}
	}
	for _, end := range begun {
		if _, err := askOver(ctx, e.coordinator(end.TransactionalID), end); err != nil {
			return err
		}
	}
	return nil
}

// fence gives a transactional id a new epoch and returns the request that aborts what is begun with it.
func (e *Engine) fence(ctx context.Context, name string) (*kmsg.EndTxnRequest, error) {
	const anyTimeout = 60_000
	fresh := kmsg.NewPtrInitProducerIDRequest()
	fresh.Version, fresh.TransactionalID, fresh.TransactionTimeoutMillis = 4, &name, anyTimeout
	resp, err := askOver(ctx, e.coordinator(name), fresh)
	if err != nil {
		return nil, err
	}
	got, _ := resp.(*kmsg.InitProducerIDResponse)
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return nil, fmt.Errorf("fence the producer of %q: %w", name, err)
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.Version, end.TransactionalID, end.ProducerID, end.ProducerEpoch = 3, name, got.ProducerID, got.ProducerEpoch
	return end, nil
}
