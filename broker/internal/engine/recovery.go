package engine

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Files of a data directory. The others are kfake's: meta.json, topics.json, partitions/<topic>-<n>/<offset>.dat …
const (
	lockFile    = "engine.lock"
	cleanFile   = "engine.clean" // there after a clean stop and while nothing has been changed since
	metaFile    = "meta.json"
	windowsFile = "seq_windows.json"
	windowSlots = 5 // batches of a producer that are known to have been appended, as in Kafka
)

// dataDir is the directory of an engine that keeps its records: locked while the engine is open, and marked when it
// was stopped cleanly. A nil dataDir is that of an engine in memory.
type dataDir struct {
	path string
	lock *os.File
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
	err = os.Remove(filepath.Join(path, cleanFile))
	switch {
	case err == nil:
		return d, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("unmark data directory: %w", err)
	}
	n, err := rebuildWindows(path)
	if err != nil {
		return nil, fmt.Errorf("recover the producers of %s: %w", path, err)
	}
	log.Info("the broker was not stopped cleanly, its producers were recovered from the log",
		slog.String("dir", path), slog.Int("windows", n))
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
	return d.lock.Close()
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
	const wrap = 1<<31 - 1
	in := seqIn{FirstSeq: first, NextSeq: int32((int64(first) + int64(count)) % wrap), Offset: offset}
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

// rebuildWindows reads the headers of all batches and writes the windows of their producers. It tells how many.
func rebuildWindows(path string) (int, error) {
	dirs, err := os.ReadDir(filepath.Join(path, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	windows := []*seqWindow{}
	for _, dir := range dirs {
		topic, part, ok := parsePartition(dir.Name())
		if !ok {
			continue
		}
		var got []*seqWindow
		if got, err = partitionWindows(filepath.Join(path, "partitions", dir.Name()), topic, part); err != nil {
			return 0, fmt.Errorf("partition %s-%d: %w", topic, part, err)
		}
		windows = append(windows, got...)
	}
	raw, err := json.Marshal(struct {
		Version int          `json:"version"`
		Windows []*seqWindow `json:"windows"`
	}{1, windows})
	if err != nil {
		return 0, err
	}
	file := filepath.Join(path, windowsFile)
	if err := os.WriteFile(file+".tmp", raw, 0o600); err != nil {
		return 0, err
	}
	return len(windows), os.Rename(file+".tmp", file)
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

func partitionWindows(dir, topic string, part int32) ([]*seqWindow, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".dat"); ok {
			if base, err := strconv.ParseInt(name, 10, 64); err == nil {
				bases = append(bases, base)
			}
		}
	}
	slices.Sort(bases)
	windows := map[int64]*seqWindow{}
	for _, base := range bases {
		if err := segmentWindows(filepath.Join(dir, strconv.FormatInt(base, 10)+".dat"), topic, part, windows); err != nil {
			return nil, err
		}
	}
	out := make([]*seqWindow, 0, len(windows))
	for _, w := range windows {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *seqWindow) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

// segmentWindows reads the batch headers of one segment up to the first that is not whole, where kfake cuts it too.
func segmentWindows(file, topic string, part int32, windows map[int64]*seqWindow) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var header [batchHeader]byte
	for at := int64(0); at+batchHeader <= info.Size(); {
		if _, err = f.ReadAt(header[:], at); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		b := header[:]
		size := int64(int32(binary.BigEndian.Uint32(b[batchLengthAt:]))) + batchLengthField
		if size < batchHeader || size > info.Size()-at {
			return nil
		}
		at += size
		pid := int64(binary.BigEndian.Uint64(b[batchPIDAt:]))
		if pid < 0 || binary.BigEndian.Uint16(b[batchAttributesAt:])&attrControl != 0 {
			continue
		}
		w := windows[pid]
		if w == nil {
			w = &seqWindow{PID: pid, Topic: topic, Part: part}
			windows[pid] = w
		}
		w.push(int16(binary.BigEndian.Uint16(b[batchEpochAt:])),
			int32(binary.BigEndian.Uint32(b[batchSequenceAt:])),
			int32(binary.BigEndian.Uint32(b[batchCountAt:])),
			int64(binary.BigEndian.Uint64(b)))
	}
	return nil
}
