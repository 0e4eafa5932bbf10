package engine

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"
)

// kfake keeps an index beside each segment: for each batch, in order, an entry with the epoch of its leader and whether it is part of
// a transaction. It writes the entry after the batch. A kill between the two would leave the batch one of epoch 0 and of no
// transaction, and every later entry that of the batch before: clients do not follow a leader whose epoch is less than they have seen,
// and what was never committed would be read. So the entries that are missing are made from the batches.
const (
	indexEntrySize    = 15
	indexVersion      = 1
	indexChecksumAt   = 1 // the low byte of a CRC-32C over what follows
	indexEpochAt      = 2
	indexTransactedAt = 14 // before it is a timestamp, which kfake makes anew
)

// segmentIndex is the index of a segment whose batches are read.
type segmentIndex struct {
	file    string
	size    int64
	batches int64
	missing []byte
}

// indexOf opens the index of a segment.
func indexOf(segment string) (*segmentIndex, error) {
	x := &segmentIndex{file: strings.TrimSuffix(segment, segmentSuffix) + ".idx"}
	info, err := os.Stat(x.file)
	switch {
	case err == nil:
		x.size = info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return x, nil
}

// note follows one batch of the segment.
func (x *segmentIndex) note(header []byte) {
	x.batches++
	if x.batches*indexEntrySize <= x.size {
		return
	}
	var entry [indexEntrySize]byte
	entry[0] = indexVersion
	binary.LittleEndian.PutUint32(entry[indexEpochAt:], binary.BigEndian.Uint32(header[batchLeaderEpochAt:]))
	attributes := binary.BigEndian.Uint16(header[batchAttributesAt:])
	if attributes&attrTransaction != 0 && attributes&attrControl == 0 {
		entry[indexTransactedAt] = 1
	}
	entry[indexChecksumAt] = byte(crc32.Checksum(entry[indexEpochAt:], crc32.MakeTable(crc32.Castagnoli)))
	x.missing = append(x.missing, entry[:]...)
}

// complete writes the entries that are missing, where one that is not whole was before.
func (x *segmentIndex) complete() error {
	if len(x.missing) == 0 {
		return nil
	}
	f, err := os.OpenFile(x.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	whole := x.size - x.size%indexEntrySize
	if err = f.Truncate(whole); err == nil {
		_, err = f.WriteAt(x.missing, whole)
	}
	return errors.Join(err, f.Sync(), f.Close())
}
